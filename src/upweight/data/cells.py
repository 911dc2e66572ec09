"""Cells of a table's column: as numbers, as times, as categories. Rows are counted from 1, as people do."""

import warnings
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError, UpweightWarning
from upweight.base.names import closest
from upweight.data.validate import NUMERIC_KINDS

_MOST_CATEGORIES = 1000
_MOST_EXACT = 2.0**53  # from which floats are not every whole number


def numbers(cells: NDArray[Any], *, name: str, source: str, or_categories: bool = False) -> NDArray[Any]:
    """``cells`` [M] as numbers [M], cells that hold vectors as [M, ...]; an empty cell is NaN.

    ``or_categories``: whether text could be categories instead, which is for messages.
    """
    if cells.dtype.kind in NUMERIC_KINDS:
        return cells
    if cells.dtype.kind not in "OUT":
        dates = " (dates order rows as timestep; here, make a number of them, such as hours since the first)"
        raise DatasetError(
            f"{source}: column {name!r}: expected numbers, found {cells.dtype}{dates if cells.dtype.kind in 'mM' else ''}"
        )
    values = cells.tolist()
    texts = [row for row, cell in enumerate(values) if isinstance(cell, str)]
    if texts:
        row = next((row for row in texts if not _reads_as_number(values[row])), texts[0])
        advice = "correct it, or name another column"
        if or_categories:
            advice = "correct it, or name the column in categories (--categories) if its values are categories"
        if _reads_as_number(values[row].replace(",", ".")):
            advice = "write decimal points instead of commas" if "," in values[row] else "store it as a number"
        raise DatasetError(
            f"{source}: column {name!r}: expected numbers, found the text {values[row]!r} in row {row + 1} "
            f"({len(texts):,} of {len(values):,} rows hold text); {advice}"
        )
    filled = [np.nan if _is_missing(cell) else cell for cell in values]
    try:
        array = np.asarray(filled)
        return array if array.dtype.kind in NUMERIC_KINDS else np.asarray(filled, np.float64)  # Decimal
    except (TypeError, ValueError) as error:
        raise DatasetError(f"{source}: column {name!r}: expected numbers or vectors of one length ({error})") from None


def identifiers(cells: NDArray[Any], *, name: str, source: str) -> NDArray[Any]:
    """``cells`` [M] as what tells episodes apart: numbers, dates or text, of one kind, in every row."""
    _check_present(cells, name, source)
    if cells.dtype.kind == "f" and (np.abs(cells) >= _MOST_EXACT).any():
        raise DatasetError(
            f"{source}: column {name!r}: expected what tells episodes apart, found rounded numbers such as {cells.max()!r}, "
            "which several may share; read the column as text"
        )
    return cells.astype(str) if cells.dtype == object and len(set(map(type, cells.tolist()))) > 1 else cells


def times(cells: NDArray[Any], *, name: str, source: str) -> NDArray[Any]:
    """``cells`` [M] as something that has an order in time: numbers or dates, in every row."""
    _check_present(cells, name, source)
    if cells.dtype.kind == "M":
        return cells
    values = cells.tolist() if cells.dtype.kind in "OUT" else []
    if not any(isinstance(cell, str | date) for cell in values):
        return numbers(cells, name=name, source=source)
    dates = [_date(cell) for cell in values]
    if None in dates:
        raise DatasetError(
            f"{source}: column {name!r}: expected numbers or dates (2024-05-31 or 2024-05-31 14:00) to order rows by, "
            f"found text such as {values[dates.index(None)]!r}"
        )
    has_zone = [getattr(each, "tzinfo", None) is not None for each in dates]
    if not any(has_zone):
        return np.array(dates, "datetime64[us]")
    if not all(has_zone):
        raise DatasetError(
            f"{source}: column {name!r}: expected a time zone in every row or in none, found none in row "
            f"{has_zone.index(False) + 1} ({values[has_zone.index(False)]})"
        )
    return np.array([each.timestamp() for each in dates])


def encode(
    cells: NDArray[Any], given: Sequence[Any] | None, *, name: str, source: str
) -> tuple[NDArray[np.int64], list[Any]]:
    """The number of each cell's category [M], -1 where the cell is empty, and the categories: ``given``, or sorted."""
    seen: dict[Any, int] = {}
    try:
        places = [seen.setdefault(None if _is_missing(cell) else cell, len(seen)) for cell in cells.tolist()]
    except TypeError:
        raise DatasetError(
            f"{source}: column {name!r}: expected text or numbers as categories, found vectors"
        ) from None
    found = [value for value in seen if value is not None]
    if len(found) > _MOST_CATEGORIES or not all(isinstance(value, str | int | float) for value in found):
        raise DatasetError(
            f"{source}: column {name!r}: expected at most {_MOST_CATEGORIES:,} categories, each a text or a number, "
            f"found {len(found):,}, such as {found[0]!r}"
        )
    categories = sorted(found, key=lambda value: (isinstance(value, str), value)) if given is None else list(given)
    _warn_of_spellings(categories, name, source)
    numbered = {each: number for number, value in enumerate(categories) for each in (str(value), value)}
    for value in found:
        if value not in numbered and str(value) not in numbered:
            near = closest(str(value), map(str, categories))
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise DatasetError(f"{source}: column {name!r}: {value!r} is none of its categories {categories}{meant}")
        numbered.setdefault(value, numbered.get(str(value), -1))
    return np.array([numbered.get(value, -1) for value in seen], np.int64)[places], categories


def one_hot(codes: NDArray[np.int64], count: int) -> NDArray[np.float32]:
    """[M, count]: 1 in the column of the row's category and 0 elsewhere; NaN where the category is missing (-1)."""
    rows = np.zeros((len(codes), count), np.float32)
    rows[np.arange(len(codes)), codes] = 1  # where it is missing, overwritten below
    rows[codes < 0] = np.nan
    return rows


def check_filled(
    columns: Mapping[str, NDArray[Any]], *, part: str, source: str, spared: NDArray[np.int64] | None = None
) -> None:
    """Refuse empty and infinite cells, but for the rows ``spared``; says how many there are in which columns."""
    found = []
    for name, values in columns.items():
        bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if spared is not None:
            bad[spared] = False
        if bad.any():
            found.append(f"{int(bad.sum()):,} in {name!r} (the first in row {int(np.argmax(bad)) + 1})")
    if found:
        raise DatasetError(
            f"{source}: {part}: expected a finite number in every row, found empty, NaN or infinite cells: "
            f"{', '.join(found)}; fill them in or leave out those episodes"
        )


def _check_present(cells: NDArray[Any], name: str, source: str) -> None:
    if cells.ndim != 1:
        raise DatasetError(f"{source}: column {name!r}: expected one value per row, found shape {cells.shape}")
    empty = np.array([_is_missing(cell) for cell in cells.tolist()]) if cells.dtype == object else cells != cells
    if empty.any():
        raise DatasetError(
            f"{source}: column {name!r}: expected a value in every row, found {int(empty.sum()):,} empty cells, the first "
            f"in row {int(np.argmax(empty)) + 1}"
        )


def _warn_of_spellings(categories: Sequence[Any], name: str, source: str) -> None:
    """Categories that only capitals or spaces tell apart are probably one, and would be as many actions or columns."""
    first: dict[str, Any] = {}
    for value in categories:
        same = first.setdefault(" ".join(str(value).split()).casefold(), value)
        if same != value:
            warnings.warn(
                f"{source}: column {name!r}: {same!r} and {value!r} count as two categories; if they are one, correct the table",
                UpweightWarning,
                stacklevel=2,
            )


def _date(cell: Any) -> Any:
    """A date, or one that is written as ISO 8601 has it (2024-05-31T14:00+02:00), with or without a time; None of others."""
    if isinstance(cell, date):
        return cell
    try:
        return datetime.fromisoformat(cell) if "-" in cell else None
    except (TypeError, ValueError):
        return None


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ in {"NAType", "NaTType"}


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
