import numpy as np
import pytest
from hypothesis import given, strategies as st

import upweight as uw
from support.datasets import random_dataset, with_returns


def mass(ds: uw.Dataset, weighting: uw.Half) -> dict[str, float]:
    assert ds.labels is not None
    return uw.mass_per_label(weighting(ds), ds.num_transitions, ds.labels)


@given(st.integers(0, 10_000))
def test_each_label_gets_half_of_the_steps(seed: int) -> None:
    ds = random_dataset(seed, labels=True, num_episodes=10, max_length=15, next_known=True)
    assert mass(ds, uw.Half()) == pytest.approx({"good": 0.5, "poor": 0.5})


def test_within_a_half_every_step_is_equally_likely() -> None:
    ds = with_returns([0.0, 0.0, 1.0], lengths=[2, 6, 4], labels=["poor", "poor", "good"])
    p = uw.EpisodeSampler(ds, uw.Half()).probabilities()
    np.testing.assert_allclose(p, [0.5 / 8] * 8 + [0.5 / 4] * 4)


def test_by_return_threshold() -> None:
    ds = with_returns([0.0, 3.0, 9.0], lengths=[2, 6, 4])
    p = uw.EpisodeSampler(ds, uw.Half(threshold=5.0)).probabilities()
    np.testing.assert_allclose(p, [0.5 / 8] * 8 + [0.5 / 4] * 4)


def test_a_threshold_ignores_incomplete_episodes() -> None:
    ds = with_returns([0.0, 3.0, 9.0]).mark_incomplete([1])
    with pytest.warns(uw.UpweightWarning, match="incomplete"):
        assert uw.Half(threshold=5.0)(ds).tolist() == [0.5, 0, 0.5]


def test_a_named_good_label_among_several() -> None:
    ds = with_returns([0.0, 1.0, 2.0], labels=["a", "b", "c"])
    assert mass(ds, uw.Half(high="c")) == {"a": 0.25, "b": 0.25, "c": 0.5}
    with pytest.raises(uw.WeightingError, match="exactly two labels, found 3"):
        uw.Half()(ds)
    with pytest.raises(uw.WeightingError, match="no episode is labelled 'd'"):
        uw.Half(high="d")(ds)


def test_errors() -> None:
    with pytest.raises(uw.WeightingError, match="needs provenance labels"):
        uw.Half()(with_returns([0.0, 1.0]))
    with pytest.raises(uw.WeightingError, match="exactly two labels, found 1"):
        uw.Half()(with_returns([0.0, 1.0], labels=["a", "a"]))
    with pytest.raises(uw.WeightingError, match="both sides"):
        uw.Half(threshold=100.0)(with_returns([0.0, 1.0]))
    with pytest.raises(uw.WeightingError, match="not both"):
        uw.Half(threshold=1.0, high="a")
