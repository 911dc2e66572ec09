import numpy as np
import pytest
from hypothesis import given, strategies as st

import upweight as uw
from support.datasets import with_returns


@pytest.mark.parametrize(
    ("fraction", "episodes", "kept"),
    [(0.1, 10, 1), (0.1, 9, 1), (0.1, 5, 1), (0.29, 100, 29), (0.5, 5, 2), (1.0, 4, 4)],
)
def test_how_many_are_kept(fraction: float, episodes: int, kept: int) -> None:
    weights = uw.TopFraction(fraction)(with_returns(np.arange(episodes)))
    np.testing.assert_allclose(weights, [0] * (episodes - kept) + [1 / kept] * kept)


def test_ties_keep_the_earlier_episode() -> None:
    assert uw.TopFraction(0.5)(with_returns([1.0, 2.0, 2.0, 2.0])).tolist() == [0, 0.5, 0.5, 0]


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40), st.floats(0.01, 1))
def test_nothing_left_out_is_better_than_what_is_kept(returns: list[int], fraction: float) -> None:
    ds = with_returns(returns)
    kept = uw.TopFraction(fraction)(ds) > 0
    if not kept.all():
        assert ds.returns[kept].min() >= ds.returns[~kept].max()


def test_steps_of_kept_episodes_are_equally_likely() -> None:
    ds = with_returns([9.0, 8.0, 1.0, 0.0], lengths=[2, 7, 3, 3])
    p = uw.EpisodeSampler(ds, uw.TopFraction(0.5)).probabilities()
    np.testing.assert_allclose(p, [1 / 9] * 9 + [0] * 6)


@pytest.mark.parametrize("fraction", [0, -1, 1.01, float("nan"), "x"])
def test_bad_fractions(fraction: float) -> None:
    with pytest.raises(uw.WeightingError, match="fraction"):
        uw.TopFraction(fraction)
