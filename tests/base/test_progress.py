"""How long work is shown."""

import io
import sys

import numpy as np
import pytest

from upweight.base.progress import ProgressBar, ProgressLog, listening, report, showing


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_progress_bar_shows_on_long_work_and_cleans_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0.0, 1000.0, 0.3))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    screen, pipe = Terminal(), io.StringIO()
    for stream in (screen, pipe):
        bar = ProgressBar(stream)
        for done in range(11):
            bar("reading observations", done, 10)
    assert "reading observations [####" in screen.getvalue()
    assert "s left" in screen.getvalue()
    shown = screen.getvalue().split("\r")
    assert shown[-1] == "" and shown[-2].isspace() and len(shown[-2]) == len(shown[-3].rstrip())
    assert pipe.getvalue() == ""


def test_the_time_left_is_judged_after_the_first_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which includes a compilation; and work that goes on where it was has not done the rest in no time."""
    clock = iter([1000.0, 1100.0, 1110.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    screen = Terminal()
    bar = ProgressBar(screen)
    bar("training", 500, 1000, "compiling")
    assert "500/1,000, compiling" in screen.getvalue()  # at once: there will be nothing else to see for a while
    bar("training", 510, 1000)
    assert "left" not in screen.getvalue()
    bar("training", 610, 1000)
    assert "610/1,000, 39 s left" in screen.getvalue()


def test_a_log_gets_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each piece of work that takes longer, whatever is reported beside it; and none of short work."""
    clock = iter(np.arange(0.0, 10_000.0, 12.5))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    file = io.StringIO()
    log = ProgressLog(file)
    for done in range(11):
        log("training", 10 * done, 100, "" if done else "compiling")  # at 0, 25, 50, ..., 250 s
        log("runs", done % 2, 2)
    assert file.getvalue().splitlines() == [
        "training: 30/100, 2:55 left",
        "training: 60/100, 1:40 left",
        "training: 90/100, 25 s left",
    ]


@pytest.mark.parametrize(
    ("wanted", "terminal", "notebook", "shown"),
    [
        (None, True, False, True),
        (None, False, False, False),
        (None, False, True, True),
        (True, False, False, True),
        (False, True, False, False),
    ],
)
def test_where_progress_is_shown(
    monkeypatch: pytest.MonkeyPatch, wanted: bool | None, terminal: bool, notebook: bool, shown: bool
) -> None:
    errors, output = (Terminal() if terminal else io.StringIO() for _ in range(2))
    monkeypatch.setattr("sys.stderr", errors)
    monkeypatch.setattr("sys.stdout", output)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    if notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", sys)
    with showing(wanted):
        report("training", 10, 100, "fast")
    assert bool((output if notebook else errors).getvalue()) == shown
    assert not (errors if notebook else output).getvalue()


def test_who_listens_already_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    heard: list[object] = []
    with listening(lambda *told: heard.append(told)), showing(None):
        report("training", 10, 100)
    assert heard == [("training", 10, 100, "")]
