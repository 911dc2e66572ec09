"""Columns of Parquet files: read by name, a row group at a time, turned into plain arrays."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.base.progress import track
from upweight.data.columns import Array, Column, Index
from upweight.io.format import check_claim, reading


def parquet_module() -> Any:
    return require("pyarrow.parquet", extra="parquet", purpose="working with Parquet files")


def schema_names(path: Path) -> list[str]:
    """Names of a file's columns; empty if it cannot be read."""
    try:
        with reading(path, "the Parquet schema"):
            return list(parquet_module().read_schema(path).names)
    except DatasetError:
        return []


def to_numpy(values: Any, *, key: str, path: Path) -> NDArray[Any]:
    """A numeric Arrow array as NumPy [M], a list array as [M, K]; nulls and ragged lists are refused."""
    pa = require("pyarrow", extra="parquet", purpose="working with Parquet files")
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):  # no chunk at all
            values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    if values.null_count:
        raise DatasetError(f"{path}: key {key!r}: expected a value in every row, found {values.null_count} empty ones")
    kind = values.type
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = to_numpy(values.flatten(), key=key, path=path)
        rows = len(values)
        if rows == 0 or len(inner) % rows or (not pa.types.is_fixed_size_list(kind) and _is_ragged(values)):
            raise DatasetError(f"{path}: key {key!r}: expected vectors of one length in every row")
        return inner.reshape(rows, len(inner) // rows, *inner.shape[1:])
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DatasetError(f"{path}: key {key!r}: expected numbers or vectors of numbers, found {kind}")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _is_ragged(values: Any) -> bool:
    return len(np.unique(values.value_lengths().to_numpy(zero_copy_only=False))) > 1


def read_columns(path: Path, names: Sequence[str]) -> Any:
    """An Arrow table of some columns; Arrow's ``read_table`` makes room for others too, however long they claim to be."""
    with parquet_module().ParquetFile(path) as file:
        return file.read(columns=list(names)).select(list(names))  # it also reads "name.more"


def read_column(paths: Sequence[Path], name: str) -> NDArray[Any]:
    """One column of all files, joined."""
    parts = []
    for path in track(paths, total=len(paths), description=f"reading {name}"):
        with reading(path, f"key {name!r}"):
            parts.append(to_numpy(read_columns(path, [name]).column(0), key=name, path=path))
    if len({part.shape[1:] for part in parts}) > 1:
        raise DatasetError(f"{paths[0].parent}: key {name!r}: expected vectors of one length in all files")
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _row_layout(path: Path, name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and dtype of one row: from the schema where it says, else from the first row."""
    pa = require("pyarrow", extra="parquet", purpose="working with Parquet files")
    with reading(path, f"key {name!r}"):
        file = parquet_module().ParquetFile(path)
        kind = file.schema_arrow.field(name).type
        shape: tuple[int, ...] = ()
        while pa.types.is_fixed_size_list(kind):
            shape, kind = (*shape, kind.list_size), kind.value_type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return shape, np.dtype(kind.to_pandas_dtype())
        sample = to_numpy(next(file.iter_batches(batch_size=1, columns=[name])).column(0), key=name, path=path)
        return sample.shape[1:], sample.dtype


class ParquetColumn(Column):
    """One column of one or more files; ``row_shape`` folds stored vectors back into images or matrices."""

    def __init__(
        self, paths: Sequence[Path], name: str, num_rows: Sequence[int], *, row_shape: tuple[int, ...] | None = None
    ) -> None:
        stored, dtype = _row_layout(paths[0], name)
        if row_shape is not None and np.prod(row_shape, dtype=object) != np.prod(stored, dtype=object):
            raise DatasetError(
                f"{paths[0]}: key {name!r}: rows of {stored} numbers do not fold into the recorded shape {row_shape}"
            )
        super().__init__((sum(num_rows), *(stored if row_shape is None else row_shape)), dtype)
        nbytes = int(np.prod(self.shape, dtype=object)) * dtype.itemsize
        check_claim(nbytes, sum(path.stat().st_size for path in paths), key=name, path=paths[0])
        self._paths, self._name, self._num_rows = paths, name, num_rows

    def _read(self) -> Array:
        array = read_column(self._paths, self._name)
        if array.size != np.prod(self.shape, dtype=object):
            raise DatasetError(
                f"{self._paths[0]}: key {self._name!r}: expected {len(self)} rows of shape {self.shape[1:]}, found "
                f"{array.shape}; the file is damaged, or changed since the dataset was opened"
            )
        return array.reshape(self.shape)

    def _read_rows(self, index: Index) -> Array:
        pq = parquet_module()
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        first = 0
        for path, rows in zip(self._paths, self._num_rows, strict=True):
            with reading(path, f"key {self._name!r}"):
                file = pq.ParquetFile(path)
                if file.metadata.num_rows != rows:
                    raise DatasetError(f"{path}: changed since the dataset was opened")
                for group in range(file.num_row_groups):
                    count = file.metadata.row_group(group).num_rows
                    mine = np.flatnonzero((index >= first) & (index < first + count))
                    if len(mine):
                        table = file.read_row_group(group, columns=[self._name])
                        block = to_numpy(table.column(self._name), key=self._name, path=path)
                        out[mine] = block.reshape(count, *self.shape[1:])[index[mine] - first]
                    first += count
        return out
