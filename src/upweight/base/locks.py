"""Locks between processes that share a folder; the system takes them back when a process dies."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

if sys.platform == "win32":
    import msvcrt

    _AGAIN_SECONDS = 0.05

    def _lock(file: IO[Any], *, wait: bool) -> bool:
        while True:
            try:
                msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # its own waiting gives up after ten seconds
                return True
            except OSError:
                if not wait:
                    return False
                time.sleep(_AGAIN_SECONDS)
else:
    import fcntl

    def _lock(file: IO[Any], *, wait: bool) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False


def hold(path: Path) -> IO[str] | None:
    """Take the lock on a file, which is created if missing. Close the result to release it; None: another process has it."""
    file = path.open("a")
    if _lock(file, wait=False):
        return file
    file.close()
    return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock on a file, which is created if missing, and hold it for the block."""
    with path.open("a") as file:
        _lock(file, wait=True)
        yield
