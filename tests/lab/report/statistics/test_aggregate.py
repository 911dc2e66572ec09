import numpy as np
import pytest
import scipy.stats
from hypothesis import given, strategies as st

from upweight.lab.report.statistics.aggregate import (
    difference,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)
from upweight.lab.report.statistics.scores import ScoreError, Scores, as_scores

Ragged = dict[str, list[float]]
score = st.one_of(st.floats(-10, 10), st.sampled_from([0.0, 0.5, 1.0]))  # with ties
runs = st.lists(score, min_size=1, max_size=8)
tasks = st.dictionaries(st.text("abcde", min_size=1, max_size=2), runs, min_size=1, max_size=6)
STATISTICS = {"mean": mean, "median": median, "iqm": iqm}


def pooled(scores: Ragged) -> np.ndarray:
    return np.concatenate([np.asarray(values) for values in scores.values()])


def test_by_hand() -> None:
    scores = np.array([[0.0, 0.2, 2.0], [0.4, 0.4, 1.0]])  # task means 0.2, 0.3, 1.5
    assert mean(scores) == pytest.approx(2.0 / 3)
    assert median(scores) == pytest.approx(0.3)
    assert iqm(scores) == pytest.approx((0.2 + 0.4 + 0.4 + 1.0) / 4)  # 6 runs: one from each end
    assert optimality_gap(scores) == pytest.approx(1 - (0.2 + 0.3 + 1.0) / 3)
    assert optimality_gap(scores, gamma=0.4) == pytest.approx(0.4 - (0.2 + 0.3 + 0.4) / 3)


@pytest.mark.parametrize(("count", "expected"), [(1, 1.0), (2, 1.5), (3, 2.0), (4, 2.5), (5, 3.0), (7, 4.0), (8, 4.5)])
def test_iqm_drops_a_quarter_rounded_down_at_each_end(count: int, expected: float) -> None:
    values = np.arange(1.0, count + 1)
    assert iqm([values]) == expected
    values[-1] = 1000.0
    assert (iqm([values]) == expected) == (count >= 4)  # fewer runs than four: nothing is dropped


def test_by_hand_with_unequal_runs() -> None:
    scores = {"a": [0.0, 0.0, 0.0, 0.8], "b": [1.0], "c": [0.5, 1.5]}
    assert mean(scores) == pytest.approx((0.2 + 1 + 1) / 3)  # every task counts alike
    assert median(scores) == pytest.approx(1.0)
    assert iqm(scores) == pytest.approx((0 + 0 + 0.5 + 0.8 + 1) / 5)  # every run counts alike
    assert optimality_gap(scores) == pytest.approx(1 - (0.2 + 1 + 0.75) / 3)
    assert performance_profile(scores, [0.5]).tolist() == pytest.approx([(0.25 + 1 + 0.5) / 3])


def test_probability_of_improvement_by_hand() -> None:
    assert probability_of_improvement([[1, 2, 3]], [[0]]) == 1.0
    assert probability_of_improvement([[1, 2]], [[1, 2]]) == 0.5
    assert probability_of_improvement([[1, 2]], [[1, 3]]) == pytest.approx((0.5 + 0 + 1 + 0) / 4)
    # The mean over tasks, not over pairs of runs, and by name.
    x, y = {"a": [1, 1, 1], "b": [0]}, {"b": [1], "a": [0, 0]}
    assert probability_of_improvement(x, y) == 0.5


def test_profile_counts_what_lies_strictly_above() -> None:
    scores = [[0.0, 0.5, 0.5, 1.0]]
    assert performance_profile(scores, [-1, 0, 0.4, 0.5, 0.9, 1.0]).tolist() == [1, 0.75, 0.75, 0.25, 0.25, 0]
    assert performance_profile(scores, [0.5, -1.0, 0.5, 0.0]).tolist() == [0.25, 1, 0.25, 0.75]  # in any order


def test_difference_is_x_minus_y() -> None:
    x, y = as_scores([[1.0, 2.0]]), as_scores([[5.0]])
    assert difference(mean)(x, y) == -3.5


@pytest.mark.parametrize("thresholds", [[], 0.5, [[0.1]], [0.1, np.nan]])
def test_profile_refuses_other_thresholds(thresholds: object) -> None:
    with pytest.raises(ScoreError, match="list of thresholds"):
        performance_profile([[1.0]], thresholds)  # type: ignore[arg-type]


def test_a_diverged_run_is_refused() -> None:
    bad = {"a": [1.0, np.nan]}
    for statistic in (mean, median, iqm, optimality_gap):
        with pytest.raises(ScoreError, match="found nan in run 1 of task 'a'"):
            statistic(bad)
    with pytest.raises(ScoreError, match="found nan"):
        probability_of_improvement({"a": [1.0]}, bad)
    with pytest.raises(ScoreError, match="found nan"):
        performance_profile(bad, [0.5])


@given(tasks)
def test_as_scipy_computes_it(scores: Ragged) -> None:
    assert iqm(scores) == pytest.approx(scipy.stats.trim_mean(pooled(scores), 0.25), abs=1e-12)
    assert mean(scores) == pytest.approx(np.mean([np.mean(values) for values in scores.values()]), abs=1e-12)
    assert median(scores) == pytest.approx(np.median([np.mean(values) for values in scores.values()]), abs=1e-12)


@given(runs, runs)
def test_probability_of_improvement_is_mann_whitney(x: list[float], y: list[float]) -> None:
    expected = scipy.stats.mannwhitneyu(x, y, method="asymptotic").statistic / (len(x) * len(y))
    assert probability_of_improvement([x], [y]) == pytest.approx(expected, abs=1e-12)


@given(tasks)
def test_lie_between_the_worst_and_the_best_run(scores: Ragged) -> None:
    low, high = pooled(scores).min() - 1e-9, pooled(scores).max() + 1e-9
    assert all(low <= statistic(scores) <= high for statistic in STATISTICS.values())


@given(tasks, st.randoms(use_true_random=False))
def test_order_of_runs_and_tasks_does_not_matter(scores: Ragged, random: object) -> None:
    names = list(scores)
    random.shuffle(names)  # type: ignore[attr-defined]
    shuffled = {name: random.sample(scores[name], len(scores[name])) for name in names}  # type: ignore[attr-defined]
    for statistic in (*STATISTICS.values(), optimality_gap):
        assert statistic(shuffled) == pytest.approx(statistic(scores), abs=1e-12)
    assert performance_profile(shuffled, [0.5]) == pytest.approx(performance_profile(scores, [0.5]), abs=1e-12)
    assert probability_of_improvement(shuffled, scores) == pytest.approx(0.5, abs=1e-12)


@given(tasks, st.floats(0.1, 100), st.floats(-100, 100))
def test_follow_a_change_of_unit(scores: Ragged, factor: float, shift: float) -> None:
    scaled = {name: [factor * value + shift for value in values] for name, values in scores.items()}
    for statistic in STATISTICS.values():
        assert statistic(scaled) == pytest.approx(factor * statistic(scores) + shift, abs=1e-9)
    gap = optimality_gap(scaled, gamma=factor * 0.7 + shift)
    assert gap == pytest.approx(factor * optimality_gap(scores, gamma=0.7), abs=1e-9)


@given(st.lists(st.tuples(runs, runs), min_size=1, max_size=6))
def test_improvement_one_way_is_none_the_other_way(pairs: list[tuple[list[float], list[float]]]) -> None:
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    forth, back = probability_of_improvement(x, y), probability_of_improvement(y, x)
    assert forth + back == pytest.approx(1, abs=1e-12)
    assert 0 <= forth <= 1


@given(tasks, st.floats(-10, 10), st.floats(0, 5))
def test_gap_is_what_is_missing(scores: Ragged, gamma: float, more: float) -> None:
    gap = optimality_gap(scores, gamma)
    assert gap >= -1e-12
    assert gap >= gamma - mean(scores) - 1e-9
    if gamma >= pooled(scores).max():
        assert gap == pytest.approx(gamma - mean(scores), abs=1e-9)
    if gamma <= pooled(scores).min():
        assert gap == pytest.approx(0, abs=1e-9)
    assert optimality_gap(scores, gamma + more) >= gap - 1e-9


@given(tasks, st.lists(score, min_size=1, max_size=12))
def test_profile_falls_from_one_to_zero_and_counts_runs(scores: Ragged, thresholds: list[float]) -> None:
    at = np.array([-11.0, *sorted(thresholds), 11.0])
    profile = performance_profile(scores, at)
    assert profile[0] == 1.0
    assert profile[-1] == 0.0
    assert np.all(np.diff(profile) <= 0)
    counted = [np.mean([np.mean(np.array(values) > tau) for values in scores.values()]) for tau in at]
    assert profile == pytest.approx(counted, abs=1e-12)


@given(tasks, st.integers(1, 4))
def test_leading_axes_are_one_experiment_each(scores: Ragged, count: int) -> None:
    one = as_scores(scores)
    values = one.values + np.arange(2 * count).reshape(2, count, 1)  # [2, count, R]
    batch = Scores(one.tasks, one.runs, values)
    for place in np.ndindex(2, count):
        single = Scores(one.tasks, one.runs, values[place])
        for statistic in (mean, median, iqm, optimality_gap):
            assert statistic(batch)[place] == pytest.approx(statistic(single), abs=1e-12)
        at = [0.0, 3.0]
        assert performance_profile(batch, at)[place] == pytest.approx(performance_profile(single, at), abs=1e-12)
        improvement = probability_of_improvement(batch, Scores(one.tasks, one.runs, values[::-1]))
        assert improvement.shape == (2, count)
