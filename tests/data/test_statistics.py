import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, strategies as st

import upweight as uw
from support.datasets import with_returns
from upweight.data.statistics import mean_ranks

weights_ = st.lists(st.floats(0.01, 1), min_size=1, max_size=30)


@given(st.integers(1, 200), st.data())
def test_bernoulli_psv_is_p_times_one_minus_p_squared(count: int, data: st.DataObject) -> None:
    ones = data.draw(st.integers(0, count))
    p = ones / count
    values = [1.0] * ones + [0.0] * (count - ones)
    assert uw.positive_sided_variance(values) == pytest.approx(p * (1 - p) ** 2, abs=1e-12)


def test_bernoulli_psv_is_largest_at_one_third() -> None:
    shares = np.arange(0, 301) / 300
    psv = [uw.positive_sided_variance([1.0] * round(300 * p) + [0.0] * (300 - round(300 * p))) for p in shares]
    assert shares[int(np.argmax(psv))] == pytest.approx(1 / 3)
    assert max(psv) == pytest.approx(4 / 27)


def test_the_papers_counter_example_lucky_returns_fool_the_weighted_return() -> None:
    """Arm 1 pays 0.6, arm 2 a fair coin. Keeping returns above 0.8 keeps only lucky coins: the estimate is 1, the
    policy it describes (always arm 2) is worth 0.5."""
    rng = np.random.default_rng(0)
    coins = rng.integers(0, 2, 500).astype(float)
    returns = np.concatenate([np.full(500, 0.6), coins])
    weights = (returns > 0.8).astype(float)
    assert uw.weighted_return(weights, returns) == pytest.approx(1.0)
    chosen_arm = np.repeat([1, 2], 500)[weights > 0]
    true_value = np.where(chosen_arm == 1, 0.6, 0.5).mean()
    assert true_value == 0.5
    assert uw.weighted_label_return(weights, returns, np.repeat(["sure", "coin"], 500)) == pytest.approx(coins.mean())
    # RW leans the same way: its estimate lies above what any arm is worth.
    rw = uw.ReturnWeighting(0.1)(with_returns(returns))
    assert uw.weighted_return(rw, returns) > 0.9


@given(weights_)
def test_effective_episodes_lie_between_one_and_n(values: list[float]) -> None:
    left = uw.effective_episodes(values)
    assert 1 - 1e-9 <= left <= len(values) + 1e-9


def test_effective_sample_sizes_by_hand() -> None:
    assert uw.effective_episodes([1, 1, 1, 1]) == 4
    assert uw.effective_episodes([1, 0, 0, 0]) == 1
    assert uw.effective_episodes([3, 1]) == pytest.approx(16 / 10)
    assert uw.effective_steps([1, 1], [2, 5]) == 7
    assert uw.effective_steps([3, 1], [2, 5]) == pytest.approx((6 + 5) ** 2 / (2 * 9 + 5))


@given(weights_, st.floats(0.1, 10))
def test_scale_of_weights_does_not_matter(values: list[float], factor: float) -> None:
    scaled = [factor * value for value in values]
    assert uw.effective_episodes(values) == pytest.approx(uw.effective_episodes(scaled))


def test_the_two_weighted_returns_differ_with_length() -> None:
    weights, returns, steps = [0.5, 0.5], [0.0, 10.0], [1, 9]
    assert uw.weighted_return(weights, returns) == 5.0
    assert uw.step_weighted_return(weights, returns, steps) == 9.0


def test_hoeffding_has_its_minus_sign() -> None:
    weights = np.full(100, 0.01)
    probability = uw.hoeffding_probability(weights, return_range=1.0, epsilon=0.2)
    assert probability == pytest.approx(2 * math.exp(-2 * 0.04 * 100))
    assert uw.hoeffding_probability(weights, return_range=1.0, epsilon=0.4) < probability
    assert uw.hoeffding_probability(weights, return_range=1.0, epsilon=0.0) == 1.0
    assert uw.hoeffding_probability(weights, return_range=0.0, epsilon=0.1) == 0.0


@given(weights_, st.floats(0.5, 0.999), st.floats(0.1, 100))
def test_radius_and_probability_are_inverse(values: list[float], confidence: float, spread: float) -> None:
    radius = uw.hoeffding_radius(values, return_range=spread, confidence=confidence)
    assert uw.hoeffding_probability(values, return_range=spread, epsilon=radius) == pytest.approx(1 - confidence)


def test_hoeffding_covers_when_weights_ignore_returns() -> None:
    rng = np.random.default_rng(0)
    weights = rng.random(50)
    weights /= weights.sum()
    radius = uw.hoeffding_radius(weights, return_range=1.0, confidence=0.9)
    errors = np.abs(rng.random((2000, 50)) @ weights - 0.5)
    assert (errors >= radius).mean() <= 0.1


def test_mass_per_label_counts_steps() -> None:
    labels = np.array(["a", "b", "a"])
    assert uw.mass_per_label([1, 1, 2], [10, 20, 5], labels) == {"a": 0.5, "b": 0.5}


def test_no_mass_on_trainable_steps_is_an_error() -> None:
    with pytest.raises(uw.WeightingError, match="no mass"):
        uw.mass_per_label([0, 1], [3, 0], np.array(["a", "b"]))


def test_confidence_must_be_a_probability() -> None:
    with pytest.raises(ValueError, match="confidence"):
        uw.hoeffding_radius([1.0], return_range=1.0, confidence=1.0)


def test_early_share_counts_the_first_steps() -> None:
    """One good episode of 1,000 steps beside ten poor ones of 10: 91% of all steps, 23% of the first 30."""
    good = np.array([True] + [False] * 10)
    lengths = [1000] + [10] * 10
    assert uw.early_share(np.ones(11), lengths, good) == pytest.approx(30 / 130)
    assert uw.early_share(np.ones(11), lengths, good, first=1000) == pytest.approx(1000 / 1100)
    assert uw.early_share([3] + [1] * 10, lengths, good) == pytest.approx(90 / 190)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20))
def test_ranks_are_scipys(values: list[int]) -> None:
    np.testing.assert_array_equal(mean_ranks(np.array(values)), scipy.stats.rankdata(values))
