"""Guess which column of somebody's own table is what, and write the guesses down for a person to check."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upweight.base.errors import DatasetError
from upweight.io.table import beginning

# What names of columns mean, in the order in which keys take them; of several patterns, the first that fits a column.
_ID = r"([_ ]?(id|index|nr|no|number))?"
_SUCCESS = r"(next[._ ])?(is_?)?(success\w*|solved|won|survived|converted)"
_PATTERNS = {
    "episode": (
        rf"(episode|traj\w*|session|stay|visit|encounter|trial|run){_ID}",
        rf"(patient|subject|user|case){_ID}",
    ),
    "timestep": (r"(time[_ ]?step|time|timestamp|date|datetime|hour|day|minute|t|frame([_ ]?index)?|order|seq\w*)",),
    "rewards": (r"(r|rew|rewards?)",),
    "success": (_SUCCESS,),
    "score": (r"(score|rating|outcome|return|progress)", _SUCCESS),
    "terminated": (r"(terminated|terminals?|dones?|end|last)",),
    "truncated": (r"(truncated|truncations?|timeouts?)",),
    "label": (r"(label|policy|source|operator|clinician|doctor|collector|site|ward)",),
    "actions": (r"(a|act|actions?|doses?|drug|treatment|control|command|torque|choice|decision)([_ .]\w+|\d+)?",),
}
_NEEDED = ("episode", "actions")
_FOR_REWARDS = ("rewards", "success", "score")
_ROWS = 1000  # that are looked at
_FEW = 20  # different values that text may have to be a category
_KEYS = (
    "episode",
    "timestep",
    "observations",
    "actions",
    *_FOR_REWARDS,
    "terminated",
    "truncated",
    "label",
    "categories",
)


@dataclass(frozen=True)
class LayoutGuess:
    """Which columns stand for which key of ``[table]``, and which keys a person has to fill in."""

    columns: tuple[str, ...]
    layout: Mapping[str, str | tuple[str, ...]]
    missing: tuple[str, ...]

    def toml(self, table: str) -> str:
        """The file to write beside ``table``."""
        lines = [
            f"# What the columns of {table} are. These are guesses by their names: check each line.",
            f"# Columns found: {', '.join(self.columns)}",
            "[table]",
        ]
        for key in _KEYS:
            if key in self.layout:
                found = self.layout[key]
                value = json.dumps(list(found) if isinstance(found, tuple) else found, ensure_ascii=False)
                lines.append(f"{key} = {value}  # {_MEANING[key]}")
            elif key in self.missing:
                lines.append(f'# {key} = "?"  # {_MEANING[key]}: found none, write its column here')
        if not {"terminated", "truncated"} & self.layout.keys():
            lines.append('ends = "terminated"  # how episodes end, as no column says it; or "truncated"')
        return "\n".join(lines) + "\n"


_MEANING = {
    "episode": "tells episodes apart",
    "timestep": "orders an episode's rows",
    "observations": "what is known before each action",
    "actions": "what was done",
    "rewards": "summed over an episode: the higher, the better",
    "success": "instead of rewards: whether the episode succeeded",
    "score": "instead of rewards: how good the episode was (its last value)",
    "terminated": "flags: the episode ended here",
    "truncated": "flags: the recording stopped here",
    "label": "where an episode comes from",
    "categories": "values are categories, not amounts",
}


def guess_layout(path: Path) -> LayoutGuess:
    """By names and the first rows; everything that is left becomes an observation, unless it is text of many values."""
    rows = beginning(path, _ROWS)  # {column: its first values}
    if len(rows) < 2:
        raise DatasetError(f"{path}: expected a table with several columns, found {', '.join(rows) or 'none'}")
    layout: dict[str, str | tuple[str, ...]] = {}
    left = list(rows)
    for key, patterns in _PATTERNS.items():
        if key in _FOR_REWARDS and layout.keys() & set(_FOR_REWARDS):
            continue
        found = [name for pattern in patterns for name in left if re.fullmatch(pattern, name.strip(), re.IGNORECASE)]
        if key == "episode":
            found = [name for name in found if len(set(rows[name])) < len(rows[name])]  # else it numbers rows
        elif key == "success":
            found = [
                name for name in found if "" not in rows[name] and None not in rows[name]
            ]  # else its last value: a score
        found = found if key == "actions" else found[:1]
        if found:
            layout[key] = tuple(found) if len(found) > 1 else found[0]
        left = [name for name in left if name not in found]
    text = {name: len(set(rows[name])) for name in rows if not all(map(_is_number, rows[name]))}
    layout["observations"] = tuple(name for name in left if text.get(name, 0) <= _FEW)
    inputs = (*layout["observations"], *_names(layout.get("actions", ())))
    if categories := tuple(name for name in inputs if name in text):
        layout["categories"] = categories
    missing = [key for key in _NEEDED if key not in layout]
    missing += [] if layout.keys() & set(_FOR_REWARDS) else ["rewards"]
    return LayoutGuess(tuple(rows), layout, tuple(missing))


def _names(found: str | Sequence[str]) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else tuple(found)


def _is_number(value: Any) -> bool:
    """Also a gap, and several numbers in one cell."""
    try:
        float(value or 0)
    except (TypeError, ValueError):
        return isinstance(value, list | tuple)
    return True
