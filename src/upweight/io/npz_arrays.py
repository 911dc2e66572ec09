"""npz files of plain arrays under the usual names (``data/trajectories.py`` has them), as people and other libraries save them.

::

    obs, acts, rews, ...           the steps of all trajectories, one after the other, cut by
      traj_lengths, lengths          [N] how many each has
      episode_ends                   [N] how many there are up to the end of each
      indices                        [N - 1] the same without the last: imitation, whose pickled ``infos`` are never opened
      episode_starts                 [M] flags: Stable Baselines
      terminated, timeouts, dones    [M] flags, if there is nothing else
    episode_0/obs, ...             or a set of arrays per trajectory

Where flat observations have N rows more than the actions, each trajectory ends with the one after its last step. Flags may be
per step or per trajectory. ``terminals`` alone might be D4RL's or OGBench's, and is read only if the format is named.
"""

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.columns import Column, GatheredColumn
from upweight.data.dataset import Dataset
from upweight.data.endings import as_time_limits
from upweight.data.segment import Episodes, segment
from upweight.data.trajectories import find_names, how_ended, warn_of_ends
from upweight.data.validate import as_flags, as_vector
from upweight.io.format import Format
from upweight.io.npz_members import NpzColumn, member_names, read_member

_LENGTHS = ("lengths", "traj_lengths", "episode_lengths", "trajectory_lengths", "path_lengths")
_CUTS = (*_LENGTHS, "episode_ends", "indices", "episode_starts")
_OF_TRAJECTORY = re.compile(r"\D*(\d+)/(\w+)")  # episode_0/observations


def read(path: Path, *, ends: str | None = None) -> Dataset:
    """Rewards and flags at once; flat observations and actions when they are looked at. ``ends``: see ``from_episodes``."""
    source, names = str(path), member_names(path)
    if any(map(_OF_TRAJECTORY.fullmatch, names)):
        return Dataset.from_episodes(_trajectories(path, names), ends=ends, source=source)
    found = find_names(names)
    actions = NpzColumn(path, found.get("actions", "actions"))
    observations: Column = NpzColumn(path, found.get("observations", "observations"))
    following: Column | None = NpzColumn(path, name) if (name := found.get("next_observations")) else None
    num_steps = (actions.shape or (0,))[0]
    episodes = _episodes(path, found, _lengths(path, names, num_steps), ends)
    if observations.shape[:1] == (num_steps + len(episodes),):
        rows = np.arange(num_steps) + np.repeat(np.arange(len(episodes)), episodes.lengths)
        following = following or GatheredColumn(observations, rows + 1)
        observations = GatheredColumn(observations, rows)
    return Dataset.assemble(
        episodes=replace(episodes, final_known=np.full(len(episodes), following is not None)),
        observations=observations,
        actions=actions,
        rewards=read_member(path, found["rewards"]) if "rewards" in found else None,
        next_observations=following,
        source=source,
    )


def _trajectories(path: Path, names: set[str]) -> list[dict[str, NDArray[Any]]]:
    """The arrays of each, in the order of their numbers."""
    arrays: dict[int, dict[str, NDArray[Any]]] = defaultdict(dict)
    for match in filter(None, map(_OF_TRAJECTORY.fullmatch, sorted(names))):
        if match[2] in find_names([match[2]]).values():
            arrays[int(match[1])][match[2]] = read_member(path, match[0])
    return [arrays[number] for number in sorted(arrays)]


def _lengths(path: Path, names: set[str], num_steps: int) -> NDArray[np.int64] | None:
    """[N], or None where only flags can tell."""
    key = next((name for name in _CUTS if name in names), None)
    if key is None:
        return None
    given = as_vector(read_member(path, key), key=key, source=str(path))
    if key == "episode_starts":
        first_steps = np.flatnonzero(as_flags(given, key=key, num_steps=num_steps, source=str(path)))
        lengths = np.diff(first_steps, append=num_steps, prepend=0)[1:]
    elif given.dtype.kind not in "iu":
        raise DatasetError(f"{path}: key {key!r}: expected whole numbers, found {given.dtype}")
    elif key in _LENGTHS:
        lengths = given
    else:
        ends = given.astype(np.int64)
        lengths = np.diff(np.append(ends, num_steps) if key == "indices" else ends, prepend=0)
    if len(lengths) == 0 or lengths.min() < 1 or lengths.sum(dtype=object) != num_steps:
        raise DatasetError(f"{path}: key {key!r}: expected trajectories of at least one step, {num_steps} together")
    return lengths.astype(np.int64)


def _episodes(path: Path, found: dict[str, str], lengths: NDArray[np.int64] | None, ends: str | None) -> Episodes:
    """Cut by their lengths or, without, at any flag; ended as the flags at their ends say."""
    source = str(path)
    flags = {
        part: as_flags(read_member(path, found[part]), key=found[part], source=source)
        for part in ("terminated", "truncated", "done")
        if part in found
    }
    if lengths is None:
        if not flags:
            raise DatasetError(f"{path}: expected {', '.join(_CUTS)} or flags to tell trajectories apart, found none")
        episodes = segment(np.logical_or.reduce([*flags.values()]), None, next_known=False, source=source)
    else:
        of_each = np.ones(len(lengths), bool)
        episodes = Episodes(lengths, of_each, ~of_each, of_each, ~of_each)
    for part, flag in flags.items():
        if len(flag) != len(episodes):
            last = as_flags(flag, key=found[part], num_steps=episodes.num_steps, source=source)[episodes.last_steps]
            if last.sum() != flag.sum():
                raise DatasetError(
                    f"{path}: key {found[part]!r}: a step is flagged that is not the last of its trajectory"
                )
            flags[part] = last
    silent = len(episodes) - int(flags["truncated"].sum() if "truncated" in flags else 0)
    if ends is None and "terminated" not in flags and "done" not in flags and silent:
        warn_of_ends(silent, source)
    ended, cut = how_ended(flags.get("terminated"), flags.get("truncated"), flags.get("done"), ends, source)
    ended, cut = (np.broadcast_to(flag, len(episodes)) & episodes.complete for flag in (ended, cut))  # but a fragment's
    episodes = replace(episodes, terminated=ended, truncated=cut, complete=ended | cut)
    return as_time_limits(episodes, source=source) if ends == "truncated" else episodes


def _is_plain(path: Path) -> bool:
    names = member_names(path)
    found = find_names(names)
    cut = names & {*_CUTS, "terminated", "terminateds"} or found.keys() & {"truncated", "done", "next_observations"}
    return any(map(_OF_TRAJECTORY.fullmatch, names)) or bool({"observations", "actions"} <= found.keys() and cut)


FORMAT = Format(
    name="arrays",
    description="npz of plain arrays: imitation's, lists of trajectories",
    recognises=_is_plain,
    read=read,
    flags=read_member,
)
