"""Ctrl-C during work that cannot be cancelled: answered at once, obeyed where the work can stop.

What XLA compiles or computes goes on whatever Python does, and Python itself hears of a signal only when that is done; a program
that ends while XLA's threads are at it may crash. So a thread listens, and the work asks now and then.
"""

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Answer = Callable[[int, str], None]  # called in its own thread with the number of presses and a message for the user
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger("upweight")


def _answer_in_log(presses: int, message: str) -> None:
    if presses == 1:
        _log.warning("%s", message)


_answer: ContextVar[Answer] = ContextVar("upweight_interrupts", default=_answer_in_log)


@contextmanager
def answering(answer: Answer) -> Iterator[None]:
    """Let a front end answer those who press Ctrl-C during such work inside the block."""
    token = _answer.set(answer)
    try:
        yield
    finally:
        _answer.reset(token)


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, which schedulers send, do what Ctrl-C does inside the block; in the main thread.

    Also where Ctrl-C itself is ignored, as in what a script started with ``&``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        handler = signal.getsignal(signal.SIGINT)
        (handler if callable(handler) else signal.default_int_handler)(number, frame)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Interrupts:
    """What was heard during the work; a second press is heeded as soon as Python hears of it."""

    def __init__(self, handler: Callable[[int, Any], Any]) -> None:
        self._handler = handler
        self._presses = 0
        self._most = 1  # presses that wait to be heeded
        self.heard = False  # and not heeded yet

    def note(self, number: int, frame: Any) -> None:
        self._presses += 1
        self.heard = True
        if self._presses > self._most:
            self.heed()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Heed what is pressed inside the block at once: it can be left anywhere."""
        self._most = 0
        try:
            yield
        finally:
            self._most = 1

    def heed(self) -> None:
        """Do what Ctrl-C does otherwise (raise KeyboardInterrupt), if it was pressed."""
        if self.heard:
            self.heard = False
            self._handler(signal.SIGINT, None)


@contextmanager
def interrupts_wait(message: str) -> Iterator[Interrupts]:
    """Heed Ctrl-C at the end of the block, or where the block itself does; who presses is told ``message`` at once.

    And SIGTERM, where somebody handles it.
    """
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    handlers: dict[int, Any] = {number: handler for number, handler in found.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread() or not handlers:
        yield Interrupts(lambda *_: None)  # other threads are never interrupted
        return
    interrupts, (reading, writing) = Interrupts(next(iter(handlers.values()))), socket.socketpair()
    writing.setblocking(False)
    listener = threading.Thread(target=_listen, args=(reading, _answer.get(), message), daemon=True)
    listener.start()
    before = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    for number in handlers:
        signal.signal(number, interrupts.note)
    try:
        yield interrupts
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        writing.close()
        listener.join()
        reading.close()
    interrupts.heed()


def _listen(signals: socket.socket, answer: Answer, message: str) -> None:
    """Read signal numbers, one byte each, until the other end is closed; the main thread may be busy."""
    presses = 0
    while numbers := signals.recv(64):
        for _ in range(sum(numbers.count(number) for number in _SIGNALS)):
            presses += 1
            answer(presses, message)
