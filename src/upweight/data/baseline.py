r"""Value of the initial state, :math:`\hat V(s_{i,0})`, by ordinary least squares.

A baseline is any callable ``baseline(initial_observations [N, ...], returns [N]) -> values [N]``.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import UpweightWarning


@dataclass(frozen=True)
class LinearBaseline:
    r"""Least squares with intercept, one row per episode, every episode counted once.

    Collinear or constant features get the minimum-norm solution. With no more episodes than coefficients the
    fit would pass through every point and leave only rounding noise, so the mean return is used instead.
    """

    def needs(self, observation_shape: tuple[int, ...]) -> int:
        """Number of episodes from which on the initial observations are looked at: d + 2 for d features."""
        return math.prod(observation_shape) + 2

    def __call__(self, initial_observations: NDArray[Any], returns: NDArray[np.float64]) -> NDArray[np.float64]:
        count = len(returns)
        if count < self.needs(initial_observations.shape[1:]):
            return self.constant(initial_observations.shape[1:], returns)
        features = initial_observations.reshape(count, -1).astype(np.float64)
        features -= features.mean(axis=0)
        mean = returns.mean()
        triangle = _triangle(np.column_stack([features, returns - mean]))  # [d+1, d+1]
        negligible = np.finfo(np.float64).eps * max(features.shape)  # as if the triangle were as tall as the data
        coefficients = np.linalg.lstsq(triangle[:, :-1], triangle[:, -1], rcond=negligible)[0]
        return mean + features @ coefficients

    def constant(self, observation_shape: tuple[int, ...], returns: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mean return for everyone, with a warning."""
        warnings.warn(
            f"{len(returns)} episodes are too few to fit a value to {math.prod(observation_shape)} features of the "
            "initial state; using the mean return as the baseline, so advantage-weighting equals return-weighting",
            UpweightWarning,
            stacklevel=4,
        )
        return np.full(len(returns), returns.mean())


def _triangle(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
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
