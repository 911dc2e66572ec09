"""Ctrl-C in the middle of a block that must not be cut."""

import ctypes
import os
import signal
import threading
import time

import pytest

from upweight.base.interrupts import answering, interrupts_wait


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
