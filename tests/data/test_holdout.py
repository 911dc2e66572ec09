import numpy as np
import pytest
from hypothesis import given, strategies as st

import upweight as uw
from support.datasets import with_returns
from upweight.data.holdout import held_out_episodes


@given(count=st.integers(2, 300), share=st.floats(0.01, 0.99))
def test_a_share_of_the_episodes_and_always_the_same(count: int, share: float) -> None:
    ds = with_returns(np.arange(count))
    held = held_out_episodes(ds, share)
    assert len(held) == min(max(1, round(share * count)), count - 1)
    assert (np.diff(held) > 0).all() and held[0] >= 0 and held[-1] < count
    assert held.tolist() == held_out_episodes(with_returns(-np.arange(count)), share).tolist()


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=5), share=st.floats(0.05, 0.95), seed=st.integers(0, 9))
def test_of_each_label_its_share(sizes: list[int], share: float, seed: int) -> None:
    labels = np.random.default_rng(seed).permutation(np.repeat([f"label {n}" for n in range(len(sizes))], sizes))
    if len(labels) < 2:
        return
    ds = with_returns(np.zeros(len(labels)), labels=labels)
    held = held_out_episodes(ds, share)
    for label in set(labels):
        assert abs((labels[held] == label).sum() - len(held) / len(labels) * (labels == label).sum()) < 1


def test_without_labels_the_draw_is_random() -> None:
    held = held_out_episodes(with_returns(np.zeros(100)), 0.2)
    assert len(set(np.diff(held))) > 3


def test_episodes_may_be_named() -> None:
    ds = with_returns(np.zeros(4))
    assert held_out_episodes(ds, [3, 0, 3]).tolist() == [0, 3]
    assert held_out_episodes(ds, np.array([False, True, False, False])).tolist() == [1]


@pytest.mark.parametrize(
    ("count", "holdout", "message"),
    [
        (4, 0.0, "holdout: expected a number above 0 and below 1, found 0.0; .*episodes"),
        (4, 1, "holdout: expected a number above 0 and below 1"),
        (4, float("nan"), "holdout: expected a number above 0 and below 1"),
        (4, True, "holdout: expected a number above 0 and below 1"),
        (4, "0.2", "holdout: expected a number above 0 and below 1, found '0.2'"),
        (1, 0.2, "holdout: expected at least two episodes, one to learn from, found 1"),
        (2, [0, 1], "holdout: names all 2 episodes"),
        (2, [5], "holdout: expected episode indices below 2, found 5"),
    ],
)
def test_what_cannot_be_held_out(count: int, holdout: object, message: str) -> None:
    with pytest.raises(uw.DatasetError, match=f"dataset: {message}"):
        held_out_episodes(with_returns(np.zeros(count)), holdout)  # type: ignore[arg-type]
