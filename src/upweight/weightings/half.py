r"""Half: half of each batch from the good part of the data, half from the rest.

:math:`w_{i,t} = 0.5/|D_{high}|` in the good part and :math:`0.5/|D_{low}|` in the other, sizes in transitions.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import finite_number
from upweight.base.errors import WeightingError
from upweight.data.dataset import Dataset
from upweight.weightings.weighting import Weighting


@dataclass(frozen=True)
class Half(Weighting):
    """Equal mass on the two provenance labels or, with a ``threshold``, on episodes above it and the others.

    With more than two labels, ``high`` names the one that makes up the good half. Which half is which does not
    matter to the weights.

    Examples:
        >>> uw.Half(threshold=5)(ds).round(2)
        array([0.08, 0.08, 0.08, 0.08, 0.08, 0.08, 0.25, 0.25])
    """

    threshold: float | None = field(default=None, metadata={"help": "split by this return instead of by labels"})
    high: str | None = field(default=None, metadata={"help": "label of the good half, where there are more than two"})
    name: ClassVar[str] = "half"
    affine_invariant: ClassVar[bool] = False
    uniform_when_constant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.threshold is not None and self.high is not None:
            raise WeightingError("Half splits by a return threshold or by labels: give threshold or high, not both")
        if self.threshold is not None:
            object.__setattr__(self, "threshold", finite_number("threshold", self.threshold, error=WeightingError))

    @property
    def uses_returns(self) -> bool:
        return self.threshold is not None

    def weigh(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        is_high = self._high_part(dataset)[eligible]
        transitions = dataset.num_transitions[eligible]
        sizes = np.array([transitions[~is_high].sum(), transitions[is_high].sum()], np.float64)  # [low, high]
        if not sizes.all():
            raise WeightingError(
                f"{dataset.source}: Half needs transitions on both sides, "
                f"found {int(sizes[1])} on the good side and {int(sizes[0])} on the other"
            )
        return 0.5 / sizes[is_high.astype(np.int64)]

    def _high_part(self, dataset: Dataset) -> NDArray[np.bool_]:
        if self.threshold is not None:
            return dataset.returns > self.threshold
        if dataset.labels is None:
            raise WeightingError(
                f"{dataset.source}: Half needs provenance labels (upweight.mix writes them), or a return threshold: "
                "Half(threshold=...) (--threshold)"
            )
        names = np.unique(dataset.labels)
        if self.high is not None:
            if self.high not in names:
                raise WeightingError(
                    f"{dataset.source}: no episode is labelled {self.high!r}; found {', '.join(names)}"
                )
            return dataset.labels == self.high
        if len(names) != 2:
            raise WeightingError(
                f"{dataset.source}: Half needs exactly two labels, found {len(names)} ({', '.join(names)}); "
                "name the good one with Half(high=...) or split by return with Half(threshold=...)"
            )
        return dataset.labels == names[0]
