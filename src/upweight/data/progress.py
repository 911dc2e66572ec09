"""Progress of long work, reported to whoever listens.

Library code wraps a long loop in :func:`track`; nothing is printed. A front end (the command line) installs
a listener with :func:`listening`, which is called with (description, done, total) as the loop advances.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

Listener = Callable[[str, int, int], None]
Item = TypeVar("Item")

_listener: ContextVar[Listener | None] = ContextVar("upweight_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send the progress of all work inside the block to ``listener(description, done, total)``."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def track(items: Iterable[Item], *, total: int, description: str) -> Iterator[Item]:
    """Iterate over ``items``, telling the listener (if any) after each one."""
    listener = _listener.get()
    if listener is None:
        yield from items
        return
    for done, item in enumerate(items):
        listener(description, done, total)
        yield item
    listener(description, total, total)
