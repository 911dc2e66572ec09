"""A sweep on a Ray cluster of several nodes on this computer, disturbed in every way: ``ray_sweep.py STUDY STORE``.

Ray disturbs other tests of its process, so it has one of its own. What the test wants to see is written to STORE.json.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

import upweight as uw
from upweight.base.errors import DatasetError
from upweight.base.progress import listening
from upweight.policies.safetensors_file import read_safetensors

NODE = {"num_cpus": 1, "object_store_memory": 100 << 20}
UPDATES = 800  # of the study
AGENTS = 1  # per population


def wait_for(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def kept(store: Path) -> int:
    """Updates that nobody has to make again: in checkpoints, and of runs that are trained or in the store."""
    with suppress(DatasetError, FileNotFoundError):  # one was put away while we looked: look again
        under_way = sum(
            int(read_safetensors(path)[1]["updates"]) for path in store.glob("work/*/program-000.safetensors")
        )
        return under_way + UPDATES * len([*store.glob("work/*/program-000.json"), *store.glob("runs/*.json")])
    return kept(store)


def later(condition: Callable[[], Any], action: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=lambda: (wait_for(condition), action()))
    thread.start()
    return thread


def main(study: Path, store: Path) -> None:
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False})
    node = cluster.add_node(**NODE)
    told: dict[str, Any] = {}
    seen: set[str] = set()
    # kill -9 of the driver, on the command line.
    options = ["--executor", "ray", "--address", cluster.address, "--max-agents", str(AGENTS)]
    driver = subprocess.Popen([sys.executable, "-m", "upweight", "sweep", str(study), "-o", str(store), *options])
    wait_for(lambda: kept(store) > 0)
    driver.kill()
    driver.wait()
    told["after kill -9"] = killed = kept(store)
    # Ctrl-C: what trains writes a checkpoint first.
    experiment, executor = uw.read_experiment(study), uw.RayExecutor(cluster.address)
    go_on = partial(uw.sweep, experiment, store, executor=executor, max_agents=AGENTS)
    later(lambda: kept(store) > killed, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        go_on()
    told["after Ctrl-C"] = kept(store)
    told["slice"] = asdict(go_on(max_minutes=0))
    told["after a slice"] = before = kept(store)
    # A node dies in the middle, and another is there.
    cluster.add_node(**NODE)

    def kill() -> None:
        told["when a node died"] = kept(store)
        cluster.remove_node(node, allow_graceful=False)

    killer = later(lambda: kept(store) > before, kill)
    with listening(lambda description, done, total, detail="": seen.add(f"{description}, {detail}")):
        told["result"] = asdict(go_on())
    killer.join()
    told["progress"] = sorted(seen)
    # What the cluster has not, nobody waits for.
    told["refused"] = []
    for wrong in (uw.RayExecutor(gpus_per_population=0.5), uw.RayExecutor(cpus_per_population=9)):
        with pytest.raises(uw.ConfigError) as error:
            uw.sweep(experiment, store.with_name("nothing"), executor=wrong)
        told["refused"].append(str(error.value))
    store.with_suffix(".json").write_text(json.dumps(told))
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
