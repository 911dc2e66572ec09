"""What a weighting gains over Uniform on each dataset, next to facts of the dataset."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from upweight.lab.report.names import UNIFORM, DatasetName
from upweight.lab.report.results import Results
from upweight.lab.report.statistics.bootstrap import Estimate
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.report.statistics.ranks import Floats

FEW_DATASETS = 5  # below, a correlation says nothing


@dataclass(frozen=True, eq=False)
class Gains:
    """One weighting on M datasets that the store describes, with normalised scores."""

    gain: Floats  # [M] mean score less that of Uniform
    mean: Floats  # [M] normalised return of the dataset
    rpsv: Floats  # [M]
    kinds: tuple[str, ...]  # [M] what the dataset is called; draws of one kind share it
    seeds: int  # of the dataset that has fewest

    @property
    def num_kinds(self) -> int:
        return len(set(self.kinds))

    @property
    def are_few(self) -> bool:
        """Too few for a correlation."""
        return self.num_kinds < FEW_DATASETS

    def growth(self, intervals: Intervals, *, at_equal_mean: bool = False) -> Estimate | None:
        """Rank correlation of gain and RPSV, with an interval over datasets; None where it is undefined.

        Draws of one kind are no datasets of their own: they count as one, with their mean.
        """
        numbers = {kind: number for number, kind in enumerate(dict.fromkeys(self.kinds))}
        places = [numbers[kind] for kind in self.kinds]  # [M]
        gain, mean, rpsv = (
            np.bincount(places, each) / np.bincount(places) for each in (self.gain, self.mean, self.rpsv)
        )
        return intervals.correlation(rpsv, gain, mean if at_equal_mean else None)


def gains_of(results: Results, method: str, weighting: str, datasets: Iterable[DatasetName]) -> Gains:
    """On those of the datasets that allow it, in the order of the report."""
    wanted = set(results.shared(method, [weighting, UNIFORM], datasets))
    facts = [
        each
        for each in results.datasets
        if each.dataset in wanted and each.normalized and results.is_normalized(each.dataset)
    ]
    x, y = (results.scores(method, name, [each.dataset for each in facts]) for name in (weighting, UNIFORM))
    return Gains(
        gain=np.array([np.mean(x[name]) - np.mean(y[name]) for name in x]),
        mean=np.array([each.mean for each in facts]),
        rpsv=np.array([each.rpsv for each in facts]),
        kinds=tuple(each.dataset.base for each in facts),
        seeds=min((len(values) for scores in (x, y) for values in scores.values()), default=0),
    )
