"""``upweight cache`` as a user meets it."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from upweight.cli.main import main

FILES = {  # name -> bytes
    "datasets/hopper/15-seed0-0123abcd/index.json": 100,
    "datasets/hopper/15-seed0-0123abcd/0000.npz": 3 * 2**20,
    "datasets/hopper/random-seed1-89ef0123/0000.npz": 2**20,  # an index was not written yet
    "datasets/ant/15-seed0-4567cdef/0000.npz": 2**20,
    "xla/jit_scan-89abcdef-cache": 2**20,
    "xla/xla_gpu_per_fusion_autotune_cache_dir/some": 2**20,
}
FOREIGN = ("notes.txt", "datasets/mine.npz", "datasets/hopper/mine/0000.npz", "xla/README.md")
NAMES = [
    "datasets/ant/15-seed0-4567cdef",
    "datasets/hopper/15-seed0-0123abcd",
    "datasets/hopper/random-seed1-89ef0123",
    "xla",
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder in which somebody else keeps files too; the hopper's first stream was used a hundred days ago."""
    folder = tmp_path / "cache"
    for name, count in {**FILES, **dict.fromkeys(FOREIGN, 7)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(count))
    long_ago = time.time() - 100 * 24 * 3600
    os.utime(folder / NAMES[1], (long_ago, long_ago))
    monkeypatch.setenv("UPWEIGHT_CACHE", str(folder))
    return folder


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["cache", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_lists_what_is_kept(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = answer(capsys)
    assert listed["folder"] == str(cache) and [entry["name"] for entry in listed["entries"]] == NAMES
    assert [entry["bytes"] for entry in listed["entries"]] == [2**20, 3 * 2**20 + 100, 2**20, 2 * 2**20]
    used = [entry["last_used"] for entry in listed["entries"]]
    assert used[1] == min(used) and all(used[1] < other for other in (used[0], *used[2:]))
    assert main(["cache"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{cache}: 7.0 MiB") and all(name in text for name in NAMES)
    assert used[1][:10] in text and files(cache) == FILES.keys() | set(FOREIGN)


@pytest.mark.parametrize(
    ("words", "removed"),
    [
        (["xla"], NAMES[3:]),
        (["datasets/hopper/", "xla"], NAMES[1:]),
        ([NAMES[0]], NAMES[:1]),
        (["datasets"], NAMES[:3]),
        (["--older-than", "99"], NAMES[1:2]),
        (["--older-than", "101"], []),
        (["--all"], NAMES),
    ],
)
def test_removes_what_was_asked_for_and_no_more(
    words: list[str], removed: list[str], cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = answer(capsys, "remove", *words)
    assert [entry["name"] for entry in told["removed"]] == removed
    gone = {name: count for name, count in FILES.items() if name.startswith(tuple(f"{folder}/" for folder in removed))}
    assert told["freed_bytes"] == sum(gone.values())
    assert files(cache) == (FILES.keys() - gone.keys()) | set(FOREIGN)
    assert [(cache / name).exists() for name in removed] == [
        name == "xla" for name in removed
    ]  # a foreign file is in xla
    assert [entry["name"] for entry in answer(capsys)["entries"]] == [name for name in NAMES if name not in removed]


def test_says_how_much_was_freed(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "remove", "datasets/hopper"]) == 0
    assert "freed 4.0 MiB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["remove"], "expected names, or --all, or --older-than"),
        (["remove", "xla", "--all"], "one of these only"),
        (["remove", "--all", "--older-than", "3"], "one of these only"),
        (["remove", "xla", "datasets/hoper"], "datasets/hoper: not in"),
        (["remove", "../cache"], "not in"),
        (["remove", "--older-than", "-1"], "at least 0"),
        (["--all"], "upweight cache remove"),
    ],
)
def test_removes_nothing_unless_told_what(
    words: list[str], message: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cache", *words]) == 2
    assert message in capsys.readouterr().err
    assert files(cache) == FILES.keys() | set(FOREIGN)


def test_an_empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("UPWEIGHT_CACHE", str(tmp_path / "none"))
    assert answer(capsys)["entries"] == [] and answer(capsys, "remove", "--all")["freed_bytes"] == 0
    assert main(["cache"]) == 0
    assert not (tmp_path / "none").exists()
