"""What Parquet says of its episodes, found in one pass over a few columns, in bounded memory; it can be kept for the next time.

Files are gone through some rows at a time. Those of an episode that is not over yet wait for the rest of it, be that in the next
row group or in the next file, so that what is computed is computed of whole episodes.
"""

import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError, UpweightWarning
from upweight.base.files import atomic_target
from upweight.data.columns import Array, Column, Index as Rows
from upweight.data.segment import LAST, TERMINATED, TRAINABLE, Episodes, segment_by_id
from upweight.data.validate import as_flags, as_rewards, as_vector, sum_rewards
from upweight.io.arrow_tables import Shards

VERSION = 1
Index = dict[str, Array]  # per episode: the fields of Episodes, and returns, initial_observations and labels if wanted
_TERMINATED = ("terminated", "next.terminated", "terminals")
_TRUNCATED = ("truncated", "next.truncated", "timeouts")
INDEX_COLUMNS = (
    "episode_index",
    *_TERMINATED,
    *_TRUNCATED,
    "next.done",
    "next.success",
    "complete",
    "final_known",
    "label",
)


class IndexSettings(NamedTuple):
    """What an index is made of, beside :data:`INDEX_COLUMNS`."""

    rewards: str | None  # the column that returns are summed from
    observations: str | None  # the column that first observations are taken from, if they are wanted
    done_is_terminal: bool


def make_index(shards: Shards, settings: IndexSettings, *, source: str) -> Index:
    rewards, observations, done_is_terminal = settings
    used = (*INDEX_COLUMNS, rewards, observations)
    parts, first = [], 0
    for rows in shards.whole_episodes([name for name in used if name in shards.names]):
        where = source if first == 0 else f"{source} (from step {first:,} on)"
        part = _index_of(rows, done_is_terminal, "next_observation" in shards.names, where)
        starts = part["starts"]
        if rewards is not None:
            values = as_rewards(rows[rewards], key=rewards, num_steps=len(rows["episode_index"]), source=where)
            part["returns"] = sum_rewards(values, starts, source=where)
        if observations is not None:
            part["initial_observations"] = rows[observations][starts]
        if "label" in rows:
            part["labels"] = rows["label"][starts].astype(str)
        parts.append(part)
        first += len(rows["episode_index"])
    found = {key: np.concatenate([part[key] for part in parts]) for key in parts[0] if key != "starts"}
    if len(np.unique(ids := found.pop("ids"))) != len(ids):
        raise DatasetError(
            f"{source}: expected the steps of an episode to stand together, "
            "but an episode id comes back after another one; sort by episode and time"
        )
    return found


def _index_of(rows: dict[str, Array], done_is_terminal: bool, has_next: bool, source: str) -> Index:
    """Of some whole episodes."""

    def flag(name: str) -> NDArray[np.bool_]:
        return as_flags(rows[name], key=name, source=source)

    ids = as_vector(rows["episode_index"], key="episode_index", source=source)
    terminated, truncated = _flags(rows, flag, done_is_terminal)
    episodes = segment_by_id(ids, terminated, truncated, next_known=has_next, source=source)
    starts = episodes.starts
    if "complete" in rows:
        episodes = replace(episodes, complete=episodes.complete & flag("complete")[starts])
    if "final_known" in rows and has_next:
        episodes = replace(episodes, final_known=flag("final_known")[starts])
    return {**vars(episodes), "ids": ids[starts], "starts": starts}


def _flags(
    rows: dict[str, Array], flag: Callable[[str], NDArray[np.bool_]], done_is_terminal: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Terminated and, if the log knows, truncated steps."""
    terminated = next((name for name in _TERMINATED if name in rows), None)
    truncated = next((name for name in _TRUNCATED if name in rows), None)
    if terminated is not None:
        return flag(terminated), None if truncated is None else flag(truncated)
    if "next.done" in rows:
        done = flag("next.done")
        if done_is_terminal:
            return done, None
        if "next.success" in rows:
            return done & flag("next.success"), None
    return np.zeros(len(rows["episode_index"]), bool), None


def kept_index(
    path: Path, file: Path | None, shards: Shards, settings: IndexSettings, make: Callable[[], Index]
) -> Index:
    """The index of Parquet at ``path``, from ``file`` (None: beside it) or, if the shards changed since, made and kept there."""
    where = path.resolve().with_name(f"{path.resolve().name}.index.npz") if file is None else file
    files = shards.stamps()
    stamp = {"version": VERSION, "settings": list(settings), "shards": files}
    kept, before = _read(where)
    if kept == stamp:
        return before
    if not kept and file is not None and file.exists():
        raise DatasetError(
            f"{file}: expected an index of episodes that was kept there, or no file yet, found something else; "
            "give another name, or remove it"
        )
    if gone := [name for name in kept.get("shards", ()) if name not in files]:
        more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        warnings.warn(f"{path}: {gone[0]}{more} is no longer there; indexed without", UpweightWarning, stacklevel=6)
    if not os.access(where.parent, os.W_OK):
        raise DatasetError(
            f"{where}: expected a folder to keep the index of episodes in, but {where.parent} cannot be written to; say where "
            "with index=FILE (--index FILE)"
        )
    made = make()
    with atomic_target(where) as target, target.open("wb") as opened:
        np.savez(opened, **{**made, "stamp": np.array(json.dumps(stamp))})  # type: ignore[arg-type]  # its other options
    return made


def _read(file: Path) -> tuple[dict[str, Any], Index]:
    """The stamp and the index; empty if there is none that can be read."""
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as found:
            index = {key: found[key] for key in found.files}
        stamp = json.loads(str(index.pop("stamp")))
        return (stamp, index) if {"version", "shards"} <= stamp.keys() else ({}, {})
    except (OSError, ValueError, EOFError, LookupError, AttributeError, TypeError, zipfile.BadZipFile, zlib.error):
        return {}, {}  # none yet, or damaged, or another file


class FlagsColumn(Column):
    """The flags of steps, from those of their episodes."""

    is_mapped = True

    def __init__(self, episodes: Episodes) -> None:
        super().__init__((episodes.num_steps,), np.dtype(np.uint8))
        self._episodes = episodes

    def _read(self) -> Array:
        return self._episodes.flags(0, len(self._episodes))

    def _read_rows(self, index: Rows) -> Array:
        found = self._episodes
        of_step = np.searchsorted(found.last_steps, index)
        known = found.num_transitions[of_step] == found.lengths[of_step]
        at_end = LAST + TERMINATED * found.terminated[of_step] + TRAINABLE * known
        return np.where(found.last_steps[of_step] == index, at_end, TRAINABLE).astype(np.uint8)
