"""Samplers against each other, with intervals: the questions that tables, figures and claims ask."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from upweight.base.errors import UpweightWarning
from upweight.report.aggregate import difference, iqm, probability_of_improvement
from upweight.report.bootstrap import FEW_RUNS, Estimate, ProfileBand, interval, interval_of_pair, profile_band
from upweight.report.names import DatasetName, Sampler
from upweight.report.results import Results
from upweight.report.scores import ScoreError

CONFIDENCE = 0.95
FAMILIES = {"mixed": "mixed datasets", "regular": "regular datasets", "stochastic": "stochastic control"}
Scores = Mapping[str, Sequence[float]]  # task -> score of each run


@dataclass(frozen=True)
class Intervals:
    """Bootstrap intervals that depend on the scores and the seed alone, not on what was asked before.

    They do not warn of few runs: whoever shows them says how many there are.
    """

    seed: int = 0
    resamples: int = 2000

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ScoreError(f"expected a seed of the bootstrap of 0 or more, found {self.seed}")
        if self.resamples < 1:
            raise ScoreError(f"expected at least one resample, found {self.resamples}: 2000 is usual")

    def of(self, statistic: Callable[..., Any], scores: Scores) -> Estimate:
        """Any statistic of ``aggregate``."""
        with _without_warnings():
            return interval(statistic, scores, rng=self._rng(), confidence=CONFIDENCE, resamples=self.resamples)

    def level(self, scores: Scores) -> Estimate:
        """IQM."""
        return self.of(iqm, scores)

    def profile(self, scores: Scores, thresholds: ArrayLike) -> ProfileBand:
        """Share of runs above each threshold."""
        with _without_warnings():
            return profile_band(scores, thresholds, rng=self._rng(), confidence=CONFIDENCE, resamples=self.resamples)

    def improvement(self, x: Scores, y: Scores) -> Estimate:
        """Probability that a run of x beats one of y."""
        return self._of_pair(probability_of_improvement, x, y)

    def gain(self, x: Scores, y: Scores) -> Estimate:
        """IQM of x less that of y."""
        return self._of_pair(difference(iqm), x, y)

    def _of_pair(self, statistic: Callable[..., Any], x: Scores, y: Scores) -> Estimate:
        with _without_warnings():
            return interval_of_pair(statistic, x, y, rng=self._rng(), confidence=CONFIDENCE, resamples=self.resamples)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


@dataclass(frozen=True)
class Group:
    """Samplers of one method that can be compared: they all have runs on all of the datasets."""

    method: str
    family: str
    samplers: tuple[Sampler, ...]
    datasets: tuple[DatasetName, ...]


def groups_of(results: Results, method: str) -> list[Group]:
    """For each family of datasets the usual samplers, on the datasets that all of them have runs on.

    A family with one sampler compares nothing, and is left out if others compare something.
    """
    found = []
    for family in FAMILIES:
        datasets = results.datasets_of(method, family=family)
        samplers = results.usual_samplers(method, datasets)
        common = results.comparable(method, [sampler.name for sampler in samplers], datasets)
        if common:
            found.append(Group(method, family, tuple(samplers), tuple(common)))
    return [group for group in found if len(group.samplers) > 1] or found


def is_better(improvement: Estimate) -> bool:
    """Whether the interval of a probability of improvement lies above one half; a single run has no interval."""
    return improvement.runs > 1 and improvement.low > 0.5


def deserves_a_mark(improvement: Estimate) -> bool:
    """Whether a table may mark it as better: from fewer runs than :data:`FEW_RUNS`, intervals are too narrow for that."""
    return improvement.runs >= FEW_RUNS and is_better(improvement)


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpweightWarning)
        yield
