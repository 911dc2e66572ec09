import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import upweight as uw
from support.datasets import assert_same, datasets, random_dataset
from upweight.io import npz_members


@given(ds=datasets())
def test_any_dataset_round_trips(ds: uw.Dataset, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    uw.save(ds, path)
    assert_same(uw.load(path), ds)


def rewrite(path: Path, **changes: Any) -> None:
    with np.load(path) as members:
        arrays = {**members, **changes}
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"upweight_format": np.array(2)}, "expected format version 1"),
        ({"lengths": np.array([0, 5])}, "key 'lengths'"),
        ({"lengths": np.array([1.5])}, "key 'lengths'"),
        ({"complete": None}, "missing key 'complete'"),
        ({"terminated": np.ones(12, bool), "truncated": np.ones(12, bool)}, "contradict"),
        ({"final_known": np.ones(12, bool)}, "missing key 'next_observations'"),
        ({"metadata": np.array("[1")}, "key 'metadata': not JSON"),
        ({"metadata": np.array("[1]")}, "expected a JSON object"),
        ({"metadata": np.array(3)}, "expected JSON text"),
        ({"observations": np.zeros((3, 3))}, "key 'observations': expected"),
        ({"observations": np.asfortranarray(np.zeros((60, 3)))}, "column by column|expected"),
        ({"rewards": np.zeros(2)}, "key 'rewards'"),
    ],
)
def test_inconsistent_files(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.npz"
    uw.save(random_dataset(), path)
    rewrite(path, **changes)
    with pytest.raises(uw.DatasetError, match=message):
        uw.load(path)


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    uw.save(random_dataset(num_episodes=100), path)
    data = bytearray(path.read_bytes())
    where = data.find(b"observations.npy") + 400
    data[where] ^= 1
    path.write_bytes(data)
    with pytest.raises(uw.DatasetError, match="key 'observations'.*CRC"):
        uw.load(path).observations  # noqa: B018


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_rows_of_a_compressed_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: int) -> None:
    """In any order, from any mark, and in another process."""
    monkeypatch.setattr(npz_members, "_BLOCK_BYTES", 4_000)
    monkeypatch.setattr(npz_members, "_MARK_BYTES", 1_000)
    rng = np.random.default_rng(0)
    array = rng.normal(size=(3000, 5))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression) as archive, archive.open("x.npy", "w") as member:
        np.save(member, array)
    column = npz_members.NpzColumn(tmp_path / "a.npz", "x")
    for index in (np.array([2999]), np.arange(100, 900), rng.integers(0, 3000, 50), np.array([7, 7, 2999, 0])):
        np.testing.assert_array_equal(column.rows(index), array[index])
    there = pickle.loads(pickle.dumps(column))
    np.testing.assert_array_equal(there.rows(np.arange(10, 20)), array[10:20])


def test_a_compressed_array_that_ends_early(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.random.default_rng(0).normal(size=3000))
    column = npz_members.NpzColumn(tmp_path / "a.npz", "x")
    (tmp_path / "a.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:10_000])
    assert column.rows(np.arange(3)).shape == (3,)
    with pytest.raises(uw.DatasetError, match=r"a\.npz: .*ends early"):
        column.rows(np.array([2999]))


def test_a_flipped_bit_of_a_compressed_array_is_noticed_by_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npz_members, "_MARK_BYTES", 1_000)
    np.savez_compressed(tmp_path / "a.npz", x=np.random.default_rng(0).normal(size=3000))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[10_000] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    column = npz_members.NpzColumn(tmp_path / "a.npz", "x")
    with pytest.raises(uw.DatasetError, match=r"a\.npz: .*damaged"):
        list(column.blocks(0, 3000, 500))
