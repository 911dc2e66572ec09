"""Work in a second thread: simulators play and checkpoints are written while the device trains."""

import threading
from collections.abc import Callable
from typing import Self


class Background:
    """One piece of work at a time, in a thread that does not keep the program alive."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._dropped = False

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> None:
        """Begin ``work``, after waiting until what is under way has ended."""
        self.wait()
        self.add(work)

    def add(self, work: Callable[[], None]) -> None:
        """Run ``work`` after the work under way, unless that fails."""
        if not self.is_busy:
            self.wait()
        before = self._thread

        def do() -> None:
            try:
                if before is not None:
                    before.join()
                if self._error is None and not self._dropped:
                    work()
            except BaseException as error:  # every kind: `wait` raises it again
                self._error = error

        self._thread = threading.Thread(target=do, daemon=True)
        self._thread.start()

    def drop(self) -> None:
        """Drop the work that has not begun; no other work begins after this call."""
        self._dropped = True

    def wait(self) -> None:
        """Until the work is done; what it raised is raised here."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        error, self._error = self._error, None
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
