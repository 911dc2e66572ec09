"""``load`` and ``save``: find the format, then let it work."""

import importlib
import os
import pkgutil
import warnings
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import upweight.io as folder
from upweight.base.checks import whole_number
from upweight.base.errors import DataLossWarning, DatasetError
from upweight.base.files import atomic_target
from upweight.base.names import hint
from upweight.data.dataset import Dataset
from upweight.data.loaded_files import LoadedFiles
from upweight.data.table import KEYS
from upweight.io import table
from upweight.io.contents import describe
from upweight.io.format import Format, reading

MINARI_PREFIX = "minari:"
_OPTIONS = ("format", "horizon", "num_actions", "success", "score")  # of any file


@cache
def formats() -> dict[str, Format]:
    """All formats by name."""
    found = {}
    for module in pkgutil.iter_modules(folder.__path__):
        format_ = getattr(importlib.import_module(f"{folder.__name__}.{module.name}"), "FORMAT", None)
        if format_ is not None:
            found[format_.name] = format_
    return found


def writable() -> list[str]:
    """Names of the formats that can be written."""
    return [name for name, format_ in formats().items() if format_.write is not None]


def load(
    name: str | os.PathLike[str] | Any,
    *,
    format: str | None = None,
    horizon: int | None = None,
    num_actions: int | None = None,
    success: str | ArrayLike | None = None,
    score: str | ArrayLike | None = None,
    **options: Any,
) -> Dataset:
    """A file or folder, ``minari:<id>`` of the local Minari folder, or a frame; :func:`upweight.load` explains the options."""
    if success is not None and score is not None:
        raise DatasetError(
            f"{name if isinstance(name, str | os.PathLike) else 'frame'}: expected success or score, found both"
        )
    path = locate(os.fspath(name)) if isinstance(name, str | os.PathLike) else None
    layout = options if path is None else table.find_layout(path, format, options)
    if layout is not None and isinstance(success, str):
        layout, success = {**layout, "success": success}, None
    if layout is not None and isinstance(score, str):
        layout, score = {**layout, "score": score}, None
    if path is None:
        dataset = Dataset.from_frame(name, **(layout or {}))
    elif layout is not None:
        with LoadedFiles(table.files(path)).unchanged(), reading(path, "it as a table"):
            dataset = table.read(path, layout)
    else:
        chosen = _named_format(format) if format is not None else _recognise(path)
        files = LoadedFiles(chosen.files(path))
        with files.unchanged():
            dataset = _read(chosen, path, options)
            success = _flags(chosen, path, success) if isinstance(success, str) else success
            score = _flags(chosen, path, score) if isinstance(score, str) else score
        for column in dataset.columns.values():
            column.files = files
    if score is not None:
        dataset = dataset.with_score(score)
    if success is not None:
        dataset = dataset.with_success(success)
    if num_actions is not None:
        dataset = dataset.with_num_actions(num_actions)
    if horizon is None:
        return dataset
    whole_number("horizon", horizon, least=1, error=DatasetError)
    return dataset.mark_incomplete(np.flatnonzero(dataset.episodes.truncated & (dataset.lengths < horizon)))


def save(dataset: Dataset, path: str | os.PathLike[str], *, format: str | None = None) -> list[str]:
    """Write a dataset, completely or not at all; the format follows the suffix unless named.

    Returns what the format could not express, and warns about it.

    Examples:
        >>> uw.save(ds, "log.npz")
        []
    """
    target = Path(path)
    chosen = _named_format(format) if format is not None else _format_for_suffix(target)
    if chosen.write is None:
        raise DatasetError(
            f"{chosen.name} ({chosen.description}) is read but not written; write one of {', '.join(writable())}"
        )
    if chosen.needs_rewards and not dataset.has_rewards:
        raise DatasetError(f"{dataset.source}: {chosen.description} needs rewards, and the dataset has none")
    with atomic_target(target) as workplace:
        lost = chosen.write(dataset, workplace)
    if lost:
        warnings.warn(f"{target}: {chosen.name} does not keep {'; '.join(lost)}", DataLossWarning, stacklevel=2)
    return lost


def _read(chosen: Format, path: Path, options: dict[str, Any]) -> Dataset:
    own = list(signature(chosen.read).parameters)[1:]
    for name in options.keys() - own:
        advice = hint(name, [*_OPTIONS, *own])
        if name in KEYS:
            advice = (
                f"it is for tables, and this file is {chosen.description}, which says itself what is what; leave it out"
            )
        raise DatasetError(f"{path}: the {chosen.name} reader has no such option {name!r}; {advice}")
    with reading(path, f"it as {chosen.name}"):
        return chosen.read(path, **options)


def _flags(chosen: Format, path: Path, name: str) -> Any:
    """[M] or [N]"""
    if chosen.flags is None:
        raise DatasetError(
            f"{path}: {chosen.description} has no flags beside the episodes' ends; give success=[...] or score=[...], one each"
        )
    with reading(path, f"{name!r}"):
        return chosen.flags(path, name)


def locate(name: str) -> Path:
    try:
        path = Path(name)
        if path.exists():
            return path
        if name.startswith(MINARI_PREFIX):
            return _locate_minari(name.removeprefix(MINARI_PREFIX))
        siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    except DatasetError:
        raise
    except (OSError, ValueError) as error:  # a name no file system takes
        raise DatasetError(f"{name!r}: not a usable path ({error})") from None
    meant = hint(
        name, [str(path.parent / sibling) for sibling in siblings], otherwise="give an existing one, or minari:<id>"
    )
    raise DatasetError(f"{name}: no such file or folder; {meant}")


def _locate_minari(dataset_id: str) -> Path:
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
    path = root / dataset_id
    if not path.is_dir():
        raise DatasetError(
            f"minari:{dataset_id}: not found in {root}; fetch it first with  minari download {dataset_id}  "
            "(MINARI_DATASETS_PATH names the folder)"
        )
    return path


def _recognise(path: Path) -> Format:
    if path.is_file() and path.stat().st_size == 0:
        raise DatasetError(f"{path}: the file is empty")
    with reading(path, "the file"):
        for format_ in formats().values():
            if format_.recognises(path):
                return format_
    what = "folder" if path.is_dir() else "file"
    known = ", ".join(f"{format_.name} ({format_.description})" for format_ in formats().values())
    raise DatasetError(
        f"{path}: not a {what} in a known format.{describe(path)} Known are {known}, and tables in CSV "
        f"(*.csv, *.tsv; by another name with format='csv', --input-format csv)"
    )


def _named_format(name: str) -> Format:
    if name not in formats():
        raise DatasetError(f"unknown format {name!r}; {hint(str(name), formats())}")
    return formats()[name]


def _format_for_suffix(path: Path) -> Format:
    for format_ in formats().values():
        if path.suffix.lower() in format_.suffixes:
            return format_
    suffixes = ", ".join(suffix for format_ in formats().values() for suffix in format_.suffixes)
    raise DatasetError(
        f"{path}: cannot tell the format from the suffix {path.suffix!r}; use one of {suffixes}, "
        f"or name the format: {', '.join(writable())}"
    )
