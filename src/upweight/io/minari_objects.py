"""Minari's datasets as its library has them: whole, or filtered views. The folders that they lie in are read by ``minari``."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import AdapterError
from upweight.base.optional import require
from upweight.data.dataset import Dataset
from upweight.io import minari as folders
from upweight.io.format import Format, comes_from


def read(source: Any, *, observation_key: str | None = None) -> Dataset:
    """The episodes of a ``MinariDataset``: of a filtered view its own, in their order."""
    whole = folders.read(_folder(source), observation_key=observation_key)
    if whole.num_episodes != source.storage.total_episodes:
        raise AdapterError(
            f"{source.id}: expected {source.storage.total_episodes} episodes, as its metadata say, found {whole.num_episodes}"
        )
    return whole if is_whole(source) else whole.subset(_episodes(source))


def flags(source: Any, name: str) -> NDArray[Any]:
    """[N] an entry of the metadata of its episodes, or whether it was ever set in their ``infos``."""
    return np.asarray(folders.flags(_folder(source), name))[_episodes(source)]


def is_whole(source: Any) -> bool:
    """Whether no view was taken."""
    return np.array_equal(_episodes(source), np.arange(source.storage.total_episodes))


def _episodes(source: Any) -> NDArray[np.int64]:
    return np.asarray(source.episode_indices, np.int64)


def _folder(source: Any) -> Path:
    minari = require("minari", extra="minari", purpose="reading datasets of Minari")
    if not isinstance(source, minari.MinariDataset):
        raise AdapterError(f"expected a MinariDataset (see minari.load_dataset), found {type(source).__name__}")
    return Path(source.storage.data_path)


IN_MEMORY = Format(
    name="minari",
    description="a MinariDataset",
    recognises=partial(comes_from, library="minari"),
    read=read,
    flags=flags,
    files=lambda source: folders.FORMAT.files(_folder(source)),
)
