r"""The softmax both RW and AW end with: min-max, divide by the temperature, exponentiate.

:math:`w_i \propto \exp(\hat x_i/\alpha)`. An effective number of episodes :math:`n = 1/\sum_i w_i^2` may be given instead of the
temperature :math:`\alpha`. Let :math:`\beta = 1/\alpha`, and :math:`A(\beta) = \log\sum_i e^{\beta\hat x_i}`, which is convex.
Then :math:`\log n = 2A(\beta) - A(2\beta)`, and :math:`d\log n/d\beta = 2A'(\beta) - 2A'(2\beta) \le 0`. So n grows with the
temperature, from the number of episodes that share the best value up to K, and bisection finds the temperature.
"""

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import finite_number
from upweight.base.errors import WeightingError
from upweight.base.text import number
from upweight.data.statistics import effective_episodes
from upweight.weightings.weighting import Weighting

SHARPNESS = ("temperature", "effective_episodes", "effective_share")  # of which one is given
_DEFAULT = 0.1  # temperature
_LOG_RANGE = (-50.0, 50.0)  # of temperatures: at its ends float64 has the weights of the limits
_HALVINGS = 64  # of that range, until its size is below rounding
_ROUNDING = 1e-9  # 0.29 * 100 episodes are 29


@dataclass(frozen=True)
class Boltzmann(Weighting):
    """What RW and AW share: how sharply weights follow the values, as one of three numbers."""

    temperature: float | None = field(
        default=None,
        metadata={"help": "small means only the best episodes count (default 0.1; CQL trains with 0.2 unless told)"},
    )
    effective_episodes: float | None = field(
        default=None, kw_only=True, metadata={"help": "instead of a temperature: how many episodes count, 1 / sum w^2"}
    )
    effective_share: float | None = field(
        default=None, kw_only=True, metadata={"help": "the same, as a share of the complete episodes"}
    )

    def __post_init__(self) -> None:
        given = {name: value for name in SHARPNESS if (value := getattr(self, name)) is not None}
        if len(given) > 1:
            raise WeightingError(f"{self.name}: expected one of {', '.join(SHARPNESS)}, found {' and '.join(given)}")
        name, value = next(iter(given.items()), ("temperature", _DEFAULT))
        advice = "towards 0 only the best episode counts, large values mean uniform; the paper uses 0.1"
        limits: dict[str, dict[str, Any]] = {
            "temperature": {"above": 0, "advice": advice},
            "effective_episodes": {"least": 1},
            "effective_share": {"above": 0, "most": 1},
        }
        object.__setattr__(self, name, finite_number(name, value, **limits[name], error=WeightingError))

    def __repr__(self) -> str:
        given = {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given.items())})"

    def to_dict(self) -> dict[str, Any]:
        """Name and settings, of temperature and effective size the one that was given."""
        return {name: value for name, value in super().to_dict().items() if value is not None}

    def softmax(self, scaled: NDArray[np.float64], source: str) -> NDArray[np.float64]:
        r"""[K] weights, up to a factor, of min-max scaled values [K] of a dataset called ``source``."""
        if self.temperature is not None:
            return boltzmann(scaled, self.temperature)
        if self.effective_episodes is not None:
            return boltzmann(scaled, solved_temperature(scaled, self.effective_episodes, source))
        assert self.effective_share is not None
        return boltzmann(scaled, solved_temperature(scaled, self.effective_share * len(scaled), source))


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


def solved_temperature(scaled: NDArray[np.float64], episodes: float, source: str) -> float:
    r"""The :math:`\alpha` at which min-max scaled values [K] leave so many effective episodes.

    K episodes count where all weights are equal. As many count at least as share the best value. Both limits are reached.
    """

    def count(log_temperature: float) -> float:
        return effective_episodes(boltzmann(scaled, math.exp(log_temperature)))

    low, high = _LOG_RANGE
    fewest, most = count(low), count(high)
    if episodes > most * (1 + _ROUNDING):
        raise WeightingError(
            f"{source}: expected at most {most:,.0f} effective episodes, as many as are complete, found {number(episodes)}"
        )
    if episodes < fewest * (1 - _ROUNDING):
        raise WeightingError(
            f"{source}: {number(episodes)} effective episodes cannot be reached: {fewest:,.0f} share the best value, and "
            f"count alike at every temperature; ask for {fewest:,.0f} or more"
        )
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if count(middle) < episodes else (low, middle)
    return math.exp(high)
