r"""Every step equally often: :math:`w_i = 1/N`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from upweight.data.dataset import Dataset
from upweight.weightings.weighting import Weighting


@dataclass(frozen=True)
class Uniform(Weighting):
    """What offline RL does by default.

    Examples:
        >>> uw.Uniform()(ds)
        array([0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125])
    """

    name: ClassVar[str] = "uniform"

    @property
    def uses_returns(self) -> bool:
        return False

    def weigh(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.ones(len(eligible))
