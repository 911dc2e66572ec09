r"""AW: weights grow with how much better an episode did than its start let expect.

:math:`A_i = G_i - \hat V(s_{i,0})`, then :math:`w_i \propto \exp(\hat A_i/\alpha)` with :math:`\hat A` the min-max of
the *advantages*.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import UpweightWarning, WeightingError
from upweight.base.names import hint
from upweight.data.baseline import LinearBaseline, RidgeBaseline
from upweight.data.dataset import Dataset
from upweight.weightings.boltzmann import Boltzmann, min_max

Baseline = Callable[[NDArray[Any], NDArray[np.float64]], NDArray[np.float64]]
_BASELINES: dict[str, Baseline] = {"linear": LinearBaseline(), "ridge": RidgeBaseline()}

# A range of advantages this small, relative to the returns, is rounding noise of the fit.
NOISE = 1e-9


@dataclass(frozen=True, repr=False)
class AdvantageWeighting(Boltzmann):
    """Softmax of the min-max scaled advantages; fair to episodes that started in a hard place.

    ``baseline(initial_observations [K, ...], returns [K]) -> values [K]`` estimates V(s0): "linear" (least squares, the
    paper's), "ridge" (for few episodes or many features), or one of your own. ``effective_episodes`` or ``effective_share`` may
    be given instead of ``temperature``, as with :class:`~upweight.ReturnWeighting`.

    Examples:
        >>> uw.AdvantageWeighting(temperature=0.5)(ds).round(2)
        array([0.04, 0.04, 0.07, 0.07, 0.13, 0.14, 0.24, 0.27])
    """

    baseline: Baseline | str = field(
        default_factory=LinearBaseline,
        metadata={"json": False, "help": "value of the initial state: linear (least squares, the default) or ridge"},
    )
    name: ClassVar[str] = "aw"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.baseline, str):
            if self.baseline not in _BASELINES:
                raise WeightingError(f"unknown baseline {self.baseline!r}; {hint(self.baseline, _BASELINES)}")
            object.__setattr__(self, "baseline", _BASELINES[self.baseline])

    def to_dict(self) -> dict[str, Any]:
        """Name and settings; the baseline only where it is not least squares."""
        if self.baseline == LinearBaseline():
            return super().to_dict()
        for name, known in _BASELINES.items():
            if self.baseline == known:
                return {**super().to_dict(), "baseline": name}
        raise WeightingError("an advantage weighting with a baseline of your own cannot be written as JSON")

    def advantages(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        r"""[K] :math:`G_i - \hat V(s_{i,0})`."""
        returns = dataset.returns[eligible]
        assert not isinstance(self.baseline, str)  # a name became its baseline above
        if isinstance(self.baseline, LinearBaseline) and len(eligible) < self.baseline.needs(dataset.observation_shape):
            values = self.baseline.constant(dataset.observation_shape, returns)  # the observations stay unread
        else:
            values = np.asarray(self.baseline(dataset.initial_observations[eligible], returns), np.float64)
        if values.shape != returns.shape or not np.isfinite(values).all():
            raise WeightingError(
                f"the baseline must return {len(returns)} finite values (one per episode), "
                f"found shape {values.shape}" + ("" if values.shape != returns.shape else " with NaN or infinity")
            )
        return returns - values

    def weigh(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        advantages = self.advantages(dataset, eligible)
        return self.softmax(self.scaled(dataset, eligible, advantages), dataset.source)

    def scaled(
        self, dataset: Dataset, eligible: NDArray[np.int64], advantages: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        r"""[K] :math:`\hat A_i`: what is left to do depends on the temperature alone."""
        negligible = NOISE * float(np.ptp(dataset.returns[eligible]))
        if 0 < np.ptp(advantages) <= negligible:
            warnings.warn(
                f"{dataset.source}: the initial state explains the return of every episode exactly, so no episode "
                "has an advantage over another; advantage-weighting equals uniform weighting",
                UpweightWarning,
                stacklevel=4,
            )
        return min_max(advantages, negligible=negligible)
