"""What a Ray cluster costs, and what it brings.

    python benchmarks/cluster.py overhead
    python benchmarks/cluster.py gain

A study in Hopper, with the data collected beforehand. Overhead: on this computer, by the local executor and by Ray, one
population at a time on all cores; target at most 0.1. Gain: on a cluster of one node with one core, and of two such nodes, each
pinned to its own core; target at least 1.5. A cluster is started before the clock is. Times are the best of ``--repeats``,
interleaved. Ray's workers, which step back behind all others by default, get the priority that the local executor has.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import upweight as uw
from measure import record
from sweep import collect, hash_of_returns
from upweight.lab.study.experiment_file import Experiment
from upweight.lab.sweep.executor import LocalExecutor

STUDY = """\
updates = {updates}
seeds = 4
episodes = 10
dataset_steps = 20_000
datasets = ["hopper-expert-random-50"]
algorithms = ["bc", "td3_bc"]
weightings = ["uniform", "rw"]
"""
AGENTS = 4  # per population
MOST_OVERHEAD, LEAST_GAIN = 0.10, 1.5
NODE = {"object_store_memory": 200 << 20}


def start_cluster(cores: list[set[int]]) -> Any:
    """A head that only coordinates, and a node for each set of cores, pinned there."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False})
    everywhere = os.sched_getaffinity(0)
    for each in cores:
        os.sched_setaffinity(0, each)  # what is started inherits it
        cluster.add_node(num_cpus=len(each), **NODE)
    os.sched_setaffinity(0, everywhere)
    return cluster


def seconds_of(study: Experiment, executor: Any) -> tuple[float, str]:
    """How long the study takes, and a hash of what came out."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        result = uw.sweep(study, folder, executor=executor, max_agents=AGENTS)
        seconds = time.perf_counter() - began
        assert not result.remaining, result
        return seconds, hash_of_returns(uw.Store(folder))


def on_cluster(study: Experiment, cores: list[set[int]]) -> tuple[float, str]:
    import ray

    cluster = start_cluster(cores)
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        return seconds_of(study, uw.RayExecutor(cpus_per_population=len(cores[0])))
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "gain"])
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (as Ray spells it)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(STUDY.format(updates=arguments.updates))
        study = uw.read_experiment(path)
    collect(study)
    cores = sorted(os.sched_getaffinity(0))
    first, second = {cores[0]}, {cores[-1]}
    ways: dict[str, Callable[[], tuple[float, str]]] = {
        "local executor": lambda: seconds_of(study, LocalExecutor()),
        "Ray, this computer": lambda: on_cluster(study, [set(cores)]),
    }
    if arguments.what == "gain":
        ways = {
            "one node of one core": lambda: on_cluster(study, [first]),
            "two nodes of one core": lambda: on_cluster(study, [first, second]),
        }
    times: dict[str, list[float]] = {name: [] for name in ways}
    hashes: dict[str, str] = {}
    for _ in range(arguments.repeats):
        for name, way in ways.items():
            seconds, hashes[name] = way()
            times[name].append(round(seconds, 1))
            print(f"{name}: {seconds:.1f} s", flush=True)
    before, after = (min(found) for found in times.values())
    ratio = after / before - 1 if arguments.what == "overhead" else before / after
    reached = ratio <= MOST_OVERHEAD if arguments.what == "overhead" else ratio >= LEAST_GAIN
    print(f"{arguments.what} {ratio:.2f}: {'reached' if reached else 'MISSED'}")
    rows = [{"way": name, "seconds": found, "returns_sha256": hashes[name]} for name, found in times.items()]
    about = {"runs": len(study.runs), "updates": arguments.updates, "agents_per_population": AGENTS}
    about |= {arguments.what: round(ratio, 3), "same_returns": len(set(hashes.values())) == 1}
    about["load_average"] = os.getloadavg()[1]  # at the end, of five minutes
    packages = ["upweight", "jax", "numpy", "ray", "gymnasium", "mujoco"]
    print(f"wrote {record(f'cluster_{arguments.what}', packages, rows, about=about)}")


if __name__ == "__main__":
    main()
