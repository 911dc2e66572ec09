"""Build the parts of a dataset from arrays, from single episodes, or from a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.columns import ArrayColumn, Column
from upweight.data.segment import Episodes, segment, segment_by_id
from upweight.data.validate import as_array, as_flags, as_rewards, as_vector, check_step_array

Parts = dict[str, Any]  # keyword arguments of Dataset.assemble


def from_arrays(
    observations: Any,
    actions: Any,
    rewards: Any,
    terminated: Any,
    truncated: Any,
    next_observations: Any,
    complete: Any,
    final_known: Any,
    source: str,
) -> Parts:
    """Cut flat arrays into episodes at their flags."""
    ended = as_flags(terminated, key="terminated", source=source)
    cut = None if truncated is None else as_flags(truncated, key="truncated", num_steps=len(ended), source=source)
    episodes = segment(ended, cut, next_known=next_observations is not None, source=source)
    if complete is not None:
        whole = as_flags(complete, key="complete", num_steps=len(episodes), source=source)
        episodes = replace(episodes, complete=episodes.complete & whole)
    if final_known is not None:
        known = as_flags(final_known, key="final_known", num_steps=len(episodes), source=source)
        episodes = replace(episodes, final_known=episodes.final_known & known)
    return {
        "episodes": episodes,
        "observations": _column(observations, "observations", source),
        "actions": _column(actions, "actions", source),
        "rewards": None if rewards is None else as_vector(rewards, key="rewards", source=source),
        "next_observations": None
        if next_observations is None
        else _column(next_observations, "next_observations", source),
    }


def from_episodes(episodes: Iterable[Mapping[str, Any]], *, source: str) -> Parts:
    """Join episodes given one by one; see :meth:`upweight.Dataset.from_episodes`."""
    gathered: dict[str, list[Any]] = {name: [] for name in ("obs", "next", "actions", "rewards", "label")}
    lengths, terminated, truncated, complete, known = [], [], [], [], []
    for number, episode in enumerate(episodes):
        where = f"{source}: episode {number}"
        missing = {"observations", "actions", "rewards", "terminated"} - episode.keys()
        if missing:
            raise DatasetError(f"{where}: missing key {sorted(missing)[0]!r}")
        rewards = as_vector(episode["rewards"], key="rewards", source=where)
        length = len(rewards)
        if length == 0:
            raise DatasetError(f"{where}: key 'rewards': expected at least one step, found none")
        obs = as_array(episode["observations"], key="observations", source=where)
        has_final = obs.ndim > 0 and len(obs) == length + 1
        check_step_array(
            obs.shape, obs.dtype, key="observations", num_steps=length + has_final, source=where
        )  # [T] or [T+1]
        actions = as_array(episode["actions"], key="actions", source=where)
        check_step_array(actions.shape, actions.dtype, key="actions", num_steps=length, source=where)
        ended = _end_flag(episode["terminated"], "terminated", length, where)
        cut = _end_flag(episode.get("truncated", not ended), "truncated", length, where) and not ended
        gathered["obs"].append(obs[:length])
        gathered["next"].append(np.concatenate([obs[1:], obs[length : length + 1] if has_final else obs[-1:]])[:length])
        gathered["actions"].append(actions)
        gathered["rewards"].append(rewards)
        gathered["label"].append(episode.get("label"))
        lengths.append(length)
        terminated.append(ended)
        truncated.append(cut)
        complete.append(bool(episode.get("complete", True)) and (ended or cut))
        known.append(has_final)
    if not lengths:
        raise DatasetError(f"{source}: expected at least one episode, found none")
    labels = gathered["label"]
    if any(label is None for label in labels) and any(label is not None for label in labels):
        raise DatasetError(f"{source}: expected a 'label' on every episode or on none")
    return {
        "episodes": Episodes(
            np.array(lengths, np.int64), np.array(terminated), np.array(truncated), np.array(complete), np.array(known)
        ),
        "observations": ArrayColumn(_join(gathered["obs"], "observations", source)),
        "actions": ArrayColumn(_join(gathered["actions"], "actions", source)),
        "rewards": _join(gathered["rewards"], "rewards", source),
        "next_observations": ArrayColumn(_join(gathered["next"], "observations", source)) if any(known) else None,
        "labels": None if labels[0] is None else labels,
    }


def from_frame(
    frame: Any,
    observations: str | Sequence[str],
    actions: str | Sequence[str],
    rewards: str,
    episode: str,
    terminated: str,
    truncated: str | None,
    label: str | None,
    *,
    source: str,
) -> Parts:
    """Read a table with one row per step; see :meth:`upweight.Dataset.from_frame`."""
    names = [str(name) for name in (frame.columns if hasattr(frame, "columns") else frame.keys())]

    def column(name: str) -> NDArray[Any]:
        if name not in names:
            raise DatasetError(f"{source}: missing column {name!r}; the table has {', '.join(names)}")
        return np.asarray(frame[name])

    def vectors(selection: str | Sequence[str], key: str) -> NDArray[Any]:
        if isinstance(selection, str):
            if selection in names:
                return _stack_cells(column(selection), key=selection, source=source)
            selection = [name for name in names if name.startswith((f"{selection}_", f"{selection}."))] or [selection]
        return as_array(np.stack([column(name) for name in selection], axis=1), key=key, source=source)

    ids = column(episode)
    num_steps = len(ids)
    ended = as_flags(column(terminated), key=terminated, num_steps=num_steps, source=source)
    has_truncated = truncated is not None and truncated in names
    cut = as_flags(column(truncated), key=truncated, source=source) if has_truncated and truncated else None
    episodes = segment_by_id(ids, ended, cut, next_known=False, source=source)
    return {
        "episodes": episodes,
        "observations": ArrayColumn(vectors(observations, "observations")),
        "actions": ArrayColumn(vectors(actions, "actions")),
        "rewards": as_rewards(column(rewards), key=rewards, num_steps=num_steps, source=source),
        "labels": None if label is None else [str(value) for value in column(label)[episodes.starts]],
    }


def _column(values: Any, key: str, source: str) -> Column:
    return values if isinstance(values, Column) else ArrayColumn(as_array(values, key=key, source=source))


def _end_flag(value: Any, key: str, length: int, source: str) -> bool:
    """One flag for the episode, or [T] flags of which only the last may be set."""
    if np.ndim(value) == 0:
        return bool(value)
    flags = as_flags(value, key=key, num_steps=length, source=source)
    if flags[:-1].any():
        raise DatasetError(
            f"{source}: key {key!r}: step {int(np.argmax(flags))} of {length} is flagged, but is not the last"
        )
    return bool(flags[-1])


def _join(parts: list[NDArray[Any]], key: str, source: str) -> NDArray[Any]:
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        raise DatasetError(f"{source}: key {key!r}: expected one shape in all episodes, found {sorted(shapes)}")
    return np.concatenate(parts)


def _stack_cells(cells: NDArray[Any], *, key: str, source: str) -> NDArray[Any]:
    """A column of numbers as [M], a column of equal vectors as [M, ...]."""
    if cells.dtype != object:
        return as_array(cells, key=key, source=source)
    try:
        return as_array(np.stack([np.asarray(cell) for cell in cells]), key=key, source=source)
    except ValueError as error:
        raise DatasetError(f"{source}: column {key!r}: expected vectors of one length ({error})") from None
