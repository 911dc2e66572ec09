"""Against OGBench's own loader."""

from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset


def write(path: Path, *, rewards: bool = False) -> Path:
    """Trajectories of 4 and 3 observations, as OGBench stores them."""
    rng = np.random.default_rng(0)
    arrays = {
        "observations": rng.normal(size=(7, 3)).astype(np.float32),
        "actions": rng.normal(size=(7, 2)).astype(np.float32),
        "terminals": np.array([0, 0, 0, 1, 0, 0, 1], bool),
        "qpos": np.zeros((7, 5)),
    }
    if rewards:
        arrays["rewards"] = np.arange(7.0)
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.slow
def test_agrees_with_ogbench(tmp_path: Path) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load_dataset = pytest.importorskip("ogbench.utils").load_dataset
    path = write(tmp_path / "a.npz")
    theirs, ds = load_dataset(path), uw.load(path)
    np.testing.assert_array_equal(ds.observations, theirs["observations"])
    np.testing.assert_array_equal(ds.actions, theirs["actions"])
    np.testing.assert_array_equal(ds.next_observations, theirs["next_observations"])
    np.testing.assert_array_equal(ds.truncated, theirs["terminals"].astype(bool))  # trajectory ends, never terminal
    assert not ds.terminated.any()
    assert ds.num_transitions.tolist() == ds.lengths.tolist() == [3, 2]


def test_plain_files_have_no_rewards(tmp_path: Path) -> None:
    ds = uw.load(write(tmp_path / "a.npz"))
    assert not ds.has_rewards
    with pytest.raises(uw.DatasetError, match=r"a\.npz: the dataset has no rewards"):
        uw.ReturnWeighting()(ds)


def test_relabelled_rewards_are_read(tmp_path: Path) -> None:
    assert uw.load(write(tmp_path / "a.npz", rewards=True)).returns.tolist() == [3.0, 9.0]


def test_some_rows_of_a_compressed_file(tmp_path: Path) -> None:
    ds = uw.load(write(tmp_path / "a.npz"))
    np.testing.assert_array_equal(ds.initial_observations, uw.load(tmp_path / "a.npz").observations[[0, 3]])
    assert not ds.columns["observations"].is_loaded


def test_a_trajectory_without_a_step_is_an_error(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", observations=np.zeros((2, 1)), actions=np.zeros((2, 1)), terminals=[True, True])
    with pytest.raises(uw.DatasetError, match="trajectory at row 0 has one observation"):
        uw.load(tmp_path / "a.npz", format="ogbench")


def test_what_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.warns(uw.DataLossWarning, match="terminated.*the last step of"):
        lost = uw.save(random_dataset(0), tmp_path / "a", format="ogbench")
    assert len(lost) == 3


def test_other_peoples_arrays_are_not_taken_for_it(tmp_path: Path) -> None:
    """Read as OGBench's, the last step of each episode and its reward would be lost, and nothing would terminate."""
    path = tmp_path / "mine.npz"
    arrays = {"observations": np.zeros((4, 2)), "actions": np.zeros((4, 1)), "rewards": np.ones(4)}
    np.savez(path, **arrays, terminals=np.array([0, 1, 0, 1]))
    with pytest.raises(
        uw.DatasetError, match="It holds actions, observations, rewards, terminals: .*from_arrays.*'ogbench'"
    ):
        uw.load(path)
    assert uw.load(path, format="ogbench").lengths.tolist() == [1, 1]


def test_our_own_are_recognised(tmp_path: Path) -> None:
    path = tmp_path / "ours.npz"
    with pytest.warns(uw.DataLossWarning):
        uw.save(random_dataset(), path, format="ogbench")
    assert uw.load(path).has_rewards
