"""Small files that claim to hold much: refused before the memory is taken."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.lib import format as npy

import upweight as uw
from support.datasets import random_dataset
from support.files import write_minari_arrow
from support.lerobot import write_lerobot
from upweight.io.lerobot import read_weights

ROWS = 1_000_000
FLOOR = 1 << 20
REFUSED = "claims .* bytes but .* stores only"


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small files will do; libraries write no page of Parquet of more than 20,000 rows."""
    monkeypatch.setattr("upweight.io.format._CLAIM_FLOOR_BYTES", FLOOR)
    monkeypatch.setattr("upweight.io.format._CLAIM_RATIO", 100)


@pytest.mark.parametrize("packing", ["bz2", "zst"])
def test_a_packed_table_of_text(packing: str, tmp_path: Path) -> None:
    with pytest.raises(uw.DatasetError, match=REFUSED):
        uw.load(write_text(tmp_path / f"a.csv.{packing}", 1 << 18))


def test_what_deflate_can_do_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upweight.io.format._CLAIM_RATIO", 5000)
    assert uw.load(write_text(tmp_path / "a.csv.gz", 1 << 18)).num_steps == 1 << 18


def write_text(path: Path, rows: int) -> Path:
    """A log of one long episode in which nothing happens."""
    with pa.output_stream(path, compression="detect") as file:
        file.write(b"episode,observation_0,action,reward,terminated\n" + b"0,0,0,0,0\n" * (rows - 1) + b"0,0,0,0,1\n")
    return path


def columns() -> dict[str, Any]:
    """Of such a log."""
    zeros = pa.array(np.zeros(ROWS, np.int8))
    return {
        "episode_index": zeros,
        "observation": zeros,
        "action": zeros,
        "reward": zeros.cast("float32"),
        "terminated": zeros.cast("bool"),
    }


def write_runs(table: pa.Table, path: Path) -> Path:
    """As Parquet stores one number many times: with how often it comes."""
    pq.write_table(table, path, compression="zstd", row_group_size=ROWS)
    return path


@pytest.mark.parametrize("options", [{}, {"observations": "observation", "actions": "action", "ends": "truncated"}])
def test_numbers_that_are_all_the_same(options: dict[str, Any], tmp_path: Path) -> None:
    path = write_runs(pa.table(columns()), tmp_path / "a.parquet")
    with pytest.raises(uw.DatasetError, match=REFUSED):
        uw.load(path, **options).check()


@pytest.mark.parametrize("as_table", [False, True])
def test_vectors_that_are_all_the_same(as_table: bool, tmp_path: Path) -> None:
    count = 2000
    steps = {
        "episode_index": pa.array(np.arange(count) // 10),
        "action": pa.array(np.zeros(count)),
        "reward": pa.array(np.zeros(count)),
        "terminated": pa.array(np.arange(count) % 10 == 9),
        "observation": pa.array([[0.0] * 10_000] * count, pa.list_(pa.float64())),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(steps), path, compression="zstd")
    options = {"rewards": "reward"} if as_table else {}
    with pytest.raises(uw.DatasetError, match=REFUSED):
        uw.load(path, **options).check()


def labelled(path: Path, name: str) -> Path:
    """Episodes of one step, with one long label or name for all."""
    count = 2000
    steps = {
        "episode_index": pa.array(np.arange(count)),
        "observation": pa.array(np.arange(count, dtype=np.float32)),
        "action": pa.array(np.arange(count, dtype=np.float32)),
        "reward": pa.array(np.zeros(count)),
        "terminated": pa.array(np.ones(count, bool)),
        name: pa.array(["x" * 100_000] * count),
    }
    pq.write_table(pa.table(steps), path, compression="zstd")
    return path


@pytest.mark.parametrize("options", [{}, {"label": "label"}])
def test_one_long_label(options: dict[str, Any], tmp_path: Path) -> None:
    path = labelled(tmp_path / "a.parquet", "label")
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(uw.DatasetError, match=REFUSED):
        uw.load(path, **options)
    assert pa.default_memory_pool().max_memory() - before < 50 << 20  # as text it takes 200 MB


def test_short_labels_stay_what_they_are(tmp_path: Path) -> None:
    """However they are stored, with and without gaps."""
    ds = random_dataset(labels=True)
    uw.save(ds, tmp_path / "a.parquet")
    back = uw.load(tmp_path / "a.parquet", observations="observation", actions="action", label="label")
    assert back.labels is not None and ds.labels is not None
    assert back.labels.tolist() == ds.labels.tolist()
    steps = {"episode": [0, 0, 1], "observation": [1.0, 2, 3], "action": [0, 1, 0], "drug": ["a", None, "b"]}
    steps |= {"reward": [0.0, 1.0, 2.0], "terminated": [0, 1, 1]}
    pq.write_table(pa.table(steps), tmp_path / "gaps.parquet")
    with pytest.raises(uw.DatasetError, match="drug"):
        uw.load(tmp_path / "gaps.parquet", observations=["observation", "drug"], categories=["drug"])


def test_an_episode_of_minari(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    write_minari_arrow(folder).unlink()
    (folder / "metadata.json").write_text('{"data_format": "parquet"}')
    zeros = pa.array(np.zeros(ROWS))
    steps = {name: zeros.cast("bool") for name in ("terminations", "truncations")}
    table = pa.table({**steps, "rewards": zeros, "observations": zeros, "actions": zeros})
    write_runs(table, folder / "0" / "0-0.parquet")
    with pytest.raises(uw.DatasetError, match=REFUSED):
        uw.load(folder)


def test_weights_of_lerobot(tmp_path: Path) -> None:
    zeros = pa.array(np.zeros(ROWS))
    table = pa.table({"weight": zeros, "length": zeros, "episode_index": zeros})
    path = write_runs(table.replace_schema_metadata({b"upweight": b'{"format": 1}'}), tmp_path / "w.parquet")
    with pytest.raises(uw.DatasetError, match=REFUSED):
        read_weights(path)


def test_the_metadata_of_lerobots_episodes(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot", **{"next.reward": [1.0] * 26})
    (folder / "meta" / "episodes").mkdir(exist_ok=True)
    labelled(folder / "meta" / "episodes" / "a.parquet", "rating")
    with pytest.raises(uw.DatasetError, match=REFUSED):
        uw.load(folder, score="rating")


@pytest.mark.parametrize("stored", [None, 88_000_000_000])
def test_a_file_of_weights(stored: int | None, tmp_path: Path) -> None:
    """Of 88 GB, says its array; where its archive says so too, the size of the file counts."""
    ds, path, header = random_dataset(), tmp_path / "w.npz", io.BytesIO()
    npy.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (11_000_000_000,)})
    np.savez(path, lengths=ds.num_transitions, returns=ds.returns)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("weights.npy", header.getvalue() + bytes(1000))
        entry = archive.getinfo("weights.npy")
        entry.file_size = len(header.getvalue()) + 88_000_000_000
        entry.compress_size = stored or entry.compress_size
    with pytest.raises(uw.DatasetError, match=REFUSED):
        uw.load_weights(path, ds)
