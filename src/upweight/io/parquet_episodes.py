"""The episodes of Parquet files, found in one pass over a few columns, in bounded memory.

Files are read some rows at a time. The rows of an episode that is not over yet wait for the rest of it, in the next row group or
in the next file, so that returns are those of whole episodes.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.columns import Array
from upweight.data.segment import segment_by_id
from upweight.data.validate import as_flags, as_rewards, as_vector, sum_rewards
from upweight.io.arrow_tables import Shards, check_text

Found = dict[str, Array]  # per episode: the fields of Episodes, and returns and labels if there are any
_TERMINATED = ("terminated", "next.terminated", "terminals")
_TRUNCATED = ("truncated", "next.truncated", "timeouts")
EPISODE_COLUMNS = (
    "episode_index",
    *_TERMINATED,
    *_TRUNCATED,
    "next.done",
    "next.success",
    "complete",
    "final_known",
    "label",
)


def find_episodes(shards: Shards, rewards: str | None, done_is_terminal: bool, *, source: str) -> Found:
    """All episodes of the ``shards``, with the sums of their ``rewards``, if such a column is named."""
    used = (*EPISODE_COLUMNS, rewards)
    parts, first = [], 0
    for rows in shards.whole_episodes([name for name in used if name in shards.names]):
        where = source if first == 0 else f"{source} (from step {first:,} on)"
        part = _episodes_of(rows, done_is_terminal, "next_observation" in shards.names, where)
        starts = part.pop("starts")
        if rewards is not None:
            values = as_rewards(rows[rewards], key=rewards, num_steps=len(rows["episode_index"]), source=where)
            part["returns"] = sum_rewards(values, starts, source=where)
        if "label" in rows:
            part["labels"] = rows["label"][starts]
        parts.append(part)
        first += len(rows["episode_index"])
    found = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    if "labels" in found:
        check_text(found["labels"], *shards.paths, key="label")
        found["labels"] = found["labels"].astype(str)
    if len(np.unique(ids := found.pop("ids"))) != len(ids):
        raise DatasetError(
            f"{source}: expected the steps of an episode to stand together, "
            "but an episode id comes back after another one; sort by episode and time"
        )
    return found


def _episodes_of(rows: dict[str, Array], done_is_terminal: bool, has_next: bool, source: str) -> Found:
    """The fields of some whole episodes."""

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
