"""What a Ray cluster costs, and what it brings.

    python benchmarks/cluster.py

A study in Hopper, with the data collected beforehand. First on this computer, by the local executor and by Ray, one population
at a time on all cores: the overhead, target at most 10%. Then on a cluster of one node with one core, and of two such nodes,
each pinned to its own core: the gain, target at least 1.5. A cluster is started before the clock is. Both are the best of
``--repeats``, interleaved. All stores must hold the same returns on the same number of cores. Ray's workers, which step back
behind all others by default, get the priority that the local executor has.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import upweight as uw
from measure import record
from sweep import collect, hash_of_returns
from upweight.studies.experiment_file import Experiment
from upweight.sweeps.executor import LocalExecutor

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
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (as Ray spells it)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(STUDY.format(updates=arguments.updates))
        study = uw.read_experiment(path)
    collect(study)
    cores = sorted(os.sched_getaffinity(0))[:2]
    whole, first, second = set(os.sched_getaffinity(0)), {cores[0]}, {cores[-1]}
    ways = {
        "local executor": lambda: seconds_of(study, LocalExecutor()),
        "Ray, this computer": lambda: on_cluster(study, [whole]),
        "Ray, a node of one core": lambda: on_cluster(study, [first]),
        "Ray, two nodes of one core": lambda: on_cluster(study, [first, second]),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    hashes: dict[str, str] = {}
    for _ in range(arguments.repeats):
        for name, way in ways.items():
            seconds, hashes[name] = way()
            times[name].append(round(seconds, 1))
            print(f"{name}: {seconds:.1f} s", flush=True)
    best = {name: min(found) for name, found in times.items()}
    local, alone, one, two = best.values()
    overhead, gain = alone / local - 1, one / two
    print(
        f"overhead {overhead:.1%}: {'reached' if overhead <= MOST_OVERHEAD else 'MISSED'} (at most {MOST_OVERHEAD:.0%})"
    )
    print(f"two nodes {gain:.2f}x: {'reached' if gain >= LEAST_GAIN else 'MISSED'} (at least {LEAST_GAIN})")
    same = len({hashes[name] for name in list(ways)[:2]}) == len({hashes[name] for name in list(ways)[2:]}) == 1
    rows = [{"way": name, "seconds": found, "returns_sha256": hashes[name]} for name, found in times.items()]
    about = {"runs": len(study.runs), "updates": arguments.updates, "agents_per_population": AGENTS}
    about |= {"overhead": round(overhead, 3), "gain_of_two_nodes": round(gain, 2), "same_returns": same}
    about["load_average_at_the_end"] = os.getloadavg()[1]
    print(f"wrote {record('cluster', ['upweight', 'jax', 'numpy', 'ray', 'gymnasium', 'mujoco'], rows, about=about)}")


if __name__ == "__main__":
    main()
