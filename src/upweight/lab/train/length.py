"""How long each run is trained, and which of its policies is kept: what ``num_updates="auto"`` decides.

A policy that copies actions memorises few good episodes, and then does worse (:mod:`upweight.data.repetition`). So
it is kept as it was at one of :data:`POINTS`, chosen in one of two ways.

- By held-out actions: of each five episodes, in the order of their weights, the third is held out. The policy with the least
  error of actions there is kept, on steps drawn by the run's weighting (:mod:`upweight.lab.train.agreement`).
- By passes, if fewer than five effective episodes would be held out: none is. That number is 1 / sum w^2 of all times their share
  of the weight. The training stops when the steps that are drawn in effect were seen a thousand times.

Actor-critics leave the log where another action is worth more, so the error of actions is no guide to them. They are trained to
the last point, and their last policy is kept.
"""

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import UpweightWarning
from upweight.data.dataset import Dataset
from upweight.data.repetition import FEWEST_STEPS, KEPT, updates_until
from upweight.data.statistics import effective_episodes, effective_steps
from upweight.lab.train.agreement import HeldOut
from upweight.lab.train.prepare import RunEpisodes, make_parts
from upweight.lab.train.run import Run, weighting_key
from upweight.lab.train.schedule import BLOCK_UPDATES

AUTO = "auto"
POINTS = (800, 1600, 3100, 6200, 12_500, 25_000, 50_000, 100_000)  # updates
FEWEST_EPISODES = 5.0  # held out in effect, below which their actions say little
_ONE_IN = 5
CHOSEN_BY_ACTIONS = {"chosen": "without a simulator, by num_updates='auto'"}


@dataclass(frozen=True)
class Length:
    """Of one run."""

    points: tuple[int, ...]  # after so many updates its policy may be kept; the last is its end
    by: str  # what chooses among them
    held: HeldOut | None  # what it does not learn from

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        held = {} if self.held is None else {"holdout": self.held.episodes.tolist()}
        return {"points": list(self.points), "by": self.by, **held}


def choose_lengths(dataset: Dataset, runs: Sequence[Run], held: Sequence[HeldOut | None]) -> list[Length]:
    """One for each run; ``held`` was held out before, and then nothing else is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpweightWarning)  # the training says it, of what is learned from
        parts = make_parts(dataset, runs)
        found: dict[Hashable, Length] = {}
        lengths = []
        for run, part, given in zip(runs, parts, held, strict=True):
            key = (run.method.name, run.config.batch_size, weighting_key(run.weighting), id(part), id(given))
            if key not in found:
                found[key] = _length(run, part, given)
            lengths.append(found[key])
    return lengths


def _length(run: Run, part: RunEpisodes, given: HeldOut | None) -> Length:
    if run.method.uses_rewards:
        return Length(POINTS[-1:], "the end", given)
    weights = part.weights(run.weighting)
    held = _one_in_five(part.episodes, weights) if given is None else given
    is_held = np.isin(part.episodes, held.episodes)
    share = weights[is_held].sum() / weights.sum()  # many poor episodes may have next to none
    if share * effective_episodes(weights) >= FEWEST_EPISODES:
        return Length(POINTS, "held-out actions", held)
    learned = weights if given is None else weights * ~is_held
    steps = effective_steps(learned, part.own.num_transitions) if learned.any() else 0
    updates = updates_until(KEPT, max(steps, FEWEST_STEPS), run.config.batch_size)
    blocks = max(1, round(updates / BLOCK_UPDATES))  # another size would be another program to compile
    return Length((min(blocks * BLOCK_UPDATES, POINTS[-1]),), f"{KEPT:,} passes", given)


def _one_in_five(episodes: NDArray[np.int64], weights: NDArray[np.float64]) -> HeldOut:
    """The third of each five in the order of their weights; an episode that is there twice has the weight of both."""
    distinct, places = np.unique(episodes, return_inverse=True)
    total = np.bincount(places, weights).astype(np.float64)
    held = np.sort(np.argsort(-total, kind="stable")[_ONE_IN // 2 :: _ONE_IN])
    return HeldOut(distinct[held], total[held])


def points_of(lengths: Iterable[Length]) -> tuple[int, ...]:
    """All points of some runs, in order."""
    return tuple(sorted({point for length in lengths for point in length.points}))
