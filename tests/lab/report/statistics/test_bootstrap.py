import itertools
import json
import warnings

import numpy as np
import pytest

from upweight.base.errors import UpweightWarning
from upweight.lab.report.statistics import bootstrap
from upweight.lab.report.statistics.aggregate import (
    difference,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)
from upweight.lab.report.statistics.bootstrap import Estimate, interval, interval_of_pair, profile_band, resample
from upweight.lab.report.statistics.scores import ScoreError, as_scores


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(runs: int, tasks: int, seed: int = 0) -> np.ndarray:
    return rng(seed).normal(0.5, 0.2, (runs, tasks))


def test_resamples_draw_every_run_of_a_task_equally_often_and_no_other() -> None:
    scores = as_scores({"a": [0.0, 1.0, 2.0], "b": [10.0], "c": [20.0, 21.0]})
    drawn = resample(scores, rng(), 30_000)
    assert drawn.values.shape == (30_000, 6)
    for values, known in zip(drawn.of_tasks(), ([0, 1, 2], [10], [20, 21]), strict=True):
        found, counts = np.unique(values, return_counts=True)
        assert found.tolist() == known
        assert counts / values.size == pytest.approx(1 / len(known), abs=0.01)
    # Draws are independent: over the two places of task c, all four pairs are as likely.
    pairs = drawn.of_tasks()[2] @ [2, 1] - 60
    assert np.bincount(pairs.astype(int), minlength=4) / 30_000 == pytest.approx(0.25, abs=0.015)


def test_interval_against_all_resamples_of_a_small_experiment() -> None:
    scores = [[0.0, 1.0, 5.0, 6.0, 9.0]]
    all_means = np.sort([np.mean(drawn) for drawn in itertools.product(scores[0], repeat=5)])  # 3125, equally likely
    found = interval(mean, scores, rng=rng(), confidence=0.8, resamples=50_000)
    assert found.point == pytest.approx(4.2)
    assert found.low == pytest.approx(np.quantile(all_means, 0.1), abs=0.1)
    assert found.high == pytest.approx(np.quantile(all_means, 0.9), abs=0.1)


def test_spread_between_tasks_is_no_uncertainty() -> None:
    scores = {"easy": [0.9] * 5, "hard": [0.1] * 7, "middle": [0.5] * 6}
    for statistic in (mean, median, iqm, optimality_gap):
        found = interval(statistic, scores, rng=rng())
        assert (found.low, found.high) == pytest.approx((found.point, found.point), abs=1e-12)
        assert found.runs == 5


def test_over_tasks_the_spread_between_them_counts_and_both_algorithms_meet_on_the_same() -> None:
    x = {"easy": [0.9] * 5, "hard": [0.1] * 7, "middle": [0.5] * 6}
    y = {task: [values[0] - gain] * 5 for (task, values), gain in zip(x.items(), (0.3, 0.1, 0.2), strict=True)}
    found = interval_of_pair(difference(mean), x, y, rng=rng(), over_tasks=True)
    assert found.point == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.1, 0.3))  # 1 resample in 27 is of one task alone
    alike = interval_of_pair(
        difference(mean), x, {task: [values[0] - 0.2] * 5 for task, values in x.items()}, rng=rng()
    )
    assert (alike.low, alike.high) == pytest.approx((0.2, 0.2))  # tasks differ, the gain does not


@pytest.mark.filterwarnings("ignore:task")
def test_over_tasks_against_all_resamples_of_a_small_experiment() -> None:
    scores = [[0.0, 1.0, 2.5], [4.0, 9.0, 12.0]]
    tasks = [[np.mean(runs) for runs in itertools.product(task, repeat=3)] for task in scores]
    means = [(a + b) / 2 for pair in itertools.product(tasks, repeat=2) for a, b in itertools.product(*pair)]
    zero = [[0.0], [0.0]]
    found = interval_of_pair(
        difference(mean), scores, zero, rng=rng(), confidence=0.8, resamples=50_000, over_tasks=True
    )
    assert (found.low, found.high) == pytest.approx(np.quantile(means, [0.1, 0.9]).tolist(), abs=0.1)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    generator = rng(1)
    held = 0
    for _ in range(300):
        scores = {"a": generator.normal(0.2, 0.1, 20), "b": generator.normal(0.8, 0.3, 25)}
        found = interval(mean, scores, rng=generator, confidence=0.9, resamples=300)
        held += found.low <= 0.5 <= found.high
    assert 0.82 <= held / 300 <= 0.94  # percentile intervals of 20 runs are a little narrow


def test_the_interval_grows_with_confidence_and_shrinks_with_runs() -> None:
    few, many = normal(5, 4), normal(80, 4)

    def width(scores: np.ndarray, confidence: float) -> float:
        found = interval(iqm, scores, rng=rng(), confidence=confidence)
        assert found.low <= found.point <= found.high
        return found.high - found.low

    assert width(few, 0.5) < width(few, 0.95) < width(few, 0.999)
    assert width(many, 0.95) < width(few, 0.95) / 2


def test_the_same_generator_gives_the_same_interval_and_goes_on() -> None:
    scores, generator = normal(6, 3), rng(3)
    first, second = (interval(iqm, scores, rng=generator) for _ in range(2))
    assert first == interval(iqm, scores, rng=rng(3))
    assert first != second


def test_any_number_of_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(scores: bootstrap.Scores) -> np.ndarray:
        sizes.append(scores.values[..., 0].size)
        return mean(scores)

    monkeypatch.setattr(bootstrap, "CHUNK", 100)
    interval(counted, normal(5, 2), rng=rng(), resamples=250)
    assert sizes == [1, 100, 100, 50]


def test_pairs_are_resampled_independently() -> None:
    scores = normal(5, 3)
    found = interval_of_pair(probability_of_improvement, scores, scores.copy(), rng=rng())
    assert found.point == 0.5
    assert found.low < 0.45  # drawn together, x would equal y in every resample
    assert found.high > 0.55
    spread = interval_of_pair(difference(iqm), scores, scores, rng=rng())
    assert spread.point == 0
    assert spread.low < -0.01 < 0.01 < spread.high


def test_the_variance_of_a_difference_is_the_sum_of_the_variances() -> None:
    x, y = normal(10, 4, seed=1), normal(40, 4, seed=2)
    one, other = (interval(mean, scores, rng=rng(), resamples=20_000) for scores in (x, y))
    both = interval_of_pair(difference(mean), x, y, rng=rng(5), resamples=20_000)
    assert both.point == pytest.approx(one.point - other.point)
    width = np.hypot(one.high - one.low, other.high - other.low)
    assert both.high - both.low == pytest.approx(width, rel=0.03)
    assert both.runs == 10


def test_pairs_with_unequal_runs_in_any_order_of_tasks() -> None:
    x = {"a": normal(5, 1)[:, 0], "b": normal(9, 1, 1)[:, 0]}
    y = {"b": normal(6, 1, 2)[:, 0], "a": normal(7, 1, 3)[:, 0]}
    found = interval_of_pair(probability_of_improvement, x, y, rng=rng())
    assert found == interval_of_pair(probability_of_improvement, x, {"a": y["a"], "b": y["b"]}, rng=rng())
    assert found.point == probability_of_improvement(x, y)
    assert found.runs == 5


def test_profile_band_is_an_interval_at_each_threshold() -> None:
    scores, at = {"a": normal(8, 1)[:, 0], "b": normal(5, 1, 1)[:, 0]}, np.linspace(-1, 2, 31)
    band = profile_band(scores, at, rng=rng())
    assert band.point.tolist() == performance_profile(scores, at).tolist()
    assert np.all((band.low <= band.point) & (band.point <= band.high))
    assert np.all(np.diff(band.low) <= 0)
    assert np.all(np.diff(band.high) <= 0)
    one = interval(lambda drawn: performance_profile(drawn, [at[15]])[..., 0], scores, rng=rng())
    assert (one.low, one.high) == (band.low[15], band.high[15])
    assert (band.low[0], band.high[0], band.low[-1], band.high[-1]) == (1, 1, 0, 0)
    stored = json.loads(json.dumps(band.to_dict()))
    assert stored["low"] == band.low.tolist()
    assert stored["runs"] == 5


def test_an_estimate_is_json_able() -> None:
    found = interval(iqm, normal(5, 2), rng=rng(), confidence=0.9)
    assert Estimate(**json.loads(json.dumps(found.to_dict()))) == found
    assert found.confidence == 0.9


@pytest.mark.parametrize("runs", [2, 4])
def test_few_runs_warn_once_per_call(runs: int) -> None:
    with pytest.warns(UpweightWarning, match=f"task 'hard' has {runs} runs.*at least 5 seeds") as caught:
        interval(iqm, {"easy": [0.1] * 9, "hard": np.arange(float(runs)), "other": np.arange(4.0)}, rng=rng())
    assert len(caught) == 1
    assert caught[0].filename == __file__  # it points at the caller
    with pytest.warns(UpweightWarning, match=f"has {runs} runs") as caught:
        interval_of_pair(probability_of_improvement, normal(6, 2), normal(runs, 2), rng=rng())
    assert (len(caught), caught[0].filename) == (1, __file__)
    with pytest.warns(UpweightWarning, match=f"has {runs} runs") as caught:
        profile_band(normal(runs, 2), [0.5], rng=rng())
    assert (len(caught), caught[0].filename) == (1, __file__)


def test_enough_runs_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        interval(iqm, normal(5, 2), rng=rng())


def test_one_run_says_nothing_about_spread() -> None:
    scores = normal(1, 7)
    with pytest.warns(UpweightWarning, match="one run says nothing about spread: the interval is the point") as caught:
        found = interval(iqm, scores, rng=rng())
    assert len(caught) == 1
    assert found.low == found.point == found.high == iqm(scores)
    assert found.runs == 1
    with pytest.warns(UpweightWarning, match="says nothing"):
        band = profile_band(scores, [0.4, 0.6], rng=rng())
    assert band.low.tolist() == band.high.tolist() == performance_profile(scores, [0.4, 0.6]).tolist()


def test_one_task_with_one_run_is_left_out_of_the_spread() -> None:
    with pytest.warns(UpweightWarning, match="task 'b' has one run.*leaves that task's out"):
        found = interval(mean, {"a": [0.0, 0.2, 0.4, 0.6, 0.8], "b": [3.0]}, rng=rng())
    alone = interval(mean, {"a": [0.0, 0.2, 0.4, 0.6, 0.8]}, rng=rng(), resamples=20_000)
    assert found.high - found.low == pytest.approx((alone.high - alone.low) / 2, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"confidence": 95}, "confidence: expected a number above 0 and below 1, found 95"),
        ({"confidence": 0.0}, "confidence: expected a number above 0 and below 1"),
        ({"resamples": 0}, "resamples: expected a whole number of at least 1, found 0"),
        ({"rng": 7}, r"numpy Generator, found 7: give np.random.default_rng\(seed\)"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ScoreError, match=message):
        interval(iqm, normal(5, 2), **({"rng": rng()} | settings))  # type: ignore[arg-type]


def test_a_statistic_must_keep_the_resamples_apart() -> None:
    with pytest.raises(ScoreError, match=r"array \(500,\), found shape \(\): reduce only the last axis"):
        interval(lambda scores: scores.values.max(), normal(5, 2), rng=rng())
    found = interval(lambda scores: scores.values.max(axis=-1), normal(5, 2), rng=rng())
    assert found.high == found.point == normal(5, 2).max()


def test_draws_of_one_kind_are_no_further_kinds() -> None:
    """Two kinds, fifty draws of each: which kinds there are stays as uncertain as with one draw of each."""
    draws = {f"{kind} {draw}": [level] * 5 for kind, level in (("a", 0.0), ("b", 1.0)) for draw in range(50)}
    zero = dict.fromkeys(draws, [0.0] * 5)
    kinds = {name: name.split()[0] for name in draws}
    apart, alike = (
        interval_of_pair(difference(mean), draws, zero, rng=rng(), over_tasks=over) for over in (True, kinds)
    )
    assert 0.3 < apart.low < apart.high < 0.7
    assert (alike.low, alike.high) == (0.0, 1.0)


def test_draws_within_a_kind_are_resampled() -> None:
    """All are of one kind: that is drawn every time, and its draws as if they were tasks."""
    draws = {"first": [0.0] * 5, "second": [1.0] * 5}
    zero = dict.fromkeys(draws, [0.0] * 5)
    found = interval_of_pair(difference(mean), draws, zero, rng=rng(), over_tasks=dict.fromkeys(draws, "mix"))
    assert (found.point, found.low, found.high) == (0.5, 0.0, 1.0)


def test_a_draw_of_each_kind_is_what_tasks_are() -> None:
    x, y = ({str(task): rng(task + shift).random(5) for task in range(6)} for shift in (0, 9))
    plain, named = (
        interval_of_pair(difference(mean), x, y, rng=rng(), over_tasks=over) for over in (True, {t: t for t in x})
    )
    assert plain == named
