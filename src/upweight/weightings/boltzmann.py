r"""The softmax both RW and AW end with: min-max, divide by the temperature, exponentiate."""

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import finite_number
from upweight.base.errors import WeightingError


def checked_temperature(temperature: float) -> float:
    """A temperature that the softmax has a meaning for."""
    advice = "towards 0 only the best episode counts, large values mean uniform; the paper uses 0.1"
    return finite_number("temperature", temperature, above=0, advice=advice, error=WeightingError)


def min_max(values: NDArray[np.float64], *, negligible: float = 0.0) -> NDArray[np.float64]:
    r"""[N] :math:`\hat x = (x - \min x)/(\max x - \min x)`; all 1 where the range is not above ``negligible``."""
    scale = max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    scaled = values / scale  # so that the range cannot overflow
    low, high = scaled.min(), scaled.max()
    if high - low <= negligible / scale:
        return np.ones(len(values))
    return (scaled - low) / (high - low)


def boltzmann(scaled: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    r"""[N] :math:`\exp((\hat x_i - 1)/\alpha)`: the best gets 1, so nothing overflows however small :math:`\alpha`."""
    return np.exp((scaled - 1.0) / temperature)
