"""Columns of Parquet files: read by name, a row group at a time, turned into plain arrays."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.base.progress import track
from upweight.data.columns import Array, Column, Index, by_group
from upweight.io.format import check_claim, reading

_ROWS_AT_A_TIME = 1 << 16
_BYTES_OF = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}  # Parquet's types of numbers


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
        is_fixed = pa.types.is_fixed_size_list(kind)
        if rows == 0 or len(inner) % rows or not (is_fixed or len(values.value_lengths().unique()) == 1):
            raise DatasetError(f"{path}: key {key!r}: expected vectors of one length in every row")
        return inner.reshape(rows, len(inner) // rows, *inner.shape[1:])
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DatasetError(f"{path}: key {key!r}: expected numbers or vectors of numbers, found {kind}")
    return np.asarray(values.to_numpy(zero_copy_only=False))


def as_text(values: Any) -> NDArray[np.object_]:
    """[M] strings of an Arrow column, empty ones as None; equal ones are one object where the column says each once."""
    pa = require("pyarrow", extra="parquet", purpose="working with Parquet files")
    chunks = []
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        if pa.types.is_dictionary(chunk.type):
            names = np.array([*chunk.dictionary.to_pylist(), None], object)
            chunks.append(names[chunk.indices.fill_null(-1).to_numpy()])
        else:
            chunks.append(chunk.to_numpy(zero_copy_only=False))
    return np.concatenate([np.empty(0, object), *chunks])


def check_text(cells: NDArray[np.object_], *files: Path, key: str) -> None:
    """Refuse strings [M] that would need too much memory as an array, where each takes as much as the longest."""
    longest = max((len(cell) for cell in cells if isinstance(cell, str)), default=0)
    check_claim(4 * longest * len(cells), *files, key=key)


def claimed_bytes(metadata: Any) -> dict[str, int]:
    """What each column of a Parquet file takes, by its path in the schema; text as Arrow keeps it, each string once."""
    claims: dict[str, int] = defaultdict(int)
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            count, kind = max(column.num_values, group.num_rows), column.physical_type
            is_text = kind not in _BYTES_OF
            claims[column.path_in_schema] += count * _BYTES_OF.get(kind, 4) + is_text * column.total_uncompressed_size
    return claims


def check_columns(claims: Mapping[str, int], names: Sequence[str], *files: Path) -> list[str]:
    """Refuse columns that claim too much for what the files store; paths of their parts in the schema."""
    found = []
    for name in names:
        parts = [place for place in claims if place == name or place.startswith(f"{name}.")]
        check_claim(sum(claims[place] for place in parts), *files, key=name)
        found += parts
    return found


@contextmanager
def open_columns(path: Path, names: Sequence[str]) -> Iterator[Any]:
    """A ``ParquetFile`` whose ``names`` can be read; text stays as Parquet stores it, each string once."""
    metadata = parquet_module().read_metadata(path)
    parts = check_columns(claimed_bytes(metadata), names, path)
    with parquet_module().ParquetFile(path, metadata=metadata, read_dictionary=parts) as file:
        yield file


def read_columns(path: Path, names: Sequence[str]) -> Any:
    """An Arrow table of some columns only. Arrow's ``read_table`` allocates for others too, at the sizes they claim."""
    with open_columns(path, names) as file:
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
    with reading(path, f"key {name!r}"), open_columns(path, [name]) as file:
        kind = file.schema_arrow.field(name).type
        shape: tuple[int, ...] = ()
        while pa.types.is_fixed_size_list(kind):
            shape, kind = (*shape, kind.list_size), kind.value_type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return shape, np.dtype(kind.to_pandas_dtype())
        sample = to_numpy(next(file.iter_batches(batch_size=1, columns=[name])).column(0), key=name, path=path)
        return sample.shape[1:], sample.dtype


class Shards:
    """Files of the same columns, one after the other, and where their row groups begin."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._groups: list[tuple[Path, int]] = []  # [G] in which file, and its number there
        rows, self._schemas = [0], dict[Path, Any]()
        for file in files:
            with reading(file, "the Parquet footer"), parquet_module().ParquetFile(file) as opened:
                about, schema = opened.metadata, opened.schema_arrow
                if about.num_rows:
                    self._schemas[file] = schema
                for number in range(about.num_row_groups):
                    self._groups.append((file, number))
                    rows.append(about.row_group(number).num_rows)
        self._firsts = np.cumsum(rows)  # [G + 1] the first row of each, and the end
        self.paths = list(self._schemas)

    @property
    def num_rows(self) -> int:
        return int(self._firsts[-1])

    @property
    def schema(self) -> Any:
        return self._schemas[self.paths[0]]

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    def check_same(self, values: Sequence[str], others: Sequence[str]) -> None:
        """Refuse files that lack a column, or have ``values`` of another type."""
        for path, schema in self._schemas.items():
            for name in (*values, *others):
                expected, found = (
                    "none" if name not in each.names else _kind(each.field(name).type) if name in values else "one"
                    for each in (self.schema, schema)
                )
                if expected != found:
                    raise DatasetError(
                        f"{path}: column {name!r}: expected {expected}, as in {self.paths[0].name}, found {found}; the files of "
                        "a dataset have the same columns: convert this one, or leave it out"
                    )

    def split(self, index: Index) -> Iterator[tuple[Path, int, int, Index, Index]]:
        """For each row group with some of the rows ``index`` [m]: file, number, size, rows in it, places in ``index``."""
        for number, places in by_group(index, self._firsts):
            first, end = self._firsts[number], self._firsts[number + 1]
            yield *self._groups[number], int(end - first), index[places] - first, places

    def whole_episodes(self, names: Sequence[str]) -> Iterator[dict[str, Array]]:
        """Some columns, many rows at a time, cut where ``episode_index`` changes."""
        rest: dict[str, Array] = {}
        for path in track(self.paths, total=len(self.paths), description="looking for episodes"):
            with reading(path, "its episodes"), open_columns(path, names) as file:
                for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=list(names)):
                    rows = {name: _plain(batch.column(name), key=name, path=path) for name in names}
                    rest = {name: np.concatenate([rest[name], rows[name]]) for name in names} if rest else rows
                    ids = rest["episode_index"].reshape(len(rest["episode_index"]), -1)[:, 0]
                    if len(ends := np.flatnonzero(ids[1:] != ids[:-1])):
                        yield {name: values[: ends[-1] + 1] for name, values in rest.items()}
                        rest = {name: values[ends[-1] + 1 :] for name, values in rest.items()}
        yield rest


def _kind(kind: Any) -> str:
    """A type in words, without the names of list items."""
    pa = require("pyarrow", extra="parquet", purpose="working with Parquet files")
    depth = 0
    while pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        depth, kind = depth + 1, kind.value_type
    return "lists of " * depth + str(kind)


def _plain(values: Any, *, key: str, path: Path) -> Array:
    """As :func:`to_numpy`, but text may be a label."""
    if key != "label":
        return to_numpy(values, key=key, path=path)
    if values.null_count:
        raise DatasetError(f"{path}: key 'label': expected a label in every row")
    return as_text(values)


class ParquetColumn(Column):
    """One column of the shards; ``row_shape`` folds stored vectors back into images or matrices."""

    def __init__(
        self,
        shards: Shards,
        name: str,
        *,
        row_shape: tuple[int, ...] | None = None,
        as_float: bool = False,
    ) -> None:
        path = shards.paths[0]
        stored, kind = _row_layout(path, name)
        if row_shape is not None and np.prod(row_shape, dtype=object) != np.prod(stored, dtype=object):
            raise DatasetError(
                f"{path}: key {name!r}: rows of {stored} numbers do not fold into the recorded shape {row_shape}"
            )
        dtype = np.dtype(np.float64) if as_float and kind.kind != "f" else kind
        super().__init__((shards.num_rows, *(stored if row_shape is None else row_shape)), dtype)
        check_claim(int(np.prod(self.shape, dtype=object)) * kind.itemsize, *shards.paths, key=name)
        self._shards, self._name = shards, name

    def _read(self) -> Array:
        array = read_column(self._shards.paths, self._name)
        if array.size != np.prod(self.shape, dtype=object):
            raise DatasetError(
                f"{self._shards.paths[0]}: key {self._name!r}: expected {len(self)} rows of shape {self.shape[1:]}, found "
                f"{array.shape}; the file is damaged"
            )
        return array.reshape(self.shape).astype(self.dtype, copy=False)

    def _read_rows(self, index: Index) -> Array:
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        for path, group, count, within, places in self._shards.split(index):
            with reading(path, f"key {self._name!r}"), parquet_module().ParquetFile(path) as file:
                table = file.read_row_group(group, columns=[self._name])
                block = to_numpy(table.column(self._name), key=self._name, path=path)
                out[places] = block.reshape(count, *self.shape[1:])[within]
        return out
