"""Progress of long work, reported to whoever listens.

Library code wraps a long loop in :func:`track`, or calls :func:`report` itself; nothing is printed. A front end (the command
line) installs a listener with :func:`listening`, which is called with (description, done, total, detail).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Listener = Callable[[str, int, int, str], None]
Item = TypeVar("Item")

_listener: ContextVar[Listener | None] = ContextVar("upweight_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send the progress of all work inside the block to ``listener(description, done, total, detail)``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report(description: str, done: int, total: int, detail: str = "") -> None:
    """Tell the listener (if any) how far the work is; ``detail`` is what else is worth showing."""
    listener = _listener.get()
    if listener is not None:
        listener(description, done, total, detail)


def track(items: Iterable[Item], *, total: int, description: str) -> Iterator[Item]:
    """Iterate over ``items``, telling the listener before each one and at the end."""
    for done, item in enumerate(items):
        report(description, done, total)
        yield item
    report(description, total, total)
