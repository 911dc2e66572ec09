"""The range that continuous policies choose actions in, and actions that fill little of it.

Actions that fill 1% of [-1, 1] cost BC 0.08, and IQL and CQL nearly all; TD3+BC goes 20 times beyond actions that fill 3%. Tasks
with MuJoCo have actions that fill nearly all.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.text import number

if TYPE_CHECKING:
    from upweight.data.dataset import Dataset

ACTION_SLACK = 1e-3  # how far beyond [-1, 1] an action may be and count as rounded
NARROW = 0.03  # range of most of an action's values, of that of its bounds
_MOST = (0.05, 0.95)
_LOOKED_AT = 100_000  # steps, evenly spaced
_SHOWN = 3  # columns in a note


def action_bounds(actions: Iterable[NDArray[Any]]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What -1 and 1 stand for, per dimension: themselves, or the range seen where actions go beyond by more than rounding.

    ``actions`` come in blocks [m, a].
    """
    lows, highs = zip(*((block.min(axis=0), block.max(axis=0)) for block in actions), strict=True)
    low, high = np.min(lows, axis=0), np.max(highs, axis=0)
    inside = (low >= -1 - ACTION_SLACK) & (high <= 1 + ACTION_SLACK)
    low = np.where(inside, -1, low)
    high = np.where(inside, 1, np.where(high > low, high, low + 1))
    return low.astype(np.float32), high.astype(np.float32)


def narrow_actions(actions: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> str | None:
    """What to say of actions [m, a] that change, but within a small part of the bounds [a] that policies have."""
    found = narrow_columns(actions, low, high)
    if not found:
        return None
    return (
        "Actions fill little of the range that policies have. What helps: give them in a unit in which they go beyond 1 (they "
        f"are then scaled by the range seen), or clip outliers. {list_columns(found)}"
    )


def narrow_columns(actions: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> dict[int, str]:
    """Dimensions of such actions, and in words why."""
    first, last = np.quantile(actions, _MOST, axis=0)
    narrow = (last > first) & (last - first < NARROW * (high - low))
    return {
        int(place): f"90% within [{number(first[place])}, {number(last[place])}] of [{low[place]:g}, {high[place]:g}]"
        for place in np.flatnonzero(narrow)
    }


def list_columns(columns: dict[int, str]) -> str:
    """The first few of them."""
    shown = "; ".join(f"Column {place}: {text}" for place, text in list(columns.items())[:_SHOWN])
    return shown + (f"; and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else "")


def narrow_note(dataset: "Dataset") -> str | None:
    """What to say of the dataset's actions, as some of them show."""
    if dataset.discrete_actions:
        return None
    steps = np.linspace(0, dataset.num_steps - 1, min(dataset.num_steps, _LOOKED_AT)).astype(np.int64)
    actions = dataset.columns["actions"].rows(steps).reshape(len(steps), -1)
    return narrow_actions(actions, *action_bounds([actions]))
