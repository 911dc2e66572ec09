import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.linear_model import LinearRegression

import upweight as uw


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(21, 60))
def test_agrees_with_scikit_learn(seed: int, features: int, episodes: int) -> None:
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(episodes, features))
    returns = states @ rng.normal(size=features) + rng.normal(size=episodes) + 100
    theirs = LinearRegression().fit(states, returns).predict(states)
    np.testing.assert_allclose(uw.LinearBaseline()(states, returns), theirs, rtol=1e-9, atol=1e-9)


def test_collinear_and_constant_features_get_the_minimum_norm_solution() -> None:
    rng = np.random.default_rng(0)
    column = rng.normal(size=(30, 1))
    states = np.hstack([column, 2 * column, np.full((30, 1), 7.0)])
    returns = 3 * column[:, 0] + rng.normal(size=30)
    theirs = LinearRegression().fit(states, returns).predict(states)
    np.testing.assert_allclose(uw.LinearBaseline()(states, returns), theirs, atol=1e-9)


@pytest.mark.parametrize("episodes", [1023, 1024, 1025, 5000])
def test_many_episodes_agree_with_scikit_learn(episodes: int) -> None:
    rng = np.random.default_rng(0)
    states = np.hstack([rng.normal(size=(episodes, 5)), np.ones((episodes, 1))]) * [1, 1e3, 1e-3, 1, 1, 1]
    returns = 1000 + states @ rng.normal(size=6) + rng.normal(size=episodes)
    theirs = LinearRegression(tol=1e-12).fit(states, returns).predict(states)  # keep the small column
    np.testing.assert_allclose(uw.LinearBaseline()(states, returns), theirs, rtol=1e-9)


def test_images_are_flattened() -> None:
    rng = np.random.default_rng(0)
    states = rng.integers(0, 255, (50, 2, 2), np.uint8)
    returns = rng.normal(size=50)
    theirs = LinearRegression().fit(states.reshape(50, 4), returns).predict(states.reshape(50, 4))
    np.testing.assert_allclose(uw.LinearBaseline()(states, returns), theirs, atol=1e-9)


@pytest.mark.parametrize("episodes", [1, 3, 4])
def test_no_more_episodes_than_coefficients_means_the_mean(episodes: int) -> None:
    rng = np.random.default_rng(0)
    returns = rng.normal(size=episodes)
    with pytest.warns(uw.UpweightWarning, match="too few"):
        values = uw.LinearBaseline()(rng.normal(size=(episodes, 3)), returns)
    np.testing.assert_allclose(values, returns.mean())


def test_the_rounding_of_collinear_observations_is_not_fitted() -> None:
    """Three of five columns in float32 are sums of two others, up to rounding: rank 2."""
    rng = np.random.default_rng(0)
    two = rng.normal(size=(40, 2)) * [1, 100]
    exact = np.hstack([two, two @ rng.normal(size=(2, 3)) + 50])
    returns = two[:, 0] + rng.normal(size=40)
    wanted = LinearRegression().fit(two, returns).predict(two)
    np.testing.assert_allclose(uw.LinearBaseline()(exact.astype(np.float32), returns), wanted, atol=1e-4)


def test_small_columns_in_single_precision_are_fitted() -> None:
    rng = np.random.default_rng(0)
    states = (rng.normal(size=(5000, 3)) * [1e4, 1, 1e-4]).astype(np.float32)
    returns = 1e4 * states[:, 2].astype(float) + rng.normal(size=5000)
    theirs = LinearRegression(tol=1e-14).fit(states.astype(float), returns).predict(states.astype(float))
    np.testing.assert_allclose(uw.LinearBaseline()(states, returns), theirs, rtol=1e-6, atol=1e-6)
