"""Write a file or folder completely or not at all; JSON in one way."""

import errno
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from upweight.base.errors import DatasetError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_WORKSHOP = ".upweight-"  # a name that nobody else gives to a folder


@contextmanager
def atomic_target(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """A temporary path to write to. It is renamed to ``path`` if the block succeeds, and removed if it fails.

    The block may make it a file or a folder. An existing file is replaced. An existing folder is refused, or replaced by a
    folder with ``overwrite``.
    """
    if overwrite:
        restore_folder(path)
    elif path.is_dir():
        raise DatasetError(
            f"{path}: expected a path to write to, found an existing folder; remove it or choose another"
        )
    if not path.parent.is_dir():
        raise DatasetError(f"{path}: expected an existing folder to write into, but {path.parent} is not one")
    with naming(path):
        workshop = Path(tempfile.mkdtemp(prefix=_WORKSHOP, dir=path.parent))
        try:
            target = workshop / path.name
            yield target
            for file in [target, *target.rglob("*")] if target.is_dir() else [target]:
                _flush(file)
            if path.is_dir():
                replace_folder(path, target)
            else:
                os.replace(target, path)
                _flush(path.parent)
        finally:
            shutil.rmtree(workshop, ignore_errors=True)


def clear_leftovers(folder: Path, *, older_than_seconds: float = 0.0) -> None:
    """Remove what :func:`atomic_target` or :func:`remove_folder` left in ``folder`` when a process was killed, and nothing else.

    Who is not alone in the folder says how old a leftover must be: nobody takes so long to write a file.
    """
    for workshop in folder.glob(f"{_WORKSHOP}*"):
        with suppress(FileNotFoundError):  # somebody else was faster
            if workshop.is_dir() and time.time() - workshop.stat().st_mtime >= older_than_seconds:
                shutil.rmtree(workshop, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder and what is in it; others see all of it or nothing."""
    workshop = Path(tempfile.mkdtemp(prefix=_WORKSHOP, dir=folder.parent))
    folder.rename(workshop / folder.name)
    shutil.rmtree(workshop, ignore_errors=True)


def replace_folder(folder: Path, new: Path) -> None:
    """Give ``new`` the name of ``folder``, and then remove what was there.

    A killed process leaves the old one, as ``folder`` or as ``FOLDER.upweight-replaced``, or the new one as ``folder``;
    :func:`restore_folder` clears up after it.
    """
    aside = _aside(folder)
    if folder.exists():
        folder.rename(aside)
    try:
        new.rename(folder)
    except BaseException:
        restore_folder(folder)
        raise
    _flush(folder.parent)
    restore_folder(folder)


def restore_folder(folder: Path) -> None:
    """Put back what :func:`replace_folder` put aside if nothing came in its place, else remove it."""
    aside = _aside(folder)
    if folder.exists():
        shutil.rmtree(aside, ignore_errors=True)
    elif aside.exists():
        aside.rename(folder)


def _aside(folder: Path) -> Path:
    return folder.parent / f"{folder.name}.upweight-replaced"  # a name that nobody else gives: it is removed unasked


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make the system's errors about writing say which file it was, and what to do about a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            error.strerror = f"{os.strerror(error.errno)}; make room and start again: what was complete before is kept"
            error.filename = str(path)
        elif error.filename is None or _WORKSHOP in str(error.filename):
            error.strerror = f"cannot write: {error.strerror or error}"
            error.filename = str(path)
        raise


def strict_json(value: Any) -> Any:
    """What a file of JSON would give back of ``value``: a copy, with None for NaN and infinity, which JSON does not have."""
    return json.loads(json.dumps(value), parse_constant=lambda _: None)


def write_json(path: Path, value: Any, *, allow_nan: bool = False) -> None:
    """Write ``value`` for people and programs, completely or not at all."""
    with atomic_target(path) as target:
        target.write_text(json.dumps(value, indent=1, allow_nan=allow_nan) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """What a file holds; None if it is damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return None


def read_log(path: Path, keys: set[str]) -> Iterator[dict[str, Any]]:
    """The records of a log that have all of the keys, one per line; what a killed process left half written is passed over."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and keys <= record.keys():
            yield record


def _flush(path: Path) -> None:
    """Wait until a file, or the list of what is in a folder, is on the disk."""
    is_folder = path.is_dir()
    try:
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)  # Windows flushes only what may be written to
    except PermissionError:
        if is_folder:  # Windows opens no folders, and keeps their lists by itself
            return
        raise
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
