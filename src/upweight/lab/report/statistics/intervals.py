"""The intervals of a report: they depend on the scores and a seed alone, not on what was asked before."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from upweight.base.checks import whole_number
from upweight.base.errors import UpweightWarning
from upweight.lab.report.statistics.aggregate import difference, iqm, mean, probability_of_improvement
from upweight.lab.report.statistics.bootstrap import (
    Estimate,
    OverTasks,
    ProfileBand,
    interval,
    interval_of_pair,
    profile_band,
)
from upweight.lab.report.statistics.ranks import Floats, rank_correlation
from upweight.lab.report.statistics.scores import GivenScores, ScoreError, Scores

CONFIDENCE = 0.95
UNDEFINED = "undefined: all scores or all datasets are equal"  # a correlation of them
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Intervals:
    """Bootstrap intervals, each with a generator of its own.

    They do not warn of few runs: whoever shows them says how many there are.

    Examples:
        >>> found = uw.Intervals(seed=0).level({"hopper": [0.1, 0.4, 0.5, 0.6, 0.9]})
        >>> round(found.low, 2), found.point, round(found.high, 2)
        (0.28, 0.5, 0.74)
    """

    seed: int = 0
    resamples: int = 2000

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole_number("seed", self.seed, least=0, error=ScoreError))
        object.__setattr__(self, "resamples", whole_number("resamples", self.resamples, least=1, error=ScoreError))

    def of(self, statistic: Callable[..., Any], scores: GivenScores) -> Estimate:
        """Any statistic of ``aggregate``."""
        return self._ask(interval, statistic, scores)

    def level(self, scores: GivenScores) -> Estimate:
        """IQM; the mean where there is one dataset, as the tables show it."""
        return self.of(_level(len(scores)), scores)

    def profile(self, scores: GivenScores, thresholds: ArrayLike) -> ProfileBand:
        """Share of runs above each threshold."""
        return self._ask(profile_band, scores, thresholds)

    def improvement(self, x: GivenScores, y: GivenScores, *, over_tasks: OverTasks = False) -> Estimate:
        """Probability that a run of x beats one of y."""
        return self._ask(interval_of_pair, probability_of_improvement, x, y, over_tasks=over_tasks)

    def gain(self, x: GivenScores, y: GivenScores, *, over_tasks: OverTasks = False) -> Estimate:
        """The level of x less that of y."""
        return self._ask(interval_of_pair, difference(_level(len(x))), x, y, over_tasks=over_tasks)

    def correlation(self, x: Floats, y: Floats, given: Floats | None = None) -> Estimate | None:
        """Rank correlation of x and y [M], at equal ``given`` [M] if there is one; resamples are of the M.

        None where it is undefined: all x, or all y, are equal. A resample of which that is so counts as 0.
        """

        def of_places(drawn: Scores) -> Floats:
            at = drawn.values.astype(np.int64)  # [..., M]
            return np.nan_to_num(rank_correlation(x[at], y[at], None if given is None else given[at]))

        if np.isnan(rank_correlation(x, y, given)):
            return None
        return self.of(of_places, {"": np.arange(len(x))})

    def _ask(self, question: Callable[..., Answer], *about: Any, **how: Any) -> Answer:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UpweightWarning)
            rng = np.random.default_rng(self.seed)
            return question(*about, rng=rng, confidence=CONFIDENCE, resamples=self.resamples, **how)


def level_name(num_datasets: int) -> str:
    """What :meth:`Intervals.level` is called."""
    return "mean" if num_datasets == 1 else "IQM"


def _level(num_datasets: int) -> Callable[..., Any]:
    return mean if num_datasets == 1 else iqm


def is_better(improvement: Estimate) -> bool:
    """Whether the interval of a probability of improvement lies above one half; a single run has no interval."""
    return improvement.runs > 1 and improvement.low > 0.5


def is_worse(improvement: Estimate) -> bool:
    """Whether the interval lies below one half."""
    return improvement.runs > 1 and improvement.high < 0.5
