"""Minari's Arrow and Parquet storage: a folder per episode, with its metadata beside the table."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.base.progress import track
from upweight.data.columns import Array, Column, Index
from upweight.io.arrow_tables import to_numpy
from upweight.io.format import reading
from upweight.io.minari_images import decode


class ArrowEpisodes:
    """The episode folders of one dataset. A table has T + 1 rows; only the observation of the last one is real."""

    def __init__(self, folder: Path, storage: str) -> None:
        if storage not in {"arrow", "parquet"}:
            raise DatasetError(f"{folder}: key 'data_format': expected hdf5, arrow or parquet, found {storage!r}")
        self.folder, self.storage = folder, storage
        numbers = sorted(int(entry.name) for entry in folder.iterdir() if entry.is_dir() and entry.name.isdecimal())
        if not numbers:
            raise DatasetError(f"{folder}: expected episode folders 0, 1, ..., found none")
        self.folders = [folder / str(number) for number in numbers]
        lengths, ends = [], []
        self.returns: list[Any] = []
        self.labels: list[Any] = []
        for episode in track(self.folders, total=len(numbers), description="reading episode metadata"):
            table = self.table(episode, ["rewards", "terminations", "truncations"])
            length = table.num_rows - 1
            if length < 1:
                raise DatasetError(f"{episode}: expected at least one step, found none")
            lengths.append(length)
            ends.append([bool(table.column(key)[length - 1].as_py()) for key in ("terminations", "truncations")])
            metadata = _episode_metadata(episode)
            self.returns.append(metadata.get("rewards_sum"))
            self.labels.append(metadata.get("upweight_label"))
        self.lengths = np.array(lengths, np.int64)
        self.ends = np.array(ends, bool)

    def table(self, episode: Path, columns: list[str]) -> Any:
        """Some columns of one episode."""
        dataset = require("pyarrow.dataset", extra="minari", purpose="reading Minari datasets in Arrow storage")
        with reading(episode, "the episode's table"):
            source = dataset.dataset(str(episode), format=self.storage, ignore_prefixes=["_", ".", "metadata.json"])
            return source.to_table(columns=columns)

    def column(self, field: str, space: dict[str, Any] | None, *, key: str | None = None, skip: int = 0) -> Column:
        """A field of all episodes; ``space`` is the description that folds vectors back into shape."""
        return ArrowEpisodesColumn(self, field, space, key=key, skip=skip)


class ArrowEpisodesColumn(Column):
    """One field of all episodes, read an episode at a time."""

    def __init__(
        self, store: ArrowEpisodes, field: str, space: dict[str, Any] | None, *, key: str | None, skip: int
    ) -> None:
        self._store, self._field, self._space, self._key, self._skip = store, field, space, key, skip
        self._starts = np.cumsum(store.lengths) - store.lengths
        sample = self._episode(0, count=1)
        super().__init__((int(store.lengths.sum()), *sample.shape[1:]), sample.dtype)

    def _read(self) -> Array:
        out = np.empty(self.shape, self.dtype)
        starts = self._starts.tolist()
        for number, start in enumerate(track(starts, total=len(starts), description=f"reading {self._field}")):
            part = self._episode(number)
            if part.shape[1:] != self.shape[1:]:
                raise DatasetError(
                    f"{self._store.folders[number]}: key {self._field!r}: expected rows of shape {self.shape[1:]}, "
                    f"found {part.shape[1:]}"
                )
            out[start : start + len(part)] = part
        return out

    def _read_rows(self, index: Index) -> Array:
        out = np.empty((len(index), *self.shape[1:]), self.dtype)
        episodes = np.searchsorted(self._starts, index, side="right") - 1
        for number in np.unique(episodes).tolist():
            mine = episodes == number
            out[mine] = self._episode(number)[index[mine] - self._starts[number]]
        return out

    def _episode(self, number: int, count: int | None = None) -> NDArray[Any]:
        folder = self._store.folders[number]
        values = self._store.table(folder, [self._field]).column(0).combine_chunks()
        length = int(self._store.lengths[number]) if count is None else count
        with reading(folder, f"key {self._field!r}"):
            return _decode(values.slice(self._skip, length), self._space, self._key, folder)


def _decode(values: Any, space: dict[str, Any] | None, key: str | None, path: Path) -> NDArray[Any]:
    """An Arrow array as NumPy: vectors folded by their space, images decoded, dictionaries laid side by side."""
    pa = require("pyarrow", extra="minari", purpose="reading Minari datasets in Arrow storage")
    if pa.types.is_struct(values.type):
        inner = (space or {}).get("subspaces", {})
        names = [field.name for field in values.type] if key is None else [key]
        spaces = inner if isinstance(inner, dict) else {str(i): entry for i, entry in enumerate(inner)}
        parts = [_decode(values.field(name), spaces.get(name), None, path) for name in sorted(names)]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    if pa.types.is_binary(values.type):
        return np.stack([decode(item.as_py(), shape=None, path=path) for item in values])
    array = to_numpy(values, key=path.name, path=path)
    shape = (space or {}).get("shape")
    return array.reshape(len(array), *shape) if shape is not None and array.ndim == 2 else array


def _episode_metadata(episode: Path) -> dict[str, Any]:
    path = episode / "metadata.json"
    if not path.is_file():
        return {}
    with reading(path, "the episode's metadata"):
        metadata = json.loads(path.read_text("utf-8"))
        return metadata if isinstance(metadata, dict) else {}
