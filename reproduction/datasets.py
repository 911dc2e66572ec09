"""What the datasets made by name are like, beside the paper's; and how long they take to collect.

python -m reproduction.datasets                    # all 56 MuJoCo datasets: episodes, mean score, RPSV against the paper's
python -m reproduction.datasets --time --workers 2 # 1M expert steps per task, from nothing
python -m reproduction.datasets --name antmaze --tasks antmaze-umaze antmaze-medium antmaze-large
"""

import argparse
import os
import tempfile
import time
from typing import Any

import numpy as np

import upweight as uw
from benchmarks.measure import record
from upweight.lab.recipes.recipe import recipe_names
from upweight.lab.recipes.tasks import MUJOCO_TASKS
from upweight.lab.report.paper.tables import paper_rpsv

PACKAGES = ["upweight", "gymnasium", "mujoco", "numpy"]
WITHIN = (0.8, 1.25)  # of the paper's RPSV, for mixes with expert data
FLAGGED = "-d4rl"
# Episodes of a million steps where D4RL's v0 files are split at their flags, by TensorFlow Datasets' count.
D4RL_EPISODES = {
    "antmaze-umaze": 10_154,
    "antmaze-umaze-diverse": 1_154,
    "antmaze-medium-play": 10_695,
    "antmaze-medium-diverse": 2_924,
    "antmaze-large-play": 13_458,
    "antmaze-large-diverse": 7_141,
}


def describe(name: str, steps: int | None, seed: int, workers: int | None) -> dict[str, Any]:
    dataset = uw.make_dataset(name, steps=steps, seed=seed, workers=workers)
    scores = uw.normalize_returns(dataset.returns, uw.reference_scores(name))
    ours, theirs = uw.positive_sided_variance(scores), paper_rpsv()[name.removesuffix(FLAGGED)]
    maze = {}
    if name.startswith("antmaze"):
        maze["mean_length"] = round(float(dataset.lengths.mean()), 1)
        maze["length_to_goal"] = round(float(dataset.lengths[dataset.returns > 0].mean()), 1)
        maze["d4rl_episodes_per_million"] = D4RL_EPISODES[name.removesuffix(FLAGGED)]
    return maze | {
        "dataset": name,
        "episodes": dataset.num_episodes,
        "steps": dataset.num_steps,
        "mean_score": round(float(scores.mean()), 4),
        "rpsv": float(f"{ours:.4g}"),
        "paper_rpsv": theirs,
        "ratio": round(ours / theirs, 3),
        "content_sha256": dataset.metadata["content_sha256"],
    }


def make_table(
    steps: int | None, seed: int, tasks: list[str], workers: int | None, results: list[dict[str, Any]]
) -> None:
    print(f"{'dataset':28} {'episodes':>9} {'steps':>10} {'score':>8} {'RPSV':>10} {'paper':>10} {'ratio':>7}")
    for name in (each for each in recipe_names(tuple(tasks)) if each.removesuffix(FLAGGED) in paper_rpsv()):
        row = describe(name, steps, seed, workers)
        is_expert_mix = "-expert-random-" in name
        note = "" if not is_expert_mix or WITHIN[0] <= row["ratio"] <= WITHIN[1] else "  outside"
        print(
            f"{name:28} {row['episodes']:9,} {row['steps']:10,} {row['mean_score']:8.3f} {row['rpsv']:10.6f} "
            f"{row['paper_rpsv']:10.6f} {row['ratio']:7.2f}{note}",
            flush=True,
        )
        results.append(row)


def time_collection(
    steps: int, workers: int, tasks: list[str], kinds: list[str], results: list[dict[str, Any]]
) -> None:
    for task in tasks:
        for kind in kinds:
            with tempfile.TemporaryDirectory() as folder:
                os.environ["UPWEIGHT_CACHE"] = folder
                began = time.perf_counter()
                dataset = uw.make_dataset(f"{task}-{kind}", steps=steps, workers=workers)
                seconds = time.perf_counter() - began
            rate = dataset.num_steps / seconds
            print(f"{task}-{kind:10} {workers} workers: {seconds:7.1f} s, {rate:9,.0f} steps/s", flush=True)
            results.append(
                {
                    "dataset": f"{task}-{kind}",
                    "workers": workers,
                    "steps": dataset.num_steps,
                    "seconds": round(seconds, 1),
                    "steps_per_second": round(rate),
                }
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", nargs="+", default=list(MUJOCO_TASKS))
    parser.add_argument("--time", action="store_true", help="time the collection instead")
    parser.add_argument("--kinds", nargs="+", default=["expert"], help="what to time")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--name", help="of the file with the results")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    if arguments.time:
        time_collection(arguments.steps, arguments.workers, arguments.tasks, arguments.kinds, results)
    else:
        make_table(arguments.steps, arguments.seed, arguments.tasks, arguments.workers, results)
        mixes = [row["ratio"] for row in results if "-expert-random-" in row["dataset"]]
        if mixes:
            print(f"mixes with expert data: ratio {np.min(mixes):.2f} to {np.max(mixes):.2f}")
    print(f"wrote {record(arguments.name or ('collecting' if arguments.time else 'datasets'), PACKAGES, results)}")


if __name__ == "__main__":
    main()
