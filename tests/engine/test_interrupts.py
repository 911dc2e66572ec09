"""Ctrl-C in the middle of a block that must not be cut."""

import signal
import threading

import pytest

from upweight.engine.interrupts import interrupts_wait


@pytest.mark.parametrize(("times", "expected"), [(1, ["all of it"]), (2, [])])
def test_the_block_ends_first_unless_one_insists(times: int, expected: list[str]) -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), interrupts_wait():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        done.append("all of it")
    assert done == expected
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_errors_come_through_and_the_handler_is_put_back() -> None:
    with pytest.raises(ZeroDivisionError), interrupts_wait():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_and_no_handler() -> None:
    found = []

    def work() -> None:
        with interrupts_wait():
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
