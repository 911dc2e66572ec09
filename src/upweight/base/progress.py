"""Progress of long work, reported to whoever listens.

Library code wraps a long loop in :func:`track`, or calls :func:`report` itself; nothing is printed. A front end (the command
line) installs a listener with :func:`listening`, which is called with (description, done, total, detail): a :class:`ProgressBar`,
or a :class:`ProgressLog` where nobody watches.
"""

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TextIO, TypeVar

from upweight.base.checks import yes_or_no

Listener = Callable[[str, int, int, str], None]
Item = TypeVar("Item")

_PATIENCE_SECONDS = 0.5  # work shorter than this shows no bar
_BAR_WIDTH = 24
_LOG_SECONDS = 60.0  # from one line of a log to the next
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
    """Tell the listener (if any) how far the work is; ``detail`` is shown after it."""
    listener = _listener.get()
    if listener is not None:
        listener(description, done, total, detail)


def track(items: Iterable[Item], *, total: int, description: str) -> Iterator[Item]:
    """Iterate over ``items``, telling the listener before each one and at the end."""
    for done, item in enumerate(items):
        report(description, done, total)
        yield item
    report(description, total, total)


@contextmanager
def showing(wanted: bool | None) -> Iterator[None]:
    """A progress bar for the work inside the block, if wanted; None: where a person watches and nobody listens yet."""
    in_notebook = "ipykernel" in sys.modules
    stream = sys.stdout if in_notebook else sys.stderr  # notebooks show errors in red
    if wanted is None:
        wanted = (_listener.get() is None and (in_notebook or stream.isatty())) or None
    shown = None if wanted is None else ProgressBar(stream, active=yes_or_no("progress", wanted))
    with nullcontext() if shown is None else listening(shown):
        yield


class ProgressBar:
    """A listener that draws on one line, over and over, by default on a terminal only."""

    def __init__(self, stream: TextIO, *, active: bool | None = None) -> None:
        self._stream = stream
        self._active = stream.isatty() if active is None else active
        self._paces: dict[str, _Pace] = {}
        self._drawn = 0.0
        self._width = 0

    def __call__(self, description: str, done: int, total: int, detail: str = "") -> None:
        if not self._active:
            return
        now, finished = time.monotonic(), done >= total
        if description not in self._paces or done == 0:
            self._paces[description] = _Pace(now)
        pace = self._paces[description]
        left = pace.left(done, total, now)
        if (now - pace.began < _PATIENCE_SECONDS and not detail) or (now - self._drawn < 0.1 and not finished):
            return
        self._drawn = now
        filled = _BAR_WIDTH * done // max(1, total)
        bar = f"{description} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {done:,}/{total:,}"
        line = ", ".join(filter(None, (bar, left, detail)))
        self._write(line[: shutil.get_terminal_size().columns - 1])
        if finished:
            self._write("")

    def _write(self, line: str) -> None:
        """Overwrite the last line, padded with spaces, because notebooks ignore terminal codes."""
        self._stream.write(f"\r{line.ljust(self._width)}" if line else f"\r{' ' * self._width}\r")
        self._stream.flush()
        self._width = len(line)


class ProgressLog:
    """A listener for files and pipes: a line a minute for work that takes longer."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._paces: dict[str, _Pace] = {}
        self._said: dict[str, float] = {}

    def __call__(self, description: str, done: int, total: int, detail: str = "") -> None:
        now = time.monotonic()
        if description not in self._paces or done == 0:
            self._paces[description], self._said[description] = _Pace(now), now
        left = self._paces[description].left(done, total, now)
        if now - self._said[description] >= _LOG_SECONDS:
            self._said[description] = now
            self._stream.write(", ".join(filter(None, (f"{description}: {done:,}/{total:,}", left, detail))) + "\n")
            self._stream.flush()


class _Pace:
    """The speed of one piece of work. The first advance is left out, as it may include a compilation."""

    def __init__(self, now: float) -> None:
        self.began = now
        self._calls = self._first = 0
        self._first_at = now

    def left(self, done: int, total: int, now: float) -> str:
        """``3:20 left``, or nothing if that is not known yet."""
        self._calls += 1
        if self._calls == 2:
            self._first, self._first_at = done, now
        if self._calls < 3 or done <= self._first:
            return ""
        return f"{_duration((now - self._first_at) * (total - done) / (done - self._first))} left"


def _duration(seconds: float) -> str:
    """12 s, 3:20, 1:05:00."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
