import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.linear_model import LinearRegression, Ridge, RidgeCV
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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


# ---- ridge regression -------------------------------------------------------------------------------------------------
def noisy(seed: int, episodes: int, features: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(episodes, features)) * 10.0 ** rng.integers(-3, 4, features) + rng.normal(size=features)
    standard = (states - states.mean(axis=0)) / states.std(axis=0)
    return states, 100 + standard @ rng.normal(size=features) + noise * rng.normal(size=episodes)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(4, 40))
def test_ridge_agrees_with_scikit_learn(seed: int, features: int, episodes: int) -> None:
    states, returns = noisy(seed, episodes, features)
    baseline = uw.RidgeBaseline()
    theirs = make_pipeline(StandardScaler(), RidgeCV(alphas=baseline.penalties)).fit(states, returns).predict(states)
    np.testing.assert_allclose(baseline(states, returns), theirs, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("episodes", [5, 1023, 1025, 3000])
def test_one_penalty_agrees_with_ridge(episodes: int) -> None:
    states, returns = noisy(0, episodes, 7)
    theirs = make_pipeline(StandardScaler(), Ridge(alpha=3.0)).fit(states, returns).predict(states)
    np.testing.assert_allclose(uw.RidgeBaseline((3.0,))(states, returns), theirs, rtol=1e-9)


def test_the_explained_share_is_that_of_leaving_one_out() -> None:
    states, returns = noisy(1, 25, 4)
    standard = (states - states.mean(axis=0)) / states.std(axis=0)  # of all episodes, as the baseline has them
    left_out = cross_val_predict(Ridge(alpha=3.0), standard, returns, cv=LeaveOneOut())
    means = (returns.sum() - returns) / (len(returns) - 1)
    share = 1 - np.sum((returns - left_out) ** 2) / np.sum((returns - means) ** 2)
    assert uw.RidgeBaseline((3.0,)).explained_share(states, returns) == pytest.approx(share, abs=1e-9)


def test_noise_is_not_fitted_where_least_squares_fits_it() -> None:
    """33 episodes, 31 features, and returns that have nothing to do with them."""
    left: dict[str, list[float]] = {"least squares": [], "ridge": []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        states, returns = rng.normal(size=(33, 31)), rng.normal(size=33)
        with pytest.warns(
            uw.UpweightWarning, match="32 coefficients to 33 episodes and follows about 97% of the noise"
        ):
            left["least squares"].append(np.var(returns - uw.LinearBaseline()(states, returns)) / np.var(returns))
        left["ridge"].append(np.var(returns - uw.RidgeBaseline()(states, returns)) / np.var(returns))
    assert np.mean(left["least squares"]) < 0.1
    assert np.mean(left["ridge"]) > 0.6


def test_more_features_than_episodes() -> None:
    states, returns = noisy(0, 20, 50, noise=0.1)
    assert np.isfinite(uw.RidgeBaseline()(states, returns)).all()


def test_constant_features_one_episode_and_equal_returns() -> None:
    baseline = uw.RidgeBaseline()
    np.testing.assert_allclose(baseline(np.full((5, 2), 7.0), np.arange(5.0)), 2.0)
    np.testing.assert_allclose(baseline(np.ones((1, 2)), np.array([3.0])), 3.0)
    assert baseline.explained_share(np.eye(4), np.full(4, 2.0)) == 0.0


@pytest.mark.parametrize("penalties", [(), (0.0,), (-1.0, 2.0), (np.inf,)])
def test_penalties_are_checked(penalties: tuple[float, ...]) -> None:
    with pytest.raises(uw.WeightingError, match="penalties: expected (a|one or more)"):
        uw.RidgeBaseline(penalties)
