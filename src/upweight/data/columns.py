"""Columns: arrays with one row per step that are read from their file only when somebody looks.

A column knows its shape and dtype at once. ``read()`` returns the whole array (cached, read-only);
``rows(index)`` returns some rows, and touches no more of the file than it must as long as the whole
column was never read; ``blocks`` goes through many of them in little memory. Formats subclass
:class:`Column`; everything else composes existing columns.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.progress import track
from upweight.data.loaded_files import LoadedFiles

Array = NDArray[Any]
Index = NDArray[np.integer]
_FEW = 100  # where fewer than one row in so many is wanted, only those are read
ReadEpisode = Callable[[int, Index], Array]  # (number of the episode, some of its rows [K], ascending) -> [K, ...]


class Column(ABC):
    """M rows of one field of a dataset."""

    is_mapped = False  # some rows are read without the others, and are checked: nothing is gained by reading all first

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape = shape  # [M, ...]
        self.dtype = dtype
        self.files: LoadedFiles | None = None  # which it is read from; a column of other columns has none of its own
        self._array: Array | None = None
        self._parents: Sequence[Column] = ()

    def __len__(self) -> int:
        return self.shape[0]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled or copied column; NumPy forgets that an array is read-only."""
        self.__dict__.update(state, _array=None if state["_array"] is None else read_only(state["_array"]))

    @property
    def is_loaded(self) -> bool:
        """Whether the whole column is in memory."""
        return self._array is not None

    def read(self) -> Array:
        """The whole column as a read-only array [M, ...]; read once."""
        if self._array is None:
            with self._unchanged():
                array = np.ascontiguousarray(self._read())
            self._array = read_only(array.reshape(self.shape))
        return self._array

    def check(self) -> None:
        """An error where rows are still to be read from files that have changed since they were loaded."""
        if not self.is_loaded:
            for each in (self.files, *self._parents):
                if each is not None:
                    each.check()

    def rows(self, index: Index) -> Array:
        """The rows at ``index`` [K] as an array [K, ...]."""
        if self.is_loaded:
            return self.read().take(index, axis=0)
        if len(index) == 0:
            return np.empty((0, *self.shape[1:]), self.dtype)
        with self._unchanged():
            return self._read_rows(index)

    def blocks(self, first: int, last: int, size: int) -> Iterator[Array]:
        """Rows ``first`` to ``last`` in order, at most ``size`` at a time."""
        for low in range(first, last, size):
            yield self.rows(np.arange(low, min(low + size, last)))

    def _unchanged(self) -> AbstractContextManager[None]:
        return nullcontext() if self.files is None else self.files.unchanged()

    def _comes_from(self, *parents: "Column") -> None:
        self._parents = parents
        self.is_mapped = all(parent.is_mapped for parent in parents)

    @abstractmethod
    def _read(self) -> Array: ...

    @abstractmethod
    def _read_rows(self, index: Index) -> Array: ...


class ArrayColumn(Column):
    """A column that is in memory already."""

    def __init__(self, array: Array) -> None:
        super().__init__(array.shape, array.dtype)
        self._array = read_only(array)

    def _read(self) -> Array:  # never reached: the array is there from the start
        assert self._array is not None
        return self._array

    def _read_rows(self, index: Index) -> Array:
        return self.read()[index]


class GatheredColumn(Column):
    """Rows ``index`` of another column, in that order."""

    def __init__(self, parent: Column, index: Index) -> None:
        super().__init__((len(index), *parent.shape[1:]), parent.dtype)
        self._parent, self._index = parent, index
        self._comes_from(parent)

    def _read(self) -> Array:
        few = _FEW * len(self._index) < len(self._parent)
        return self._parent.rows(self._index) if self.is_mapped or few else self._parent.read()[self._index]

    def _read_rows(self, index: Index) -> Array:
        return self._parent.rows(self._index[index])


class ConcatenatedColumn(Column):
    """Several columns, one after the other."""

    def __init__(self, parts: Sequence[Column]) -> None:
        shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
        dtype = np.result_type(*(part.dtype for part in parts))
        if dtype.kind == "f" and all(part.dtype.kind in "biu" for part in parts):
            dtype = np.dtype(np.int64)  # NumPy joins uint64 and int64 as floats, and codes would become amounts
        super().__init__(shape, dtype)
        self._parts = parts
        self._comes_from(*parts)

    def _read(self) -> Array:
        return np.concatenate([self._fitting(part.read()) for part in self._parts], dtype=self.dtype)

    def _read_rows(self, index: Index) -> Array:
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        first = 0
        for part in self._parts:
            mine = (index >= first) & (index < first + len(part))
            out[mine] = self._fitting(part.rows(index[mine] - first))
            first += len(part)
        return out

    def _fitting(self, rows: Array) -> Array:
        """``rows`` of a part, whose numbers the common type holds; NumPy would let large ones turn negative."""
        if self.dtype == np.int64 and rows.dtype == np.uint64 and rows.size and rows.max() > np.iinfo(np.int64).max:
            raise DatasetError(f"cannot join uint64 with signed numbers: found {rows.max()}, which int64 does not hold")
        return rows


class EpisodesColumn(Column):
    """A field that is stored episode by episode. ``opened()`` gives, for one ``with``, the function that reads of one.

    A column may be sent to another process, so ``opened`` is a (partial) function of a module, not one made inside another.
    """

    def __init__(
        self, lengths: Index, opened: Callable[[], AbstractContextManager[ReadEpisode]], *, key: str, source: str
    ) -> None:
        with opened() as read:
            first = read(0, np.zeros(1, np.int64))  # [1, ...]: all rows are like it
        super().__init__((int(lengths.sum()), *first.shape[1:]), first.dtype)
        self._lengths, self._starts = lengths, np.cumsum(lengths) - lengths
        self._opened, self._key, self._source = opened, key, source

    def _read(self) -> Array:
        out = np.empty(self.shape, self.dtype)
        spans = list(zip(self._starts.tolist(), self._lengths.tolist(), strict=True))
        with self._opened() as read:
            for number, (start, length) in enumerate(
                track(spans, total=len(spans), description=f"reading {self._key}")
            ):
                out[start : start + length] = self._checked(number, read(number, np.arange(length)), length)
        return out

    def _read_rows(self, index: Index) -> Array:
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        episodes = by_group(index, self._starts)
        with self._opened() as read:
            for number, places in track(episodes, total=len(episodes), description=f"reading some {self._key}"):
                rows, of_place = np.unique(index[places] - self._starts[number], return_inverse=True)
                out[places] = self._checked(number, read(number, rows), len(rows))[of_place]
        return out

    def _checked(self, number: int, rows: Array, expected: int) -> Array:
        if rows.shape != (expected, *self.shape[1:]):
            raise DatasetError(
                f"{self._source}: key {self._key!r}: expected {expected} rows of shape {self.shape[1:]} in episode "
                f"{number}, found {rows.shape}"
            )
        return rows


class ShiftedColumn(Column):
    """Next observations taken from the same column: row t+1 inside an episode, row t itself at its end.

    Repeating the last observation makes the end an absorbing state; whether it may be learned from is
    decided by the episode's flags, never by this filler.
    """

    def __init__(self, observations: Column, last_steps: Index) -> None:
        super().__init__(observations.shape, observations.dtype)
        self._observations, self._last_steps = observations, last_steps
        self._comes_from(observations)

    def _read(self) -> Array:
        following = np.arange(1, len(self) + 1)
        following[self._last_steps] = self._last_steps
        return self._observations.read()[following]

    def _read_rows(self, index: Index) -> Array:
        is_last = self._last_steps[np.searchsorted(self._last_steps, index)] == index
        return self._observations.rows(index + ~is_last)


def by_group(index: Index, firsts: Index) -> list[tuple[int, Index]]:
    """The groups that rows ``index`` [K] lie in, each with its places in ``index``, ordered by row.

    Group g has the rows from ``firsts[g]`` [G] to the next first.
    """
    order = np.argsort(index, kind="stable")
    groups = np.searchsorted(firsts, index[order], side="right") - 1
    numbers, starts = np.unique(groups, return_index=True)
    return list(zip(numbers.tolist(), np.split(order, starts[1:]), strict=True))


def read_only(array: Array) -> Array:
    """A view of ``array`` that refuses to be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
