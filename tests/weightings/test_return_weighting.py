import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import softmax

import upweight as uw
from support.datasets import random_dataset, with_returns


def test_by_hand() -> None:
    weights = uw.ReturnWeighting(0.5)(with_returns([0.0, 5.0, 10.0]))
    np.testing.assert_allclose(weights, softmax(np.array([0, 0.5, 1]) / 0.5))


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30, unique=True), st.floats(0.01, 10))
def test_is_the_softmax_of_min_max_returns(returns: list[float], temperature: float) -> None:
    g = np.array(returns)
    expected = softmax((g - g.min()) / (g.max() - g.min()) / temperature)
    np.testing.assert_allclose(uw.ReturnWeighting(temperature)(with_returns(g)), expected, rtol=1e-6, atol=1e-15)


def test_the_weight_ratio_of_best_to_worst() -> None:
    for temperature, ratio in ((0.1, 22026.4658), (0.2, 148.4132)):
        weights = uw.ReturnWeighting(temperature)(with_returns([-3.0, 2.0, 40.0]))
        assert weights[2] / weights[0] == pytest.approx(ratio)


def test_temperature_limits() -> None:
    ds = with_returns([1.0, 4.0, 3.0])
    np.testing.assert_allclose(uw.ReturnWeighting(1e-3)(ds), [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(uw.ReturnWeighting(1e6)(ds), 1 / 3, rtol=1e-5)


def test_returns_near_the_largest_number_do_not_overflow() -> None:
    weights = uw.ReturnWeighting(0.5)(with_returns([-1.5e308, 0.0, 1.5e308]))
    np.testing.assert_allclose(weights, softmax([0, 1, 2]))


def test_softmax_over_repeated_steps_is_the_same_distribution() -> None:
    """The paper's code repeats each return once per step and takes one softmax over steps."""
    ds = with_returns([0.0, 7.0, 10.0], lengths=[5, 2, 9])
    scaled = ds.returns / 10
    per_step = softmax(np.repeat(scaled, ds.lengths) / 0.3)
    np.testing.assert_allclose(uw.EpisodeSampler(ds, uw.ReturnWeighting(0.3)).probabilities(), per_step)


def test_incomplete_episodes_get_nothing_with_a_warning() -> None:
    ds = random_dataset(0, num_episodes=6, fragment=True)
    with pytest.warns(uw.UpweightWarning, match="1 of 6 episodes are incomplete"):
        weights = uw.ReturnWeighting()(ds)
    assert weights[-1] == 0
    usable = np.flatnonzero(ds.complete & (ds.num_transitions > 0))
    np.testing.assert_allclose(weights[usable], uw.ReturnWeighting()(ds.subset(usable)))


def test_no_complete_episode_is_an_error() -> None:
    with pytest.raises(uw.WeightingError, match="all 3 were cut short"):
        uw.ReturnWeighting()(with_returns([1.0, 2.0, 3.0]).mark_incomplete([0, 1, 2]))


def test_an_episode_that_cannot_be_drawn_does_not_set_the_scale() -> None:
    ds = uw.Dataset.from_arrays(
        observations=np.zeros((5, 1)),
        actions=np.zeros(5),
        rewards=[1.0, 0.0, 2.0, 0.0, 100.0],
        terminated=[0, 1, 0, 1, 0],
        truncated=[0, 0, 0, 0, 1],  # one step, next observation unknown: no transition
    )
    np.testing.assert_allclose(uw.ReturnWeighting(0.5)(ds), [*softmax([0, 2]), 0])


@pytest.mark.parametrize("temperature", [0, -0.1, float("nan"), float("inf"), "0.1", True])
def test_bad_temperatures(temperature: float) -> None:
    with pytest.raises(uw.WeightingError, match="temperature: expected a number above 0"):
        uw.ReturnWeighting(temperature)
