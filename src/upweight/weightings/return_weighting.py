r"""RW: weights grow exponentially with the return, :math:`w_i \propto \exp(\hat G_i/\alpha)`."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from upweight.data.dataset import Dataset
from upweight.weightings.boltzmann import boltzmann, checked_temperature, min_max
from upweight.weightings.weighting import Weighting


@dataclass(frozen=True)
class ReturnWeighting(Weighting):
    r"""Softmax of the returns, min-max scaled to :math:`\hat G_i \in [0, 1]`, over the temperature :math:`\alpha`.

    The best episode counts :math:`e^{1/\alpha}` times as much as the worst: 22,026 times at 0.1 (the paper's
    choice for TD3+BC and IQL; for BC it states none), 148 times at 0.2 (for CQL).

    Examples:
        >>> uw.ReturnWeighting(temperature=0.5)(ds).round(2)
        array([0.04, 0.05, 0.07, 0.09, 0.12, 0.16, 0.21, 0.28])
    """

    temperature: float = field(
        default=0.1, metadata={"help": "small means only the best episodes count; CQL trains with 0.2 unless told"}
    )
    name: ClassVar[str] = "rw"

    def __post_init__(self) -> None:
        object.__setattr__(self, "temperature", checked_temperature(self.temperature))

    def weigh(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        return boltzmann(self.scaled(dataset, eligible), self.temperature)

    def scaled(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        r"""[K] :math:`\hat G_i`: what is left to do depends on the temperature alone."""
        return min_max(dataset.returns[eligible])
