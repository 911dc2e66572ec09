r"""Value of the initial state, :math:`\hat V(s_{i,0})`: by ordinary least squares, or by ridge regression for few episodes.

A baseline is any callable ``baseline(initial_observations [N, ...], returns [N]) -> values [N]``.

Ridge regression: with standardised features :math:`Z = U S V^\top` [N, d] and penalty :math:`\lambda`,

.. math:: \hat V = \bar G + Z V (S^2 + \lambda)^{-1} V^\top Z^\top (G - \bar G),

and leaving episode i out changes its residual from :math:`e_i` to :math:`e_i / (1 - h_i)`, where
:math:`h_i = \frac{1}{N} + \sum_k (Z V)_{ik}^2 / (s_k^2 + \lambda)`. The penalty with the smallest such residuals is taken.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import finite_number
from upweight.base.errors import UpweightWarning, WeightingError

_EPISODES_PER_COEFFICIENT = 2  # with fewer, least squares follows more than half of the noise
_ROUNDINGS = 4  # steps of the observations' own precision that may be between columns meant to be collinear


@dataclass(frozen=True)
class LinearBaseline:
    r"""Least squares with intercept, one row per episode, every episode counted once.

    Collinear or constant features get the minimum-norm solution; differences as small as the rounding of the observations'
    own type are not fitted. With no more episodes than coefficients the fit would pass through every point and leave only
    rounding noise, so the mean return is used instead. A fit of k coefficients to N episodes follows a share k / N of the
    noise in the returns: beyond half there is a warning (:class:`upweight.RidgeBaseline` follows less).

    Examples:
        >>> uw.LinearBaseline()(ds.initial_observations, ds.returns).round(2)
        array([3.  , 4.03, 3.02, 3.99, 3.08, 3.91, 3.17, 3.8 ])
    """

    def needs(self, observation_shape: tuple[int, ...]) -> int:
        """Fewest episodes for which the initial observations are read: d + 2 for d features."""
        return math.prod(observation_shape) + 2

    def __call__(self, initial_observations: NDArray[Any], returns: NDArray[np.float64]) -> NDArray[np.float64]:
        count = len(returns)
        if count < self.needs(initial_observations.shape[1:]):
            return self.constant(initial_observations.shape[1:], returns)
        features, rounding = centred_features(initial_observations)
        mean = returns.mean()
        reduced = triangle(np.column_stack([features, returns - mean]))  # [d+1, d+1]
        left, sizes, right = np.linalg.svd(reduced[:, :-1], full_matrices=False)
        kept = sizes > max(rounding, np.finfo(np.float64).eps * max(features.shape) * sizes.max(initial=0.0))
        if count < _EPISODES_PER_COEFFICIENT * (kept.sum() + 1):
            self._warn(count, int(kept.sum()) + 1)
        coefficients = right[kept].T @ ((left[:, kept].T @ reduced[:, -1]) / sizes[kept])
        return mean + features @ coefficients

    def _warn(self, episodes: int, coefficients: int) -> None:
        warnings.warn(
            f"the baseline fits {coefficients} coefficients to {episodes} episodes and follows about "
            f"{coefficients / episodes:.0%} of the noise in their returns, so advantages are partly noise; "
            "AdvantageWeighting(baseline=RidgeBaseline()) follows less",
            UpweightWarning,
            stacklevel=5,
        )

    def constant(self, observation_shape: tuple[int, ...], returns: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean return for everyone, with a warning."""
        warnings.warn(
            f"{len(returns)} episodes are too few to fit a value to {math.prod(observation_shape)} features of the "
            "initial state; using the mean return as the baseline, so advantage-weighting equals return-weighting",
            UpweightWarning,
            stacklevel=4,
        )
        return np.full(len(returns), returns.mean())


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
        given = (finite_number("penalties", each, above=0, error=WeightingError) for each in self.penalties)
        object.__setattr__(self, "penalties", tuple(given))
        if not self.penalties:
            raise WeightingError("penalties: expected one or more numbers above 0, found none")

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
        """Values [N], and the residual of each episode when it is left out of the fit [N]."""
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


def centred_features(initial_observations: NDArray[Any]) -> tuple[NDArray[np.float64], float]:
    r"""[N, d] :math:`(x_{ij} - \bar x_j) / \max_i |x_{ij}|`, and the singular values that rounding alone may give them.

    In that unit every entry is rounded by at most half of the type's epsilon, so a matrix of nothing but such rounding has
    singular values of at most about :math:`\epsilon (\sqrt N + \sqrt d)`.
    """
    count = len(initial_observations)
    features = initial_observations.reshape(count, -1).astype(np.float64)
    largest = np.abs(features).max(axis=0)
    features /= np.where(largest > 0, largest, 1.0)
    features -= features.mean(axis=0)
    kind = initial_observations.dtype
    precision = float(np.finfo(kind if kind.kind == "f" else np.float64).eps)
    return features, _ROUNDINGS * precision * (math.sqrt(count) + math.sqrt(features.shape[1]))


def triangle(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The R of a QR decomposition of a tall matrix [N, k], by blocks of rows.

    A least-squares problem keeps its solutions under it, and is then k rows tall instead of N.
    """
    qr: Any = np.linalg.qr  # NumPy types it as if mode="r" gave a pair
    rows, columns = matrix.shape
    block = max(1024, 8 * columns)
    if rows <= block:
        return qr(matrix, mode="r")
    padding = np.zeros((-rows % block, columns))  # rows of zeros change nothing
    blocks = np.concatenate([matrix, padding]).reshape(-1, block, columns)
    return qr(qr(blocks, mode="r").reshape(-1, columns), mode="r")
