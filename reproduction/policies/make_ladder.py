"""From candidates to the policies that are shipped: measure them, choose, write the files.

    python -m reproduction.policies.make_ladder candidates/hopper.safetensors --output src/upweight/lab/recipes/policies

The rungs of a ladder are evenly spaced in return. The two policies that datasets are named after, medium and expert, are those
whose returns come nearest to a goal in mean and standard deviation: a medium policy that is now good, now bad would make mixes
that are easier to gain on than the published ones. ``--keep-rungs`` chooses those two only.
"""

import argparse
import hashlib
import logging
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reproduction.policies.snapshots import read_candidates
from upweight.base.errors import DatasetError
from upweight.base.files import read_json, write_json
from upweight.base.optional import installed_versions
from upweight.lab.play.evaluate import Evaluation, evaluate
from upweight.lab.recipes.ladder import INDEX
from upweight.lab.recipes.tasks import Task, find_task
from upweight.policies.policy import Policy, load_policy

_ROUGH_SEED, _FINAL_SEED = 0, 1  # the final returns are of episodes that had no part in the first choice
_EPISODES = 100  # of the final measurement
_log = logging.getLogger(__name__)


class Goal(NamedTuple):
    """Mean and standard deviation of the returns of a dataset's policy."""

    mean: float
    std: float


# D4RL's medium and expert sets, by second-hand figures; no figure is known of ant-expert, this one gives the paper's RPSV.
GOALS = {
    "hopper": {"medium": Goal(1422, 379), "expert": Goal(3511, 329)},
    "halfcheetah": {"medium": Goal(4770, 356), "expert": Goal(10_656, 442)},
    "walker2d": {"medium": Goal(2852, 1095), "expert": Goal(4920, 136)},
    "ant": {"medium": Goal(3084, 1219), "expert": Goal(4900, 1300)},
    # Half way from random actions to the best policy, and the best.
    "cartpole": {"medium": Goal(261, 60), "expert": Goal(500, 0)},
    "acrobot": {"medium": Goal(-296, 80), "expert": Goal(-94, 20)},
    "mountaincar": {"medium": Goal(-161, 20), "expert": Goal(-122, 15)},
}


def write_rungs(task: Task, policies: Sequence[Policy], folder: Path, *, rungs: int = 16, rough: int = 30) -> None:
    """Choose ``rungs`` of the policies by ``rough`` stochastic episodes each, and write them with what they reach."""
    expert = GOALS[task.name]["expert"].mean
    measured = evaluate(policies, task.env_id, rough, _ROUGH_SEED, stochastic=True)
    chosen = choose_rungs(np.array([result.mean_return for result in measured]), expert, rungs)
    final = evaluate([policies[place] for place in chosen], task.env_id, _EPISODES, _FINAL_SEED, stochastic=True)
    order = np.argsort([result.mean_return for result in final])
    entries = [
        write_policy(policies[chosen[place]], final[place], folder / f"{number:02d}.safetensors")
        for number, place in enumerate(order)
    ]
    for stale in folder.glob("[0-9]*.safetensors"):
        if stale.name not in {entry["file"] for entry in entries}:
            stale.unlink()
    medium = GOALS[task.name]["medium"].mean
    nearest = int(np.argmin([abs(entry["mean_return"] - medium) for entry in entries]))
    update_index(task, folder, rungs=entries, medium_rungs=nearest + 1)


def write_named(task: Task, policies: Sequence[Policy], folder: Path, *, rough: int = 30, short_list: int = 5) -> None:
    """Choose the medium and the expert policy: the nearest few by ``rough`` episodes, of these the nearest by new ones."""
    measured = evaluate(policies, task.env_id, rough, _ROUGH_SEED, stochastic=True)
    for name, goal in GOALS[task.name].items():
        nearest = np.argsort([distance(result, goal) for result in measured])[:short_list]
        final = evaluate([policies[place] for place in nearest], task.env_id, _EPISODES, _FINAL_SEED, stochastic=True)
        best = int(np.argmin([distance(result, goal) for result in final]))
        entry = write_policy(policies[nearest[best]], final[best], folder / f"{name}.safetensors")
        update_index(task, folder, **{name: entry})


def distance(result: Evaluation, goal: Goal) -> float:
    """How far mean and standard deviation are from the goal, as a point in the plane."""
    return math.hypot(result.mean_return - goal.mean, result.std_return - goal.std)


def choose_rungs(means: NDArray[np.float64], expert: float, rungs: int) -> list[int]:
    """Places of policies with mean returns [C], evenly spaced from the worst to the one nearest to the expert's return."""
    if rungs < 2 or len(means) < 2:
        raise DatasetError(f"expected at least two rungs and two candidates, found {rungs} and {len(means)}")
    top = int(np.argmin(np.abs(means - expert)))
    left = [place for place in np.argsort(means) if means[place] <= means[top]]
    chosen: list[int] = []
    for level in np.linspace(means[left[0]], means[top], rungs)[::-1]:
        if left:
            nearest = min(left, key=lambda place: abs(means[place] - level))
            left.remove(nearest)
            chosen.append(int(nearest))
    return chosen


def write_policy(policy: Policy, result: Evaluation, path: Path) -> dict[str, Any]:
    """Write the policy in float16 and return its entry for the index."""
    path.parent.mkdir(parents=True, exist_ok=True)
    policy.save(path, dtype=np.float16)
    _log.info("%s: return %.1f ± %.1f", path, result.mean_return, result.std_return)
    return {
        "file": path.name,
        "mean_return": round(result.mean_return, 2),
        "std_return": round(result.std_return, 2),
        "mean_length": round(float(result.lengths.mean()), 1),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        **{name: value for name, value in policy.metadata.items() if name != "env_id"},
    }


def update_index(task: Task, folder: Path, **entries: Any) -> None:
    """Put entries into the folder's index, and keep the others. What replaces a policy is the next edition of its name."""
    path = folder / INDEX
    index = read_json(path) if path.exists() else {}
    for name in entries.keys() & {"medium", "expert"} & index.keys():
        if entries[name]["sha256"] != index[name]["sha256"]:
            entries[name]["edition"] = index[name].get("edition", 1) + 1
    versions = installed_versions("gymnasium", "mujoco", "numpy")
    about = {"task": task.name, "env_id": task.env_id, "episodes": _EPISODES, "seed": _FINAL_SEED, "versions": versions}
    write_json(path, {**about, **index, **entries})


def as_stored(policy: Policy) -> Policy:
    """The policy with the rounding of the file it will be in."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.safetensors"
        policy.save(path, dtype=np.float16)
        return load_policy(path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("candidates", type=Path, nargs="+", help="written by reproduction.policies.snapshots")
    parser.add_argument("--rungs", type=int, default=16)
    parser.add_argument("--keep-rungs", action="store_true", help="choose medium and expert only")
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    _log.setLevel(logging.INFO)  # ours alone
    for path in given.candidates:
        name, _, candidates = read_candidates(path)
        task, policies = find_task(name), [as_stored(policy) for policy in candidates]
        if not given.keep_rungs:
            write_rungs(task, policies, given.output / name, rungs=given.rungs)
        write_named(task, policies, given.output / name)


if __name__ == "__main__":
    main()
