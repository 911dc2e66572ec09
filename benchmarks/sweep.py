"""What a study costs beyond its updates: planning, preparing, compiling, checkpoints, storing, evaluating.

    python benchmarks/sweep.py --precision bfloat16

The Hopper part of paper/mixed with BC and TD3+BC, 430 runs, from beginning to end, with the data collected beforehand. Then each
population is trained for a tenth of its updates again with nothing written, which gives the time of the updates alone, without
compiling. Target: the sweep takes at most 15% longer than its trainings.
"""

import argparse
import hashlib
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import jax

import upweight as uw
from measure import record
from upweight.lab.recipes.make import SharedData, make_shared_data
from upweight.lab.study.experiment_file import Experiment, find_experiment, read_experiment
from upweight.lab.study.run_spec import config_of
from upweight.lab.study.store import StoreReader
from upweight.lab.sweep.packing import Population, pack
from upweight.lab.train.schedule import choose_interval
from upweight.weightings.registry import weighting_from_dict

TARGET = 0.15


def collect(study: Experiment) -> SharedData:
    """The data of all runs, which must come from one task."""
    names, first = dict.fromkeys(run.data.name for run in study.runs), study.runs[0].data
    return make_shared_data(list(names), steps=first.steps, seed=first.seed or 0)


def seconds_of_updates(population: Population, shared: SharedData) -> float:
    """What the population's updates take by themselves, from a tenth of them."""
    first = population.runs[0]
    runs = [
        uw.Run(config_of(run), weighting_from_dict(run.weighting), run.seed, episodes=shared.episodes[run.data.name])
        for run in population.runs
    ]
    chunk = choose_interval(first.updates, 2, None)  # as the sweep does it
    chunks = max(2, first.updates // chunk // 10)
    times: list[float] = []
    uw.train(
        shared.dataset,
        runs,
        num_updates=chunks * chunk,
        precision=first.precision,
        log_every_updates=chunk,
        callbacks=[lambda _: times.append(time.perf_counter())],
    )
    return (times[-1] - times[0]) / (len(times) - 1) / chunk * first.updates


def hash_of_returns(store: StoreReader) -> str:
    """Of every return of every run: whether two studies agree bit for bit."""
    returns = {run["run_id"]: run["returns"] for run in store.runs()}
    return hashlib.sha256(json.dumps(returns, sort_keys=True).encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="hopper-*", help="datasets of one task")
    parser.add_argument("--algorithms", nargs="+", default=["bc", "td3_bc"])
    parser.add_argument("--updates", type=int, default=250_000)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--scale", default="paper")
    parser.add_argument("--store", type=Path, help="keep the results in this folder")
    arguments = parser.parse_args()
    changes = {"updates": arguments.updates, "precision": arguments.precision}
    study = read_experiment(
        find_experiment("paper/mixed"),
        scale=arguments.scale,
        only=arguments.only,
        algorithms=arguments.algorithms,
        changes=changes,
    )
    began = time.perf_counter()
    shared = collect(study)
    collecting = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder:
        store = uw.Store(arguments.store or folder, create=True)
        began = time.perf_counter()
        result = uw.sweep(study, store.path)
        wall = time.perf_counter() - began
        assert result.remaining == 0
        records = {entry["run_id"]: entry for entry in store.runs()}
        returns = hash_of_returns(store)
    rows: list[dict[str, Any]] = []
    for population in pack(study.runs):
        seconds = seconds_of_updates(population, shared)
        about = records[population.runs[0].run_id]
        row = {"population": population.title, "agents": len(population.runs), "updates_seconds": round(seconds, 1)}
        rows.append(row | {key: round(about[key], 1) for key in ("train_seconds", "evaluate_seconds")})
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()))
    trained, bare = (sum(row[key] for row in rows) for key in ("train_seconds", "updates_seconds"))
    over_training, over_updates = wall / trained - 1, wall / bare - 1
    print(
        f"whole sweep {wall:.1f} s: {over_training:.1%} over its trainings, {over_updates:.1%} over their bare updates"
    )
    print(f"target {TARGET:.0%}: {'reached' if over_training < TARGET else 'MISSED'}")
    about = {
        "device": jax.devices()[0].device_kind,
        "runs": len(study.runs),
        "updates": arguments.updates,
        "precision": arguments.precision,
        "collecting_seconds": round(collecting, 1),  # before, and not counted
        "sweep_seconds": round(wall, 1),
        "over_training": round(over_training, 3),
        "over_bare_updates": round(over_updates, 3),
        "returns_sha256": returns,
    }
    packages = ["upweight", "jax", "numpy", "gymnasium", "mujoco", "loky"]
    print(f"wrote {record('sweep', packages, rows, about=about)}")


if __name__ == "__main__":
    main()
