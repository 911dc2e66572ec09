r"""Top-x%: keep the best episodes, forget the rest (percentage filtering, as in %BC)."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import finite_number
from upweight.base.errors import WeightingError
from upweight.data.dataset import Dataset
from upweight.weightings.weighting import Weighting


@dataclass(frozen=True)
class TopFraction(Weighting):
    r"""Equal weight on the :math:`\max(1, \lfloor xN \rfloor)` episodes of highest return, none on the others.

    The count is of *episodes*, not of steps. Among equal returns the earlier episode is kept.

    Examples:
        >>> uw.TopFraction(0.25)(ds)
        array([0. , 0. , 0. , 0. , 0. , 0. , 0.5, 0.5])
    """

    fraction: float = field(default=0.1, metadata={"help": "share of the episodes to keep"})
    name: ClassVar[str] = "top"
    permutation_equivariant: ClassVar[bool] = False  # ties are broken by position
    uniform_when_constant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        share = finite_number("fraction", self.fraction, above=0, most=1, error=WeightingError)
        object.__setattr__(self, "fraction", share)

    def weigh(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        count = max(1, int(self.fraction * len(eligible) + 1e-9))  # 1e-9: 0.29 * 100 must keep 29
        best_first = np.argsort(-dataset.returns[eligible], kind="stable")
        weights = np.zeros(len(eligible))
        weights[best_first[:count]] = 1.0
        return weights
