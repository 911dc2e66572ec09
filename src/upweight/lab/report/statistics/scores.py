"""Scores of runs (training seeds) on tasks, in the one form that the statistics work on.

A score is one number per run: its mean over evaluation episodes. Episodes are not runs: counted as such, they make
intervals far too narrow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.errors import UpweightError

GivenScores = Mapping[str, ArrayLike] | Sequence[ArrayLike] | NDArray[Any]


class ScoreError(UpweightError, ValueError):
    """Scores of runs are not what a statistic needs, or a statistic is asked for something it cannot give."""


@dataclass(frozen=True, eq=False)
class Scores:
    """R runs, task after task, so that tasks may differ in their number of runs; leading axes hold resamples."""

    tasks: tuple[str, ...]  # [tasks] names
    runs: NDArray[np.int64]  # [tasks] number of runs, each >= 1, R in all
    values: NDArray[np.float64]  # [..., R]

    @property
    def starts(self) -> NDArray[np.int64]:
        """[tasks] place of each task's first run."""
        return np.cumsum(self.runs) - self.runs

    @property
    def fewest_runs(self) -> int:
        """Runs of the task that has fewest."""
        return int(self.runs.min())

    def of_tasks(self) -> list[NDArray[np.float64]]:
        """Scores of each task, [..., runs of the task]."""
        return np.split(self.values, self.starts[1:], axis=-1)

    def task_means(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Mean over the runs of each task, [..., R] -> [..., tasks]."""
        return np.add.reduceat(values, self.starts, axis=-1, dtype=np.float64) / self.runs


def as_scores(given: Scores | GivenScores) -> Scores:
    """Checked scores, from any of three forms.

    - a mapping of a task's name to the scores of its runs, [runs]
    - a sequence with the scores of each task's runs, [runs]
    - an array [runs, tasks]: rows are seeds, columns are tasks

    Numbers that are not finite are refused. Runs diverge because of the method, so dropping them measures something else: the
    method when it works. They count as the value that the caller gives them.
    """
    if isinstance(given, Scores):
        return given
    tasks = _arrays(given)
    for name, values in tasks.items():
        wrong = np.flatnonzero(~np.isfinite(values))
        if wrong.size:
            raise ScoreError(
                f"expected finite scores, found {values[wrong[0]]} in run {wrong[0]} of task {name!r}: if the run "
                "diverged, put in its place what that counts as, such as 0.0, a random policy's normalised score; leaving "
                "it out flatters the method"
            )
    runs = np.array([len(values) for values in tasks.values()], np.int64)
    return Scores(tuple(tasks), runs, np.concatenate(list(tasks.values())))


def pair(x: Scores | GivenScores, y: Scores | GivenScores) -> tuple[Scores, Scores]:
    """Scores of two algorithms on the same tasks, in the order of ``x``; numbers of runs may differ."""
    first, second = as_scores(x), as_scores(y)
    if first.tasks == second.tasks:
        return first, second
    if set(first.tasks) != set(second.tasks):
        only_x, only_y = (sorted(set(a.tasks) - set(b.tasks)) for a, b in ((first, second), (second, first)))
        raise ScoreError(
            f"expected two algorithms on the same tasks, found only in the first {only_x}, only in the second {only_y}: "
            "compare them on the tasks that both were run on, in the same form (both by name, or both by position)"
        )
    order = [second.tasks.index(name) for name in first.tasks]
    parts = second.of_tasks()
    values = np.concatenate([parts[place] for place in order], axis=-1)
    return first, replace(second, tasks=first.tasks, runs=second.runs[order], values=values)


def _arrays(given: GivenScores) -> dict[str, NDArray[np.float64]]:
    """Task -> scores [runs], of the right shape and type but not yet finite."""
    if isinstance(given, np.ndarray):
        if given.ndim != 2:
            raise ScoreError(
                f"expected an array [runs, tasks], found shape {given.shape}: for one task give {{name: scores}}"
            )
        given = list(given.T)
    named = given.items() if isinstance(given, Mapping) else ((str(place), part) for place, part in enumerate(given))
    tasks = {str(name): _runs(str(name), part) for name, part in named}
    if not tasks:
        raise ScoreError("expected scores of at least one task, found none")
    return tasks


def _runs(task: str, given: ArrayLike) -> NDArray[np.float64]:
    """[runs] scores of one task."""
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise ScoreError(f"expected numbers as the scores of task {task!r}, one per run: {error}") from error
    if values.ndim != 1 or not values.size:
        raise ScoreError(
            f"expected [runs] scores of task {task!r}, at least one, found shape {values.shape}: "
            "give {task: scores}, one list per task, or an array [runs, tasks]"
        )
    return values
