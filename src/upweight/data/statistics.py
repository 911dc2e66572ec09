r"""What a dataset holds and what a weighting would make of it.

Notation: N episodes with returns :math:`G_i`, :math:`T_i` trainable transitions, episode weights :math:`w_i` that
sum to 1. A step of episode i is drawn with probability :math:`w_{i,t} = w_i / \sum_j T_j w_j`.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import finite_number
from upweight.base.errors import WeightingError


def positive_sided_variance(values: ArrayLike) -> float:
    r""":math:`V_+[X] = E[(X - E[X])_+^2]`; of returns, this is the paper's RPSV.

    It measures how far the better episodes stand above the average: what there is to gain by weighting.

    Examples:
        >>> uw.positive_sided_variance([0, 0, 0, 4])
        2.25
    """
    array = np.asarray(values, np.float64)
    return float(np.mean(np.maximum(array - array.mean(), 0.0) ** 2))


def mean_ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """[M] ranks of values [M], from 1; equal values share the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def effective_episodes(weights: ArrayLike) -> float:
    r"""Effective sample size in episodes, :math:`(\sum_i w_i)^2 / \sum_i w_i^2`, between 1 and N.

    Examples:
        >>> uw.effective_episodes([0.5, 0.5, 0, 0])
        2.0
    """
    w = np.asarray(weights, np.float64)
    w = w / w.max()
    return float(w.sum() ** 2 / (w**2).sum())


def effective_steps(weights: ArrayLike, num_transitions: ArrayLike) -> float:
    r"""Effective sample size in steps, :math:`(\sum_i T_i w_i)^2 / \sum_i T_i w_i^2`.

    Examples:
        >>> uw.effective_steps(uw.TopFraction(0.25)(ds), ds.num_transitions)
        6.0
    """
    w = np.asarray(weights, np.float64)
    w = w / w.max()
    t = np.asarray(num_transitions, np.float64)
    return float((t * w).sum() ** 2 / (t * w**2).sum())


def episode_mass(weights: ArrayLike, num_transitions: ArrayLike) -> NDArray[np.float64]:
    r"""[N] probability that a drawn step belongs to episode i, :math:`T_i w_i / \sum_j T_j w_j`."""
    w = np.asarray(weights, np.float64)
    peak = w.max() if w.size else 0.0
    mass = w / peak if peak > 0 else w.copy()
    mass *= np.asarray(num_transitions)
    total = mass.sum()
    if not total > 0:
        raise WeightingError(
            "the weights put no mass on any trainable step: "
            "every episode with a positive weight has no transition (see Dataset.num_transitions)"
        )
    mass /= total
    return mass


def weighted_return(weights: ArrayLike, returns: ArrayLike) -> float:
    r"""The paper's :math:`J(\mu_W) = \sum_i w_i G_i`: mean return if episodes were drawn by their weight.

    Examples:
        >>> uw.weighted_return(uw.TopFraction(0.25)(ds), ds.returns)
        6.5
    """
    w = np.asarray(weights, np.float64)
    return float(np.dot(w / w.sum(), np.asarray(returns, np.float64)))


def weighted_label_return(weights: ArrayLike, returns: ArrayLike, labels: NDArray[np.str_]) -> float:
    r""":math:`\sum_i w_i \bar G_{l(i)}`: :func:`weighted_return` with each return replaced by the mean of its label.

    If labels name policies, that is what the policies drawn have on average, without the luck of the episodes drawn.

    Examples:
        >>> uw.weighted_label_return([1, 0, 0], [1.0, 0.0, 0.6], np.array(["coin", "coin", "sure"]))
        0.5
    """
    _, places = np.unique(labels, return_inverse=True)
    means = np.bincount(places, np.asarray(returns, np.float64)) / np.bincount(places)
    return weighted_return(weights, means[places])


def step_weighted_return(weights: ArrayLike, returns: ArrayLike, num_transitions: ArrayLike) -> float:
    r""":math:`\sum_i T_i w_i G_i / \sum_i T_i w_i`: mean return of the episode a drawn step belongs to.

    Examples:
        >>> uw.step_weighted_return([0.5, 0.5], [1.0, 9.0], [1, 3])
        7.0
    """
    return float(np.dot(episode_mass(weights, num_transitions), np.asarray(returns, np.float64)))


def hoeffding_probability(weights: ArrayLike, *, return_range: float, epsilon: float) -> float:
    r"""Bound on :math:`P(|\sum_i w_i G_i - J(\mu_W)| \ge \epsilon) \le 2 e^{-2\epsilon^2 / (G_\top^2 \sum_i w_i^2)}`.

    Holds for weights chosen without looking at the returns. RW, AW and Top-x% do look: in a stochastic
    environment they favour lucky episodes, and the true value may lie outside (the paper says so itself).

    Examples:
        >>> round(uw.hoeffding_probability(uw.Uniform()(ds), return_range=7, epsilon=4), 3)
        0.011
    """
    if return_range <= 0:
        return 0.0 if epsilon > 0 else 1.0
    exponent = -2.0 * epsilon**2 * effective_episodes(weights) / return_range**2
    return min(1.0, 2.0 * math.exp(exponent))


def hoeffding_radius(weights: ArrayLike, *, return_range: float, confidence: float = 0.95) -> float:
    r"""The :math:`\epsilon` at which :func:`hoeffding_probability` equals ``1 - confidence``.

    Examples:
        >>> round(uw.hoeffding_radius(uw.Uniform()(ds), return_range=7), 2)
        3.36
    """
    confidence = finite_number("confidence", confidence, above=0, below=1, error=WeightingError)
    return return_range * math.sqrt(math.log(2.0 / (1.0 - confidence)) / (2.0 * effective_episodes(weights)))


def mass_per_label(weights: ArrayLike, num_transitions: ArrayLike, labels: NDArray[np.str_]) -> dict[str, float]:
    """Share of drawn steps that comes from each provenance label.

    Examples:
        >>> uw.mass_per_label(uw.Uniform()(ds), ds.num_transitions, ds.labels)
        {'expert': 0.5, 'novice': 0.5}
    """
    mass = episode_mass(weights, num_transitions)
    names, places = np.unique(labels, return_inverse=True)
    shares = np.bincount(places, weights=mass, minlength=len(names))
    return {str(name): float(share) for name, share in zip(names, shares, strict=True)}


def early_share(weights: ArrayLike, lengths: ArrayLike, good: NDArray[np.bool_], *, first: int = 30) -> float:
    r"""Share of good episodes among drawn steps that are within the first ``first`` of their episode.

    :math:`\sum_{i \in good} w_i \min(T_i, 30) / \sum_i w_i \min(T_i, 30)`. Every episode passes its beginning: poor episodes
    that are short and many have few of all steps, but most of these.

    Examples:
        >>> uw.early_share([0.5, 0.5], [10, 1000], np.array([False, True]))
        0.75
    """
    mass = episode_mass(weights, np.minimum(np.asarray(lengths), first))
    return float(mass[good].sum())
