"""Our statistics against stored values of rliable (``make_rliable_golden.py`` made them).

Points must be equal. An end of an interval is a quantile of level q, estimated by rliable from B' resamples and by us from
B. The level at which rliable's value lies in our resamples then spreads around q with variance q (1 - q) (1/B + 1/B'),
whatever the statistic: it must lie within five standard deviations. ``interval`` itself gives the quantiles at these
levels, as ends of intervals of other confidence.
"""

import itertools
import json
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from upweight.base.errors import UpweightWarning
from upweight.lab.report.statistics import aggregate, bootstrap
from upweight.lab.report.statistics.scores import Scores, as_scores

GOLDEN = json.loads(Path(__file__).with_name("rliable_golden.json").read_text())
CASES = list(GOLDEN["cases"])
RESAMPLES = 20_000
SINGLE = {
    "mean": aggregate.mean,
    "median": aggregate.median,
    "iqm": aggregate.iqm,
    "optimality_gap": lambda scores: aggregate.optimality_gap(scores, GOLDEN["gamma"]),
}
PAIRED = {
    "probability_of_improvement": aggregate.probability_of_improvement,
    "iqm_difference": aggregate.difference(aggregate.iqm),
}
Bound = Callable[..., Any]  # an interval function that lacks only its confidence


def samples(case: str, name: str) -> tuple[Scores, ...]:
    x, y = (as_scores(np.array(GOLDEN["cases"][case][key])) for key in ("x", "y"))
    return (x,) if name in SINGLE else (x, y)


def bound(case: str, name: str, statistic: Callable[..., Any] | None = None) -> Bound:
    """The interval of a statistic with the same resamples at every confidence."""
    function = bootstrap.interval if name in SINGLE else bootstrap.interval_of_pair
    chosen = statistic or (SINGLE | PAIRED)[name]
    return lambda confidence: function(  # type: ignore[operator]
        chosen, *samples(case, name), rng=np.random.default_rng(1), confidence=confidence, resamples=RESAMPLES
    )


def ends_agree(ours: Bound, theirs: dict[str, Any]) -> bool:
    level = (1 - GOLDEN["confidence"]) / 2
    slack = 5 * math.sqrt(level * (1 - level) * (1 / RESAMPLES + 1 / theirs["reps"]))
    assert slack < level / 2  # else the test would see little
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpweightWarning)  # 3 runs
        wide, narrow = ours(1 - 2 * (level - slack)), ours(1 - 2 * (level + slack))
    low, high, rounding = np.array(theirs["low"]), np.array(theirs["high"]), 1e-12
    inside = (wide.low - rounding <= low) & (low <= narrow.low + rounding)
    return bool(np.all(inside & (narrow.high - rounding <= high) & (high <= wide.high + rounding)))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SINGLE | PAIRED)
def test_points_and_intervals(case: str, name: str) -> None:
    theirs = GOLDEN["cases"][case]["estimates"][name]
    assert (SINGLE | PAIRED)[name](*samples(case, name)) == pytest.approx(theirs["point"], abs=1e-12)
    assert ends_agree(bound(case, name), theirs)


@pytest.mark.parametrize("case", CASES)
def test_profiles(case: str) -> None:
    theirs, (scores,) = GOLDEN["cases"][case]["profile"], samples(case, "iqm")
    profile = aggregate.performance_profile(scores, GOLDEN["thresholds"])
    assert profile == pytest.approx(theirs["point"], abs=1e-12)

    def band(confidence: float) -> bootstrap.ProfileBand:
        rng = np.random.default_rng(1)
        return bootstrap.profile_band(scores, GOLDEN["thresholds"], rng=rng, confidence=confidence, resamples=RESAMPLES)

    assert ends_agree(band, theirs)


# What follows shows that these tests can fail.


@pytest.mark.parametrize("case", CASES)
def test_another_statistic_would_be_noticed(case: str) -> None:
    stored = GOLDEN["cases"][case]["estimates"]
    for name, other in (("iqm", aggregate.mean), ("optimality_gap", lambda s: 1 - aggregate.mean(s))):
        assert abs(other(*samples(case, name)) - stored[name]["point"]) > 1e-3
        assert not ends_agree(bound(case, name, other), stored[name])
    points = [stored[name]["point"] for name in ("mean", "median", "iqm", "optimality_gap")]
    distinct = 4 if len(samples(case, "mean")[0].tasks) > 1 else 3  # of one task, the median is the mean
    assert len({round(point, 3) for point in points}) == distinct


def wins(x: Scores, y: Scores) -> np.ndarray:
    """P(X > Y) without the half of ties."""
    parts = zip(x.of_tasks(), y.of_tasks(), strict=True)
    return np.mean([(a[..., :, None] > b[..., None, :]).mean(axis=(-2, -1)) for a, b in parts], axis=0)


def test_ties_would_be_noticed() -> None:
    name, case = "probability_of_improvement", "20x4_ties"
    theirs = GOLDEN["cases"][case]["estimates"][name]
    assert theirs["point"] - wins(*samples(case, name)) > 0.01
    assert not ends_agree(bound(case, name, wins), theirs)


def across_tasks(scores: Scores, rng: np.random.Generator, count: int, _: object) -> Scores:
    """Wrong: draws a run of any task in the place of any other."""
    size = len(scores.values)
    return replace(scores, values=scores.values[rng.integers(size, size=(count, size))])


def one_run_short(scores: Scores, rng: np.random.Generator, count: int, _: object) -> Scores:
    """Wrong: never draws the last run of a task."""
    runs, starts = (np.repeat(each, scores.runs) for each in (scores.runs, scores.starts))
    return replace(scores, values=scores.values[starts + rng.integers(runs - 1, size=(count, len(runs)))])


def x_and_y_alike(scores: Scores, rng: np.random.Generator, count: int, _: object) -> Scores:
    """Wrong: draws the same runs for both algorithms of a pair."""
    return RESAMPLE(scores, np.random.default_rng(next(CALLS) // 2), count)  # calls alternate between the two


CALLS = itertools.count()
RESAMPLE = bootstrap.resample
WRONG = [("5x8", "iqm", across_tasks), ("20x4_ties", "mean", across_tasks), ("10x1", "median", one_run_short)]


@pytest.mark.parametrize(
    ("case", "name", "wrong"),
    [*WRONG, ("3x30", "iqm_difference", x_and_y_alike)],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_another_way_to_resample_would_be_noticed(
    case: str, name: str, wrong: Callable[..., Scores], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "resample", wrong)
    assert not ends_agree(bound(case, name), GOLDEN["cases"][case]["estimates"][name])


def test_a_shifted_interval_would_be_noticed() -> None:
    for case in CASES:
        theirs = GOLDEN["cases"][case]["estimates"]["iqm"]
        shift = 0.1 * (theirs["high"] - theirs["low"])
        for sign in (-1, 1):
            moved = theirs | {end: theirs[end] + sign * shift for end in ("low", "high")}
            assert not ends_agree(bound(case, "iqm"), moved)
