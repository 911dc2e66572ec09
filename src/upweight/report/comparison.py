"""Samplers against each other, with intervals: the three questions that tables, figures and claims ask."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from upweight.errors import UpweightWarning
from upweight.report.aggregate import difference, iqm, probability_of_improvement
from upweight.report.bootstrap import Estimate, interval, interval_of_pair

CONFIDENCE = 0.95
Scores = Mapping[str, Sequence[float]]  # task -> score of each run


@dataclass(frozen=True)
class Intervals:
    """Bootstrap intervals that depend on the scores and the seed alone, not on what was asked before.

    They do not warn of few runs: whoever shows them says how many there are.
    """

    seed: int = 0
    resamples: int = 2000

    def level(self, scores: Scores) -> Estimate:
        """IQM."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UpweightWarning)
            return interval(iqm, scores, rng=self._rng(), confidence=CONFIDENCE, resamples=self.resamples)

    def improvement(self, x: Scores, y: Scores) -> Estimate:
        """Probability that a run of x beats one of y."""
        return self._of_pair(probability_of_improvement, x, y)

    def gain(self, x: Scores, y: Scores) -> Estimate:
        """IQM of x less that of y."""
        return self._of_pair(difference(iqm), x, y)

    def _of_pair(self, statistic: object, x: Scores, y: Scores) -> Estimate:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UpweightWarning)
            return interval_of_pair(
                statistic,  # type: ignore[arg-type]
                x,
                y,
                rng=self._rng(),
                confidence=CONFIDENCE,
                resamples=self.resamples,
            )

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


def is_better(improvement: Estimate) -> bool:
    """Whether the interval of a probability of improvement lies above one half; a single run has no interval."""
    return improvement.runs > 1 and improvement.low > 0.5
