"""What the command line shows: plain lines, colours and a progress bar only where a person is watching."""

import json
import os
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Any, TextIO

_BOLD, _YELLOW, _RED, _RESET = "\x1b[1m", "\x1b[33m", "\x1b[31m", "\x1b[0m"
_PATIENCE_SECONDS = 0.5  # work shorter than this shows no bar
_BAR_WIDTH = 24


def command_name() -> str:
    """How to call this command again: ``upweight`` where the shell finds it, else what was typed (.venv/bin/upweight)."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m upweight"
    found = shutil.which("upweight")
    is_command = called.stem == "upweight" and called.exists()
    return sys.argv[0] if is_command and (found is None or not called.samefile(found)) else "upweight"


def has_colours(stream: TextIO) -> bool:
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _paint(text: str, colour: str, stream: TextIO) -> str:
    return f"{colour}{text}{_RESET}" if has_colours(stream) else text


def print_error(message: str) -> None:
    """One line on standard error."""
    print(f"{_paint('upweight: error:', _RED, sys.stderr)} {' '.join(message.split())}", file=sys.stderr)


def print_report(text: str) -> None:
    """A report with its section heads in bold."""
    for line in text.splitlines():
        is_head = line.startswith(("Dataset ", "Suggestion:"))
        print(_paint(line, _BOLD, sys.stdout) if is_head else line)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, allow_nan=False))


def show_warnings_as_lines() -> None:
    """Warnings as one line each on standard error, without file names of ours."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"{_paint('warning:', _YELLOW, sys.stderr)} {' '.join(str(message).split())}", file=sys.stderr)

    warnings.showwarning = show
    warnings.simplefilter("always", UserWarning)


class ProgressBar:
    """A listener for :func:`upweight.base.progress.listening` that draws on a terminal and is silent elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._active = stream.isatty()
        self._description = ""
        self._began = self._drawn = 0.0

    def __call__(self, description: str, done: int, total: int, detail: str = "") -> None:
        if not self._active:
            return
        now = time.monotonic()
        if description != self._description or done == 0:
            self._description, self._began = description, now
        finished = done >= total
        if now - self._began < _PATIENCE_SECONDS or (now - self._drawn < 0.1 and not finished):
            return
        self._drawn = now
        filled = _BAR_WIDTH * done // max(1, total)
        left = (now - self._began) * (total - done) / max(1, done)
        bar = "#" * filled + "." * (_BAR_WIDTH - filled)
        parts = [f"{description} [{bar}] {done:,}/{total:,}", f"{_duration(left)} left", *([detail] if detail else [])]
        width = shutil.get_terminal_size().columns
        self._stream.write(f"\r\x1b[K{', '.join(parts)[: width - 1]}")
        if finished:
            self._stream.write("\r\x1b[K")
        self._stream.flush()


def _duration(seconds: float) -> str:
    """12 s, 3:20, 1:05:00."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
