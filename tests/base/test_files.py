"""Files are there completely or not at all, and errors name them."""

import errno
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from upweight.base.files import (
    atomic_target,
    clear_leftovers,
    read_json,
    read_log,
    remove_folder,
    replace_folder,
    write_json,
)

WITH_LITTLE_ROOM = """
    import resource, signal, sys
    from pathlib import Path
    from upweight.base.files import atomic_target
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))  # as on a full disk: no file may grow beyond
    try:
        with atomic_target(Path(sys.argv[1])) as target:
            target.write_bytes(bytes(20_000))
    except OSError as error:
        print(error.filename, error.strerror, sep="\\n")
"""


def test_no_room(tmp_path: Path) -> None:
    """In a process of its own: the limit holds for all that a process writes."""
    path = tmp_path / "results.bin"
    path.write_bytes(b"before")
    command = [sys.executable, "-c", textwrap.dedent(WITH_LITTLE_ROOM), str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [str(path), "File too large; make room and start again: what was complete before is kept"]
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_other_errors_keep_their_own_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_target(tmp_path / "here"):
        (tmp_path / "elsewhere").read_bytes()
    assert caught.value.filename == str(tmp_path / "elsewhere")


def test_what_could_not_be_written_has_the_name_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "results.bin"
    with pytest.raises(PermissionError, match=r"cannot write") as caught, atomic_target(path) as target:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    assert caught.value.filename == str(path)


def killed_while_writing(path: Path) -> Path:
    """What stays of a process that did not come to the end."""
    with atomic_target(path) as target:
        target.write_text("half")
        workshop = target.parent
        shutil.copytree(workshop, left := path.parent / f"{workshop.name}x")
    return left


def test_leftovers_go_and_what_others_hide_stays(tmp_path: Path) -> None:
    left = killed_while_writing(tmp_path / "results.bin")
    others = [tmp_path / ".git", tmp_path / ".results.bin.old"]
    for folder in others:
        folder.mkdir()
    (tmp_path / ".upweight-notes").write_text("a file is not ours")
    clear_leftovers(tmp_path)
    assert not left.exists()
    assert sorted(tmp_path.glob(".*")) == [*others, tmp_path / ".upweight-notes"]
    assert (tmp_path / "results.bin").read_text() == "half"


def test_who_is_not_alone_leaves_what_is_new(tmp_path: Path) -> None:
    old, new = killed_while_writing(tmp_path / "one"), killed_while_writing(tmp_path / "two")
    os.utime(old, (time.time() - 200, time.time() - 200))
    clear_leftovers(tmp_path, older_than_seconds=100)
    assert new.exists() and not old.exists()


def test_a_folder_is_removed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder" / "below").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # killed at it
        remove_folder(tmp_path / "folder")
    assert not (tmp_path / "folder").exists() and len(list(tmp_path.iterdir())) == 1
    clear_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_replaced_stays(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "old", tmp_path / "missing")
    assert (tmp_path / "old" / "file").read_text() == "old"
    replace_folder(tmp_path / "old", tmp_path / "new")
    assert (tmp_path / "old" / "file").read_text() == "new" and len(list(tmp_path.iterdir())) == 1


def test_systems_that_open_no_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Windows: no handle for a folder, and no flushing of what was opened for reading."""
    real_open, real_fsync, read_only = os.open, os.fsync, set()

    def open_(path: Path, flags: int, *rest: int) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        handle = real_open(path, flags, *rest)
        (read_only.discard if flags & os.O_RDWR else read_only.add)(handle)
        return handle

    def fsync(handle: int) -> None:
        if handle in read_only:
            raise OSError(9, "Bad file descriptor")
        real_fsync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_)
        patch.setattr(os, "fsync", fsync)
        with atomic_target(tmp_path / "file") as target:
            target.write_text("whole")
        with atomic_target(tmp_path / "folder") as target:
            target.mkdir()
            (target / "inside").write_text("whole")
    assert (tmp_path / "file").read_text() == (tmp_path / "folder" / "inside").read_text() == "whole"


def test_json_is_written_whole_and_read_with_care(tmp_path: Path) -> None:
    path = tmp_path / "about.json"
    write_json(path, {"name": "größe", "sizes": [1, 2]})
    assert read_json(path) == {"name": "größe", "sizes": [1, 2]}
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(path, {"score": float("nan")})
    assert read_json(path)["sizes"] == [1, 2]
    for damaged in (b'{"name": "gr', b"\xff\xfe", b"[" * 100_000, b""):
        path.write_bytes(damaged)
        assert read_json(path) is None
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "missing.json")


def test_a_log_is_read_past_what_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert list(read_log(path, {"a"})) == []
    path.write_bytes(b'{"a": 1}\n{"b": 2}\n[3]\n\xff\n' + b"[" * 100_000 + b'\n{"a": 4, "b": 5}\n{"a": ')
    assert list(read_log(path, {"a"})) == [{"a": 1}, {"a": 4, "b": 5}]
