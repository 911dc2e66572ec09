"""Ctrl-C at a moment when it does no harm."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_log = logging.getLogger("upweight")


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C take effect at the end of the block; a second one does so at once.

    What XLA compiles or computes cannot be called back, and a program that ends while XLA's threads are still at it may crash. So
    the block should last until they are done.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # other threads are never interrupted
        return
    heard: list[tuple[int, Any]] = []

    def note(number: int, frame: Any) -> None:
        if heard:
            handler(number, frame)
        heard.append((number, frame))
        _log.warning("stopping when the device is done with what it is at; Ctrl-C again stops at once")

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if heard:
        handler(*heard[0])
