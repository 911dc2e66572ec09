r"""One number for many runs on many tasks, as in Agarwal et al., "Deep Reinforcement Learning at the Edge of the
Statistical Precipice" (2021), and with the values of their library rliable.

Notation: :math:`x_{m,n}` is the score of run n of :math:`N_m` on task m of M, R runs in all. Every statistic gives a
float for scores of one experiment and an array [...] for :class:`Scores` with leading axes [..., R], which is what the
bootstrap calls it with.
"""

from collections.abc import Callable
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.lab.report.statistics.scores import GivenScores, ScoreError, Scores, as_scores, pair

Floats = NDArray[np.float64]


@overload
def mean(scores: Scores) -> Floats: ...
@overload
def mean(scores: GivenScores) -> float: ...
def mean(scores: Scores | GivenScores) -> Floats | float:
    r"""Mean over tasks of the mean over runs, :math:`\frac{1}{M}\sum_m \frac{1}{N_m}\sum_n x_{m,n}`.

    One outstanding task can carry it.
    """
    checked = as_scores(scores)
    return _plain(checked.task_means(checked.values).mean(axis=-1))


@overload
def median(scores: Scores) -> Floats: ...
@overload
def median(scores: GivenScores) -> float: ...
def median(scores: Scores | GivenScores) -> Floats | float:
    r"""Median over tasks of the mean over runs, :math:`\mathrm{med}_m \frac{1}{N_m}\sum_n x_{m,n}`.

    Nearly half of the tasks could fail without a trace, and its intervals are wide: prefer :func:`iqm`.
    """
    checked = as_scores(scores)
    return _plain(np.median(checked.task_means(checked.values), axis=-1))


@overload
def iqm(scores: Scores) -> Floats: ...
@overload
def iqm(scores: GivenScores) -> float: ...
def iqm(scores: Scores | GivenScores) -> Floats | float:
    r"""Interquartile mean: the mean of the middle half of all runs of all tasks.

    :math:`\frac{1}{R - 2k} \sum_{r=k+1}^{R-k} x_{(r)}` with :math:`k = \lfloor R/4 \rfloor` and :math:`x_{(r)}` the r-th
    smallest score. Runs are pooled, so a task with more runs counts for more; the other statistics count every task
    alike.

    Examples:
        >>> uw.iqm({"hopper": [0.1, 0.5, 0.6, 0.9], "ant": [0.2, 0.4, 0.7, 0.8]})
        0.55
    """
    ordered = np.sort(as_scores(scores).values, axis=-1)
    cut = ordered.shape[-1] // 4
    return _plain(ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1))


@overload
def optimality_gap(scores: Scores, gamma: float = ...) -> Floats: ...
@overload
def optimality_gap(scores: GivenScores, gamma: float = ...) -> float: ...
def optimality_gap(scores: Scores | GivenScores, gamma: float = 1.0) -> Floats | float:
    r"""How far runs stay below ``gamma``, :math:`\gamma - \frac{1}{M}\sum_m \frac{1}{N_m}\sum_n \min(x_{m,n}, \gamma)`.

    Lower is better. What a run scores above ``gamma`` (1: the expert) makes up for nothing.

    Examples:
        >>> uw.optimality_gap({"hopper": [0.5, 1.2]})
        0.25
    """
    checked = as_scores(scores)
    return _plain(gamma - checked.task_means(np.minimum(checked.values, gamma)).mean(axis=-1))


@overload
def probability_of_improvement(x: Scores, y: Scores) -> Floats: ...
@overload
def probability_of_improvement(x: GivenScores, y: GivenScores) -> float: ...
def probability_of_improvement(x: Scores | GivenScores, y: Scores | GivenScores) -> Floats | float:
    r"""How likely a run of x beats a run of y on a task drawn at random: :math:`\frac{1}{M}\sum_m P_m` with

    :math:`P_m = \frac{1}{N_m K_m} \sum_{n,k} \left([x_{m,n} > y_{m,k}] + \tfrac12 [x_{m,n} = y_{m,k}]\right)`, the
    Mann-Whitney statistic of task m over its number of pairs. It says how often, not by how much. Tasks are matched by
    name (by place, where they have none); runs are not matched, and their numbers may differ.

    Examples:
        >>> uw.probability_of_improvement({"hopper": [0.5, 0.6]}, {"hopper": [0.4, 0.55]})
        0.75
    """
    first, second = pair(x, y)
    per_task = []
    for ours, theirs in zip(first.of_tasks(), second.of_tasks(), strict=True):  # [..., N_m] and [..., K_m]
        a, b = ours[..., :, None], theirs[..., None, :]
        per_task.append(((a > b).mean(axis=(-2, -1)) + (a >= b).mean(axis=(-2, -1))) / 2)
    return _plain(np.mean(per_task, axis=0))


def performance_profile(scores: Scores | GivenScores, thresholds: ArrayLike) -> Floats:
    r"""[..., K] share of runs that score more than each of K thresholds (the "score distribution").

    :math:`F(\tau) = \frac{1}{M}\sum_m \frac{1}{N_m}\sum_n [x_{m,n} > \tau]`. A curve that lies above another
    everywhere is stochastic dominance; curves that cross say for which demands each method is the better one.

    Examples:
        >>> uw.performance_profile({"hopper": [0.2, 0.5, 0.8]}, [0.0, 0.4, 0.9]).round(2)
        array([1.  , 0.67, 0.  ])
    """
    checked, given = as_scores(scores), as_thresholds(thresholds)
    values = checked.values.reshape(-1, checked.values.shape[-1])  # [B, R]
    share = np.repeat(1.0 / checked.runs, checked.runs)  # [R] what a run counts for: each task counts alike
    # A run lies above as many thresholds as there are below it: count runs by that number, then add up from the top.
    order, width = np.argsort(given), len(given) + 1
    cell = np.searchsorted(given[order], values) + width * np.arange(len(values))[:, None]  # [B, R] in [B, K + 1]
    counts = np.bincount(cell.ravel(), np.tile(share, len(values)), len(values) * width).reshape(-1, width)
    above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]  # [B, K + 1] above at least so many
    profile = np.empty((len(values), len(given)))
    profile[:, order] = above[:, 1:] / above[:, :1]
    return profile.reshape(*checked.values.shape[:-1], len(given))


def difference(statistic: Callable[[Scores], Floats]) -> Callable[[Scores, Scores], Floats]:
    """What x has more than y of a statistic: ``difference(iqm)(x, y)`` is ``iqm(x) - iqm(y)``, for intervals of pairs."""

    def of_pair(x: Scores, y: Scores) -> Floats:
        return statistic(x) - statistic(y)

    return of_pair


def as_thresholds(given: ArrayLike) -> Floats:
    """[K] checked thresholds of a profile."""
    thresholds = np.asarray(given, np.float64)
    if thresholds.ndim != 1 or not thresholds.size or np.isnan(thresholds).any():
        raise ScoreError(
            f"expected a list of thresholds without nan, such as np.linspace(0, 1, 101), found {thresholds!r}"
        )
    return thresholds


def _plain(value: Floats) -> Floats | float:
    """A float where no axis is left."""
    return value if value.ndim else float(value)
