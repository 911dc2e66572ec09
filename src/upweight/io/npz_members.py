"""Arrays inside an npz file, read without ever unpickling and, where possible, a few rows at a time."""

import struct
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.progress import track
from upweight.data.columns import Array, Column, Index
from upweight.io.format import check_claim, missing_key, reading, starts_with

ZIP_SIGNATURE = b"PK\x03\x04"
_BLOCK_BYTES = 32 << 20


class Member(NamedTuple):
    """What the header of one array says."""

    shape: tuple[int, ...]
    dtype: np.dtype
    header_bytes: int


def member_names(path: Path) -> set[str]:
    """Names of the arrays in the file; empty if it is not a readable zip archive."""
    if not starts_with(path, ZIP_SIGNATURE):
        return set()
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return set()


def read_member(path: Path, name: str) -> NDArray[Any]:
    """A whole array."""
    return NpzColumn(path, name).read()


class NpzColumn(Column):
    """One array of the file with a row per step (or per episode)."""

    def __init__(self, path: Path, name: str) -> None:
        with reading(path, f"key {name!r}"), zipfile.ZipFile(path) as archive:
            self._info = _find(archive, name, path)
            with archive.open(self._info) as stream:
                member = _read_header(stream, name, path)
            nbytes = int(np.prod(member.shape, dtype=object)) * member.dtype.itemsize
            if member.header_bytes + nbytes != self._info.file_size:
                raise DatasetError(
                    f"{path}: key {name!r}: shape {member.shape} needs {nbytes:,} bytes, "
                    f"but {self._info.file_size - member.header_bytes:,} are there"
                )
            check_claim(nbytes, self._info.compress_size, key=name, path=path)
        super().__init__(member.shape, member.dtype)
        self._path, self._name, self._header_bytes = path, name, member.header_bytes

    def _read(self) -> Array:
        out = np.empty(self.shape, self.dtype)
        flat = out.reshape(-1).view(np.uint8)
        with (
            reading(self._path, f"key {self._name!r}"),
            zipfile.ZipFile(self._path) as archive,
            archive.open(self._info) as stream,
        ):
            stream.read(self._header_bytes)
            firsts = range(0, flat.nbytes, _BLOCK_BYTES)
            for first in track(firsts, total=len(firsts), description=f"reading {self._name}"):
                piece = flat[first : first + _BLOCK_BYTES]
                piece[:] = np.frombuffer(_exactly(stream, piece.nbytes), np.uint8)
            stream.read(1)  # at the end of the member the check sum is compared
        return out

    def _read_rows(self, index: Index) -> Array:
        with reading(self._path, f"key {self._name!r}"):
            if self._info.compress_type == zipfile.ZIP_STORED:
                return np.array(np.memmap(self._path, self.dtype, "r", self._data_offset(), self.shape)[index])
            return self._stream_rows(index)

    def _data_offset(self) -> int:
        """Where the numbers of a stored (not compressed) member lie in the file."""
        with self._path.open("rb") as file:
            file.seek(self._info.header_offset)
            local_header = file.read(30)
        name_bytes, extra_bytes = struct.unpack("<HH", local_header[26:30])
        return int(self._info.header_offset + 30 + name_bytes + extra_bytes + self._header_bytes)

    def _stream_rows(self, index: Index) -> Array:
        """Rows of a compressed member: unpack it piece by piece, keeping only what is asked for."""
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        row_bytes = max(1, out[:1].nbytes)
        rows_per_block = max(1, _BLOCK_BYTES // row_bytes)
        with zipfile.ZipFile(self._path) as archive, archive.open(self._info) as stream:
            stream.read(self._header_bytes)
            firsts = range(0, int(ordered[-1]) + 1, rows_per_block)
            for first in track(firsts, total=len(firsts), description=f"reading some {self._name}"):
                rows = min(rows_per_block, len(self) - first)
                block = np.frombuffer(_exactly(stream, rows * row_bytes), self.dtype).reshape(rows, *self.shape[1:])
                low, high = np.searchsorted(ordered, [first, first + rows])
                out[order[low:high]] = block[ordered[low:high] - first]
        return out


def _find(archive: zipfile.ZipFile, name: str, path: Path) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(f"{name}.npy")
    except KeyError:
        raise missing_key(path, name, (entry.removesuffix(".npy") for entry in archive.namelist())) from None


def _read_header(stream: IO[bytes], name: str, path: Path) -> Member:
    try:
        version = npy.read_magic(stream)
        if version not in {(1, 0), (2, 0)}:
            raise ValueError(f"npy version {version}")
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran_order, dtype = read(stream)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise DatasetError(f"{path}: key {name!r}: not an array ({error})") from None
    if dtype.hasobject:
        raise DatasetError(
            f"{path}: key {name!r}: holds pickled Python objects, which are never loaded: that can run anything. If you trust "
            "the file, open it with np.load(..., allow_pickle=True) and give what is in it to Dataset.from_episodes"
        )
    if fortran_order and len(shape) > 1:
        raise DatasetError(f"{path}: key {name!r}: is stored column by column; save it with np.ascontiguousarray")
    if any(size < 0 for size in shape):
        raise DatasetError(f"{path}: key {name!r}: impossible shape {shape}")
    return Member(shape, dtype, stream.tell())


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise DatasetError(f"the archive ends early: {count - len(data)} bytes are missing")
    return data
