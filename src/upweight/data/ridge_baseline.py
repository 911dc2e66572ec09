r"""Value of the initial state by ridge regression, for few episodes or many features.

With standardised features :math:`Z = U S V^\top` [N, d] and penalty :math:`\lambda`,

.. math:: \hat V = \bar G + Z V (S^2 + \lambda)^{-1} V^\top Z^\top (G - \bar G),

and leaving episode i out changes its residual from :math:`e_i` to :math:`e_i / (1 - h_i)`, where
:math:`h_i = \frac{1}{N} + \sum_k (Z V)_{ik}^2 / (s_k^2 + \lambda)`. The penalty with the smallest such residuals is taken.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import WeightingError
from upweight.data.baseline import centred_features, triangle


@dataclass(frozen=True)
class RidgeBaseline:
    """Ridge regression on standardised features, its penalty chosen by leaving one episode out.

    The same as scikit-learn's ``RidgeCV`` after a ``StandardScaler``, with these ``penalties`` as its ``alphas``.

    Examples:
        >>> uw.RidgeBaseline()(ds.initial_observations, ds.returns).round(2)  # these starts explain nothing
        array([3.5, 3.5, 3.5, 3.5, 3.5, 3.5, 3.5, 3.5])
    """

    penalties: tuple[float, ...] = tuple(10.0 ** (power / 2) for power in range(-4, 13))

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalties", tuple(self.penalties))
        if not self.penalties or not all(0 < penalty < math.inf for penalty in self.penalties):
            raise WeightingError(f"penalties: expected one or more numbers above 0, found {self.penalties!r}")

    def __call__(self, initial_observations: NDArray[Any], returns: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._fit(initial_observations, returns)[0]

    def explained_share(self, initial_observations: NDArray[Any], returns: NDArray[np.float64]) -> float:
        r"""Cross-validated :math:`R^2 = 1 - \sum_i (G_i - \hat V_{-i}(s_i))^2 / \sum_i (G_i - \bar G_{-i})^2`, 0 at least.

        :math:`\hat V_{-i}` and :math:`\bar G_{-i}` are of the episodes other than i, so noise that is fitted does not count.
        """
        left_out = self._fit(initial_observations, returns)[1]
        count = len(returns)
        of_mean = (returns - returns.mean()) * count / max(count - 1, 1)
        total = float(of_mean @ of_mean)
        return max(0.0, 1.0 - float(left_out @ left_out) / total) if total > 0 else 0.0

    def _fit(
        self, initial_observations: NDArray[Any], returns: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values [N], and what each episode differs from its value when it is left out [N]."""
        count, mean = len(returns), float(returns.mean())
        centred = returns - mean
        if count < 2:
            return np.full(count, mean), centred
        features, rounding = centred_features(initial_observations)
        spread = np.sqrt((features**2).mean(axis=0))
        moving = spread * math.sqrt(count) > rounding  # other columns are constant but for rounding
        features = features[:, moving] / spread[moving]
        _, sizes, right = np.linalg.svd(triangle(features), full_matrices=False)
        turned = features @ right.T  # [N, r], Z V
        along, squares = turned.T @ centred, turned**2
        best: tuple[float, NDArray[np.float64], NDArray[np.float64]] | None = None
        for penalty in self.penalties:
            shrunk = 1.0 / (sizes**2 + penalty)
            values = mean + turned @ (shrunk * along)
            left_out = (returns - values) / (1.0 - 1.0 / count - squares @ shrunk)
            error = float(left_out @ left_out)
            if best is None or error < best[0]:
                best = error, values, left_out
        assert best is not None
        return best[1], best[2]
