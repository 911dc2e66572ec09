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
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.loaded_files import LoadedFiles
from upweight.data.pieces import join_pieces
from upweight.data.score import OF_REWARDS
from upweight.data.table import KEYS, is_frame
from upweight.io import table
from upweight.io.contents import describe
from upweight.io.format import Format, reading

MINARI_PREFIX = "minari:"
_OPTIONS = ("format", "horizon", "num_actions", "success", "score", "ends", "join")  # of any file


@cache
def formats(kind: str = "FORMAT") -> dict[str, Format]:
    """All formats by name: of files or, with "IN_MEMORY", of the objects of libraries."""
    modules = (
        importlib.import_module(f"{folder.__name__}.{each.name}") for each in pkgutil.iter_modules(folder.__path__)
    )
    found = (getattr(module, kind, None) for module in modules)
    return {format_.name: format_ for format_ in found if format_ is not None}


def writable() -> list[str]:
    """Names of the formats that can be written."""
    return [name for name, format_ in formats().items() if format_.write is not None]


def read_dataset(
    name: str | os.PathLike[str] | Any,
    *,
    format: str | None = None,
    horizon: int | None = None,
    num_actions: int | None = None,
    success: str | ArrayLike | None = None,
    score: str | ArrayLike | None = None,
    ends: str | None = None,
    join: bool = False,
    **options: Any,
) -> Dataset:
    """A file or folder, ``minari:<id>`` of the local Minari folder, a frame, a dataset of ours or of another library.

    :func:`upweight.load` explains the options.
    """
    path = locate(os.fspath(name)) if isinstance(name, str | os.PathLike) else None
    own = None if path is not None else _of_object(name)
    shown = path or ("frame" if own is None else f"the {type(name).__name__}")
    if success is not None and score is not None:
        raise DatasetError(f"{shown}: expected success or score, found both")
    named = isinstance(score, str) and score not in OF_REWARDS  # something that the file has
    if join and score is not None and (named or not isinstance(score, str)):
        raise DatasetError(
            f"{shown}: join: the score would be that of pieces; join them alone, and then use Dataset.with_score"
        )
    options = options if ends is None else {**options, "ends": ends}
    layout = table.find_layout(path, format, options) if path is not None else options if own is None else None
    if layout is not None and isinstance(success, str):
        layout, success = {**layout, "success": success}, None
    if layout is not None and isinstance(score, str) and named:
        layout, score = {**layout, "score": score}, None
    if layout is None:
        chosen = own or (_named_format(format) if format is not None else _recognise(Path(shown)))
        source = path or name
        files = LoadedFiles(chosen.files(source))
        with files.unchanged():
            dataset = _read(chosen, source, options, shown)
            success = _flags(chosen, source, success, shown) if isinstance(success, str) else success
            score = _flags(chosen, source, score, shown) if isinstance(score, str) and named else score
        for column in dataset.columns.values():
            column.files = column.files or files
    elif path is None:
        dataset = Dataset.from_frame(name, **layout)
    else:
        with LoadedFiles(table.files(path)).unchanged(), reading(path, "it as a table"):
            dataset = table.read(path, layout)
    if join:
        dataset = join_pieces(dataset)
    if score is not None:
        dataset = dataset.with_score(score)
    if success is not None:
        dataset = dataset.with_success(success)
    if num_actions is not None:
        dataset = dataset.with_num_actions(num_actions)
    if horizon is None:
        return dataset
    horizon = whole_number("horizon", horizon, least=1, error=DatasetError)
    return dataset.mark_incomplete(np.flatnonzero(dataset.episodes.truncated & (dataset.lengths < horizon)))


def save(dataset: AnyDataset, path: str | os.PathLike[str], *, format: str | None = None) -> list[str]:
    """Write a dataset, completely or not at all; the format follows the suffix unless named.

    Returns what the format could not express, and warns about it.

    Examples:
        >>> uw.save(ds, "log.npz")
        []
    """
    dataset, target = as_dataset(dataset), Path(path)
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


def _of_object(source: Any) -> Format | None:
    """The format of a dataset in memory, ours or another library's; None for a frame."""
    if isinstance(source, Dataset):
        return Format("dataset", "a dataset already", recognises=lambda _: True, read=lambda dataset: dataset)
    own = next((each for each in formats("IN_MEMORY").values() if each.recognises(source)), None)
    if own is None and not is_frame(source):
        raise DatasetError(
            "expected a dataset: an upweight.Dataset, a path or the name of one, a frame (pandas, polars, Arrow, or a mapping of "
            f"columns), or a dataset of d3rlpy or Minari, found {type(source).__name__}; Dataset.from_arrays and from_episodes "
            "make one of arrays"
        )
    return own


def _read(chosen: Format, source: Any, options: dict[str, Any], shown: Path | str) -> Dataset:
    own = list(signature(chosen.read).parameters)[1:]
    ends = None if "ends" in own else options.get("ends")
    options = options if "ends" in own else {name: value for name, value in options.items() if name != "ends"}
    if ends not in (None, "truncated"):
        raise DatasetError(
            f"{shown}: ends: expected 'truncated', which takes terminal states after the longest length for time limits, found "
            f"{ends!r}; {chosen.description} says itself how episodes end"
        )
    for name in options.keys() - own:
        advice = hint(name, [*_OPTIONS, *own])
        if name in KEYS:
            advice = f"it is for tables, and this is {chosen.description}, which says itself what is what; leave it out"
        raise DatasetError(f"{shown}: the {chosen.name} reader has no such option {name!r}; {advice}")
    with reading(shown, f"it as {chosen.name}"):
        dataset = chosen.read(source, **options)
        return dataset if ends is None else dataset.with_time_limits()


def _flags(chosen: Format, source: Any, name: str, shown: Path | str) -> Any:
    """[M] or [N]"""
    if chosen.flags is None:
        raise DatasetError(
            f"{shown}: {chosen.description} has no flags but the ends of episodes; give success=[...] or score=[...], one each"
        )
    with reading(shown, f"{name!r}"):
        return chosen.flags(source, name)


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
    raise DatasetError(
        f"{path}: not a {what} in a known format.{describe(path)} Known are {', '.join(formats())}, and tables in CSV "
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
