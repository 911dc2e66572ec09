"""Guess which column of somebody's own table is what, and write the guesses down for a person to check."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from upweight.base.errors import DatasetError
from upweight.io.table import beginning

# What names of columns mean, in the order in which keys take them; of several patterns, the first that fits a column.
_ID = r"([_ ]?(id|index|nr|no|number))?"
_SUCCESS = r"(next[._ ])?(is_?)?(success\w*|solved|won|survived|converted)"
_PATTERNS = {
    "episode": (
        rf"(episode|traj\w*|rollout|demo\w*|session|(icu)?stay|admission|hadm|visit|encounter|trial|run){_ID}",
        rf"(patient|subject|user|case){_ID}",
        r"id",
    ),
    "timestep": (
        r"((time|chart)[_ ]?(step|time)|step|time|timestamp|date|datetime|hour|day|minute|t|frame([_ ]?index)?|order|seq\w*)",
    ),
    "rewards": (r"(r|rew|rewards?)",),
    "success": (_SUCCESS,),
    "score": (r"(score|rating|outcome|return|progress)", _SUCCESS),
    "terminated": (r"(terminated|terminals?|dones?|end|last)",),
    "truncated": (r"(truncated|truncations?|timeouts?)",),
    "label": (r"(label|policy|source|operator|clinician|doctor|collector|site|ward)",),
    "actions": (
        r"(a|act|actions?|doses?|dosage|drug|medication|treatment|intervention|control|command|cmd|torque|choice|decision)"
        r"([_ .]\w+|\d+)?",
    ),
}
_NEXT = r"next[_ .]?"
_NUMBERS_ROWS = r"|index|row|unnamed: \d+|(row|line|record)?[_ ]?(id|index|nr|no|number)"
_COST = r"(costs?|penalty|penalties|loss(es)?)"
_NEEDED = ("episode", "observations", "actions")
_FOR_REWARDS = ("rewards", "success", "score")
_ROWS = 1000  # first rows that guesses rest on
_FEW = 20  # different values that text may have to be a category
_GAPS = frozenset({"", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "#N/A", "#NA"})  # of those that CSV knows
_KEYS = (
    "episode",
    "timestep",
    "observations",
    "next_observations",
    "actions",
    *_FOR_REWARDS,
    "missing_rewards",
    "terminated",
    "truncated",
    "label",
    "categories",
)


@dataclass(frozen=True)
class LayoutGuess:
    """Which columns stand for which key of ``[table]``, which are left out and why, and what a person has to fill in."""

    columns: tuple[str, ...]
    layout: Mapping[str, str | tuple[str, ...]]
    left_out: Mapping[str, str]
    missing: tuple[str, ...]

    def toml(self, table: str) -> str:
        """The text of the TOML file for ``table``."""
        lines = [
            f"# What the columns of {table} are. These are guesses by their names: check each line.",
            f"# Columns found: {', '.join(map(_shown, self.columns))}",
            *(f"# Left out: {_shown(name)} ({why})" for name, why in self.left_out.items()),
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
    "next_observations": "the same after it",
    "actions": "what was done",
    "rewards": "summed over an episode: the higher, the better",
    "success": "instead of rewards: whether the episode succeeded",
    "score": "instead of rewards: how good the episode was (its last value)",
    "missing_rewards": "an empty reward counts as 0",
    "terminated": "flags: the episode ended here",
    "truncated": "flags: the recording stopped here",
    "label": "where an episode comes from",
    "categories": "values are categories, not amounts",
}


def guess_layout(path: Path) -> LayoutGuess:
    """By names and the first rows; what is left becomes an observation, unless it cannot be one as it is."""
    rows = beginning(path, _ROWS)  # {column: its first values}
    if len(rows) < 2:
        raise DatasetError(f"{path}: expected a table with several columns, found {len(rows)}: {', '.join(rows)}")
    layout: dict[str, str | tuple[str, ...]] = {}
    left_out: dict[str, str] = {}
    left = list(rows)
    for key, patterns in _PATTERNS.items():
        if key in _FOR_REWARDS and layout.keys() & set(_FOR_REWARDS):
            continue
        found = [name for pattern in patterns for name in left if re.fullmatch(pattern, name.strip(), re.IGNORECASE)]
        if key == "episode":
            found = _episodes(found, rows)
        elif key == "success":  # with gaps, its last value is a score
            found = [name for name in found if not _gaps(rows[name])]
        if key in _FOR_REWARDS:
            text = [name for name in found if not all(_is_number(value) or _is_flag(value) for value in rows[name])]
            left_out |= dict.fromkeys(text, "text: a column of 0 and 1 could say how good an episode was")
            found, left = [name for name in found if name not in text], [name for name in left if name not in text]
        found = found if key == "actions" else found[:1]
        if found:
            layout[key] = tuple(found) if len(found) > 1 else found[0]
        left = [name for name in left if name not in found]
    if "episode" in layout and not layout.keys() & set(_FOR_REWARDS):
        found = [name for name in left if _says_how_it_ended(rows[name], rows[str(layout["episode"])])]
        if len(found) == 1:
            layout["score"] = found[0]
            left.remove(found[0])
    if "rewards" in layout and _gaps(rows[str(layout["rewards"])]):
        layout["missing_rewards"] = "zero"
    following = [name for name in left if re.match(_NEXT, name, re.IGNORECASE)]
    left_out |= {name: why for name in left if name not in following and (why := _no_observation(name, rows))}
    observations = tuple(name for name in left if name not in following and name not in left_out)
    after = {re.sub(_NEXT, "", name, count=1, flags=re.IGNORECASE): name for name in following}
    if observations and set(observations) <= after.keys():
        layout["next_observations"] = tuple(after.pop(name) for name in observations)
    left_out |= dict.fromkeys(after.values(), "known after the action only")
    if observations:
        layout["observations"] = observations
    inputs = (*observations, *_names(layout.get("actions", ())))
    if categories := tuple(name for name in inputs if not all(map(_is_number, rows[name]))):
        layout["categories"] = categories
    missing = [key for key in _NEEDED if key not in layout]
    missing += [] if layout.keys() & set(_FOR_REWARDS) else ["rewards"]
    return LayoutGuess(tuple(rows), layout, left_out, tuple(missing))


def _episodes(found: Sequence[str], rows: Mapping[str, Sequence[Any]]) -> list[str]:
    """Those that come back or, in a table of one row per episode, that never do."""
    again = [name for name in found if len(set(rows[name])) < len(rows[name])]
    timed = any(
        re.fullmatch(pattern, name.strip(), re.IGNORECASE) for name in rows for pattern in _PATTERNS["timestep"]
    )
    return again if again or timed else list(found)


def _says_how_it_ended(values: Sequence[Any], episodes: Sequence[Any]) -> bool:
    """Whether the last rows of episodes have a number, and the others have none; the last row seen may be any."""
    last = [here != after for here, after in pairwise(episodes)]
    filled = [not _is_gap(value) for value in values[:-1]]
    return filled == last and any(filled) and not all(filled) and all(map(_is_number, values))


def _no_observation(name: str, rows: Mapping[str, Sequence[Any]]) -> str:
    """Why a column cannot be one as it is; empty if it can."""
    values = rows[name]
    plain = name.strip()
    if re.fullmatch(_COST, plain, re.IGNORECASE):
        return "a cost? rewards are the other way round: write a column of minus the cost"
    if re.fullmatch(_NUMBERS_ROWS, plain, re.IGNORECASE) and len(set(map(str, values))) == len(values):
        return "numbers the rows"
    if any(re.fullmatch(pattern, plain, re.IGNORECASE) for pattern in _PATTERNS["episode"]):
        return "tells rows apart, not how things are"
    if gaps := _gaps(values):
        return f"empty in {gaps:,} of {len(values):,} rows: fill these in to use it"
    text = {value for value in values if not _is_number(value)}
    if text and all(isinstance(value, str) and _is_number(value.replace(",", ".")) for value in values):
        return "decimal commas: write points to use it"
    return f"text of more than {_FEW} values" if text and len(set(values)) > _FEW else ""


def _shown(name: str) -> str:
    return name if name.strip() else f"{name!r}"


def _names(found: str | Sequence[str]) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else tuple(found)


def _gaps(values: Sequence[Any]) -> int:
    return sum(map(_is_gap, values))


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value) or (isinstance(value, str) and value in _GAPS)


def _is_flag(value: Any) -> bool:
    return isinstance(value, str) and value.lower() in {"true", "false"}


def _is_number(value: Any) -> bool:
    """Whether a cell holds a number, several numbers or nothing."""
    try:
        float(0 if _is_gap(value) else value)
    except (TypeError, ValueError):
        return isinstance(value, list | tuple)
    return True
