"""robomimic's HDF5: demonstrations, their lists, and files that are none."""

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import upweight as uw
from support.files import write_robomimic
from upweight.cli.main import main


def demo(length: int, *, reward: float, first: float = 0.0) -> dict[str, np.ndarray]:
    """A demonstration that earns its reward, and is done, in its last two steps, as after a success."""
    last = np.arange(length) >= length - 2
    states = np.arange(length + 1, dtype=np.float64)[:, None] + first
    obs = {
        "robot0_eef_pos": np.repeat(states, 3, axis=1),
        "object": -states,
        "image": np.zeros((length + 1, 4, 4, 3), "u1"),
    }
    return {
        "actions": np.full((length, 7), 0.5),
        "rewards": reward * last,
        "dones": (last & (reward > 0)).astype(np.int64),
        "states": np.zeros((length, 9)),
        **{f"obs/{key}": values[:-1] for key, values in obs.items()},
        **{f"next_obs/{key}": values[1:] for key, values in obs.items()},
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    demos = [demo(3 + k, reward=float(k % 2), first=100.0 * k) for k in range(11)]
    better, worse = (["demo_10", "demo_1"], ["demo_0", "demo_2"])
    return write_robomimic(tmp_path / "low_dim.hdf5", demos, better=better, worse=worse, train=["demo_1", "demo_2"])


def test_demonstrations_are_read_in_the_order_of_their_numbers(path: Path) -> None:
    ds = uw.load(path)
    assert ds.lengths.tolist() == list(range(3, 14))  # demo_10 comes after demo_9
    assert ds.returns.tolist() == [0.0, 2.0] * 5 + [0.0]
    assert ds.observation_shape == (4,) and ds.action_shape == (7,)  # object, then robot0_eef_pos
    np.testing.assert_array_equal(ds.initial_observations, [[-100.0 * k] + [100.0 * k] * 3 for k in range(11)])
    assert ds.episodes.terminated.tolist() == [False, True] * 5 + [False]
    assert ds.complete.all() and ds.trainable.all()  # the observation after the last step is known
    last = ds.transitions(ds.episodes.last_steps)
    np.testing.assert_array_equal(last.next_observations[:, 0], -(100.0 * np.arange(11) + ds.lengths))
    assert ds.metadata["env_args"]["env_name"] == "Lift"


def test_an_observation_by_name(path: Path) -> None:
    assert uw.load(path, observation_key="object").observation_shape == (1,)
    assert uw.load(path, observation_key="image").observations.dtype == np.uint8
    with pytest.raises(uw.DatasetError, match="that observation_key names, found image, object, robot0_eef_pos"):
        uw.load(path, observation_key="eef")


def test_masks_choose_and_label(path: Path) -> None:
    ds = uw.load(path, masks=["worse", "better"])
    assert ds.lengths.tolist() == [3, 4, 5, 13]
    assert ds.labels is not None and ds.labels.tolist() == ["worse", "better", "worse", "better"]
    assert uw.load(path, masks="train").lengths.tolist() == [4, 5]
    with pytest.raises(uw.DatasetError, match="no mask 'best'; it has better, train, worse"):
        uw.load(path, masks="best")
    with pytest.raises(uw.DatasetError, match="better and train share data/demo_1"):
        uw.load(path, masks=["better", "train"])


def test_a_mask_tells_success_also_on_the_command_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert np.flatnonzero(uw.load(path, success="better").returns).tolist() == [1, 10]
    assert uw.load(path, success="dones").returns.tolist() == [0.0, 1.0] * 5 + [0.0]
    with pytest.raises(uw.DatasetError, match="no 'best' to tell success or a score by; it has actions, better, dones"):
        uw.load(path, success="best")
    assert main(["inspect", str(path), "--success", "better"]) == 0
    assert re.search(r"episodes +11 ", capsys.readouterr().out)


def test_demonstrations_without_rewards_dones_and_next_observations(tmp_path: Path) -> None:
    bare = {key: array for key, array in demo(4, reward=1.0).items() if key in {"actions", "obs/object"}}
    ds = uw.load(write_robomimic(tmp_path / "a.hdf5", [bare, bare]))
    assert not ds.has_rewards and ds.episodes.truncated.all() and ds.num_transitions.tolist() == [3, 3]


def change(path: Path, key: str, value: Any) -> None:
    with h5py.File(path, "a") as file:
        del file[key]
        if value is not None:
            file[key] = value


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("data", None, "missing key 'observations'"),  # any HDF5
        ("data", np.zeros(3), "missing key 'observations'.* Give what is in it to Dataset.from_arrays"),
        ("data/demo_4", np.zeros(3), "'data/demo_4': expected a group"),
        ("data/demo_4/actions", None, "missing key 'data/demo_4/actions'"),
        ("data/demo_4/actions", np.zeros((3, 7)), "'data/demo_4/actions': expected 7 steps, at least one, found 3"),
        ("data/demo_4/rewards", None, "missing key 'data/demo_4/rewards'"),
        ("data/demo_4/rewards", np.zeros((7, 2)), "'data/demo_4/rewards': expected one number per step"),
        ("data/demo_4/dones", np.full(7, 5), "'data/demo_4/dones': expected only 0 and 1"),
        ("data/demo_4/obs/object", np.zeros((2, 1)), "cannot read key 'data/demo_4/obs'"),
        ("data/demo_4/next_obs", None, "missing key 'data/demo_4/next_obs/object'"),
        ("data/demo_0/obs", None, "found nothing. robomimic's dataset_states_to_obs.py adds them"),
    ],
)
def test_a_bad_file_is_one_clear_error(path: Path, key: str, value: Any, message: str) -> None:
    change(path, key, value)
    with pytest.raises(uw.DatasetError, match=message):
        uw.load(path).check()


def test_flat_arrays_beside_something_called_data_stay_d4rls(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.update({"observations": np.zeros((2, 1)), "actions": np.zeros((2, 1)), "rewards": [0.0, 1.0]})
        file.update({"terminals": [False, True], "data/note": [1]})
    assert uw.load(tmp_path / "a.hdf5").returns.tolist() == [1.0]
