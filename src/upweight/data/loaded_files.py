"""The files behind a dataset, as they were when it was loaded."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from upweight.base.errors import DatasetError


class LoadedFiles:
    """Size and time of the last change of each file, to notice later changes."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._stamps = {path: stamp for path in paths if (stamp := _stamp(path)) is not None}

    def check(self) -> None:
        """Raise an error if a file has changed. A removed file is no error: its memory map stays, and a reader notices."""
        for path, (size, changed) in self._stamps.items():
            now = _stamp(path)
            if now is not None and now != (size, changed):
                sizes = "" if now[0] == size else f" ({size:,} bytes then, {now[0]:,} now)"
                raise DatasetError(
                    f"{path}: changed since it was loaded{sizes}: numbers of two files would mix; load it again"
                )

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Around reading; where the reader fails because a file changed, the error says that."""
        self.check()
        try:
            yield
        finally:
            self.check()


def _stamp(path: Path) -> tuple[int, int] | None:
    """Bytes, and nanoseconds of the last change."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_size, found.st_mtime_ns
    return None
