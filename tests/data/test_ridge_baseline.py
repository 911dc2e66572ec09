import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import upweight as uw


def noisy(seed: int, episodes: int, features: int, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(episodes, features)) * 10.0 ** rng.integers(-3, 4, features) + rng.normal(size=features)
    standard = (states - states.mean(axis=0)) / states.std(axis=0)
    return states, 100 + standard @ rng.normal(size=features) + noise * rng.normal(size=episodes)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(4, 40))
def test_agrees_with_scikit_learn(seed: int, features: int, episodes: int) -> None:
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
    with pytest.raises(uw.WeightingError, match="expected one or more numbers above 0"):
        uw.RidgeBaseline(penalties)
