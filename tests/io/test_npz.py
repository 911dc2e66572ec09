from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import upweight as uw
from support.datasets import assert_same, datasets, random_dataset


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
