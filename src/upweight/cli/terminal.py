"""What the command line shows: plain lines, colours only where a person is watching."""

import json
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any, TextIO

from upweight.base.files import strict_json

INTERRUPTED = 130  # the exit code
_CLEAR_LINE = "\r\x1b[K"  # of a progress bar
_BOLD, _YELLOW, _RED, _RESET = "\x1b[1m", "\x1b[33m", "\x1b[31m", "\x1b[0m"


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
    _print_line(f"{_paint('upweight: error:', _RED, sys.stderr)} {' '.join(message.split())}")


def _print_line(text: str) -> None:
    """Print on standard error, over the progress bar if there is one."""
    print(f"{_CLEAR_LINE if sys.stderr.isatty() else ''}{text}", file=sys.stderr, flush=True)


def answer_interrupt(presses: int, message: str) -> None:
    """Say what Ctrl-C will do. A repeated Ctrl-C ends the process at once, even while the device works."""
    if presses > 1:
        sys.stdout.flush()
        os._exit(INTERRUPTED)
    _print_line(message)


def print_report(text: str) -> None:
    """A report with its section heads in bold."""
    for line in text.splitlines():
        is_head = line.startswith(("Dataset ", "Suggestion:"))
        print(_paint(line, _BOLD, sys.stdout) if is_head else line)


def print_json(value: Any) -> None:
    print(json.dumps(strict_json(value), indent=2, allow_nan=False))


def show_warnings_as_lines() -> None:
    """Warnings as one line each on standard error, without file names of ours."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _print_line(f"{_paint('warning:', _YELLOW, sys.stderr)} {' '.join(str(message).split())}")

    warnings.showwarning = show
    warnings.simplefilter("always", UserWarning)
