"""Build the parts of a dataset from flat arrays."""

from dataclasses import replace
from typing import Any

from upweight.data.columns import ArrayColumn, Column
from upweight.data.segment import segment
from upweight.data.validate import as_array, as_flags, as_vector

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


def _column(values: Any, key: str, source: str) -> Column:
    return values if isinstance(values, Column) else ArrayColumn(as_array(values, key=key, source=source))
