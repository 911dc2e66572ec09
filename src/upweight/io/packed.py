"""A folder of raw columns that are memory-mapped: for data larger than memory. NumPy alone reads it.

``manifest.json`` says how many steps and episodes there are, the dtype and the shape of a row of every column, and of which
parts (ranges of whole episodes, written one by one) they consist, each with the SHA-256 of its stretch of every file. Column X
is ``X.bin``, little-endian, row after row. Per step: ``observations``, ``actions``, ``flags`` (bits of ``Episodes.flags``) and,
if there are any, ``rewards`` and ``next_observations``; per episode: ``lengths``, ``terminated``, ``truncated``, ``complete``,
``final_known``, ``initial_observations`` and, if there are any, ``returns`` and ``labels`` (numbers of the names of its part).
"""

import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from upweight.base.errors import DatasetError
from upweight.base.files import read_json, write_json
from upweight.base.progress import track
from upweight.data.action_codes import check_codes
from upweight.data.columns import Array, Column, Index
from upweight.data.dataset import Dataset
from upweight.data.validate import NUMERIC_KINDS, as_episodes, check_finite, sum_rewards
from upweight.io.format import Format, missing_key

VERSION = 1
MANIFEST = "manifest.json"
_MARK = "upweight_packed"  # its key for the version
_STEP_COLUMNS = ("observations", "actions", "rewards", "next_observations", "flags")
_FLAGS = ("terminated", "truncated", "complete", "final_known")
_PART_BYTES = 1 << 28  # of its steps: written at a time, and written again after an interruption
_BLOCK_BYTES = 1 << 24  # of one column, in memory at a time
_LOOK_SECONDS = 1.0


class MappedColumn(Column):
    """Rows of a raw file as they lie there; sent to another process, or kept over a fork, it is the same map."""

    is_mapped = True

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype) -> None:
        super().__init__(shape, dtype)
        self._path = path
        self._next_look = 0.0

    @property
    def is_loaded(self) -> bool:
        return False  # however often it was looked at: the system takes its pages back when it needs them

    def read(self) -> Array:
        with self._unchanged():
            return super().read()

    def _unchanged(self) -> AbstractContextManager[None]:
        """Looks at the files once a second only, as that takes longer than a batch does.

        To read what was cut off since it was mapped would end the process (SIGBUS).
        """
        if (now := time.monotonic()) < self._next_look:
            return nullcontext()
        self._next_look = now + _LOOK_SECONDS
        return super()._unchanged()

    def _read(self) -> Array:
        try:
            return np.asarray(np.memmap(self._path, self.dtype, "r", shape=self.shape))
        except OSError as error:
            raise DatasetError(
                f"{self._path}: cannot be mapped ({error}); maps take no memory, but a limit of address space (ulimit -v) must "
                "leave room for the files, and they must still be there"
            ) from None

    def _read_rows(self, index: Index) -> Array:
        return super().read().take(index, axis=0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_array": None, "_next_look": 0.0}


@dataclass(frozen=True)
class Layout:
    """Dtype and shape of a row, by column."""

    columns: Mapping[str, tuple[np.dtype, tuple[int, ...]]]

    @classmethod
    def of(cls, dataset: Dataset, dtype: str | None) -> "Layout":
        """The layout of a dataset, with floating observations as ``dtype`` (None: as they are)."""
        observations = dataset.columns["observations"]
        if dtype is not None and observations.dtype.kind != "f":
            raise DatasetError(
                f"{dataset.source}: dtype {dtype!r} is for observations that are floats, found {observations.dtype}"
            )
        kind = observations.dtype if dtype is None else np.dtype(dtype)
        found: dict[str, tuple[Any, tuple[int, ...]]] = {
            "observations": (kind, observations.shape[1:]),
            "actions": (dataset.columns["actions"].dtype, dataset.action_shape),
            "flags": (np.uint8, ()),
            "lengths": (np.int64, ()),
            **dict.fromkeys(_FLAGS, (np.uint8, ())),
            "initial_observations": (kind, observations.shape[1:]),
        }
        if dataset.has_rewards:
            found |= {"rewards": (dataset.columns["rewards"].dtype, ()), "returns": (np.float64, ())}
        if "next_observations" in dataset.columns:
            found["next_observations"] = (kind, observations.shape[1:])
        if dataset.labels is not None:
            found["labels"] = (np.int32, ())
        return cls({key: (np.dtype(kind).newbyteorder("<"), shape) for key, (kind, shape) in found.items()})

    @classmethod
    def from_json(cls, columns: Mapping[str, Any], path: Path) -> "Layout":
        found = {}
        for key, (kind, shape) in columns.items():
            dtype, sizes = np.dtype(str(kind)), tuple(int(size) for size in shape)
            if dtype.kind not in NUMERIC_KINDS or any(size < 1 for size in sizes):
                raise DatasetError(f"{path}: column {key!r}: expected numbers, found {dtype} of shape {sizes}")
            found[key] = (dtype, sizes)
        return cls(found)

    def to_json(self) -> dict[str, Any]:
        return {key: [dtype.str, list(shape)] for key, (dtype, shape) in self.columns.items()}

    def row_bytes(self, key: str) -> int:
        dtype, shape = self.columns[key]
        return int(np.prod(shape, dtype=object)) * dtype.itemsize

    def nbytes(self, steps: int, episodes: int) -> int:
        """The size of all files."""
        return sum(self.row_bytes(key) * (steps if key in _STEP_COLUMNS else episodes) for key in self.columns)

    def part_steps(self) -> int:
        """How many steps make a part."""
        return max(1, _PART_BYTES // max(1, self.nbytes(1, 0)))


@dataclass(frozen=True)
class Part:
    """Episodes ``first`` to ``last`` of a dataset, and where their steps and they themselves go in the files."""

    first: int
    last: int
    steps: int
    at_step: int
    at_episode: int


def cut(dataset: Dataset, layout: Layout, *, at_step: int = 0, at_episode: int = 0) -> Iterator[Part]:
    """The parts of a dataset that is to begin at ``at_step`` and ``at_episode``."""
    for first, last in dataset.episodes.spans(layout.part_steps()):
        steps = int(dataset.lengths[first:last].sum())
        yield Part(first, last, steps, at_step, at_episode)
        at_step, at_episode = at_step + steps, at_episode + last - first


def write_part(folder: Path, layout: Layout, dataset: Dataset, part: Part) -> dict[str, Any]:
    """Check the numbers and write them to their places, in bounded memory; what the manifest says of the part."""
    episodes, span = dataset.episodes, slice(part.first, part.last)
    low = int(dataset.starts[part.first])
    record: dict[str, Any] = {"source": dataset.source, "steps": part.steps, "episodes": part.last - part.first}
    starts = dataset.starts[span]
    initial: list[Array] = []  # filled while observations are written, which come first: they are read once

    def keeping_initial(blocks: Iterable[Array]) -> Iterator[Array]:
        at = low
        for block in blocks:
            initial.append(block[starts[(starts >= at) & (starts < at + len(block))] - at])
            at += len(block)
            yield block

    blocks: dict[str, Iterable[Array]] = {
        "flags": [episodes.flags(part.first, part.last)],
        "lengths": [episodes.lengths[span]],
        **{key: [getattr(episodes, key)[span]] for key in _FLAGS},
        "initial_observations": initial,
    }
    if dataset.labels is not None:
        names, places = np.unique(dataset.labels[span], return_inverse=True)
        record["labels"], blocks["labels"] = names.tolist(), [places]
    if dataset.has_rewards:
        rewards = dataset.columns["rewards"].rows(np.arange(low, low + part.steps))
        check_finite(rewards, key="rewards", source=dataset.source)
        blocks["rewards"] = [rewards]
        blocks["returns"] = [sum_rewards(rewards, starts - low, source=dataset.source)]
    for key in ("observations", "actions", "next_observations"):
        if key in dataset.columns:
            rows = max(1, _BLOCK_BYTES // layout.row_bytes(key))
            blocks[key] = dataset.columns[key].blocks(low, low + part.steps, rows)
    blocks["observations"] = keeping_initial(blocks["observations"])
    record["sha256"] = {
        key: _write(folder, layout, key, part, _checked(dataset, key, blocks[key])) for key in layout.columns
    }
    return record


def _checked(dataset: Dataset, key: str, blocks: Iterable[Array]) -> Iterator[Array]:
    for block in blocks:
        check_finite(block, key=key, source=dataset.source)
        if key == "actions":
            check_codes(block, dataset.num_actions, source=dataset.source)
        yield block


def _write(folder: Path, layout: Layout, key: str, part: Part, blocks: Iterable[Array]) -> str:
    """One column of a part, to the disk; its hash."""
    dtype, _ = layout.columns[key]
    digest = hashlib.sha256()
    path = folder / f"{key}.bin"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "wb") as file:
        file.seek(layout.row_bytes(key) * (part.at_step if key in _STEP_COLUMNS else part.at_episode))
        for block in blocks:
            with np.errstate(over="ignore"):  # reported below
                stored = np.ascontiguousarray(block, dtype)
            if (
                stored.dtype.kind == "f"
                and stored.dtype.itemsize < block.dtype.itemsize
                and not np.isfinite(stored).all()
            ):
                raise DatasetError(
                    f"key {key!r}: {np.abs(block).max():g} does not fit into {dtype.name} (at most "
                    f"{np.finfo(dtype).max:g}); pack with a wider dtype, or rescale"
                )
            file.write(stored.data)
            digest.update(stored.data)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def write_manifest(
    folder: Path,
    layout: Layout,
    parts: Sequence[Mapping[str, Any]],
    *,
    num_actions: int | None,
    metadata: Mapping[str, Any],
) -> None:
    """Write the manifest, last of all: a folder that has one is complete."""
    manifest = {
        _MARK: VERSION,
        "steps": sum(part["steps"] for part in parts),
        "episodes": sum(part["episodes"] for part in parts),
        "columns": layout.to_json(),
        "num_actions": num_actions,
        "metadata": dict(metadata),
        "parts": list(parts),
    }
    write_json(folder / MANIFEST, manifest, allow_nan=True)


def write(dataset: Dataset, path: Path) -> list[str]:
    """Nothing is lost."""
    path.mkdir()
    layout = Layout.of(dataset, None)
    parts = list(cut(dataset, layout))
    records = [
        write_part(path, layout, dataset, part) for part in track(parts, total=len(parts), description="packing")
    ]
    write_manifest(path, layout, records, num_actions=dataset.num_actions, metadata=dataset.metadata)
    return []


def read(path: Path, *, verify: bool = False) -> Dataset:
    """The index of episodes at once, the rest never as a whole. ``verify`` reads all files and compares their hashes."""
    manifest = _manifest(path)
    layout = Layout.from_json(manifest["columns"], path)
    columns = _columns(path, layout, int(manifest["steps"]), int(manifest["episodes"]))
    if verify:
        _verify(path, layout, manifest["parts"])

    def per_episode(key: str) -> Array:
        if key not in columns:
            raise missing_key(path, key, columns)
        return columns[key].read()

    returns = np.array(per_episode("returns")) if "rewards" in columns else None
    if returns is not None:
        check_finite(returns, key="returns", source=str(path))

    episodes = as_episodes(per_episode, has_next="next_observations" in columns, source=str(path))
    return Dataset.assemble(
        episodes=episodes,
        observations=columns["observations"],
        actions=columns["actions"],
        rewards=columns.get("rewards"),
        next_observations=columns.get("next_observations"),
        flags=columns["flags"],
        returns=returns,
        initial_observations=per_episode("initial_observations"),
        labels=_labels(manifest["parts"], per_episode("labels")) if "labels" in columns else None,
        num_actions=manifest["num_actions"],
        metadata=manifest["metadata"],
        source=str(path),
    )


def is_packed(path: Path) -> bool:
    """Whether a folder was packed, and is complete."""
    manifest = read_json(path / MANIFEST) if (path / MANIFEST).is_file() else None
    return isinstance(manifest, dict) and _MARK in manifest


def _manifest(path: Path) -> dict[str, Any]:
    manifest = read_json(path / MANIFEST)
    if not isinstance(manifest, dict) or _MARK not in manifest:
        raise DatasetError(f"{path}: expected {MANIFEST} as `upweight pack` writes it; pack the data again")
    if manifest[_MARK] != VERSION:
        raise DatasetError(f"{path}: expected format version {VERSION}, found {manifest[_MARK]!r}; upgrade upweight")
    return manifest


def _columns(path: Path, layout: Layout, steps: int, episodes: int) -> dict[str, MappedColumn]:
    """Refuses files that do not have the size that the manifest says."""
    columns = {}
    for key, (dtype, shape) in layout.columns.items():
        count = steps if key in _STEP_COLUMNS else episodes
        file, expected = path / f"{key}.bin", count * layout.row_bytes(key)
        found = file.stat().st_size if file.is_file() else None
        if found != expected:
            raise DatasetError(
                f"{file}: expected {expected:,} bytes, as {MANIFEST} says, found "
                f"{'no such file' if found is None else f'{found:,}'}; copy the folder again, or pack the data again"
            )
        columns[key] = MappedColumn(file, (count, *shape), dtype)
    return columns


def _verify(path: Path, layout: Layout, parts: Sequence[Mapping[str, Any]]) -> None:
    places = dict.fromkeys(layout.columns, 0)
    for part in track(parts, total=len(parts), description="verifying"):
        for key in layout.columns:
            size = layout.row_bytes(key) * int(part["steps" if key in _STEP_COLUMNS else "episodes"])
            digest = hashlib.sha256()
            with (path / f"{key}.bin").open("rb") as file:
                file.seek(places[key])
                for first in range(0, size, _BLOCK_BYTES):
                    digest.update(file.read(min(_BLOCK_BYTES, size - first)))
            if digest.hexdigest() != part["sha256"][key]:
                raise DatasetError(
                    f"{path / key}.bin: bytes {places[key]:,} to {places[key] + size:,}, from {part['source']}, are not "
                    "those that were packed; copy the folder again, or pack the data again"
                )
            places[key] += size


def _labels(parts: Sequence[Mapping[str, Any]], codes: Array) -> Array:
    """[N] names"""
    names = [name for part in parts for name in part["labels"]]
    firsts = np.cumsum([0, *(len(part["labels"]) for part in parts)])[:-1]
    return np.array(names)[codes + np.repeat(firsts, [int(part["episodes"]) for part in parts])]


FORMAT = Format(
    name="packed",
    description="upweight's folder of memory-mapped columns",
    suffixes=(".packed",),
    lossless=True,
    recognises=is_packed,
    read=read,
    write=write,
    files=lambda path: [path / MANIFEST, *path.glob("*.bin")],
)
