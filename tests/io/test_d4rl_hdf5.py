"""The oddities of real D4RL files, on files of the same schema."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import upweight as uw
from upweight.io.hdf5 import write_hdf5


def write(path: Path, **changes: Any) -> Path:
    """Two episodes (terminal, then time-out) and what real files carry beside the arrays."""
    arrays: dict[str, Any] = {
        "observations": np.arange(10, dtype=np.float32).reshape(5, 2),
        "actions": np.zeros((5, 1), np.float32),
        "rewards": np.array([1, 2, 4, 8, 16], np.float32),
        "terminals": np.array([0, 1, 0, 0, 0], bool),
        "timeouts": np.array([0, 0, 0, 0, 1], bool),
        "infos/qpos": np.zeros((5, 3)),
        "metadata/algorithm": np.bytes_(b"SAC"),
        "metadata/iteration": np.int32(400),
        "metadata/policy/fc0/weight": np.zeros((4, 2), np.float32),
        **changes,
    }
    with h5py.File(path, "w") as file:
        for key, value in arrays.items():
            if value is not None:
                options = {"compression": "gzip"} if np.ndim(value) else {}
                file.create_dataset(key, data=value, **options)
    return path


def test_without_next_observations_the_time_out_step_is_not_trainable(tmp_path: Path) -> None:
    ds = uw.load(write(tmp_path / "a.hdf5"))
    assert ds.returns.tolist() == [3.0, 28.0]  # the return counts the time-out step
    assert ds.num_transitions.tolist() == [2, 2]
    assert ds.metadata["behaviour"] == {"algorithm": "SAC", "iteration": 400}


def test_with_next_observations_it_is(tmp_path: Path) -> None:
    following = np.arange(10, 20, dtype=np.float32).reshape(5, 2)
    ds = uw.load(write(tmp_path / "a.hdf5", next_observations=following))
    assert ds.num_transitions.tolist() == [2, 3]
    batch = ds.transitions(np.array([4]))
    assert batch.next_observations.tolist() == [[18, 19]]
    assert batch.terminated.tolist() == [False]


def test_replay_sets_have_doubles_columns_and_number_flags(tmp_path: Path) -> None:
    ds = uw.load(
        write(
            tmp_path / "a.hdf5",
            observations=np.ones((5, 2)),
            rewards=np.ones((5, 1)),
            terminals=np.array([0.0, 1, 0, 0, 1]),
            timeouts=np.zeros((5, 1)),
        )
    )
    assert ds.observations.dtype == np.float64
    assert ds.returns.tolist() == [2.0, 3.0]


def test_timeouts_may_be_absent(tmp_path: Path) -> None:
    ds = uw.load(write(tmp_path / "a.hdf5", timeouts=None))
    assert ds.complete.tolist() == [True, False]


def test_no_end_at_all_is_an_error(tmp_path: Path) -> None:
    for timeouts in (None, np.zeros(5, bool)):
        path = write(tmp_path / "a.hdf5", terminals=np.zeros(5, bool), timeouts=timeouts)
        with pytest.raises(uw.DatasetError, match="a.hdf5: expected at least one episode end"):
            uw.load(path)


def test_terminal_wins_over_timeout(tmp_path: Path) -> None:
    ds = uw.load(write(tmp_path / "a.hdf5", terminals=np.array([0, 1, 0, 0, 1], bool)))
    assert ds.episodes.terminated.tolist() == [True, True]
    assert not ds.truncated.any()


def test_goal_steps_of_antmaze_are_episodes_of_their_own(tmp_path: Path) -> None:
    terminals = np.array([0, 1, 1, 1, 0], bool)
    ds = uw.load(write(tmp_path / "a.hdf5", terminals=terminals, rewards=terminals.astype(np.float64)))
    assert ds.lengths.tolist() == [2, 1, 1, 1]
    assert ds.returns.tolist() == [1, 1, 1, 0]


def test_a_horizon_marks_cuts_by_the_collector(tmp_path: Path) -> None:
    ds = uw.load(write(tmp_path / "a.hdf5"), horizon=1000)
    assert ds.complete.tolist() == [True, False]  # the terminated one is complete at any length
    assert uw.load(write(tmp_path / "a.hdf5"), horizon=3).complete.all()
    for odd in ("1000", True, 12.5, 0):
        with pytest.raises(uw.DatasetError, match="horizon: expected a whole number of at least 1, found"):
            uw.load(write(tmp_path / "a.hdf5"), horizon=odd)
    with pytest.raises(uw.DatasetError, match="horizon"):
        uw.load(write(tmp_path / "a.hdf5"), horizon=0)


def test_demonstrations_without_rewards(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", rewards=None, success=np.array([0, 1, 0, 0, 0]))
    assert not uw.load(path).has_rewards
    assert uw.inspect(path).returns is None
    assert uw.load(path, success="success").returns.tolist() == [1.0, 0.0]


def test_a_horizon_does_not_cut_what_succeeded(tmp_path: Path) -> None:
    won = write(tmp_path / "a.hdf5", success=np.array([0, 1, 0, 0, 1]))
    lost = write(tmp_path / "b.hdf5", success=np.array([0, 1, 0, 0, 0]))
    assert uw.load(won, success="success", horizon=10).complete.tolist() == [True, True]
    assert uw.load(lost, success="success", horizon=10).complete.tolist() == [True, False]


def test_success_flags_of_the_files_own(tmp_path: Path) -> None:
    goal = np.array([0, 0, 0, 1, 0])
    path = write(tmp_path / "a.hdf5", **{"infos/goal_achieved": goal, "mine": 1 - goal})
    assert uw.load(path, success="goal_achieved").returns.tolist() == [0.0, 1.0]
    assert uw.load(path, success="mine").returns.tolist() == [1.0, 1.0]
    with pytest.raises(uw.DatasetError, match=r"no 'success' to tell .*infos/goal_achieved, .*mine"):
        uw.load(path, success="success")


@pytest.mark.parametrize("compression", [None, "gzip", "lzf"])
def test_some_rows_of_any_storage(tmp_path: Path, compression: str | None) -> None:
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(5000, 3)).astype(np.float32)
    terminals = np.zeros(5000, bool)
    terminals[99::100] = True
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        chunks = None if compression is None else (700, 2)
        file.create_dataset("observations", data=observations, compression=compression, chunks=chunks)
        file.create_dataset("actions", data=np.zeros((5000, 1)))
        file.create_dataset("rewards", data=np.ones(5000))
        file.create_dataset("terminals", data=terminals)
    ds = uw.load(path)
    np.testing.assert_array_equal(ds.initial_observations, observations[::100])
    index = np.array([4999, 0, 700, 699, 0])
    np.testing.assert_array_equal(ds.columns["observations"].rows(index), observations[index])
    assert not ds.columns["observations"].is_loaded


def test_a_fragment_in_the_middle_is_written_with_an_end_and_stays_marked(tmp_path: Path) -> None:
    one = uw.load(write(tmp_path / "a.hdf5", timeouts=None))
    both = uw.concat([one, one])
    with pytest.warns(uw.DataLossWarning, match="had no end flag"):
        uw.save(both, tmp_path / "b.hdf5")
    back = uw.load(tmp_path / "b.hdf5")
    assert back.lengths.tolist() == [2, 3, 2, 3]
    assert back.complete.tolist() == [True, False, True, False]


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5")
    ds = uw.load(path)
    write(path, observations=np.zeros((5, 7), np.float32))
    with pytest.raises(uw.DatasetError, match="changed since"):
        ds.observations  # noqa: B018


def test_what_hdf5_cannot_hold_is_no_damaged_file(tmp_path: Path) -> None:
    with pytest.raises(uw.DatasetError, match=r"a\.hdf5: cannot write .*type"), write_hdf5(tmp_path / "a.hdf5") as file:
        file["a"] = object()
    assert not (tmp_path / "a.hdf5").exists()
