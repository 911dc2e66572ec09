"""The one place outside a given folder where anything is ever written, and what lies there.

::

    datasets/TASK/STREAM/   episodes collected for datasets by name (see :mod:`upweight.lab.recipes.streams`)
    xla/                    compiled programs

Everything there can be made again. The time of a folder tells when it was last used.
"""

import os
import re
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_KINDS = {  # what it is: its folders, and the names of all that we (and JAX for us) put into one
    "episodes": ("datasets/*/*-seed*-*", r"index\.json|\d{4,}\.npz|\.upweight-.*"),
    "compiled programs": ("xla", r".*-(cache|atime)|\.lockfile|xla_gpu_.*"),
}


class CacheEntry(NamedTuple):
    """One folder of the cache, with the files in it that this package wrote."""

    name: str  # its path in the cache folder
    kind: str
    folder: Path
    paths: list[Path]  # the files and folders in it that we wrote
    size: int  # bytes
    last_used: float  # as time.time() tells it

    def remove(self) -> None:
        """Remove our files, and the folder if nothing else is in it."""
        for path in self.paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.folder.rmdir()


def cache_entries() -> list[CacheEntry]:
    """What lies in the cache folder, by name."""
    root, found = cache_folder(), list[CacheEntry]()
    for kind, (folders, ours) in _KINDS.items():
        for folder in sorted(root.glob(folders)):
            with suppress(FileNotFoundError, NotADirectoryError):  # somebody else removes it
                paths = [path for path in folder.iterdir() if re.fullmatch(ours, path.name)]
                files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
                size, last_used = sum(file.stat().st_size for file in files), folder.stat().st_mtime
                if paths:
                    found.append(CacheEntry(folder.relative_to(root).as_posix(), kind, folder, paths, size, last_used))
    return found


def mark_used(folder: Path) -> None:
    """Remember that a folder of the cache was used now."""
    with suppress(OSError):  # somebody else's
        os.utime(folder)


def cache_folder() -> Path:
    """``UPWEIGHT_CACHE``, or the platform's folder for caches."""
    if given := os.environ.get("UPWEIGHT_CACHE"):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "upweight"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "upweight"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "upweight"
