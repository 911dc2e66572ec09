"""Against d3rlpy itself: what it writes we read, what we write it reads."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def d3rlpy() -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("d3rlpy")


def trainable(seed: int, **options: Any) -> uw.Dataset:
    """d3rlpy itself drops episodes without a transition."""
    ds = random_dataset(seed, **options)
    return ds.subset(ds.num_transitions > 0)


@pytest.mark.parametrize("discrete", [False, True])
def test_reads_what_d3rlpy_wrote(d3rlpy: Any, tmp_path: Path, discrete: bool) -> None:
    ds = trainable(0, discrete=discrete)
    actions = ds.actions[:, None] if discrete else ds.actions
    theirs = d3rlpy.dataset.MDPDataset(ds.observations, actions, ds.rewards, ds.terminated, ds.truncated)
    path = tmp_path / "buffer.h5"
    with path.open("w+b") as file:
        theirs.dump(file)
    back = uw.load(path)
    np.testing.assert_array_equal(back.lengths, ds.lengths)
    np.testing.assert_array_equal(back.observations, ds.observations)
    np.testing.assert_array_equal(back.actions, actions)
    np.testing.assert_allclose(back.returns, ds.returns, rtol=1e-6)
    np.testing.assert_array_equal(back.terminated, ds.terminated)
    np.testing.assert_array_equal(back.truncated, ds.truncated)
    assert back.num_transitions.tolist() == [episode.transition_count for episode in theirs.episodes]


def test_d3rlpy_reads_what_we_wrote(d3rlpy: Any, tmp_path: Path) -> None:
    ds = trainable(1)
    path = tmp_path / "buffer.h5"
    with pytest.warns(uw.DataLossWarning, match="metadata"):
        uw.save(ds, path, format="d3rlpy")
    with path.open("rb") as file:
        theirs = d3rlpy.dataset.ReplayBuffer.load(file, d3rlpy.dataset.InfiniteBuffer())
    assert len(theirs.episodes) == ds.num_episodes
    for number, episode in enumerate(theirs.episodes):
        steps = slice(ds.starts[number], ds.starts[number] + ds.lengths[number])
        np.testing.assert_array_equal(episode.observations, ds.observations[steps])
        np.testing.assert_array_equal(episode.rewards[:, 0], ds.rewards[steps])
        assert bool(episode.terminated) == ds.episodes.terminated[number]


def test_version_1_files(tmp_path: Path) -> None:
    path = tmp_path / "v1.h5"
    with h5py.File(path, "w") as file:
        file["observations"] = np.arange(8.0).reshape(4, 2)
        file["actions"] = np.zeros((4, 1))
        file["rewards"] = np.ones((4, 1))
        file["terminals"] = np.array([0.0, 1, 0, 0])
        file["episode_terminals"] = np.array([0.0, 1, 0, 1])
        file["discrete_action"] = False
        file["version"] = "1.0"
    ds = uw.load(path)
    assert ds.lengths.tolist() == [2, 2]
    assert ds.episodes.terminated.tolist() == [True, False]
    assert ds.num_transitions.tolist() == [2, 1]
