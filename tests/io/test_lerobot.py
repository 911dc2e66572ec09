"""The file of weights beside a LeRobot dataset."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import upweight as uw
from support.lerobot import LENGTHS, SUCCEEDED, flags_of, write_lerobot
from upweight.cli.main import main
from upweight.io.lerobot import data_hash, read_weights, write_weights


def test_a_row_per_episode_with_what_is_known_of_it(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot", **{"next.success": flags_of()})
    before = data_hash(folder)
    assert main(["weights", str(folder), "--success", "success", "--in-place"]) == 0
    table = pq.read_table(folder / "meta" / "upweight.parquet")
    weights = uw.ReturnWeighting()(uw.load(folder, success="success"))
    assert table.to_pydict() == {
        "episode_index": [0, 1, 2, 3, 4],
        "length": list(LENGTHS),
        "return": [1.0, 0.0, 0.0, 1.0, 0.0],
        "success": list(SUCCEEDED),
        "weight": weights.tolist(),
    }
    about = json.loads(table.schema.metadata[b"upweight"])
    assert about == {"format": 1, "weighting": {"name": "rw", "temperature": 0.1}, "hash": before}
    assert data_hash(folder) == before  # the file is not part of the data


def test_what_nothing_says_stays_empty(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot")
    assert main(["weights", str(folder), "--weighting", "uniform", "-o", str(tmp_path / "w.parquet")]) == 0
    table = pq.read_table(tmp_path / "w.parquet")
    assert table["return"].null_count == table["success"].null_count == 5
    assert not (folder / "meta" / "upweight.parquet").exists()
    np.testing.assert_array_equal(read_weights(tmp_path / "w.parquet", folder).weight, [0.2] * 5)


def test_part_of_a_dataset_keeps_its_numbers(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot", **{"next.reward": np.arange(26.0).tolist()})
    (folder / "data" / "chunk-000" / "file-000.parquet").unlink()  # not downloaded
    assert main(["weights", str(folder), "--in-place"]) == 0
    assert read_weights(folder / "meta" / "upweight.parquet").episode_index.tolist() == [2, 3, 4]


def test_nothing_is_written_into_a_dataset_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_lerobot(tmp_path / "robot", **{"next.reward": [1.0] * 26})
    before = sorted(folder.rglob("*"))
    assert main(["weights", str(folder), "-o", str(tmp_path / "w.npz")]) == 0
    assert sorted(folder.rglob("*")) == before
    with pytest.raises(SystemExit):
        main(["weights", str(folder), "-o", "w.parquet", "--in-place"])
    uw.save(uw.load(folder), tmp_path / "plain.parquet")
    for data, options in (
        (tmp_path / "plain.parquet", ["--in-place"]),
        (tmp_path / "plain.parquet", ["-o", "w.parquet"]),
    ):
        assert main(["weights", str(data), *options]) == 2
        assert "are for LeRobot folders, which have a meta/info.json" in capsys.readouterr().err


def test_weights_are_not_written_for_data_that_changed(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot", **{"next.reward": [1.0] * 26})
    ds = uw.load(folder)
    os.utime(next((folder / "data").rglob("*.parquet")), ns=(0, 1))
    with pytest.raises(uw.DatasetError, match="changed since it was loaded"):
        write_weights(tmp_path / "w.parquet", folder, ds, uw.Uniform()(ds), {}, "success")
    assert not (tmp_path / "w.parquet").exists()


def test_it_is_replaced_only_with_leave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(write_lerobot(tmp_path / "robot", **{"next.reward": [1.0] * 26}))
    assert main(["weights", folder, "--in-place"]) == 0
    assert main(["weights", folder, "--in-place"]) == 2
    assert "exists already; choose another name, or replace it with --overwrite" in capsys.readouterr().err
    assert main(["weights", folder, "--in-place", "--overwrite", "--weighting", "uniform", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["output"].endswith("meta/upweight.parquet")


def test_weights_go_stale_with_their_data(tmp_path: Path) -> None:
    folder = write_lerobot(tmp_path / "robot", **{"next.reward": [1.0] * 26})
    assert main(["weights", str(folder), "--in-place"]) == 0
    file = folder / "meta" / "upweight.parquet"
    assert len(read_weights(file).weight) == 5
    write_lerobot(tmp_path / "other", **{"next.reward": [2.0] * 26})
    (tmp_path / "other" / "data" / "chunk-000" / "file-001.parquet").replace(folder / "data/chunk-000/file-001.parquet")
    with pytest.raises(uw.DatasetError, match=r"upweight\.parquet: the weights are of other data"):
        read_weights(file)


@pytest.mark.parametrize("content", [b"", b"PAR1 damaged PAR1"])
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "w.parquet").write_bytes(content)
    with pytest.raises(uw.DatasetError, match=r"w\.parquet: cannot read weights"):
        read_weights(tmp_path / "w.parquet")
