"""Locks between processes that share a folder; the system takes them back when a process dies."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock on a file (which is made if need be); False if somebody else has it and we do not wait."""
    try:
        import fcntl
    except ImportError:  # no such thing on Windows
        yield True
        return
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
