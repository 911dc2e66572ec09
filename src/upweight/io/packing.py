"""``pack``: any datasets, or many shards of one, into a folder of memory-mapped columns, in bounded memory.

First every source is opened and compared with the first, and the room on the disk is looked at; then parts (ranges of whole
episodes) are written side by side, each to its place in the files of ``FOLDER.partial``, and noted there when they are on the
disk. A second try goes on with what is noted, if sources and settings are the same. The folder gets its name when all is there.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from upweight.base.checks import whole_number
from upweight.base.errors import DatasetError
from upweight.base.files import naming, read_json, remove_folder, write_json
from upweight.base.locks import hold
from upweight.base.progress import report, track
from upweight.base.text import size
from upweight.data.dataset import Dataset
from upweight.data.mix import agree
from upweight.io.loading import AnyDataset, as_dataset, load
from upweight.io.packed import Layout, Part, cut, is_packed, write_manifest, write_part

DTYPES = ("float16", "float32", "float64")
_MOST_WORKERS = 4  # threads: more of them wait for the disk
_PLAN, _LOCK = "plan.json", "lock"


@dataclass(frozen=True)
class Source:
    """One of the datasets: what it is called and holds, and what tells whether it changed."""

    name: str
    stamp: Any  # None: nothing does, as it is in memory
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

    def write(self, *, verify: bool = False) -> Dataset:
        """Do it; the packed dataset."""
        partial = self.folder.with_name(f"{self.folder.name}.partial")
        partial.mkdir(exist_ok=True)
        lock = hold(partial / _LOCK)
        if lock is None:
            raise DatasetError(f"{partial}: somebody else is packing into it")
        try:
            with lock:
                records, (num_actions, metadata) = self._write_parts(partial), _agree(self.sources)
                write_manifest(partial, self.layout, records, num_actions=num_actions, metadata=metadata)
                if verify:
                    load(partial, verify=True)
        except BaseException as error:
            if not self.can_go_on:
                shutil.rmtree(partial, ignore_errors=True)
            elif isinstance(error, DatasetError | OSError):
                raise DatasetError(
                    f"{error}; {partial} keeps what was packed: the same again goes on with it"
                ) from error
            raise
        for file in (*partial.glob("part-*.json"), partial / _PLAN, partial / _LOCK):
            file.unlink()
        _check_target(self.folder, self.overwrite)
        if self.folder.exists():
            remove_folder(self.folder)
        os.replace(partial, self.folder)
        return load(self.folder)

    def _write_parts(self, partial: Path) -> list[dict[str, Any]]:
        """Those that are not there yet; what is noted of all, in order."""
        work = [(number, part) for number, source in enumerate(self.sources) for part in source.parts]
        notes = [partial / f"part-{place:06d}.json" for place in range(len(work))]
        self._forget_others(partial)
        missing = [place for place, note in enumerate(notes) if not note.is_file()]
        needed = self.nbytes * len(missing) // len(work)
        if needed > (free := _free(self.folder)):
            raise DatasetError(
                f"{self.folder}: packing needs {size(needed)} and {size(free)} are free; make room, choose another disk, or "
                "pack observations as float16"
            )

        def do(place: int) -> None:
            number, part = work[place]
            dataset = self.opened(number)
            if dataset.num_episodes != self.sources[number].episodes:
                raise DatasetError(f"{self.sources[number].name}: changed since the packing began; start again")
            write_json(notes[place], write_part(partial, self.layout, dataset, part))

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

    def _forget_others(self, partial: Path) -> None:
        """Unless what lies there is a part of this very packing, begin anew."""
        plan = {
            "sources": [[source.name, source.stamp, source.episodes] for source in self.sources],
            "columns": self.layout.to_json(),
        }
        if not self.can_go_on or not (partial / _PLAN).is_file() or read_json(partial / _PLAN) != plan:
            for file in partial.iterdir():
                if file.name != _LOCK:
                    file.unlink()
            write_json(partial / _PLAN, plan)


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
    need. ``sources``: paths, names, frames or datasets, of the same columns. ``dtype`` is that of floating observations
    ("float16" halves them). ``verify`` reads everything again and compares hashes, as ``load(folder, verify=True)`` does later.
    An interrupted packing of files goes on where it was. Further options are those of :func:`upweight.load`.

    Examples:
        >>> uw.pack([ds, ds], "both.packed").num_episodes
        16
    """
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
    _check_target(target, overwrite)
    if not given or (dtype is not None and dtype not in DTYPES):
        wrong = "no dataset" if not given else f"dtype {dtype!r}"
        raise DatasetError(f"expected datasets to pack, and a dtype of {', '.join(DTYPES)} or none, found {wrong}")
    cores = min(_MOST_WORKERS, os.cpu_count() or 1)
    threads = cores if workers is None else whole_number("workers", workers, least=1, error=DatasetError)

    @lru_cache(maxsize=threads)
    def opened(number: int) -> Dataset:
        return load(given[number], **reading) if reading else as_dataset(given[number])

    found: list[Source] = []
    for number in track(range(len(given)), total=len(given), description="looking at datasets"):
        found.append(_look_at(opened(number), given[number], dtype, found))
    _agree(found)
    nbytes = sum(source.layout.nbytes(sum(part.steps for part in source.parts), source.episodes) for source in found)
    return Packing(target, tuple(found), opened, threads, overwrite, nbytes)


def _look_at(dataset: Dataset, given: AnyDataset, dtype: str | None, before: Sequence[Source]) -> Source:
    layout = Layout.of(dataset, dtype)
    if before:
        _check_same(layout, dataset.source, before[0])
    last = before[-1].parts[-1] if before else None
    at_step, at_episode = (last.at_step + last.steps, last.at_episode + last.last - last.first) if last else (0, 0)
    parts = tuple(cut(dataset, layout, at_step=at_step, at_episode=at_episode))
    stamp = _stamp(Path(given)) if isinstance(given, str | os.PathLike) else None
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


def _stamp(path: Path) -> list[Any] | None:
    """Sizes and times of the files of a dataset; None if it is no file."""
    files: Iterable[Path] = sorted(path.rglob("*")) if path.is_dir() else [path] if path.is_file() else []
    stats = [file.stat() for file in files]
    return [len(stats), sum(stat.st_size for stat in stats), max(stat.st_mtime_ns for stat in stats)] if stats else None


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder.parent).free
