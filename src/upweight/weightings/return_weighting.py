r"""RW: weights grow exponentially with the return, :math:`w_i \propto \exp(\hat G_i/\alpha)`."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from upweight.data.dataset import Dataset
from upweight.weightings.boltzmann import Boltzmann, min_max


@dataclass(frozen=True, repr=False)
class ReturnWeighting(Boltzmann):
    r"""Softmax of the returns, min-max scaled to :math:`\hat G_i \in [0, 1]`, over the temperature :math:`\alpha`.

    The best episode counts :math:`e^{1/\alpha}` times as much as the worst: 22,026 times at 0.1 (the paper's
    choice for TD3+BC and IQL; for BC it states none), 148 times at 0.2 (for CQL).

    ``effective_episodes=20`` or ``effective_share=0.1`` (of the complete episodes) instead of ``temperature``: it is solved for
    each dataset, so that :math:`1/\sum_i w_i^2` is that number.

    Examples:
        >>> uw.ReturnWeighting(temperature=0.5)(ds).round(2)
        array([0.04, 0.05, 0.07, 0.09, 0.12, 0.16, 0.21, 0.28])
        >>> round(uw.effective_episodes(uw.ReturnWeighting(effective_episodes=5)(ds)), 9)
        5.0
    """

    name: ClassVar[str] = "rw"

    def weigh(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        return self.softmax(self.scaled(dataset, eligible), dataset.source)

    def scaled(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        r"""[K] :math:`\hat G_i`: what is left to do depends on the temperature alone."""
        return min_max(dataset.returns[eligible])
