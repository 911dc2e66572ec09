import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.special import softmax
from sklearn.linear_model import LinearRegression

import upweight as uw
from support.datasets import with_returns


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(12, 40), st.floats(0.05, 2))
def test_agrees_with_scikit_learn(seed: int, features: int, episodes: int, temperature: float) -> None:
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(episodes, features))
    returns = 100 * rng.normal(size=episodes) + states @ rng.normal(size=features)
    advantage = returns - LinearRegression().fit(states, returns).predict(states)
    scaled = (advantage - advantage.min()) / np.ptp(advantage)
    weights = uw.AdvantageWeighting(temperature)(with_returns(returns, observations=states))
    np.testing.assert_allclose(weights, softmax(scaled / temperature), rtol=1e-6, atol=1e-15)


def test_the_advantages_are_scaled_not_the_returns() -> None:
    """Two kinds of start, worth 0 and 100: within each, the better episode gets the weight, not the lucky start."""
    states = [[0.0], [0.0], [1.0], [1.0]]
    weights = uw.AdvantageWeighting(0.1)(with_returns([-1.0, 1.0, 99.0, 101.0], observations=states))
    np.testing.assert_allclose(weights, softmax(np.array([0, 1, 0, 1]) / 0.1), rtol=1e-9)


def test_collinear_initial_states() -> None:
    rng = np.random.default_rng(0)
    column = rng.normal(size=(40, 1))
    returns = rng.normal(size=40)
    one = uw.AdvantageWeighting()(with_returns(returns, observations=column))
    many = uw.AdvantageWeighting()(with_returns(returns, observations=np.hstack([column, -column, 0 * column + 3])))
    np.testing.assert_allclose(one, many, rtol=1e-6)


def test_too_few_episodes_equal_return_weighting_with_a_warning() -> None:
    ds = with_returns([1.0, 2.0, 4.0], observations=np.eye(3))
    with pytest.warns(uw.UpweightWarning, match="too few"):
        weights = uw.AdvantageWeighting(0.3)(ds)
    np.testing.assert_allclose(weights, uw.ReturnWeighting(0.3)(ds))


def test_returns_explained_by_the_start_mean_uniform_not_noise() -> None:
    states = np.random.default_rng(0).normal(size=(50, 2))
    ds = with_returns(states @ [3.0, -1.0] + 5, observations=states)
    with pytest.warns(uw.UpweightWarning, match="explains the return of every episode"):
        weights = uw.AdvantageWeighting()(ds)
    np.testing.assert_allclose(weights, 1 / 50)


def test_any_callable_is_a_baseline() -> None:
    ds = with_returns([1.0, 5.0, 3.0], observations=[[1.0], [5.0], [0.0]])
    weighting = uw.AdvantageWeighting(0.5, baseline=lambda states, returns: states[:, 0])
    np.testing.assert_allclose(weighting(ds), softmax(np.array([0, 0, 1]) / 0.5))
    with pytest.raises(uw.WeightingError, match="cannot be written as JSON"):
        weighting.to_dict()


@pytest.mark.parametrize("values", [np.zeros(2), np.full(3, np.nan)])
def test_a_bad_baseline_is_reported(values: np.ndarray) -> None:
    ds = with_returns([1.0, 5.0, 3.0])
    with pytest.raises(uw.WeightingError, match="baseline must return 3 finite values"):
        uw.AdvantageWeighting(baseline=lambda states, returns: values)(ds)


def test_the_ridge_baseline_has_a_name() -> None:
    weighting = uw.AdvantageWeighting(0.2, baseline="ridge")
    assert weighting == uw.AdvantageWeighting(0.2, baseline=uw.RidgeBaseline())
    assert weighting.to_dict() == {"name": "aw", "temperature": 0.2, "baseline": "ridge"}
    assert uw.weighting_from_dict(weighting.to_dict()) == weighting
    assert uw.AdvantageWeighting(baseline="linear").to_dict() == {"name": "aw", "temperature": 0.1}
    with pytest.raises(uw.WeightingError, match="unknown baseline 'rigde'; did you mean 'ridge'"):
        uw.AdvantageWeighting(baseline="rigde")
