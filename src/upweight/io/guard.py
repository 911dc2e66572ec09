"""Check HDF5 files and Minari's folders in a separate process, which may crash or hang instead of ours.

libhdf5 segfaults on some damaged files and never returns from others, and Arrow segfaults on some of its own format (Minari has
them); no exception comes of either. :func:`look_first` reads in a process what the reader reads at once, and the first and last
rows of the rest, so that the time does not grow with the observations: the start of a Python with h5py, some 0.2 s, and what
loading takes.
"""

import faulthandler
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from upweight.base.errors import DatasetError
from upweight.base.progress import listening
from upweight.data.columns import EpisodesColumn
from upweight.io.hdf5 import is_hdf5
from upweight.io.registry import locate, read_dataset

# The longest time without progress. A step of reading is 4 MB or one episode: milliseconds, and a slow network drive is a
# hundred times faster than this. Not a limit of the whole: a large file may take as long as it needs.
SILENCE_SECONDS = 10.0
# What a look may allocate: damaged lengths make libhdf5 fill gigabytes before it notices. No honest file comes near: what is
# read at once (rewards, flags) is a small part of a file, and packed 64 to 1 only where all of it is.
_MEMORY_FLOOR_BYTES = 2 << 30
_MEMORY_RATIO = 64
_REFUSED = 3  # exit code: the reader refused the file; its message is on standard output


def look_first(name: str, **options: Any) -> None:
    """Raise :class:`DatasetError` if data cannot be read, crash their library or keep it busy for ever."""
    path = locate(name)
    if not is_delicate(path):
        return
    done = subprocess.run(
        [sys.executable, "-P", "-m", __name__, str(path), json.dumps(options), str(SILENCE_SECONDS)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode == _REFUSED:
        raise DatasetError(done.stdout.decode("utf-8", "replace"))
    if done.returncode != 0:
        last_words = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        reason = f"crashes ({', '.join([f'exit code {done.returncode}', *last_words])})"
        if b"Timeout (" in done.stderr:
            reason = f"does not come to an end (no progress for {SILENCE_SECONDS:g} s)"
        raise DatasetError(
            f"{path}: expected readable data, but the library that reads it {reason}; it is damaged: get a new copy"
        )


def look(path: Path, **options: Any) -> None:
    """Read what :func:`read_dataset` reads, and of what it leaves for later the first and last rows, or one of every episode."""
    dataset = read_dataset(path, **options)
    for column in dataset.columns.values():
        if isinstance(column, EpisodesColumn):
            column.rows(dataset.starts)
        else:
            column.rows(np.array([0, len(column) - 1]))


def is_delicate(path: Path) -> bool:
    """Whether libraries crash on damaged data of this kind: HDF5, and Minari's folders, which hold it or Arrow files."""
    return is_hdf5(path) or any((folder / "metadata.json").is_file() for folder in (path, path / "data"))


def limit_memory(path: Path) -> None:
    """Let this process allocate no more than an honest file could ask for, where the system knows how."""
    files = [path] if path.is_file() else path.rglob("*")
    limit = _MEMORY_FLOOR_BYTES + _MEMORY_RATIO * sum(file.stat().st_size for file in files)
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


class _Alarm:
    """Ends this process (exit code 1) after so many seconds without progress, even inside C code."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._set = seconds, -seconds
        self()

    def __call__(self, *_: Any) -> None:
        if (now := time.monotonic()) - self._set > self._seconds / 10:  # setting it starts a thread
            self._set = now
            faulthandler.dump_traceback_later(self._seconds, exit=True)


def main() -> int:
    """What the process does: it looks; anything but a refusal is left to the reader."""
    path, options, seconds = Path(sys.argv[1]), json.loads(sys.argv[2]), float(sys.argv[3])
    limit_memory(path)
    with suppress(Exception), listening(_Alarm(seconds)):
        try:
            look(path, **options)
        except DatasetError as error:
            sys.stdout.buffer.write(str(error).encode("utf-8", "replace"))
            return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
