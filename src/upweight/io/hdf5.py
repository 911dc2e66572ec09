"""HDF5 files behind columns: opened for each read, never kept open, never trusted."""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError, UpweightError, UpweightWarning
from upweight.base.optional import require
from upweight.base.progress import track
from upweight.data.columns import Array, Column, Index, ReadEpisode, by_group
from upweight.io.format import check_claim, missing_key, reading, starts_with
from upweight.io.hdf5_group import Group

SIGNATURE = b"\x89HDF\r\n\x1a\n"
_BLOCK_BYTES = 4 << 20  # read at a time
_MIN_BLOCK_ROWS = 1024


def is_hdf5(path: Path) -> bool:
    """Whether the file begins like HDF5."""
    return starts_with(path, SIGNATURE)


@contextmanager
def open_hdf5(path: Path) -> Iterator[Any]:
    """The file as a :class:`Group`; errors inside the block come out as :class:`DatasetError`."""
    h5py = require("h5py", extra="hdf5", purpose="working with HDF5 files")
    with reading(path, "the HDF5 data"), h5py.File(path) as file:
        yield Group(file, path)


class _Output(io.FileIO):
    """A file that stores its first failure and raises nothing: libhdf5 crashes the process if a write fails while it closes."""

    failed: OSError | None = None

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = left.nbytes
        try:
            while self.failed is None and left.nbytes:
                left = left[super().write(left) :]
        except OSError as error:
            self.failed = error
        return size


@contextmanager
def write_hdf5(path: Path) -> Iterator[Any]:
    """An ``h5py.File`` to write; a failure is the system's own error (no room, no permission)."""
    h5py = require("h5py", extra="hdf5", purpose="working with HDF5 files")
    with _Output(path, "w+") as output:
        try:
            with h5py.File(output, "w") as file:
                yield file
        except (UpweightError, UpweightWarning, MemoryError):
            raise
        except Exception as error:
            path.unlink()
            if output.failed is None:
                raise DatasetError(f"{path.name}: cannot write this dataset as HDF5 ({error})") from error
        if output.failed is not None:
            raise output.failed


def root_keys(path: Path, group: str = "/") -> set[str]:
    """Names at the top of the file, or in a group; empty if it cannot be opened, or there is no such group."""
    try:
        with open_hdf5(path) as file:
            found = file.get(group)
            return set(found) if isinstance(found, Group) else set()
    except DatasetError:
        return set()


def demonstrations(names: Iterable[str]) -> list[str]:
    """The demonstrations among the names in robomimic's group ``data``, by number: ``demo_0``, ``demo_1``, ..."""
    return sorted((name for name in names if re.fullmatch(r"demo_\d+", name)), key=lambda name: int(name[5:]))


def dataset_at(file: Group, key: str, path: Path) -> Any:
    """The HDF5 dataset ``key``, checked to be plain numbers stored in this very file."""
    h5py = require("h5py", extra="hdf5", purpose="working with HDF5 files")
    node = file.get(key)
    if node is None:
        raise missing_key(path, key, file)
    if not isinstance(node, h5py.Dataset) or node.is_virtual or node.external:
        raise DatasetError(f"{path}: key {key!r}: expected an array stored in this file, found something else")
    if node.shape is None:
        raise DatasetError(f"{path}: key {key!r}: expected an array, found an empty entry")
    check_claim(node.size * node.dtype.itemsize, path, key=key, stored=node.id.get_storage_size())
    return node


def read_array(file: Group, key: str, path: Path) -> NDArray[Any]:
    """A whole array."""
    with reading(path, f"key {key!r}"):
        return _read_blocks(dataset_at(file, key, path), key)


def _read_blocks(node: Any, key: str) -> Array:
    """All of an array; a large one piece by piece, so that progress can be told."""
    if node.size * node.dtype.itemsize <= _BLOCK_BYTES:
        return np.asarray(node[()])
    out = np.empty(node.shape, node.dtype)
    chunk_rows = node.chunks[0] if node.chunks else 1
    rows = chunk_rows * max(1, _BLOCK_BYTES // max(1, chunk_rows * out[:1].nbytes))  # whole chunks
    firsts = range(0, len(out), rows)
    for first in track(firsts, total=len(firsts), description=f"reading {key}"):
        out[first : first + rows] = node[first : first + rows]
    return out


class HDF5Column(Column):
    """One array of the file with a row per step."""

    def __init__(self, file: Group, key: str, path: Path) -> None:
        node = dataset_at(file, key, path)
        super().__init__(node.shape, node.dtype)
        self._path, self._key = path, key

    def _read(self) -> Array:
        with open_hdf5(self._path) as file, reading(self._path, f"key {self._key!r}"):
            return _read_blocks(dataset_at(file, self._key, self._path), self._key)

    def _read_rows(self, index: Index) -> Array:
        with open_hdf5(self._path) as file, reading(self._path, f"key {self._key!r}"):
            node = dataset_at(file, self._key, self._path)
            offset = node.id.get_offset()
            if offset is not None:  # contiguous: the rows lie in the file as they are
                return np.array(np.memmap(self._path, self.dtype, "r", offset, self.shape)[index])
            return _rows_by_chunk(node, index, self._key)


def _rows_by_chunk(node: Any, index: Index, key: str) -> Array:
    """Rows of a chunked (compressed) array, each chunk unpacked once and only if a row of it is asked for."""
    chunk_rows = node.chunks[0] if node.chunks else 1
    block = chunk_rows * max(1, -(-_MIN_BLOCK_ROWS // chunk_rows))
    blocks = by_group(index, np.arange(0, len(node), block))
    out = np.empty((len(index), *node.shape[1:]), node.dtype)
    for _, places in track(blocks, total=len(blocks), description=f"reading some {key}"):
        rows = index[places]
        low, high = int(rows[0]), int(rows[-1]) + 1
        out[places] = node[low:high][rows - low]
    return out


@contextmanager
def open_episodes(
    path: Path, keys: Sequence[str], *, leaves: Sequence[str] = ("",), skip: int = 0
) -> Iterator[ReadEpisode]:
    """For an ``EpisodesColumn`` with one array per episode; the first ``skip`` rows of each are left out.

    With several ``leaves`` under each key (a dictionary observation) their numbers are flattened and laid side by side.
    """
    with open_hdf5(path) as file:

        def read(number: int, rows: Index) -> Array:
            low, high = int(rows[0]), int(rows[-1]) + 1
            parts = []
            for leaf in leaves:
                key = keys[number] + leaf
                with reading(path, f"key {key!r}"):
                    parts.append(np.asarray(dataset_at(file, key, path)[low + skip : high + skip]))
            if len(parts) > 1:
                with reading(path, f"key {keys[number]!r}"):
                    parts = [np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)]
            return parts[0] if len(rows) == high - low else parts[0][rows - low]

        yield read
