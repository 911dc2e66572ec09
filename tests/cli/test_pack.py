"""``upweight pack`` as a user meets it."""

import json
import re
from pathlib import Path

import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset
from upweight.cli.main import main


@pytest.fixture
def shards(tmp_path: Path) -> list[str]:
    for seed in range(2):
        uw.save(random_dataset(seed), tmp_path / f"{seed}.npz")
    return [str(tmp_path / f"{seed}.npz") for seed in range(2)]


def test_says_what_it_needs_and_what_it_wrote(
    tmp_path: Path, shards: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "all.packed"
    assert main(["pack", *shards, "-o", str(folder), "--verify"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert re.search(r"packing 2 datasets, 24 episodes, \d+ steps: 0\.0 MiB in .*all\.packed \(.* are free\)", first)
    assert re.search(r"wrote .*all\.packed: 24 episodes, \d+ steps, .* read again and found right", last)
    assert_same(uw.load(folder), uw.concat([random_dataset(seed) for seed in range(2)]), metadata=False)
    assert main(["inspect", str(folder)]) == 0
    assert main(["pack", *shards, "-o", str(folder)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["pack", *shards, "-o", str(folder), "--overwrite", "--dtype", "float16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 24


def test_verifies_what_was_packed_before(tmp_path: Path, shards: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "all"
    assert main(["pack", *shards, "-o", str(folder)]) == 0
    assert main(["pack", str(folder), "--verify"]) == 0
    assert "24 episodes" in capsys.readouterr().out
    (folder / "actions.bin").write_bytes(bytes((folder / "actions.bin").stat().st_size))
    assert main(["pack", str(folder), "--verify"]) == 2
    assert re.search(r"actions\.bin: bytes 0 to .* are not those that were packed", capsys.readouterr().err)
    assert main(["pack", str(folder)]) == 2
    assert "expected -o FOLDER to pack into, or --verify" in capsys.readouterr().err
