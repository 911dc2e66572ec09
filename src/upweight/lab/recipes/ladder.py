"""The behaviour policies that travel with the package: for each task a ladder from poor to good, a medium one and an expert.

In mazes one policy walks wherever a planner tells it to.
"""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from upweight.base.errors import DatasetError
from upweight.base.files import read_json
from upweight.data.reference_scores import normalize_returns, reference_scores
from upweight.lab.recipes.tasks import Task, find_task
from upweight.policies.policy import Policy, load_policy

INDEX = "ladder.json"
WALKER = "antmaze/walker.json"
FOLDER = Path(__file__).parent / "policies"


@dataclass(frozen=True)
class Rung:
    """A policy and what it reached over many stochastic episodes."""

    path: Path
    mean_return: float
    std_return: float
    score: float  # normalised mean return
    sha256: str
    steps: int | None = None  # of its training so far
    edition: int = 1  # of what goes by its name: more than 1 where it took another policy's place

    def load(self) -> Policy:
        return load_policy(self.path)


@dataclass(frozen=True)
class Ladder:
    """The policies of a task: snapshots of its training by rising return, and the two that datasets are named after."""

    task: Task
    rungs: tuple[Rung, ...]
    medium: Rung
    expert: Rung
    medium_rungs: int  # how many of the rungs lead up to medium

    def training_shares(self, steps: int) -> list[float]:
        """Of the first ``steps`` of the training, the share that each rung stands for: those nearest to its own time."""
        times = sorted({rung.steps for rung in self.rungs if rung.steps is not None and rung.steps < steps})
        middles = [(one + other) / 2 for one, other in pairwise(times)]
        width = dict(zip(times, (end - start for start, end in pairwise([0.0, *middles, float(steps)])), strict=True))
        several = Counter(rung.steps for rung in self.rungs)  # rungs of one time share its width
        return [width.get(rung.steps or -1, 0.0) / several[rung.steps] / steps for rung in self.rungs]


@cache
def load_walker(task_name: str) -> Rung:
    """The ant that walks where it is told to, and how often it reached a maze's goal: that is its return."""
    index = _read_index(WALKER, "antmaze")
    share = index["success"][task_name.removeprefix("antmaze-")]
    std = math.sqrt(share * (1 - share))
    return Rung((FOLDER / WALKER).parent / index["file"], share, std, share, index["sha256"], index["steps"])


@cache
def load_ladder(task_name: str) -> Ladder:
    """The shipped ladder of a task."""
    task = find_task(task_name)
    folder = FOLDER / task.name
    index = _read_index(f"{task.name}/{INDEX}", task.name)
    reference = reference_scores(task.name)

    def rung(entry: dict[str, Any]) -> Rung:
        return Rung(
            path=folder / entry["file"],
            mean_return=entry["mean_return"],
            std_return=entry["std_return"],
            score=float(normalize_returns(entry["mean_return"], reference)),
            sha256=entry["sha256"],
            steps=entry.get("steps"),
            edition=entry.get("edition", 1),
        )

    return Ladder(
        task=task,
        rungs=tuple(map(rung, index["rungs"])),
        medium=rung(index["medium"]),
        expert=rung(index["expert"]),
        medium_rungs=index["medium_rungs"],
    )


def _read_index(path: str, task: str) -> dict[str, Any]:
    if not (FOLDER / path).exists():
        raise DatasetError(f"{task}: its behaviour policies are missing or damaged; install the package again")
    index: dict[str, Any] = read_json(FOLDER / path)
    return index
