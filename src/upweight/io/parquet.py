"""Parquet: one file, a folder of shards, or a LeRobot dataset.

One row per step. Our own files have ``episode_index``, ``observation`` and ``action`` (fixed-size lists), ``reward``,
``terminated``, ``truncated``, ``complete``, ``final_known`` and, if there are any, ``next_observation`` and ``label``;
shapes and metadata travel in the schema, and a round trip is exact. Files of others need ``episode_index``, an
observation and an action column; ``reward`` and the flags are read under our names or LeRobot's.

LeRobot's ``next.done`` only says that an episode ended. With ``next.success`` a successful end is terminal and another
one truncated; without it every end is truncated, unless ``done_is_terminal=True``.
"""

import json
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.data.dataset import Dataset
from upweight.data.segment import LAST, TERMINATED
from upweight.data.validate import as_episodes
from upweight.io.arrow_tables import (
    ParquetColumn,
    Shards,
    as_text,
    check_text,
    parquet_module,
    read_column,
    read_columns,
    schema_names,
)
from upweight.io.format import Format, listed, no_flags, reading, starts_with
from upweight.io.parquet_episodes import EPISODE_COLUMNS, find_episodes

VERSION = 1
_MARK = b"upweight"
_ROWS_PER_GROUP = 1 << 17
_ROWS_PER_SHARD = 1 << 20
_OBSERVATIONS = ("observation", "observations", "observation.state", "obs")
_ACTIONS = ("action", "actions")
_REWARDS = ("reward", "rewards", "next.reward")


def read(
    path: Path,
    *,
    observation_key: str | None = None,
    action_key: str | None = None,
    done_is_terminal: bool = False,
) -> Dataset:
    """Episodes and returns at once, the other columns when they are looked at."""
    source = str(path)
    log = _filled_shards(path)
    names, own = log.names, _own_description(log.schema.metadata or {}, log.paths[0])
    _pick(names, None, ("episode_index",), "episode_index", path)
    observations = _pick(names, observation_key, _OBSERVATIONS, "observation", path)
    actions = _pick(names, action_key, _ACTIONS, "action", path)
    rewards = next((name for name in _REWARDS if name in names), None)
    following = "next_observation" if "next_observation" in names else None
    values = [name for name in (observations, actions, rewards, following) if name is not None]
    log.check_same(values, EPISODE_COLUMNS)

    shape = own.get("observation_shape")
    found = find_episodes(log, rewards, done_is_terminal, source=source)
    return Dataset.assemble(
        episodes=as_episodes(found.__getitem__, has_next=following is not None, source=source),
        observations=ParquetColumn(log, observations, row_shape=shape),
        actions=ParquetColumn(log, actions, row_shape=own.get("action_shape")),
        rewards=None if rewards is None else ParquetColumn(log, rewards, row_shape=(), as_float=True),
        next_observations=None if following is None else ParquetColumn(log, following, row_shape=shape),
        returns=found.get("returns"),
        labels=found.get("labels"),
        num_actions=own.get("num_actions"),
        metadata=own.get("metadata"),
        source=source,
    )


def flags(path: Path, name: str) -> NDArray[Any]:
    """[M] a column, also without its ``next.``, or of the progress that LeRobot keeps beside it; or an entry of its episode
    metadata, repeated for the steps."""
    log = _filled_shards(path)
    names = log.names
    for column in (name, f"next.{name}"):
        if column in names:
            return read_column(log.paths, column)
    progress = path / "sarm_progress.parquet"
    if progress.is_file() and {name, "index"} <= set(schema_names(progress)):
        return read_column([progress], name)[np.argsort(read_column([progress], "index"))]
    known, also = _episode_metadata(path / "meta", name)
    if not known:
        raise no_flags(path, name, {*names, *also})
    numbers, steps = np.unique(read_column(log.paths, "episode_index"), return_inverse=True)
    if missing := [number for number in numbers.tolist() if number not in known]:
        raise DatasetError(f"{path}: key {name!r}: the metadata say nothing of episode {missing[0]}")
    return np.array([known[number] for number in numbers.tolist()])[steps]


def write(dataset: Dataset, path: Path) -> list[str]:
    """Nothing is lost. A path ending in .parquet becomes one file, any other a folder of shards of whole episodes."""
    pq = parquet_module()
    tables = (_table(dataset, first, last) for first, last in dataset.episodes.spans(_ROWS_PER_SHARD))
    if path.suffix == ".parquet":
        first = next(tables)
        with pq.ParquetWriter(path, first.schema) as file:
            for table in chain([first], tables):
                file.write_table(table, row_group_size=_ROWS_PER_GROUP)
        return []
    path.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, path / f"part-{number:05d}.parquet", row_group_size=_ROWS_PER_GROUP)
    return []


def _table(dataset: Dataset, first: int, last: int) -> Any:
    """The Arrow table of episodes ``first`` to ``last``."""
    pa = require("pyarrow", extra="parquet", purpose="working with Parquet files")
    episodes, numbers = dataset.episodes, np.arange(first, last)
    steps, of_step = episodes.steps_of(numbers), np.repeat(numbers, episodes.lengths[first:last])
    flags = dataset.rows("flags", steps)
    ended, last_step = (flags & TERMINATED) != 0, (flags & LAST) != 0
    columns = {
        "episode_index": pa.array(of_step),
        "observation": _list_array(pa, dataset.rows("observations", steps)),
        "action": _list_array(pa, dataset.rows("actions", steps)),
        "terminated": pa.array(ended),
        "truncated": pa.array(last_step & episodes.truncated[of_step]),
        "complete": pa.array(episodes.complete[of_step]),
        "final_known": pa.array(episodes.final_known[of_step]),
    }
    if dataset.has_rewards:
        columns["reward"] = pa.array(_native(dataset.rows("rewards", steps)))
    if "next_observations" in dataset.columns:
        columns["next_observation"] = _list_array(pa, dataset.rows("next_observations", steps))
    if dataset.labels is not None:
        names, places = np.unique(dataset.labels, return_inverse=True)
        columns["label"] = pa.DictionaryArray.from_arrays(
            places[of_step].astype(np.int32), pa.array(names.tolist(), pa.string())
        )
    description = {
        "format": VERSION,
        "observation_shape": list(dataset.observation_shape),
        "action_shape": list(dataset.action_shape),
        "num_actions": dataset.num_actions,
        "metadata": dict(dataset.metadata),
    }
    return pa.table(columns).replace_schema_metadata({_MARK: json.dumps(description).encode()})


def shards(path: Path) -> list[Path]:
    """The Parquet files of a dataset in order: the file itself, a folder's, or those under LeRobot's ``data``."""
    if path.is_file():
        return [path]
    where = path / "data" if (path / "meta" / "info.json").is_file() else path
    return sorted(where.rglob("*.parquet"), key=lambda file: [_natural(part) for part in file.relative_to(where).parts])


def is_own(file: Path) -> bool:
    """Whether this package wrote the file, so that the file itself says which column is what."""
    with reading(file, "the Parquet schema"):
        return _MARK in (parquet_module().read_schema(file).metadata or {})


def _filled_shards(path: Path) -> Shards:
    files = shards(path)
    if not files:
        raise DatasetError(f"{path}: expected Parquet files, found none")
    found = Shards(files)
    if not found.num_rows:
        raise DatasetError(f"{path}: expected at least one step, found none")
    return found


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """A sort key that puts part-10 after part-9."""
    return [
        (piece.isdigit(), int(piece) if piece.isdigit() else 0, piece) for piece in re.split(r"([0-9]+)", text) if piece
    ]


def _pick(names: Sequence[str], wanted: str | None, usual: Sequence[str], what: str, path: Path) -> str:
    for name in [wanted] if wanted is not None else usual:
        if name in names:
            return name
    raise DatasetError(
        f"{path}: missing key {wanted or what!r}; the file has {listed(names)}. Say which column is what: episode=..., "
        "observations=[...], actions=..., rewards=... (--episode and so on, or a TOML file next to it; see docs/formats.md)"
    )


def _own_description(metadata: dict[bytes, bytes], path: Path) -> dict[str, Any]:
    """What our own files say about themselves; empty for those of others."""
    if _MARK not in metadata:
        return {}
    try:
        own = json.loads(metadata[_MARK])
        version = own["format"]
        shapes = {key: tuple(int(size) for size in own[key]) for key in ("observation_shape", "action_shape")}
        described = {**shapes, "num_actions": own.get("num_actions"), "metadata": dict(own["metadata"])}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DatasetError(f"{path}: the description in the schema is damaged ({error})") from None
    if version != VERSION:
        raise DatasetError(f"{path}: expected format version {VERSION}, found {version!r}; upgrade upweight to read it")
    return described


def _episode_metadata(folder: Path, name: str) -> tuple[dict[int, Any], set[str]]:
    """LeRobot's entry of that name by episode, and all names; lines of JSON up to its version 2, Parquet files from 3 on."""
    entries: list[dict[str, Any]] = []
    names: set[str] = set()
    lines = folder / "episodes.jsonl"
    if lines.is_file():
        with reading(lines, "the metadata of episodes"):
            entries = [dict(json.loads(line)) for line in lines.read_text("utf-8").splitlines() if line.strip()]
            names = {key for entry in entries for key in entry}
    for shard in (folder / "episodes").rglob("*.parquet"):
        with reading(shard, "the metadata of episodes"):
            here = set(parquet_module().read_schema(shard).names)
            names |= here
            table = read_columns(shard, [*({"episode_index", name} & here)])
            if name in here and "dictionary" in str(table.schema.field(name).type):  # text
                check_text(as_text(table.column(name)), shard, key=name)
            entries += table.to_pylist()
    said = [entry for entry in entries if entry.get(name) is not None and "episode_index" in entry]
    return {entry["episode_index"]: entry[name] for entry in said}, names


def _native(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array).astype(array.dtype.newbyteorder("="), copy=False)


def _list_array(pa: Any, array: NDArray[Any]) -> Any:
    values = _native(array)
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), int(np.prod(values.shape[1:])))


def _is_parquet(path: Path) -> bool:
    if (path / "meta" / "info.json").is_file():
        return True
    file = path if path.is_file() else next(path.glob("*.parquet"), path)
    return starts_with(file, b"PAR1") and not (path / "metadata.json").is_file()


FORMAT = Format(
    name="parquet",
    description="Parquet file, folder of shards, or LeRobot",
    suffixes=(".parquet",),
    lossless=True,
    recognises=_is_parquet,
    read=read,
    write=write,
    flags=flags,
    files=shards,
)
