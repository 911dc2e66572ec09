"""``pack``: any datasets, or many shards of one, into a folder of memory-mapped columns, in bounded memory.

First every source is opened and compared with the first, and the room on the disk is looked at; then parts (ranges of whole
episodes) are written side by side, each to its place in the files of ``FOLDER.partial``, and noted there when they are on the
disk. A second try goes on with what is noted. The plan, kept with the notes, holds everything that determines a part; a
second try with another plan is refused. The folder gets its name when all is there.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from upweight import __version__
from upweight.base.checks import whole_number, yes_or_no
from upweight.base.errors import DatasetError
from upweight.base.files import clear_leftovers, naming, read_json, replace_folder, restore_folder, write_json
from upweight.base.locks import hold
from upweight.base.progress import report, track
from upweight.base.text import size
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.mix import agree
from upweight.io.loading import is_recipe, load
from upweight.io.packed import Layout, Part, cut, is_packed, write_manifest, write_part
from upweight.io.registry import locate
from upweight.io.table import layout_file

DTYPES = ("float16", "float32", "float64")
_MOST_WORKERS = 4  # threads: more of them wait for the disk
_PLAN, _LOCK = "plan.json", "lock"
_NOT_OF_PARTS = {"guard"}  # options of reading that change no number
_MOST_DIFFERENCES = 5  # in a message
_MOST_LETTERS = 80  # of an option in the plan


@dataclass(frozen=True)
class Source:
    """One dataset: its name, what it holds, and a stamp that shows whether its files changed."""

    name: str
    stamp: str | None  # hash of its files' sizes and times; None if it has no files
    layout: Layout
    episodes: int
    num_actions: int | None
    metadata: Mapping[str, Any]
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Packing:
    """What is to be packed, and where. ``print`` it, then call :meth:`write`."""

    folder: Path
    sources: tuple[Source, ...]
    opened: Callable[[int], Dataset]  # the source of a number
    stamped: Callable[[int], str | None]  # its stamp as it is now
    reading: Mapping[str, Any]
    workers: int
    overwrite: bool
    nbytes: int

    @property
    def layout(self) -> Layout:
        return self.sources[0].layout

    def __str__(self) -> str:
        episodes = sum(source.episodes for source in self.sources)
        steps = sum(part.steps for source in self.sources for part in source.parts)
        what = "1 dataset" if len(self.sources) == 1 else f"{len(self.sources):,} datasets"
        free = size(_free(self.folder))
        return f"{what}, {episodes:,} episodes, {steps:,} steps: {size(self.nbytes)} in {self.folder} ({free} are free)"

    @property
    def can_go_on(self) -> bool:
        """Whether a second try may use what the first one wrote: sources in memory may have changed."""
        return all(source.stamp is not None for source in self.sources)

    @property
    def plan(self) -> dict[str, str]:
        """All that determines a part, by name, as text."""
        return {
            "upweight": __version__,
            **{f"option {key}": _in_words(value) for key, value in self.reading.items()},
            **{
                f"source {number}": f"{source.name}, {source.episodes:,} episodes, files {source.stamp}"
                for number, source in enumerate(self.sources, 1)
            },
            **{f"column {key}": f"{kind} {shape}" for key, (kind, shape) in self.layout.to_json().items()},
        }

    def write(self, *, verify: bool = False) -> Dataset:
        """Do it; the packed dataset."""
        partial = _partial(self.folder)
        partial.mkdir(exist_ok=True)
        is_ours = (partial / _LOCK).exists() or is_packed(partial)
        if not is_ours and any(partial.iterdir()):
            raise DatasetError(
                f"{partial}: expected no such folder, or an unfinished packing; rename it, or choose another name"
            )
        lock = hold(partial / _LOCK)
        if lock is None:
            raise DatasetError(f"{partial}: somebody else is packing into it")
        with lock:
            self._begin(partial)
            try:
                records, (num_actions, metadata) = self._write_parts(partial), _agree(self.sources)
                write_manifest(partial, self.layout, records, num_actions=num_actions, metadata=metadata)
                if verify:
                    load(partial, verify=True)
            except BaseException as error:
                if not self.can_go_on:
                    shutil.rmtree(partial, ignore_errors=True)
                elif isinstance(error, DatasetError | OSError):
                    raise DatasetError(
                        f"{error}; {partial} keeps what was packed: the same again goes on with it, unless a source changed"
                    ) from error
                raise
        for file in (*partial.glob("part-*.json"), partial / _PLAN, partial / _LOCK):
            file.unlink(missing_ok=True)
        _check_target(self.folder, self.overwrite)
        replace_folder(self.folder, partial)
        return load(self.folder)

    def _write_parts(self, partial: Path) -> list[dict[str, Any]]:
        """Write the parts that are missing; returns the notes of all, in order."""
        work = [(number, part) for number, source in enumerate(self.sources) for part in source.parts]
        notes = [partial / f"part-{place:06d}.json" for place in range(len(work))]
        missing = [place for place, note in enumerate(notes) if not note.is_file()]
        needed = self.nbytes * len(missing) // len(work)
        if needed > (free := _free(self.folder)):
            raise DatasetError(
                f"{self.folder}: packing needs {size(needed)} and {size(free)} are free; make room, choose another disk, or "
                "pack observations as float16"
            )

        def do(place: int) -> None:
            number, part = work[place]
            source, dataset = self.sources[number], self.opened(number)
            if dataset.num_episodes == source.episodes:
                record = write_part(partial, self.layout, dataset, part)
                if self.stamped(number) == source.stamp:  # asked after the files were read
                    write_json(notes[place], record)
                    return
            raise DatasetError(f"{source.name}: changed since the packing began")

        report("packing", len(work) - len(missing), len(work))
        with naming(partial), ThreadPoolExecutor(self.workers, "upweight-pack") as pool:
            futures = [pool.submit(do, place) for place in missing]
            try:
                for done, future in enumerate(as_completed(futures), len(work) - len(missing) + 1):
                    future.result()
                    report("packing", done, len(work))
            except BaseException:
                pool.shutdown(cancel_futures=True)  # what is under way is finished, and kept
                raise
        return [read_json(note) for note in notes]

    def _begin(self, partial: Path) -> None:
        """Go on with what lies there if this very plan made it; refuse where another one did; else start from the beginning."""
        clear_leftovers(partial)
        path, plan = partial / _PLAN, self.plan
        before = read_json(path) if path.is_file() else None
        if not isinstance(before, dict):
            for file in partial.iterdir():
                if file.name != _LOCK:
                    file.unlink()
            if self.can_go_on:
                write_json(path, plan)
        elif before != plan:
            raise DatasetError(
                f"{partial}: holds an unfinished packing by another plan ({_differences(before, plan)}); to go on with it, "
                "give what was given then; to start again, remove that folder"
            )


def pack(
    sources: AnyDataset | Sequence[AnyDataset],
    folder: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    workers: int | None = None,
    verify: bool = False,
    overwrite: bool = False,
    **reading: Any,
) -> Dataset:
    """Write datasets, one after the other, into a folder whose columns are memory-mapped; gives the dataset that lies there.

    For data larger than memory: ``upweight.load(folder)`` opens it at once, and batches, weights and inspection read what they
    need. An interrupted packing of files goes on where it was.

    Args:
        sources: one dataset or several with the same columns: datasets, or anything that :func:`upweight.load` makes one of.
        folder: where to pack them.
        dtype: of floating observations; "float16" halves them. As they are if None.
        workers: threads that read and write; if None, one per core, and four at most.
        verify: whether everything is read again and its hashes compared, as ``load(folder, verify=True)`` does later.
        overwrite: whether a packed folder is replaced, once the new one is complete.
        reading: options of :func:`upweight.load`, for sources that are paths or names.

    Examples:
        >>> uw.pack([ds, ds], "both.packed").num_episodes
        16
    """
    verify = yes_or_no("verify", verify, error=DatasetError)
    planned = plan_packing(sources, folder, dtype=dtype, workers=workers, overwrite=overwrite, **reading)
    return planned.write(verify=verify)


def plan_packing(
    sources: AnyDataset | Sequence[AnyDataset],
    folder: str | os.PathLike[str],
    *,
    dtype: str | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    **reading: Any,
) -> Packing:
    """Open all sources and compare them; nothing is written."""
    target, given = Path(folder), list(sources) if isinstance(sources, list | tuple) else [sources]
    overwrite = yes_or_no("overwrite", overwrite, error=DatasetError)
    restore_folder(target)  # which may be a source too
    _check_target(target, overwrite)
    if not given or (dtype is not None and dtype not in DTYPES):
        wrong = "no dataset" if not given else f"dtype {dtype!r}"
        raise DatasetError(f"expected datasets to pack, and a dtype of {', '.join(DTYPES)} or none, found {wrong}")
    cores = min(_MOST_WORKERS, os.cpu_count() or 1)
    threads = cores if workers is None else whole_number("workers", workers, least=1, error=DatasetError)

    @lru_cache(maxsize=threads)
    def opened(number: int) -> Dataset:
        return load(given[number], **reading) if reading else as_dataset(given[number])

    def stamped(number: int) -> str | None:
        return _stamp(given[number], spared=_partial(target))

    found: list[Source] = []
    for number in track(range(len(given)), total=len(given), description="looking at datasets"):
        stamp = stamped(number)  # before the files are read: what was read has this stamp if they have it later
        found.append(_look_at(opened(number), stamp, dtype, found))
    _agree(found)
    nbytes = sum(source.layout.nbytes(sum(part.steps for part in source.parts), source.episodes) for source in found)
    determining = {key: value for key, value in reading.items() if value is not None and key not in _NOT_OF_PARTS}
    return Packing(target, tuple(found), opened, stamped, determining, threads, overwrite, nbytes)


def _look_at(dataset: Dataset, stamp: str | None, dtype: str | None, before: Sequence[Source]) -> Source:
    layout = Layout.of(dataset, dtype)
    if before:
        _check_same(layout, dataset.source, before[0])
    last = before[-1].parts[-1] if before else None
    at_step, at_episode = (last.at_step + last.steps, last.at_episode + last.last - last.first) if last else (0, 0)
    parts = tuple(cut(dataset, layout, at_step=at_step, at_episode=at_episode))
    about = (dataset.num_episodes, dataset.num_actions, dataset.metadata)
    return Source(dataset.source, stamp, layout, *about, parts)


def _agree(sources: Sequence[Source]) -> tuple[int | None, Mapping[str, Any]]:
    """What all have in common; one alone has all of it."""
    num_actions, metadata = agree([each.num_actions for each in sources], [each.metadata for each in sources])
    return num_actions, metadata if len(sources) > 1 else sources[0].metadata


def _check_same(layout: Layout, name: str, first: Source) -> None:
    """Refuse a source with other columns than the first one."""
    ours, theirs = layout.to_json(), first.layout.to_json()
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key):
            expected, found = (
                "none" if entry is None else f"{entry[0]} of shape {tuple(entry[1])}"
                for entry in (theirs.get(key), ours.get(key))
            )
            raise DatasetError(
                f"{name}: column {key!r}: expected {expected}, as in {first.name}, found {found}; datasets that are packed "
                "together have the same columns"
            )


def _check_target(folder: Path, overwrite: bool) -> None:
    if not folder.parent.is_dir():
        raise DatasetError(f"{folder}: expected an existing folder to write into, but {folder.parent} is not one")
    if folder.exists() and not (overwrite and is_packed(folder)):
        advice = "choose another name"
        if is_packed(folder):
            advice += ", or replace it with overwrite=True (--overwrite)"
        raise DatasetError(f"{folder}: exists already; {advice}")


def _stamp(given: AnyDataset, *, spared: Path) -> str | None:
    """A hash of names, sizes and times of all files that a source is read from, except those in ``spared``; None without any."""
    if not isinstance(given, str | os.PathLike) or is_recipe(os.fspath(given)):
        return None
    path = locate(os.fspath(given))
    files = [
        file for file in (layout_file(path), path, *path.rglob("*")) if file.is_file() and spared not in file.parents
    ]
    return _digest(json.dumps(sorted((str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files)))


def _in_words(option: Any) -> str:
    """An option as JSON; a long one is cut, with the hash of the whole."""
    text = json.dumps(option, default=_as_lists)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}... {_digest(text)}"


def _as_lists(value: Any) -> Any:
    """Arrays as lists; anything else, such as a date, as text."""
    found = np.asarray(value).tolist()
    return str(value) if found is value else found


def _differences(before: Mapping[str, Any], now: Mapping[str, str]) -> str:
    """The first few entries in which two plans differ; those of an older version are not text, and count as missing."""
    then = {key: value for key, value in before.items() if isinstance(value, str)}
    keys = [key for key in {**now, **then} if then.get(key) != now.get(key)]
    more = [f"{len(keys) - _MOST_DIFFERENCES} more"] if len(keys) > _MOST_DIFFERENCES else []
    return "; ".join(
        [f"{key}: {then.get(key, 'nothing')} then, {now.get(key, 'nothing')} now" for key in keys[:_MOST_DIFFERENCES]]
        + more
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _partial(folder: Path) -> Path:
    """The folder of an unfinished packing."""
    return folder.with_name(f"{folder.name}.partial")


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder.parent).free
