"""Weights for a LeRobot dataset: one row per episode in Parquet, in its folder as ``meta/upweight.parquet`` or elsewhere.

Columns: ``episode_index``, ``length`` (frames), ``return`` and ``success`` (empty where nothing says so), ``weight`` (they sum
to 1). The schema says under ``upweight`` how the weights were made, and the hash of the data that they are of.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target
from upweight.base.optional import require
from upweight.data.dataset import Dataset
from upweight.data.validate import as_flags, as_weights
from upweight.io.arrow_tables import parquet_module, read_column, read_columns
from upweight.io.format import reading
from upweight.io.parquet import flags, shards

IN_PLACE = Path("meta", "upweight.parquet")
_MARK = b"upweight"
_VERSION = 1
_AGAIN = "weight it again: upweight weights FOLDER --in-place"


class EpisodeWeights(NamedTuple):
    """What a file of weights says of N episodes."""

    episode_index: NDArray[np.int64]  # [N]
    length: NDArray[np.int64]  # [N] frames
    weight: NDArray[np.float64]  # [N]


def is_lerobot(folder: Path) -> bool:
    return (folder / "meta" / "info.json").is_file()


def data_hash(folder: Path) -> str:
    """SHA-256 of the bytes of the dataset's Parquet files, in order; videos are not looked at."""
    digest = hashlib.sha256()
    for shard in shards(folder):
        with reading(shard, "the file"), shard.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def episode_numbers(folder: Path, dataset: Dataset) -> NDArray[np.int64]:
    """[N] the ``episode_index`` of each episode of the ``dataset`` that was read from ``folder``."""
    of_steps = read_column(shards(folder), "episode_index")
    dataset.check_files()  # a changed file may have other episodes
    return of_steps[dataset.starts].astype(np.int64)


def write_weights(
    target: Path,
    folder: Path,
    dataset: Dataset,
    weights: NDArray[np.float64],
    weighting: Mapping[str, Any],
    success: str,
) -> None:
    """Weights [N] of the ``dataset`` that was read from ``folder``; ``success`` names the flags of the column."""
    pa = require("pyarrow", extra="parquet", purpose="writing weights as Parquet")
    about = {"format": _VERSION, "weighting": dict(weighting), "hash": data_hash(folder)}
    numbers = episode_numbers(folder, dataset)
    columns = {
        "episode_index": pa.array(numbers),
        "length": pa.array(dataset.lengths),
        "return": pa.array(dataset.returns) if dataset.has_rewards else pa.nulls(len(numbers), pa.float64()),
        "success": pa.array(_succeeded(folder, dataset, success), pa.bool_()),
        "weight": pa.array(weights),
    }
    table = pa.table(columns).replace_schema_metadata({_MARK: json.dumps(about).encode()})
    with atomic_target(target) as workplace:
        parquet_module().write_table(table, workplace)


def read_weights(path: str | os.PathLike[str], folder: Path | None = None) -> EpisodeWeights:
    """The weights in a file. If they lie in their dataset's folder, or it is given, they are refused if its data changed."""
    file = Path(path)
    if not file.is_file():
        raise DatasetError(
            f"{file}: expected a file of weights, found none; upweight weights FOLDER -o {file} writes it"
        )
    with reading(file, "weights"):
        about = json.loads((parquet_module().read_schema(file).metadata or {}).get(_MARK, b"{}"))
        if about.get("format") != _VERSION:
            raise DatasetError(f"{file}: expected weights that upweight wrote, found something else; {_AGAIN}")
        table = read_columns(file, EpisodeWeights._fields)
        columns = {name: table.column(name).to_numpy() for name in EpisodeWeights._fields}
        weight = as_weights(columns["weight"], count=len(table), what=f"episode in {file}")
    if folder is None and file.parts[-2:] == IN_PLACE.parts and is_lerobot(file.parent.parent):
        folder = file.parent.parent
    if folder is not None and about["hash"] != data_hash(folder):
        raise DatasetError(f"{file}: the weights are of other data than {folder} holds by now; {_AGAIN}")
    return EpisodeWeights(columns["episode_index"], columns["length"], weight)


def _succeeded(folder: Path, dataset: Dataset, name: str) -> list[bool | None]:
    """[N] whether a step of each episode is flagged; None where there are no such flags."""
    try:
        found = as_flags(flags(folder, name), key=name, num_steps=dataset.num_steps, source=str(folder))
    except DatasetError:
        return [None] * dataset.num_episodes
    return np.logical_or.reduceat(found, dataset.starts).tolist()
