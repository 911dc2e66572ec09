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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.data.dataset import Dataset
from upweight.data.segment import segment_by_id
from upweight.data.validate import as_flags, as_rewards, as_vector
from upweight.io.arrow_tables import ParquetColumn, parquet_module, read_column, read_columns, schema_names
from upweight.io.format import Format, listed, no_flags, reading, starts_with

VERSION = 1
_MARK = b"upweight"
_ROWS_PER_GROUP = 1 << 17
_ROWS_PER_SHARD = 1 << 20
_OBSERVATIONS = ("observation", "observations", "observation.state", "obs")
_ACTIONS = ("action", "actions")
_REWARDS = ("reward", "rewards", "next.reward")
_TERMINATED = ("terminated", "next.terminated", "terminals")
_TRUNCATED = ("truncated", "next.truncated", "timeouts")


def read(
    path: Path,
    *,
    observation_key: str | None = None,
    action_key: str | None = None,
    done_is_terminal: bool = False,
) -> Dataset:
    """Episode indices, flags and rewards at once; observations and actions when they are looked at."""
    source = str(path)
    paths, num_rows = _filled_shards(path)
    with reading(paths[0], "the Parquet schema"):
        schema = parquet_module().read_schema(paths[0])
    names = list(schema.names)
    own = _own_description(schema.metadata or {}, paths[0])
    ids = as_vector(
        read_column(paths, _pick(names, None, ("episode_index",), "episode_index", path)),
        key="episode_index",
        source=source,
    )
    terminated, truncated = _flags(paths, names, len(ids), done_is_terminal, source)
    episodes = segment_by_id(ids, terminated, truncated, next_known=False, source=source)
    reward_name = next((name for name in _REWARDS if name in names), None)
    rewards = None
    if reward_name is not None:
        rewards = as_rewards(read_column(paths, reward_name), key=reward_name, num_steps=len(ids), source=source)
    has_next = "next_observation" in names
    first = episodes.starts
    complete, known = episodes.complete, np.full(len(episodes), has_next)
    if "complete" in names:
        complete = complete & as_flags(read_column(paths, "complete"), key="complete", source=source)[first]
    if "final_known" in names and has_next:
        known = as_flags(read_column(paths, "final_known"), key="final_known", source=source)[first]
    row_shape, action_shape = own.get("observation_shape"), own.get("action_shape")
    observation_name = _pick(names, observation_key, _OBSERVATIONS, "observation", path)
    return Dataset.assemble(
        episodes=replace(episodes, complete=complete, final_known=known),
        observations=ParquetColumn(paths, observation_name, num_rows, row_shape=row_shape),
        actions=ParquetColumn(
            paths, _pick(names, action_key, _ACTIONS, "action", path), num_rows, row_shape=action_shape
        ),
        rewards=rewards,
        next_observations=ParquetColumn(paths, "next_observation", num_rows, row_shape=row_shape) if has_next else None,
        labels=_labels(paths, first) if "label" in names else None,
        num_actions=own.get("num_actions"),
        metadata=own.get("metadata"),
        source=source,
    )


def flags(path: Path, name: str) -> NDArray[Any]:
    """[M] a column, also without its ``next.``, or of the progress that LeRobot keeps beside it; or an entry of its episode
    metadata, repeated for the steps."""
    paths, _ = _filled_shards(path)
    with reading(paths[0], "the Parquet schema"):
        names = parquet_module().read_schema(paths[0]).names
    for column in (name, f"next.{name}"):
        if column in names:
            return read_column(paths, column)
    progress = path / "sarm_progress.parquet"
    if progress.is_file() and {name, "index"} <= set(schema_names(progress)):
        return read_column([progress], name)[np.argsort(read_column([progress], "index"))]
    known, also = _episode_metadata(path / "meta", name)
    if not known:
        raise no_flags(path, name, {*names, *also})
    numbers, steps = np.unique(read_column(paths, "episode_index"), return_inverse=True)
    if missing := [number for number in numbers.tolist() if number not in known]:
        raise DatasetError(f"{path}: key {name!r}: the metadata say nothing of episode {missing[0]}")
    return np.array([known[number] for number in numbers.tolist()])[steps]


def write(dataset: Dataset, path: Path) -> list[str]:
    """Nothing is lost. A path ending in .parquet becomes one file, any other a folder of shards of whole episodes."""
    pa = require("pyarrow", extra="parquet", purpose="working with Parquet files")
    pq = parquet_module()
    episodes = dataset.episodes
    of_step = np.repeat(np.arange(len(episodes)), episodes.lengths)
    columns = {
        "episode_index": pa.array(of_step),
        "observation": _list_array(pa, dataset.observations),
        "action": _list_array(pa, dataset.actions),
        "terminated": pa.array(dataset.terminated),
        "truncated": pa.array(dataset.truncated),
        "complete": pa.array(episodes.complete[of_step]),
        "final_known": pa.array(episodes.final_known[of_step]),
    }
    if dataset.has_rewards:
        columns["reward"] = pa.array(_native(dataset.rewards))
    if dataset._next_observations is not None:
        columns["next_observation"] = _list_array(pa, dataset.next_observations)
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
    table = pa.table(columns).replace_schema_metadata({_MARK: json.dumps(description).encode()})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=_ROWS_PER_GROUP)
        return []
    path.mkdir()
    for number, (first, last) in enumerate(episodes.spans(_ROWS_PER_SHARD)):
        low, high = episodes.starts[first], episodes.last_steps[last - 1] + 1
        shard = path / f"part-{number:05d}.parquet"
        pq.write_table(table.slice(low, high - low), shard, row_group_size=_ROWS_PER_GROUP)
    return []


def shards(path: Path) -> list[Path]:
    """The Parquet files of a dataset in order: the file itself, a folder's, or those under LeRobot's ``data``."""
    if path.is_file():
        return [path]
    where = path / "data" if (path / "meta" / "info.json").is_file() else path
    return sorted(where.rglob("*.parquet"), key=lambda file: [_natural(part) for part in file.relative_to(where).parts])


def is_own(file: Path) -> bool:
    """Whether the file was written here, and so says itself which column is what."""
    with reading(file, "the Parquet schema"):
        return _MARK in (parquet_module().read_schema(file).metadata or {})


def _filled_shards(path: Path) -> tuple[list[Path], list[int]]:
    """The files that have rows, and how many."""
    pq = parquet_module()
    rows = {}
    for shard in shards(path):
        with reading(shard, "the Parquet footer"):
            rows[shard] = pq.ParquetFile(shard).metadata.num_rows
    if not rows:
        raise DatasetError(f"{path}: expected Parquet files, found none")
    filled = {shard: count for shard, count in rows.items() if count}
    if not filled:
        raise DatasetError(f"{path}: expected at least one step, found none")
    return list(filled), list(filled.values())


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
        "observations=[...], actions=..., rewards=... (--episode and so on, or a TOML file beside it; see docs/formats.md)"
    )


def _flags(
    paths: Sequence[Path], names: Sequence[str], num_steps: int, done_is_terminal: bool, source: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    def flag(name: str) -> NDArray[np.bool_]:
        return as_flags(read_column(paths, name), key=name, num_steps=num_steps, source=source)

    terminated = next((name for name in _TERMINATED if name in names), None)
    truncated = next((name for name in _TRUNCATED if name in names), None)
    if terminated is not None:
        return flag(terminated), None if truncated is None else flag(truncated)
    if "next.done" in names:
        done = flag("next.done")
        if done_is_terminal:
            return done, None
        if "next.success" in names:
            return done & flag("next.success"), None
    return np.zeros(num_steps, bool), None


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
            entries += read_columns(shard, [*({"episode_index", name} & here)]).to_pylist()
    said = [entry for entry in entries if entry.get(name) is not None and "episode_index" in entry]
    return {entry["episode_index"]: entry[name] for entry in said}, names


def _labels(paths: Sequence[Path], first: NDArray[np.int64]) -> NDArray[np.str_]:
    parts = []
    for path in paths:
        with reading(path, "key 'label'"):
            column = read_columns(path, ["label"]).column(0)
            if column.null_count:
                raise DatasetError(f"{path}: key 'label': expected a label in every row")
            parts.append(np.asarray(column.to_numpy(), dtype=object))
    return np.concatenate(parts)[first].astype(str)


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
    is_rllib = starts_with(file, b"PAR1") and {"eps_id", "item"} & set(schema_names(file))
    return starts_with(file, b"PAR1") and not is_rllib and not (path / "metadata.json").is_file()


FORMAT = Format(
    name="parquet",
    description="Parquet file, folder of shards, or LeRobot",
    suffixes=(".parquet",),
    lossless=True,
    recognises=_is_parquet,
    read=read,
    write=write,
    flags=flags,
)
