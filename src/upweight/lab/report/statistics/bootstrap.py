r"""How sure a statistic is: percentile intervals of the stratified bootstrap.

A resample draws as many runs as there are, with replacement, within each task; tasks stay. The statistic of B resamples
spreads about as it would over repetitions of the experiment with new seeds, and the interval holds the middle
``confidence`` of them: quantiles :math:`(1 - c)/2` and :math:`(1 + c)/2`.

With ``over_tasks`` a resample draws tasks too, and then runs of those: repetitions with new seeds on other tasks of the kind.
Few tasks make that interval too narrow, as few runs do the other. Where some tasks are draws of one kind (a dataset collected
twice), a resample draws kinds, then draws of each, then runs.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import finite_number, whole_number
from upweight.base.errors import UpweightWarning
from upweight.lab.report.statistics.aggregate import as_thresholds, performance_profile
from upweight.lab.report.statistics.scores import GivenScores, ScoreError, Scores, as_scores, pair

FEW_RUNS = 5  # below, intervals are much too narrow, and a warning says so
CHUNK = 500  # resamples at a time: bounds memory, and stays in the processor's cache

Floats = NDArray[np.float64]
OverTasks = bool | Mapping[str, str]  # whether tasks are resampled too; a mapping says the kind that each is a draw of


@dataclass(frozen=True)
class Estimate:
    """A statistic with its interval."""

    point: float
    low: float
    high: float
    confidence: float
    runs: int  # of the task that has fewest: what the interval rests on

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class ProfileBand:
    """A performance profile with an interval at each threshold (not a band for the curve as a whole)."""

    thresholds: Floats = field(repr=False)  # [K]
    point: Floats = field(repr=False)  # [K] share of runs above each threshold
    low: Floats = field(repr=False)  # [K]
    high: Floats = field(repr=False)  # [K]
    confidence: float
    runs: int  # of the task that has fewest

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in vars(self).items()}


def interval(
    statistic: Callable[[Scores], Floats],
    scores: Scores | GivenScores,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Estimate:
    """A statistic of one algorithm's scores: ``interval(iqm, scores, rng=rng)``.

    ``statistic`` takes :class:`Scores` with values [..., R] and gives [...]. Those of ``aggregate`` do; others are made
    of them, ``lambda s: optimality_gap(s, 0.5)``, or of ``s.values`` and ``s.task_means``.

    Examples:
        >>> found = uw.interval(uw.iqm, {"hopper": [0.1, 0.4, 0.5, 0.6, 0.9]}, rng=np.random.default_rng(0))
        >>> round(found.low, 2), found.point, round(found.high, 2)
        (0.23, 0.5, 0.8)
    """
    checked = as_scores(scores)
    point, low, high = _percentiles(statistic, (checked,), rng, confidence, resamples)
    return Estimate(float(point), float(low), float(high), confidence, checked.fewest_runs)


def interval_of_pair(
    statistic: Callable[[Scores, Scores], Floats],
    x: Scores | GivenScores,
    y: Scores | GivenScores,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
    over_tasks: OverTasks = False,
) -> Estimate:
    """A statistic of two algorithms on the same tasks, with its bootstrap interval.

    Runs of x and of y are resampled independently: run 3 of one has nothing to do with run 3 of the other.

    Args:
        statistic: ``probability_of_improvement``, ``difference(iqm)``, or another function of both scores.
        x: the scores of one algorithm: a mapping from tasks to the scores of its runs.
        y: the scores of the other, on the same tasks.
        rng: the generator that resamples.
        confidence: the probability that the interval is made for.
        resamples: how many resamples the interval is made from.
        over_tasks: whether tasks are resampled too, the same for both; or a mapping that says of which kind each task is a draw.

    Examples:
        >>> rw, uniform = {"hopper": [0.5, 0.6, 0.7, 0.8, 0.9]}, {"hopper": [0.1, 0.2, 0.3, 0.4, 0.55]}
        >>> found = uw.interval_of_pair(uw.probability_of_improvement, rw, uniform, rng=np.random.default_rng(0))
        >>> round(found.low, 2), round(found.point, 2), round(found.high, 2)
        (0.76, 0.96, 1.0)
    """
    first, second = pair(x, y)
    point, low, high = _percentiles(statistic, (first, second), rng, confidence, resamples, over_tasks=over_tasks)
    fewest = min(first.fewest_runs, second.fewest_runs)
    return Estimate(float(point), float(low), float(high), confidence, fewest)


def profile_band(
    scores: Scores | GivenScores,
    thresholds: ArrayLike,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> ProfileBand:
    """The performance profile of one algorithm, with an interval at each threshold."""
    checked, at = as_scores(scores), as_thresholds(thresholds)

    def profile(drawn: Scores) -> Floats:
        return performance_profile(drawn, at)

    point, low, high = _percentiles(profile, (checked,), rng, confidence, resamples)
    return ProfileBand(at, point, low, high, confidence, checked.fewest_runs)


def resample(scores: Scores, rng: np.random.Generator, count: int, tasks: NDArray[np.int64] | None = None) -> Scores:
    """``count`` resamples, [count, R]: runs drawn with replacement within each task.

    ``tasks`` [count, tasks] says whose runs replace each task's; without, its own. There are as many as the task
    in whose place they stand has.
    """
    own = np.repeat(np.arange(len(scores.runs)), scores.runs)  # [R] each run's task
    whose = own if tasks is None else tasks[:, own]  # [R] or [count, R]
    places = scores.starts[whose] + rng.integers(scores.runs[whose], size=(count, len(own)))
    return replace(scores, values=scores.values[places])


def _percentiles(
    statistic: Callable[..., Floats],
    samples: tuple[Scores, ...],
    rng: np.random.Generator,
    confidence: float,
    resamples: int,
    *,
    over_tasks: OverTasks = False,
) -> tuple[Floats, Floats, Floats]:
    """The statistic itself and the two ends of its interval; each has the shape of the statistic."""
    _check_settings(rng, confidence, resamples)
    _warn_of_few_runs(samples)
    point = np.asarray(statistic(*samples), np.float64)
    if not over_tasks and all(scores.runs.max() == 1 for scores in samples):
        return point, point, point
    names = samples[0].tasks
    kinds = names if over_tasks is True or not over_tasks else [over_tasks[name] for name in names]
    drawn = []  # of [count, ...]
    for first in range(0, resamples, CHUNK):
        count = min(CHUNK, resamples - first)
        tasks = _draw_tasks(kinds, rng, count) if over_tasks else None
        drawn.append(np.asarray(statistic(*(resample(scores, rng, count, tasks) for scores in samples))))
        if drawn[-1].shape != (count, *point.shape):
            raise ScoreError(
                f"expected the statistic of {count} resamples as an array {(count, *point.shape)}, found shape "
                f"{drawn[-1].shape}: reduce only the last axis of the values, [..., R] -> [...]"
            )
    tail = (1.0 - confidence) / 2.0
    low, high = np.quantile(np.concatenate(drawn), [tail, 1.0 - tail], axis=0)
    return point, low, high


def _draw_tasks(kinds: Sequence[str], rng: np.random.Generator, count: int) -> NDArray[np.int64]:
    """[count, tasks] the task whose runs replace each task's: a kind for all tasks of a kind, then one of its own tasks."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(kinds))}
    kind = np.array([numbers[name] for name in kinds])  # [tasks]
    sizes = np.bincount(kind)  # [kinds]
    by_kind, starts = np.argsort(kind, kind="stable"), np.cumsum(sizes) - sizes
    drawn = rng.integers(len(sizes), size=(count, len(sizes)))[:, kind]  # [count, tasks] a kind
    places = starts[drawn] + (rng.integers(sizes[drawn]) if sizes.max() > 1 else 0)
    return np.asarray(by_kind[places], np.int64)


def _check_settings(rng: np.random.Generator, confidence: float, resamples: int) -> None:
    if not isinstance(rng, np.random.Generator):
        raise ScoreError(f"expected rng to be a numpy Generator, found {rng!r}: give np.random.default_rng(seed)")
    finite_number("confidence", confidence, above=0, below=1, error=ScoreError)
    whole_number("resamples", resamples, least=1, error=ScoreError)


def _warn_of_few_runs(samples: tuple[Scores, ...]) -> None:
    scores = min(samples, key=lambda each: each.fewest_runs)
    task, runs = scores.tasks[int(scores.runs.argmin())], scores.fewest_runs
    if runs >= FEW_RUNS:
        return
    if all(each.runs.max() == 1 for each in samples):
        found = "there is one run per task, and one run says nothing about spread: the interval is the point itself"
    elif runs == 1:
        found = f"task {task!r} has one run, and one run says nothing about spread: the interval leaves that task's out"
    else:
        found = f"task {task!r} has {runs} runs: the interval is narrower than what new seeds would show"
    warnings.warn(f"{found}; train at least {FEW_RUNS} seeds per task", UpweightWarning, stacklevel=4)
