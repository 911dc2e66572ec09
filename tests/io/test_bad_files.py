"""Files that are not what they should be: one clear error that names the file, nothing else."""

import base64
import io
import pickle  # only to make the files that must be refused
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import upweight as uw
from support.datasets import random_dataset
from support.files import write_minari_arrow
from upweight.base import optional
from upweight.io.arrow_tables import read_columns


class Bomb:
    """Touches a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A sound file, to be damaged."""
    uw.save(random_dataset(), tmp_path / "a.hdf5")
    return tmp_path / "a.hdf5"


@pytest.mark.parametrize("key", ["observations", "actions", "terminals"])
def test_a_missing_key(path: Path, key: str) -> None:
    with h5py.File(path, "a") as file:
        del file[key]
    with pytest.raises(uw.DatasetError, match=rf"a\.hdf5: missing key '{key}'"):
        uw.load(path)


@pytest.mark.parametrize("key", ["observations", "actions", "rewards", "terminals", "timeouts"])
@pytest.mark.parametrize("value", [np.zeros(3), np.array(b"text"), np.zeros((0, 2)), np.float64(1)])
def test_a_wrong_length_or_kind(path: Path, key: str, value: Any) -> None:
    with h5py.File(path, "a") as file:
        del file[key]
        file[key] = value
    with pytest.raises(uw.DatasetError, match=r"a\.hdf5: .*key '"):
        uw.load(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_bad_rewards(path: Path, value: float) -> None:
    with h5py.File(path, "a") as file:
        file["rewards"][4] = value
    with pytest.raises(uw.DatasetError, match=r"a\.hdf5: key 'rewards'.*row 4"):
        uw.load(path)


def test_bad_first_observation_and_bad_later_one(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    uw.save(random_dataset(max_length=5), path)
    with h5py.File(path, "a") as file:
        file["observations"][0, 0] = np.nan
    with pytest.raises(uw.DatasetError, match=r"a\.hdf5 .*key 'observations'"):
        uw.inspect(uw.load(path))
    later = int(uw.load(path).starts[3]) - 1
    with h5py.File(path, "a") as file:
        file["observations"][0, 0] = 0
        file["observations"][later, 0] = np.inf
    ds = uw.load(path)
    if ds.lengths[2] > 1:
        uw.inspect(ds)
    with pytest.raises(uw.DatasetError, match=rf"a\.hdf5: key 'observations'.*row {later}"):
        ds.check()


def test_an_empty_file_a_folder_and_a_missing_file(tmp_path: Path) -> None:
    empty = tmp_path / "a.hdf5"
    empty.touch()
    with pytest.raises(uw.DatasetError, match=r"a\.hdf5: the file is empty"):
        uw.load(empty)
    with pytest.raises(uw.DatasetError, match="not a folder in a known format"):
        uw.load(tmp_path)
    with pytest.raises(uw.DatasetError, match=r"did you mean .*a\.hdf5"):
        uw.load(tmp_path / "b.hdf5")
    with pytest.raises(uw.DatasetError, match="no such file"):
        uw.load(tmp_path / "nowhere" / "x")
    with pytest.raises(uw.DatasetError, match="not a usable path"):
        uw.load("x" * 5000)
    with pytest.raises(uw.DatasetError, match="not a usable path|no such file"):
        uw.load("a\0b")


@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.95])
def test_a_file_cut_short(tmp_path: Path, share: float) -> None:
    for name in ("a.hdf5", "a.npz", "a.parquet"):
        path = tmp_path / name
        uw.save(random_dataset(num_episodes=50), path)
        data = path.read_bytes()
        path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(uw.DatasetError, match=name):
            uw.load(path).check()


def test_any_bytes_with_a_good_signature(tmp_path: Path) -> None:
    for name, signature in (("a.hdf5", b"\x89HDF\r\n\x1a\n"), ("a.npz", b"PK\x03\x04"), ("a.parquet", b"PAR1")):
        path = tmp_path / name
        path.write_bytes(signature + bytes(range(256)) * 4)
        with pytest.raises(uw.DatasetError, match=name):
            uw.load(path)


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    disguised = tmp_path / "a.npz"
    disguised.write_bytes(pickle.dumps(Bomb(trap)))
    inside = tmp_path / "b.npz"
    uw.save(random_dataset(), inside)
    with zipfile.ZipFile(inside) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    buffer = io.BytesIO()
    np.save(buffer, np.array([Bomb(trap)], object), allow_pickle=True)
    for name in ("rewards.npy", "observations.npy", "metadata.npy", "upweight_format.npy"):
        path = tmp_path / f"{name}.npz"
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in {**members, name: buffer.getvalue()}.items():
                archive.writestr(member, data)
        with pytest.raises(uw.DatasetError, match=r"\.npz: key .*never loaded"):
            uw.load(path).check()
    with pytest.raises(uw.DatasetError, match=r"a\.npz"):
        uw.load(disguised)
    assert not trap.exists()


def test_absurd_shapes(path: Path, tmp_path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["rewards"]
        file.create_dataset("rewards", shape=(10**12,), dtype="f4", chunks=(1024,))
    with pytest.raises(uw.DatasetError, match=r"key 'rewards': claims 4,000,000,000,000 bytes"):
        uw.load(path)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**15,)})
    npz = tmp_path / "a.npz"
    uw.save(random_dataset(), npz)
    with zipfile.ZipFile(npz) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(npz, "w") as archive:
        for member, data in {**members, "rewards.npy": header.getvalue() + b"\0" * 64}.items():
            archive.writestr(member, data)
    with pytest.raises(uw.DatasetError, match=r"a\.npz: key 'rewards': shape \(1000000000000000,\) needs"):
        uw.load(npz)


def test_parquet_with_gaps_or_ragged_rows(tmp_path: Path) -> None:
    good = {"episode_index": [0, 0], "observation": [[1.0], [2.0]], "action": [[0.0], [0.0]], "reward": [0.0, 1.0]}
    for key, bad in (
        ("observation", [[1.0], [2.0, 3.0]]),
        ("observation", [[1.0], None]),
        ("reward", [None, 1.0]),
        ("reward", ["a", "b"]),
        ("episode_index", [0.5, None]),
        ("reward", [float("nan"), 0.0]),
    ):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({**good, key: bad}), path)
        with pytest.raises(uw.DatasetError, match=r"a\.parquet: key '(observation|reward|episode_index)'"):
            uw.load(path).check()
    for key in ("episode_index", "observation", "action"):
        pq.write_table(pa.table({name: column for name, column in good.items() if name != key}), path)
        with pytest.raises(uw.DatasetError, match=rf"a\.parquet: missing key '{key}'"):
            uw.load(path)


def test_a_missing_extra_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdf5, parquet = tmp_path / "a.hdf5", tmp_path / "a.parquet"
    uw.save(random_dataset(), hdf5)
    uw.save(random_dataset(), parquet)

    def nothing_installed(name: str) -> Any:
        raise ModuleNotFoundError(name, name=name.split(".")[0])

    monkeypatch.setattr(optional.importlib, "import_module", nothing_installed)
    with pytest.raises(uw.MissingExtraError, match=r'needs the package .h5py.*pip install "upweight\[hdf5\]"'):
        uw.load(hdf5)
    with pytest.raises(
        uw.MissingExtraError, match=r'working with Parquet files needs .*pip install "upweight\[parquet\]"'
    ):
        uw.load(parquet)
    with pytest.raises(uw.MissingExtraError, match=r'pip install "upweight\[minari\]"'):
        uw.save(random_dataset(), tmp_path / "m", format="minari")
    assert not (tmp_path / "m").exists()


def test_unknown_formats_suffixes_and_options(path: Path, tmp_path: Path) -> None:
    with pytest.raises(uw.DatasetError, match="unknown format 'd4lr'; did you mean 'd4rl'"):
        uw.load(path, format="d4lr")
    with pytest.raises(uw.DatasetError, match="the d4rl reader has no such option 'colour'; known: format, horizon"):
        uw.load(path, colour="red")
    with pytest.raises(uw.DatasetError, match="no such option 'horizn'; did you mean 'horizon'"):
        uw.load(path, horizn=3)
    with pytest.raises(uw.DatasetError, match="'episode'; it is for tables, and this is D4RL HDF5, .*leave it out"):
        uw.load(path, episode="stay")
    with pytest.raises(uw.DatasetError, match="cannot tell the format from the suffix '.csv'"):
        uw.save(random_dataset(), tmp_path / "a.csv")
    with pytest.raises(uw.DatasetError, match="existing folder to write into"):
        uw.save(random_dataset(), tmp_path / "none" / "a.npz")
    (tmp_path / "taken.npz").mkdir()
    with pytest.raises(uw.DatasetError, match="existing folder; remove it"):
        uw.save(random_dataset(), tmp_path / "taken.npz")


def damage_list_size(path: Path, width: int, claimed: int) -> None:
    """Make a Parquet file's Arrow schema claim rows of ``claimed`` numbers where ``width`` are stored."""
    data = path.read_bytes()
    encoded = pq.read_metadata(path).metadata[b"ARROW:schema"]
    schema = base64.b64decode(encoded)
    sign = width.to_bytes(4, "little")
    assert data.count(encoded) == 1
    assert schema.count(sign) == 1
    path.write_bytes(data.replace(encoded, base64.b64encode(schema.replace(sign, claimed.to_bytes(4, "little")))))


@pytest.mark.parametrize("own", [True, False])
def test_a_parquet_schema_with_a_damaged_length_is_refused_before_memory_is_filled(tmp_path: Path, own: bool) -> None:
    path = tmp_path / "a.parquet"
    observations = np.zeros((6, 37), np.float32)
    flags = np.arange(6) == 5
    uw.save(uw.Dataset.from_arrays(observations=observations, actions=flags, rewards=flags, terminated=flags), path)
    if not own:  # a file of others has no description of ours
        pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)
    damage_list_size(path, 37, 500_000_037)
    with pytest.raises(uw.DatasetError, match=r"a\.parquet: key 'observation': (rows of \(500000037,\)|claims)"):
        uw.load(path)
    assert read_columns(path, ["action"]).num_rows == 6
    assert pa.default_memory_pool().max_memory() < 1 << 30


@pytest.mark.parametrize("claimed", [-5, 2**30])
def test_an_arrow_table_with_damaged_places(tmp_path: Path, claimed: int) -> None:
    """Minari's Arrow storage: where each row of a column of lists begins is taken from the file."""
    path = write_minari_arrow(tmp_path)
    assert uw.load(tmp_path).observations.shape == (2, 3)
    begins = np.array([0, 3, 6, 9], np.int32)
    data = path.read_bytes()
    assert data.count(begins.tobytes()) == 2
    begins[2] = claimed
    path.write_bytes(data.replace(np.array([0, 3, 6, 9], np.int32).tobytes(), begins.tobytes()))
    with pytest.raises(uw.DatasetError, match="cannot read the episode's table"):
        uw.load(tmp_path).check()
