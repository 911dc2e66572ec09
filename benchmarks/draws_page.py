"""What another draw of the data changes: tables of docs/results.md, written by results_page.py.

A second draw is a study on datasets made by the same names with another seed: other episodes of the same policies. The first
draw's trainings may have been longer: they count as they were then, where they were evaluated on their way.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from scores_page import Rows, Study
from upweight.report.names import DatasetName
from upweight.report.replicate import Claim, replicate
from upweight.report.results import Results, collect
from upweight.report.statistics.intervals import Intervals
from upweight.studies.readers import open_store


class Spread(NamedTuple):
    """How far the two draws of a weighting's mixes are apart, and what of it seeds explain."""

    distance: float  # between a mix's two mean scores, on average
    by_seeds: float  # what that would be on average if the data made no difference, for normally distributed scores
    seeds: float  # standard deviation over seeds on one draw
    draws: float  # standard deviation that draws of the data add


@dataclass(frozen=True)
class Draws:
    """Two draws of a study's mixes, after as many updates as the second had, by the one method that this has."""

    study: Study

    @cached_property
    def both(self) -> Results:
        second = collect(open_store(self.study.paths[1]))
        ((method, updates),) = second.updates.items()
        found = collect([open_store(path) for path in self.study.paths], updates=updates)
        runs = tuple(run for run in found.runs if run.method == method and run.dataset.is_ambiguous)
        return replace(found, runs=runs, updates={method: updates})

    @property
    def method(self) -> str:
        (method,) = self.both.methods
        return method

    @cached_property
    def pairs(self) -> list[tuple[DatasetName, DatasetName]]:
        """Each mix on the first draw and the second: they differ in their variant, which ends with the seed."""
        found: dict[str, list[DatasetName]] = {}
        for dataset in self.both.datasets_of(self.method, family="mixed"):
            found.setdefault(dataset.base, []).append(dataset)
        return [(first, second) for first, second in found.values()]

    def part(self, place: int) -> Results:
        """The first draw (0), or the second (1)."""
        mine = {pair[place] for pair in self.pairs}
        return replace(self.both, runs=tuple(run for run in self.both.runs if run.dataset in mine))

    def scores(self, place: int, weighting: str) -> dict[str, list[float]]:
        """By the name that a mix has on both draws."""
        found = self.both.scores(self.method, weighting, [pair[place] for pair in self.pairs])
        return {pair[place].base: found[pair[place].name] for pair in self.pairs}

    def spread(self, weighting: str) -> Spread:
        r"""Over the mixes; by moments: for means :math:`x, y` of :math:`n, m` seeds :math:`E[(x - y)^2] = 2 \sigma_{draws}^2 +
        \sigma_{seeds}^2 (1/n + 1/m)`."""
        pairs = list(zip(*(self.scores(place, weighting).values() for place in (0, 1)), strict=True))
        apart = np.array([np.mean(x) - np.mean(y) for x, y in pairs])  # [mixes]
        variance = np.array([(np.var(x) * len(x) + np.var(y) * len(y)) / (len(x) + len(y) - 2) for x, y in pairs])
        of_difference = variance * [1 / len(x) + 1 / len(y) for x, y in pairs]
        return Spread(
            distance=float(np.abs(apart).mean()),
            by_seeds=float(np.sqrt(2 / np.pi * of_difference).mean()),
            seeds=float(np.sqrt(variance.mean())),
            draws=float(np.sqrt(max(0.0, (apart**2 - of_difference).mean() / 2))),
        )

    @cached_property
    def weightings(self) -> list[str]:
        mixes = [dataset for pair in self.pairs for dataset in pair]
        return [weighting.name for weighting in self.both.usual_weightings(self.method, mixes)]


def draw_rows(draws: Draws) -> Rows:
    """IQM over the mixes on both draws and their difference, by weighting; and how far single mixes are apart."""
    head = ("first draw", "second draw", "difference, 95% interval", "distance of a mix's scores", "by seeds alone")
    rows: Rows = [("", *head, "standard deviation over seeds", "over draws")]
    intervals = Intervals()
    for weighting in draws.weightings:
        first, second = (draws.scores(place, weighting) for place in (0, 1))
        gain, spread = intervals.gain(second, first), draws.spread(weighting)
        levels = [f"{intervals.level(scores).point:.2f}" for scores in (first, second)]
        difference = f"{gain.point:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]"
        rows.append((weighting, *levels, difference, *(f"{number:.3f}" for number in spread)))
    return rows


def draw_claim_rows(draws: Draws, is_asked: Callable[[Claim], bool]) -> Rows:
    """How many checks support the claims on each draw, and on both together."""
    parts = [draws.part(0), draws.part(1), draws.both]
    found = [replicate(part, Intervals()).claims for part in parts]
    rows: Rows = [("claim", "first draw", "second draw", "both")]
    for claims in zip(*found, strict=True):
        support = [claim.support().get(draws.method) for claim in claims]
        if is_asked(claims[0]) and all(each is not None and each.decided for each in support):
            rows.append((claims[0].text, *map(str, support)))
    return rows
