"""Next observations that were moved up by one row over the ends of episodes."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset, with_arrays

MOVED = "at 11 of 11 episode ends the next observation is the first one of the following episode"


def moved_up(ds: uw.Dataset) -> np.ndarray:
    """The classical mistake: ``np.roll`` over the whole log."""
    return np.roll(ds.observations, -1, axis=0)


def test_an_array_moved_up_by_one_row_is_noticed() -> None:
    ds = random_dataset()
    with pytest.warns(uw.UpweightWarning, match=MOVED) as caught:
        with_arrays(ds, next_observations=moved_up(ds))
    assert len(caught) == 1
    assert "leave next_observations out" in str(caught[0].message)


@pytest.mark.parametrize("name", ["a.hdf5", "a.npz", "a.parquet"])
def test_in_a_file_too_and_without_loading_it(tmp_path: Path, name: str) -> None:
    ds = random_dataset()
    with pytest.warns(uw.UpweightWarning, match=MOVED):
        uw.save(with_arrays(ds, next_observations=moved_up(ds)), tmp_path / name)
    with pytest.warns(uw.UpweightWarning, match=MOVED):
        back = uw.load(tmp_path / name)
    assert "next_observations" in back.columns
    assert not back.columns["observations"].is_loaded and not back.columns["next_observations"].is_loaded


def test_some_ends_that_were_repaired_do_not_hide_the_others() -> None:
    ds = random_dataset(num_episodes=200)
    following = moved_up(ds)
    following[ds.episodes.last_steps[100:]] = 0
    with pytest.warns(uw.UpweightWarning, match="at 100 of 199 episode ends"):
        with_arrays(ds, next_observations=following)


def one_home(ds: uw.Dataset) -> np.ndarray:
    """All episodes start in one state, and end there."""
    observations = ds.observations.copy()
    observations[ds.starts] = 0
    return observations


def two_starts_one_goal(ds: uw.Dataset) -> np.ndarray:
    """Starts in two states, one of which is where every episode ends."""
    observations = ds.observations.copy()
    observations[ds.starts] = (np.arange(ds.num_episodes) % 7 == 0)[:, None]
    return observations


@pytest.mark.parametrize("starts", [one_home, two_starts_one_goal])
def test_going_home_is_no_mistake(starts: Callable[[uw.Dataset], np.ndarray]) -> None:
    ds = random_dataset(num_episodes=40)
    observations = starts(ds)
    following = np.roll(observations, -1, axis=0)
    following[ds.episodes.last_steps] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_arrays(ds, observations=observations, next_observations=following)


@pytest.mark.parametrize("count", [1, 2, 12])
def test_true_next_observations_pass(count: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        random_dataset(num_episodes=count, next_known=True)
        random_dataset(num_episodes=count)
