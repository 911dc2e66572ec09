r"""What ranks alone tell: an exact test of two samples, its correction for many of them, and rank correlation."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def doubled_ranks(values: NDArray[Any]) -> NDArray[np.int64]:
    """[..., M] twice the rank of each value among the M; equal values share the mean of their ranks, hence whole numbers."""
    a, b = values[..., :, None], values[..., None, :]
    return np.asarray((a > b).sum(axis=-1) + (a >= b).sum(axis=-1) + 1, np.int64)


def rank_test(x: ArrayLike, y: ArrayLike) -> float:
    r"""Exact p-value, two-sided, of the Mann-Whitney test that x [n] and y [m] come from one distribution.

    Of all :math:`\binom{n+m}{n}` ways to call n of the values x, equally likely then, the share whose rank sum is as far from
    :math:`n(n+m+1)/2` as the one seen, or farther. Ties keep their mean ranks. Five against five: 2/252 at the least.
    """
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    ranks = doubled_ranks(np.concatenate([first, second]))  # [n + m]
    ways = np.zeros((len(first) + 1, ranks.sum() + 1))  # [k, s] ways to choose k values with rank sum s
    ways[0, 0] = 1
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, :-rank]
    off = np.abs(np.arange(ways.shape[1]) - len(first) * (len(ranks) + 1))  # how far a rank sum is from its mean
    return float(ways[-1][off >= off[ranks[: len(first)].sum()]].sum() / ways[-1].sum())


def adjust(p_values: ArrayLike) -> Floats:
    r"""[K] p-values of a family of tests, adjusted by Benjamini and Hochberg: :math:`q_{(k)} = \min_{j \ge k} p_{(j)} K / j`.

    Of the tests with :math:`q \le 0.05`, at most 5% are expected to be false discoveries; also where tests are positively
    dependent, as comparisons with one control are.
    """
    given = np.asarray(p_values, np.float64)
    order = np.argsort(given)
    scaled = given[order] * len(given) / np.arange(1, len(given) + 1)
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return adjusted


def rank_correlation(x: NDArray[Any], y: NDArray[Any], given: NDArray[Any] | None = None) -> Floats:
    r"""[...] Spearman's correlation of x and y [..., M]; at equal ``given`` [..., M], the partial one.

    :math:`r_{xy|z} = (r_{xy} - r_{xz} r_{yz}) / \sqrt{(1 - r_{xz}^2)(1 - r_{yz}^2)}`; with what does not vary, r is
    undefined: NaN. Where that is z, all of x and y is left.
    """
    ranks = [doubled_ranks(each).astype(np.float64) for each in (x, y, *([] if given is None else [given]))]
    a, b, *rest = (each - each.mean(axis=-1, keepdims=True) for each in ranks)
    ab = _correlation(a, b)
    if not rest:
        return ab
    ac, bc = (np.nan_to_num(_correlation(each, rest[0])) for each in (a, b))
    return _ratio(ab - ac * bc, np.sqrt((1 - ac**2) * (1 - bc**2)))


def _correlation(a: Floats, b: Floats) -> Floats:
    """Of values with mean 0."""
    return _ratio((a * b).sum(axis=-1), np.sqrt((a**2).sum(axis=-1) * (b**2).sum(axis=-1)))


def _ratio(above: Floats, below: Floats) -> Floats:
    """NaN where there is nothing below, but for rounding."""
    some = below > 1e-6
    found: Floats = np.where(some, above / np.where(some, below, 1.0), np.nan)
    return found
