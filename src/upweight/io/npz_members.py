"""Arrays inside an npz file, read without ever unpickling and, where possible, a few rows at a time."""

import struct
import zipfile
import zlib
from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.progress import report, track
from upweight.data.columns import Array, Column, Index
from upweight.io.format import check_claim, missing_key, reading, starts_with

ZIP_SIGNATURE = b"PK\x03\x04"
_BLOCK_BYTES = 32 << 20
_MARK_BYTES = 8 << 20  # unpacked, at least, between two marks of some 50 kB
_PACKED_BYTES = 1 << 14  # given to the decompressor at a time


class Member(NamedTuple):
    """What the header of one array says."""

    shape: tuple[int, ...]
    dtype: np.dtype
    header_bytes: int


@dataclass
class _Unpacking:
    """A compressed member that was unpacked up to a row; a copy can go on from there."""

    row: int
    offset: int  # in the file
    state: Any  # zlib's decompressor
    crc: int = 0  # of all bytes up to the row

    def copy(self) -> "_Unpacking":
        return replace(self, state=self.state.copy())

    def read(self, file: IO[bytes], count: int) -> bytes:
        """So many bytes more."""
        file.seek(self.offset)
        pieces = []
        while count > 0:
            packed = self.state.unconsumed_tail or file.read(_PACKED_BYTES)
            piece = self.state.decompress(packed, count)
            if not piece and (self.state.eof or not packed):
                raise EOFError(f"the archive ends early: {count} bytes are missing")
            self.crc = zlib.crc32(piece, self.crc)
            pieces.append(piece)
            count -= len(piece)
        self.offset = file.tell()
        return b"".join(pieces)


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
            check_claim(nbytes, path, key=name, stored=self._info.compress_size)
        super().__init__(member.shape, member.dtype)
        self._path, self._name, self._header_bytes = path, name, member.header_bytes
        self._marks: list[_Unpacking] = []  # by row; the list and what is in it never change: several threads may read

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
        with reading(self._path, f"key {self._name!r}"), self._path.open("rb") as file:
            if self._info.compress_type == zipfile.ZIP_STORED:
                offset = self._member_offset(file) + self._header_bytes
                return np.array(np.memmap(self._path, self.dtype, "r", offset, self.shape)[index])
            if self._info.compress_type == zipfile.ZIP_DEFLATED:
                return self._unpack_rows(index, file)
        return self.read()[index]

    def _member_offset(self, file: IO[bytes]) -> int:
        """Where the member's bytes, packed or not, begin in the file."""
        file.seek(self._info.header_offset)
        name_bytes, extra_bytes = struct.unpack("<HH", file.read(30)[26:])
        return int(self._info.header_offset + 30 + name_bytes + extra_bytes)

    def _unpack_rows(self, index: Index, file: IO[bytes]) -> Array:
        """Rows of a compressed member: unpack it piece by piece, from a mark on, and keep what is asked for.

        New marks are left on the way, so windows that follow each other unpack the member once together.
        """
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        row_bytes = max(1, out[:1].nbytes)
        self._marks = self._marks or [self._first_mark(file)]
        here, done = self._marks[0].copy(), 0
        while done < len(ordered):
            marks = self._marks
            nearest = marks[bisect_right(marks, int(ordered[done]), key=_row_of) - 1]
            if nearest.row > here.row:
                here = nearest.copy()
            first, rows = here.row, min(max(1, _BLOCK_BYTES // row_bytes), int(ordered[-1]) + 1 - here.row)
            block = np.frombuffer(here.read(file, rows * row_bytes), self.dtype).reshape(rows, *self.shape[1:])
            here.row += rows
            if here.row == len(self) and here.crc != self._info.CRC:
                raise ValueError("the check sum is another one")
            end = int(np.searchsorted(ordered, here.row))
            out[order[done:end]] = block[ordered[done:end] - first]
            done = end
            place = bisect_right(marks, here.row, key=_row_of)
            if (here.row - marks[place - 1].row) * row_bytes >= _MARK_BYTES:
                self._marks = [*marks[:place], here.copy(), *marks[place:]]
            report(f"reading some {self._name}", done, len(ordered))
        return out

    def _first_mark(self, file: IO[bytes]) -> _Unpacking:
        mark = _Unpacking(0, self._member_offset(file), zlib.decompressobj(-zlib.MAX_WBITS))
        mark.read(file, self._header_bytes)
        return mark

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_marks": []}  # they cannot be sent to another process


def _row_of(mark: _Unpacking) -> int:
    return mark.row


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
        raise EOFError(f"the archive ends early: {count - len(data)} bytes are missing")
    return data
