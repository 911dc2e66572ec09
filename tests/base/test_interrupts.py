"""Ctrl-C in the middle of a block that must not be cut."""

import ctypes
import os
import signal
import threading
import time
from typing import Any

import pytest

from upweight.base.interrupts import answering, interrupts_wait, terminated_as_interrupted


@pytest.mark.parametrize(("times", "expected"), [(1, ["all of it"]), (2, [])])
def test_the_block_ends_first_unless_one_insists(times: int, expected: list[str]) -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), interrupts_wait("stopping"):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done == expected
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_errors_come_through_and_the_handler_is_put_back() -> None:
    with pytest.raises(ZeroDivisionError), interrupts_wait("stopping"):
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_and_no_handler() -> None:
    found = []

    def work() -> None:
        with interrupts_wait("stopping"):
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        work()
    finally:
        signal.signal(signal.SIGINT, before)
    assert found == [signal.default_int_handler, signal.SIG_IGN]


def test_parts_of_the_block_may_be_left_at_once() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), interrupts_wait("stopping") as interrupts, interrupts.at_once():
        done.append("some of it")
        signal.raise_signal(signal.SIGINT)
        done.append("the rest")
    assert done == ["some of it"]
    with pytest.raises(KeyboardInterrupt), interrupts_wait("stopping") as interrupts:
        with interrupts.at_once():
            pass
        signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done[1:] == ["all of it"]


def test_the_work_may_heed_it_earlier() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), interrupts_wait("stopping") as interrupts:
        interrupts.heed()
        assert not interrupts.heard
        signal.raise_signal(signal.SIGINT)
        assert interrupts.heard
        done.append("a checkpoint")
        interrupts.heed()
        done.append("the rest")
    assert done == ["a checkpoint"]


def test_it_is_answered_while_the_main_thread_hears_nothing() -> None:
    """It sits in a call of C for two seconds, as one of XLA's; the answer does not wait for it."""
    answers: list[tuple[int, str, float]] = []
    libc = ctypes.CDLL(None)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with (
        pytest.raises(KeyboardInterrupt),
        answering(lambda presses, message: answers.append((presses, message, time.monotonic()))),
        interrupts_wait("stopping soon"),
    ):
        began = time.monotonic()
        while time.monotonic() - began < 1.0:  # a signal cuts the first sleep short
            libc.usleep(900_000)
    ((presses, message, when),) = answers
    assert (presses, message) == (1, "stopping soon")
    assert 0.1 < when - began < 0.8


@pytest.mark.parametrize("before", [signal.default_int_handler, signal.SIG_IGN])
def test_the_end_that_a_scheduler_asks_for(before: Any) -> None:
    """Waits and is heeded as Ctrl-C is, also where that is ignored; and outside such a block it ends what is done at once."""
    done: list[str] = []
    handler, ending = signal.signal(signal.SIGINT, before), signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(KeyboardInterrupt), terminated_as_interrupted(), interrupts_wait("stopping"):
            signal.raise_signal(signal.SIGTERM)
            done.append("all of it")
        with pytest.raises(KeyboardInterrupt), terminated_as_interrupted():
            signal.raise_signal(signal.SIGTERM)
            done.append("more")
        assert done == ["all of it"]
        assert signal.getsignal(signal.SIGINT) is before and signal.getsignal(signal.SIGTERM) is ending
    finally:
        signal.signal(signal.SIGINT, handler)
