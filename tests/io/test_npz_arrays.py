"""npz files of other people's making."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset
from upweight.data.trajectories import NAMES


def of_imitation(ds: uw.Dataset) -> dict[str, np.ndarray]:
    """As ``imitation.data.types.save`` did before it wrote Hugging Face datasets; ``infos`` are pickled objects."""
    spans = [slice(start, start + length) for start, length in zip(ds.starts, ds.lengths, strict=True)]
    observations = [[*ds.observations[span], ds.next_observations[span][-1]] for span in spans]
    return {
        "obs": np.concatenate(observations),
        "acts": ds.actions,
        "infos": np.array([{} for _ in range(ds.num_steps)], object),
        "terminal": ds.episodes.terminated,
        "rews": ds.rewards,
        "indices": np.cumsum(ds.lengths)[:-1],
    }


def write(path: Path, arrays: dict[str, Any]) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def test_imitation(tmp_path: Path) -> None:
    ds = random_dataset(next_known=True)
    back = uw.load(write(tmp_path / "a.npz", of_imitation(ds)))
    assert not back.columns["observations"].is_loaded
    np.testing.assert_array_equal(back.initial_observations, ds.initial_observations)
    assert_same(back, ds, metadata=False)


def test_imitation_as_it_splits_them(tmp_path: Path) -> None:
    """By imitation's own expression: ``np.split(obs, indices + np.arange(len(indices)) + 1)``."""
    arrays = of_imitation(random_dataset(3, next_known=True))
    ds = uw.load(write(tmp_path / "a.npz", arrays))
    shifted = arrays["indices"] + np.arange(len(arrays["indices"])) + 1
    for number, (theirs, acts) in enumerate(
        zip(np.split(arrays["obs"], shifted), np.split(arrays["acts"], arrays["indices"]), strict=True)
    ):
        steps = slice(ds.starts[number], ds.starts[number] + ds.lengths[number])
        np.testing.assert_array_equal(ds.observations[steps], theirs[:-1])
        np.testing.assert_array_equal(ds.next_observations[steps], theirs[1:])
        np.testing.assert_array_equal(ds.actions[steps], acts)


def test_imitation_without_rewards_or_with_one_trajectory(tmp_path: Path) -> None:
    arrays = of_imitation(random_dataset(num_episodes=1, next_known=True))
    assert uw.load(write(tmp_path / "a.npz", arrays)).num_episodes == 1
    del arrays["rews"]
    assert not uw.load(write(tmp_path / "b.npz", arrays)).has_rewards


def flat(ds: uw.Dataset) -> dict[str, Any]:
    return {"observations": ds.observations, "actions": ds.actions, "rewards": ds.rewards}


def lasts(ds: uw.Dataset) -> Any:
    """[M] whether a step is the last of its episode."""
    return np.isin(np.arange(ds.num_steps), ds.episodes.last_steps)


@pytest.mark.parametrize(
    "cut",
    [
        lambda ds: {"traj_lengths": ds.lengths, "terminals": ds.terminated},
        lambda ds: {"episode_ends": np.cumsum(ds.lengths), "terminals": ds.episodes.terminated},
        lambda ds: {"episode_starts": np.roll(lasts(ds), 1), "dones": ds.terminated},
        lambda ds: {"terminated": ds.terminated, "truncated": ds.truncated},
        lambda ds: {"terminals": ds.terminated.astype(float)[:, None], "timeouts": ds.truncated},
        lambda ds: {"dones": ds.terminated | ds.truncated, "truncated": ds.truncated},
    ],
)
def test_the_ways_to_tell_trajectories_apart(tmp_path: Path, cut: Any) -> None:
    ds = random_dataset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        back = uw.load(write(tmp_path / "a.npz", {**flat(ds), **cut(ds)}))
    assert_same(back, ds, metadata=False)


def test_a_fragment_at_the_end_is_incomplete(tmp_path: Path) -> None:
    ds = random_dataset(fragment=True)
    for name, flags in (
        ("a", {"dones": ds.terminated | ds.truncated, "timeouts": ds.truncated}),
        ("b", {"dones": lasts(ds)}),
    ):
        arrays = {**flat(ds), **flags}
        arrays["dones"] = arrays["dones"] & (np.arange(ds.num_steps) < ds.num_steps - 1)
        assert uw.load(write(tmp_path / f"{name}.npz", arrays)).complete.tolist() == [True] * 11 + [False]


def test_stable_baselines_says_nothing_of_ends(tmp_path: Path) -> None:
    """``generate_expert_traj``: actions, obs, rewards, episode_returns, episode_starts."""
    arrays = {
        "obs": np.arange(5.0)[:, None],
        "actions": np.zeros((5, 1)),
        "rewards": np.arange(5.0),
        "episode_returns": np.array([1.0, 9.0]),
        "episode_starts": np.array([True, False, True, False, False]),
    }
    path = write(tmp_path / "expert.npz", arrays)
    with pytest.warns(uw.UpweightWarning, match="how 2 episodes ended .* ends='truncated'"):
        ds = uw.load(path)
    assert ds.returns.tolist() == [1.0, 9.0] and ds.episodes.terminated.all()
    assert uw.load(path, ends="truncated").episodes.truncated.all()


def test_a_set_of_arrays_per_trajectory(tmp_path: Path) -> None:
    ds = random_dataset(next_known=True)
    names = ("observations", "actions", "rewards", "next_observations", "terminated", "truncated")
    arrays = {
        f"episode_{i}/{NAMES[name][1]}": getattr(ds, name)[start : start + length]
        for i, (start, length) in enumerate(zip(ds.starts, ds.lengths, strict=True))
        for name in names
    }
    assert_same(uw.load(write(tmp_path / "a.npz", arrays)), ds, metadata=False)
    arrays["episode_3/infos"] = np.array([{"a": 1}], object)
    assert uw.load(write(tmp_path / "b.npz", arrays)).num_episodes == 12
    del arrays["episode_7/acts"]
    with pytest.raises(
        uw.DatasetError, match=r"a\.npz: episode 7: missing key 'actions' \(or acts, action\); it has dones|obs"
    ):
        uw.load(write(tmp_path / "a.npz", arrays))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"traj_lengths": [3, 3]}, "key 'traj_lengths': expected trajectories of at least one step, 5 together"),
        ({"traj_lengths": [5, 0]}, "key 'traj_lengths': expected trajectories of at least one step"),
        ({"traj_lengths": [2.0, 3.0]}, "key 'traj_lengths': expected whole numbers, found float64"),
        ({"traj_lengths": [2**63 - 1, 2**63 - 1, 7]}, "key 'traj_lengths': expected trajectories"),
        ({"traj_lengths": []}, "key 'traj_lengths'"),
        (
            {"traj_lengths": [2, 3], "terminals": [1, 0, 0, 0, 1]},
            "key 'terminals': a step is flagged that is not the last",
        ),
        ({"traj_lengths": [2, 3], "terminals": [1, 0, 0]}, "key 'terminals': expected 5 rows"),
        ({"episode_ends": [4]}, "key 'episode_ends'"),
        ({"episode_starts": [0, 0, 1, 0, 0]}, "key 'episode_starts'"),
        ({"indices": [5, 2]}, "key 'indices'"),
        ({"dones": [0, 0, 0, 0, 0]}, "expected at least one episode end"),
        ({"dones": [0, 1, 1], "timeouts": [0, 0, 0, 0, 1]}, "not what it seems|expected"),
        ({"traj_lengths": [2, 3], "observations": np.zeros((6, 1))}, "key 'observations': expected 5 rows"),
        ({"traj_lengths": [2, 3], "observations": np.array(1.0)}, "observations"),
        ({"traj_lengths": [2, 3], "rewards": np.full(5, np.nan)}, "key 'rewards'"),
        (
            {"traj_lengths": [2, 3], "actions": np.array([{}] * 5, object)},
            "key 'actions': holds pickled Python objects",
        ),
    ],
)
def test_bad_files(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    arrays = {"observations": np.zeros((5, 1)), "actions": np.zeros(5), "rewards": np.zeros(5), **change}
    with pytest.raises(uw.DatasetError, match=rf"a\.npz: .*{message}"):
        uw.load(write(tmp_path / "a.npz", arrays), ends="terminated")


def test_terminals_alone_might_be_ogbenchs(tmp_path: Path) -> None:
    path = write(tmp_path / "a.npz", {**flat(random_dataset()), "terminals": np.ones(53)})
    with pytest.raises(uw.DatasetError, match="not a file in a known format"):
        uw.load(path)
    assert uw.load(path, format="arrays").num_episodes == 53
