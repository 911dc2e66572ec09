import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from upweight.lab.report.statistics.ranks import adjust, rank_correlation, rank_test

SAMPLES = st.lists(st.integers(0, 4), min_size=2, max_size=4)


def test_five_against_five_by_hand() -> None:
    """Of the 252 orders, complete separation has two; the next worst two more."""
    low, high = [1.0, 2, 3, 4, 5], [6.0, 7, 8, 9, 10]
    assert rank_test(low, high) == rank_test(high, low) == pytest.approx(2 / 252)
    assert rank_test([1.0, 2, 3, 4, 6], [5.0, 7, 8, 9, 10]) == pytest.approx(4 / 252)
    assert rank_test(low, low) == 1.0


@given(SAMPLES, SAMPLES)
def test_with_ties_it_is_the_permutation_test(x: list[int], y: list[int]) -> None:
    ranks = stats.rankdata([*x, *y])
    found = stats.permutation_test(
        (ranks[: len(x)], ranks[len(x) :]), lambda a, b: np.sum(a), n_resamples=np.inf, alternative="two-sided"
    )
    sums, mean = found.null_distribution, len(x) * (len(ranks) + 1) / 2
    expected = np.mean(np.abs(sums - mean) >= abs(found.statistic - mean) - 1e-9)
    assert rank_test(x, y) == pytest.approx(expected)


def test_without_ties_it_is_scipys() -> None:
    rng = np.random.default_rng(0)
    for sizes in ((5, 5), (5, 8), (20, 20)):
        x, y = rng.normal(0.5, size=sizes[0]), rng.normal(size=sizes[1])
        assert rank_test(x, y) == pytest.approx(stats.mannwhitneyu(x, y, method="exact").pvalue)


def test_adjusted_p_values_are_scipys() -> None:
    rng = np.random.default_rng(0)
    p_values = rng.uniform(size=40) ** 3
    assert adjust(p_values) == pytest.approx(stats.false_discovery_control(p_values))


def test_rank_correlation_is_scipys_also_of_many_samples() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(6, size=(3, 12)), rng.normal(size=(3, 12))
    expected = [stats.spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)]
    assert rank_correlation(x, y) == pytest.approx(expected)
    assert np.isnan(rank_correlation(x, np.ones((3, 12)))).all() and np.isnan(rank_correlation(np.ones(5), x[0, :5]))


def test_partial_correlation_is_that_of_what_the_third_leaves() -> None:
    rng = np.random.default_rng(0)
    third = rng.permutation(30).astype(float)
    x, y = rng.permutation(30) + third, rng.permutation(30) - third
    ranks = [stats.rankdata(each) for each in (x, y)]
    left = [each - np.polyval(np.polyfit(stats.rankdata(third), each, 1), stats.rankdata(third)) for each in ranks]
    assert rank_correlation(x, y, third) == pytest.approx(np.corrcoef(*left)[0, 1])
    assert np.isnan(rank_correlation(x, third, third))  # nothing is left
    assert rank_correlation(x, y, np.ones(30)) == rank_correlation(x, y)  # all of it is left
