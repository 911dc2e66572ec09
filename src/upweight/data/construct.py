"""Build the parts of a dataset from arrays or from a table."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.columns import ArrayColumn, Column
from upweight.data.segment import segment, segment_by_id
from upweight.data.validate import as_array, as_flags, as_rewards, as_vector

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


def _stack_cells(cells: NDArray[Any], *, key: str, source: str) -> NDArray[Any]:
    """A column of numbers as [M], a column of equal vectors as [M, ...]."""
    if cells.dtype != object:
        return as_array(cells, key=key, source=source)
    try:
        return as_array(np.stack([np.asarray(cell) for cell in cells]), key=key, source=source)
    except ValueError as error:
        raise DatasetError(f"{source}: column {key!r}: expected vectors of one length ({error})") from None
