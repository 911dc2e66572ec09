"""From candidates to the ladder that is shipped: measure them, choose rungs evenly spaced in return, write the files.

python -m tools.make_ladder candidates/hopper.safetensors --output src/upweight/recipes/policies
"""

import argparse
import hashlib
import json
import logging
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.snapshots import read_candidates
from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target
from upweight.data.reference_scores import find_reference_scores, normalize_returns
from upweight.policies.policy import Policy, load_policy
from upweight.recipes.ladder import INDEX
from upweight.recipes.tasks import Task, find_task
from upweight.rollout.evaluate import evaluate

_ROUGH_SEED, _FINAL_SEED = 0, 1  # the final returns are of episodes that had no part in the choice
_log = logging.getLogger(__name__)


def write_ladder(
    task_name: str, policies: Sequence[Policy], output: Path, *, rungs: int = 16, rough: int = 30, episodes: int = 100
) -> Path:
    """Choose ``rungs`` of the policies and write them, in float16, with what they reach, to ``output/TASK``.

    All are measured by ``rough`` stochastic episodes, and the chosen ones again by ``episodes`` new ones. The last rung is
    the task's expert, and the one nearest to its medium return is among them; what turns out better than the expert is left out.
    """
    task = find_task(task_name)
    policies = [_as_stored(policy) for policy in policies]
    results = evaluate(policies, task.env_id, rough, _ROUGH_SEED, stochastic=True)
    scores = [_scores(task, result.returns) for result in results]
    means, spreads = np.array([score.mean() for score in scores]), np.array([score.std() for score in scores])
    for policy, mean, spread in zip(policies, means, spreads, strict=True):
        _log.info("%s candidate of %s steps: score %.3f ± %.3f", task.name, policy.metadata.get("steps"), mean, spread)
    chosen = choose_rungs(means, spreads, task, rungs)
    final = evaluate([policies[place] for place in chosen], task.env_id, episodes, _FINAL_SEED, stochastic=True)
    reached = np.array([result.mean_return for result in final])
    order = [place for place in np.argsort(reached) if reached[place] <= reached[0]]  # 0 is the expert
    folder = output / task.name
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    for number, place in enumerate(order):
        policy, result = policies[chosen[place]], final[place]
        path = folder / f"{number:02d}.safetensors"
        policy.save(path, dtype=np.float16)
        entries.append(
            {
                "file": path.name,
                "mean_return": round(result.mean_return, 2),
                "std_return": round(result.std_return, 2),
                "mean_length": round(float(result.lengths.mean()), 1),
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                **{name: value for name, value in policy.metadata.items() if name != "env_id"},
            }
        )
        _log.info("%s %s: return %.1f ± %.1f", task.name, path.name, result.mean_return, result.std_return)
    for stale in folder.glob("*.safetensors"):
        if stale.name not in {entry["file"] for entry in entries}:
            stale.unlink()
    index = {
        "task": task.name,
        "env_id": task.env_id,
        "episodes": episodes,
        "seed": _FINAL_SEED,
        "versions": {name: version(name) for name in ("gymnasium", "mujoco", "numpy")},
        "rungs": entries,
    }
    with atomic_target(folder / INDEX) as target:
        target.write_text(json.dumps(index, indent=1) + "\n")
    return folder


def choose_rungs(scores: NDArray[np.float64], spreads: NDArray[np.float64], task: Task, rungs: int) -> list[int]:
    """Places of policies with mean scores [C], evenly spaced from the worst to the expert, medium among them.

    An expert is reliable: the spread [C] of its episodes' scores counts as much as being off the task's expert score. Fewer
    than ``rungs`` are returned where there are not enough candidates up to the expert.
    """
    if rungs < 2 or len(scores) < 2:
        raise DatasetError(f"expected at least two rungs and two candidates, found {rungs} and {len(scores)}")
    goal = scores.max() if task.expert is None else task.expert
    expert = int(np.argmin(np.abs(scores - goal) + spreads))
    usable = np.flatnonzero(scores <= scores[expert])
    medium = int(usable[np.argmin(np.abs(scores[usable] - task.medium))])
    levels = np.linspace(scores[usable].min(), scores[expert], rungs)
    chosen = [expert, medium]
    for level in np.delete(levels, np.argmin(np.abs(levels - scores[medium])))[:-1]:  # medium stands for one of them
        left = np.setdiff1d(usable, chosen)
        if len(left):
            chosen.append(int(left[np.argmin(np.abs(scores[left] - level))]))
    return list(dict.fromkeys(chosen))  # the expert first


def _scores(task: Task, returns: NDArray[np.float64]) -> NDArray[np.float64]:
    reference = find_reference_scores(task.name)
    if reference is None:
        raise DatasetError(f"{task.name}: no reference scores")
    return normalize_returns(returns, reference)


def _as_stored(policy: Policy) -> Policy:
    """The policy with the rounding of the file it will be in."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.safetensors"
        policy.save(path, dtype=np.float16)
        return load_policy(path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("candidates", type=Path, nargs="+", help="written by tools.snapshots")
    parser.add_argument("--rungs", type=int, default=16)
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    _log.setLevel(logging.INFO)  # ours alone
    for path in given.candidates:
        task, _, policies = read_candidates(path)
        write_ladder(task, policies, given.output, rungs=given.rungs)


if __name__ == "__main__":
    main()
