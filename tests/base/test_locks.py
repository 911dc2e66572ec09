"""Locks between processes, on systems with and without fcntl."""

import errno
import importlib.util
import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from upweight.base import locks


def windows_locks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module as Windows imports it, with a stand-in for the system's own."""
    taken: dict[tuple[int, int], int] = {}  # file -> the handle that has it

    def locking(handle: int, mode: int, count: int) -> None:
        about = os.fstat(handle)
        for file, holder in list(taken.items()):
            try:
                os.fstat(holder)
            except OSError:  # closed: the system takes the lock back
                del taken[file]
        if taken.setdefault((about.st_dev, about.st_ino), handle) != handle:
            raise PermissionError(errno.EACCES, "Permission denied")

    stand_in = types.ModuleType("msvcrt")
    stand_in.locking, stand_in.LK_NBLCK = locking, 2  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "win32")
        spec = importlib.util.spec_from_file_location("windows_locks", locks.__file__)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("system", ["this", "windows"])
def test_one_holder_at_a_time(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = windows_locks(monkeypatch) if system == "windows" else locks
    path = tmp_path / "lock"
    first = module.hold(path)
    assert first is not None and module.hold(path) is None
    got = threading.Event()

    def wait() -> None:
        with module.locked(path):
            got.set()
            assert module.hold(path) is None

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert not got.wait(0.2)
    first.close()
    waiter.join(10)
    assert got.is_set()
