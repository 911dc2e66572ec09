"""Files with one row per step: CSV, and Parquet whose columns the user or a TOML file names.

A TOML file with the name of the table (``icu.toml`` for ``icu.csv``) may hold the arguments of
:meth:`upweight.Dataset.from_frame` under ``[table]``; the caller's own arguments take precedence.
"""

import csv
import io
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.data.dataset import Dataset
from upweight.data.table import KEYS, check_layout, choose_columns, read_beside as read_beside_frame
from upweight.io.arrow_tables import as_text, check_text, parquet_module, read_columns, to_numpy
from upweight.io.format import check_claim, reading, starts_with
from upweight.io.parquet import is_own, shards

CSV = "csv"
# The columns to read, of those that a file has, and whether they hold names of things: "007" is no number then.
Choice = Callable[[Sequence[str], Path], dict[str, bool]]
_NAMES_OF_THINGS = ("episode", "label", "categories")
_PURPOSE = "reading CSV files"
_CSV_ENDING = r"\.(csv|tsv)(\.(gz|bz2|zst))?$"
_DELIMITERS = ",;\t|"  # searched for in the header
_HEADER_BYTES = 1 << 16


def find_layout(path: Path, format: str | None, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The layout that the options and the TOML file give; None if the path is no table, or Parquet without any layout."""
    said = {key: value for key, value in options.items() if value is not None}
    if format == CSV or (format is None and path.is_file() and re.search(_CSV_ENDING, path.name, re.IGNORECASE)):
        return {**_layout_beside(path), **said}
    beside = _layout_beside(path)
    if (not beside and not said.keys() & set(KEYS)) or not (files := _parquet_files(path)):
        return None
    return {**beside, **said} if said.keys() - {"ends"} or not is_own(files[0]) else None


def layout_file(path: Path) -> Path:
    """The path of a table's TOML file, which may not exist."""
    return path.parent / (re.sub(rf"{_CSV_ENDING}|\.parquet$", "", path.name, flags=re.IGNORECASE) + ".toml")


def files(path: Path) -> list[Path]:
    """The files that hold the rows."""
    return _parquet_files(path) or [path]


def read(path: Path, layout: Mapping[str, Any]) -> Dataset:
    """The columns that are needed, at once."""
    return Dataset.from_frame(_columns(path, layout), source=str(path), **layout)


def beginning(path: Path, count: int) -> dict[str, list[Any]]:
    """The first values of every column, at most ``count``: text in CSV."""
    if files := _parquet_files(path):
        with reading(path, "the first rows"):
            batches = parquet_module().ParquetFile(files[0]).iter_batches(batch_size=count)
            found: dict[str, list[Any]] = next(batches).to_pydict()
        return found
    with reading(path, "the header"):
        names, delimiter = _header(path)
    start = _first_bytes(path)
    lines = start.decode("utf-8-sig", "replace").splitlines()
    lines = lines[:-1] if len(start) == _HEADER_BYTES else lines  # the last is cut
    rows = [row for row in csv.reader(lines[1 : count + 1], delimiter=delimiter) if len(row) == len(names)]
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def read_beside(path: Path, format: str | None, options: Mapping[str, Any], part: str, columns: str) -> NDArray[Any]:
    """What ``columns`` of the table hold that are no ``part`` of the dataset: :func:`upweight.data.table.read_beside`."""
    layout = find_layout(path, format, options)
    if layout is None and not _parquet_files(path):
        raise DatasetError(f"{path}: expected a table (CSV or Parquet), found none")
    layout = {**_columns_only(layout or {}), part: columns}
    return read_beside_frame(_columns(path, layout, (part,)), layout, part, source=str(path))


def _columns(path: Path, layout: Mapping[str, Any], beside: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    def choose(names: Sequence[str], file: Path) -> dict[str, bool]:
        chosen = choose_columns(names, _columns_only(layout), source=str(file), beside=beside)
        names_of_things = {name for part in _NAMES_OF_THINGS for name in chosen.get(part, ())}
        return {name: name in names_of_things for group in chosen.values() for name in group}

    files = _parquet_files(path)
    return _read_parquet(files, choose) if files else _read_csv(path, choose)


def _parquet_files(path: Path) -> list[Path]:
    files = [] if (path / "metadata.json").is_file() else shards(path)  # that is Minari's
    return files if files and starts_with(files[0], b"PAR1") else []


def _read_csv(path: Path, choose: Choice) -> dict[str, NDArray[Any]]:
    pa_csv = require("pyarrow.csv", extra="parquet", purpose=_PURPOSE)
    with reading(path, "the header"):
        names, delimiter = _header(path)
    wanted = choose(names, path)
    options = {
        "parse_options": pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        "convert_options": pa_csv.ConvertOptions(
            include_columns=list(wanted),
            column_types={name: "string" for name, is_name in wanted.items() if is_name},
            strings_can_be_null=True,
        ),
    }
    with reading(path, "the rows"):
        try:
            with _Unpacked(path) as file:
                table = pa_csv.read_csv(file, **options)
        except ValueError as error:  # of Arrow's
            if "UTF8" in str(error):
                raise DatasetError(_not_utf8(path)) from None
            raise
        columns = {}
        for name, is_name in wanted.items():  # one at a time: the table shrinks as the arrays grow
            column = table.column(name)
            if str(column.type) == "binary":
                raise DatasetError(_not_utf8(path))
            columns[name] = _array(_as_written(column) if is_name else column, name, path)
            table = table.drop_columns([name])
    return columns


class _Unpacked(io.RawIOBase):
    """The bytes of a file that may be packed, refused where they are too many for it."""

    def __init__(self, path: Path) -> None:
        pa = require("pyarrow", extra="parquet", purpose=_PURPOSE)
        self._stream, self._path, self._count = pa.input_stream(str(path), compression="detect"), path, 0

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._stream.close()
        super().close()

    def read(self, size: int = -1) -> Any:
        data = self._stream.read(size)
        self._count += len(data)
        check_claim(self._count, self._path, key="rows")
        return data


def _as_written(column: Any) -> Any:
    """A column of text as whole numbers, if that says the same: not where there are leading zeros, or too many digits."""
    pa = require("pyarrow", extra="parquet", purpose=_PURPOSE)
    try:
        numbers = column.cast("int64")
    except pa.ArrowInvalid:
        return column
    return numbers if numbers.cast("string").equals(column) else column


def _not_utf8(path: Path) -> str:
    return f"{path}: expected text in UTF-8, found another encoding; save the table as UTF-8 (in Excel: CSV UTF-8)"


def _header(path: Path) -> tuple[list[str], str]:
    """Names of the columns, and what stands between them: of the usual signs, the one that is most frequent there."""
    start = _first_bytes(path)
    if not start:
        raise DatasetError(f"{path}: the file is empty")
    try:
        lines = start.splitlines()[0].decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise DatasetError(_not_utf8(path)) from None
    if not lines or "\0" in lines[0]:
        raise DatasetError(
            _not_utf8(path) if lines else f"{path}: expected names of columns in the first line, found none"
        )
    delimiter = max(_DELIMITERS, key=lines[0].count)
    return next(csv.reader(lines[:1], delimiter=delimiter)), delimiter


def _first_bytes(path: Path) -> bytes:
    pa = require("pyarrow", extra="parquet", purpose=_PURPOSE)
    with pa.input_stream(str(path), compression="detect") as stream:
        found: bytes = stream.read(_HEADER_BYTES)
    return found


def _read_parquet(files: Sequence[Path], choose: Choice) -> dict[str, NDArray[Any]]:
    with reading(files[0], "the Parquet schema"):
        names = parquet_module().read_schema(files[0]).names
    wanted = choose(names, files[0])
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in wanted}
    for file in files:
        with reading(file, "the rows"):
            table = read_columns(file, list(wanted))
            for name in wanted:
                parts[name].append(_array(table.column(name), name, file))
    return {name: arrays[0] if len(arrays) == 1 else np.concatenate(arrays) for name, arrays in parts.items()}


def _array(column: Any, name: str, path: Path) -> NDArray[Any]:
    """An Arrow column as it is: lists as [M, K], empty numbers as NaN, text and its gaps as objects."""
    kind = str(column.type)
    if "list" in kind:
        return to_numpy(column, key=name, path=path)
    if "string" not in kind and "binary" not in kind:
        return np.asarray(column.to_numpy())
    cells = as_text(column)
    check_text(cells, path, key=name)
    return cells


def _columns_only(layout: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in layout.items() if key != "num_actions"}


def _layout_beside(path: Path) -> dict[str, Any]:
    file = layout_file(path)
    if not file.is_file():
        return {}
    with reading(file, "what it says about the table"):
        content = tomllib.loads(file.read_text("utf-8"))
    layout = content.get("table", {})
    if not isinstance(layout, dict) or (not layout and content.keys() & set(KEYS)):
        raise DatasetError(f"{file}: expected the layout of {path.name} under the head [table]")
    check_layout(_columns_only(layout), source=str(file))
    return layout
