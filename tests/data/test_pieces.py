"""Pieces of episodes are found and joined, and nothing else is."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

import upweight as uw
from support.datasets import random_dataset, with_returns
from upweight.data.notes import data_notes
from upweight.data.pieces import join_pieces, pieces_note


def played(count: int = 6, length: int = 20, seed: int = 0, next_known: bool = True) -> list[dict[str, np.ndarray]]:
    """Whole episodes: random walks, every other one ends in a terminal state."""
    rng = np.random.default_rng(seed)
    return [
        {
            "observations": np.cumsum(rng.normal(size=(length + 1, 2)), axis=0),
            "actions": rng.normal(size=(length, 1)),
            "rewards": rng.normal(size=length),
            "terminated": number % 2 == 0,
            "truncated": number % 2 == 1,
        }
        for number in range(count)
    ]


def cut(episodes: list[dict[str, np.ndarray]], size: int, *, overlap: bool = False) -> uw.Dataset:
    """Pieces of at most ``size`` steps; with an overlap the first row of a piece is the last of the one before."""
    pieces = []
    for each in episodes:
        length = len(each["actions"])
        for first in range(0, length, size):
            last = min(first + size, length)
            rows = slice(first, min(last + overlap, length))
            ends = last == length
            pieces.append(
                {
                    "observations": each["observations"][rows]
                    if overlap
                    else each["observations"][first : last + 1],  # with the one after
                    "actions": each["actions"][rows],
                    "rewards": each["rewards"][rows],
                    "terminated": ends and each["terminated"],
                    "truncated": not (ends and each["terminated"]),
                }
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", uw.UpweightWarning)  # next observations might be moved up by a row
        return uw.Dataset.from_episodes(pieces)


@given(size=st.integers(2, 19), count=st.integers(2, 6))
def test_pieces_are_joined_to_what_they_were_cut_from(size: int, count: int) -> None:
    episodes = played(count)
    whole, joined = uw.Dataset.from_episodes(episodes), join_pieces(cut(episodes, size))
    assert joined.lengths.tolist() == whole.lengths.tolist()
    assert joined.episodes.terminated.tolist() == whole.episodes.terminated.tolist()
    assert joined.episodes.truncated.tolist() == whole.episodes.truncated.tolist()
    np.testing.assert_allclose(joined.returns, whole.returns)
    for name in ("observations", "actions", "rewards", "next_observations", "initial_observations", "trainable"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))


@given(size=st.integers(2, 18), count=st.integers(2, 6))
def test_a_row_that_stands_there_twice_is_left_out_once(size: int, count: int) -> None:
    """Pieces without the observation after their last step."""
    episodes = played(count)
    joined = join_pieces(cut(episodes, size, overlap=True))
    without_last = [{**each, "observations": each["observations"][:-1]} for each in episodes]
    whole = uw.Dataset.from_episodes(without_last)
    for name in ("lengths", "observations", "actions", "rewards", "terminated", "trainable"):
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))


def test_they_are_named_with_the_remedy() -> None:
    note = pieces_note(cut(played(), 5))
    assert note is not None and "18 of 20 truncated episodes go on in the next one" in note and "--join" in note
    assert data_notes(cut(played(), 5))["pieces"] == note
    assert note in uw.inspect(cut(played(), 5)).notes


@pytest.mark.parametrize(
    "dataset",
    [
        uw.Dataset.from_episodes(played()),
        with_returns(range(30)),  # all observations are 0
        random_dataset(next_known=True),
        uw.Dataset.from_arrays(  # a few states, to which everything comes back
            observations=np.tile([0.0, 1.0, 2.0], 20)[:, None],
            actions=np.zeros((60, 1)),
            rewards=np.zeros(60),
            terminated=np.zeros(60),
            truncated=np.arange(60) % 3 == 2,
            next_observations=np.tile([1.0, 2.0, 0.0], 20)[:, None],
        ),
    ],
    ids=["whole", "constant", "random", "back to the start"],
)
def test_whole_episodes_are_none(dataset: uw.Dataset) -> None:
    assert pieces_note(dataset) is None
    with pytest.raises(uw.DatasetError, match="join: expected truncated episodes .* found none; leave join out"):
        join_pieces(dataset)


def test_next_observations_moved_up_by_a_row_are_no_pieces() -> None:
    rows = np.random.default_rng(0).normal(size=(61, 2))
    flags = {"terminated": np.arange(60) % 20 == 19, "truncated": np.arange(60) % 20 == 9}
    with pytest.warns(uw.UpweightWarning, match="moved up by one row"):
        shifted = uw.Dataset.from_arrays(
            observations=rows[:-1], next_observations=rows[1:], actions=np.zeros((60, 1)), rewards=np.zeros(60), **flags
        )
    assert pieces_note(shifted) is None


def test_pieces_of_different_labels_stay_apart() -> None:
    pieces = cut(played(), 10)  # two of each episode
    assert join_pieces(pieces.with_labels(np.repeat(["a", "b"], 6))).labels.tolist() == ["a"] * 3 + ["b"] * 3
    with pytest.raises(uw.DatasetError, match="found none"):
        join_pieces(pieces.with_labels(["first", "second"] * 6))


@pytest.mark.parametrize("suffix", ["npz", "hdf5", "parquet", "packed"])
def test_load_joins_files(tmp_path: Path, suffix: str) -> None:
    path, pieces = tmp_path / f"log.{suffix}", cut(played(), 5)
    uw.save(pieces, path)
    assert uw.load(path, join=True).lengths.tolist() == [20] * 6
    assert uw.load(path, join=True, horizon=21).complete.tolist() == [True, False] * 3
    with pytest.raises(uw.DatasetError, match="join: the score would be that of pieces"):
        uw.load(path, join=True, score=np.zeros(24))
