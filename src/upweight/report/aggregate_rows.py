"""Each sampler in one number: the four aggregates that the field reports, with intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from upweight.report.comparison import Group, groups_of
from upweight.report.results import Results
from upweight.report.statistics.aggregate import iqm, mean, median, optimality_gap
from upweight.report.statistics.bootstrap import Estimate
from upweight.report.statistics.intervals import Intervals

AGGREGATES: dict[str, Callable[..., Any]] = {
    "mean": mean,
    "median": median,
    "IQM": iqm,
    "optimality gap": optimality_gap,
}


@dataclass(frozen=True)
class AggregateRow:
    """A sampler over all datasets of a group."""

    group: Group
    sampler: str
    estimates: tuple[Estimate, ...]  # in the order of AGGREGATES


def aggregate_rows(results: Results, intervals: Intervals) -> list[AggregateRow]:
    """Every sampler of every group, over the datasets that all samplers of the group have runs on."""
    rows = []
    for method in results.methods:
        for group in groups_of(results, method):
            for sampler in group.samplers:
                scores = results.scores(method, sampler.name, group.datasets)
                estimates = tuple(intervals.of(statistic, scores) for statistic in AGGREGATES.values())
                rows.append(AggregateRow(group, sampler.name, estimates))
    return rows
