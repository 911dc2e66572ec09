"""A file that no format knows: what it holds, and the way in for it."""

import json
import pickle  # only to make the files that must be refused
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import upweight as uw

WAYS = r"Dataset\.from_arrays.*from_episodes.*from_frame"


def refused(path: Path) -> str:
    with pytest.raises(uw.DatasetError) as caught:
        uw.load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    return message


def test_arrays_under_names_of_ones_own(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros(3), y=np.zeros(3))
    uw_message = refused(tmp_path / "a.npz")
    assert "It holds x, y: give these to Dataset.from_arrays" in uw_message
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["data/a/doses"] = np.zeros(3)
        file["wards"] = np.zeros(3)
    with pytest.raises(uw.DatasetError, match=rf"missing key 'observations'; the file has data, wards\. Give .*{WAYS}"):
        uw.load(tmp_path / "a.hdf5")
    pq.write_table(pa.table({"stay": [1, 2], "dose": [0.1, 0.2]}), tmp_path / "a.parquet")
    message = refused(tmp_path / "a.parquet")
    assert "missing key 'episode_index'" in message and "dose" in message and "stay" in message


def test_long_lists_are_cut(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{f"array_{i:03d}": np.zeros(1) for i in range(300)})
    message = refused(tmp_path / "a.npz")
    assert "array_019 and 280 more" in message and "array_020" not in message


@pytest.mark.parametrize("text", ['{"x": [1], "y": 2}', '{"x": 1, "y": 2}\n{"x": 2}', '[{"x": 1, "y": 2}, {"x": 3}]'])
def test_json_of_ones_own(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    assert "It holds x, y: give these to Dataset.from_arrays" in refused(tmp_path / "a.json")


@pytest.mark.parametrize("text", ["[]", "{", "[[[", "[" * 100_000, '"x"', "hello", "[1, 2]"])
def test_other_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "a").write_text(text)
    assert f"It is text that begins with {text[:40]!r}. Known are" in refused(tmp_path / "a")


def test_a_table_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("episode;x;action\n1;2;3\n")
    message = refused(tmp_path / "log.txt")
    assert "action, episode, x" in message and "upweight init" in message
    (tmp_path / "log.bin").write_bytes(b"\xff\x00\x01;,")
    assert r"begins with the bytes b'\xff\x00\x01;,'" in refused(tmp_path / "log.bin")


def test_a_list_of_trajectories_in_a_pickle(tmp_path: Path) -> None:
    path = tmp_path / "hopper-medium-v2.pkl"
    path.write_bytes(pickle.dumps([{"observations": np.zeros((2, 1))}]))
    assert "It is a pickle, which is never loaded" in refused(path) and "from_episodes" in refused(path)
    np.save(tmp_path / "a.npy", np.zeros(3))
    assert "It is one NumPy array: open it with np.load" in refused(tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", trajectories=np.array([{"observations": 1}], object))
    assert "It holds trajectories" in refused(tmp_path / "a.npz")


def test_a_folder(tmp_path: Path) -> None:
    for name in ("notes.txt", "run_1"):
        (tmp_path / name).write_text(json.dumps([1]))
    assert "not a folder in a known format. It holds notes.txt, run_1; name the file" in refused(tmp_path)
