"""A table with one row per step: which column is what, and the parts of the dataset that it makes.

Frames, CSV files and Parquet files all come in through :func:`from_frame`; :meth:`upweight.Dataset.from_frame` says what the
keys of a layout mean.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict, get_type_hints

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError, UpweightWarning
from upweight.base.names import closest, hint
from upweight.data.cells import check_filled, encode, identifiers, numbers, one_hot, times
from upweight.data.columns import ArrayColumn
from upweight.data.endings import as_time_limits
from upweight.data.segment import Episodes, segment_by_id
from upweight.data.success import success_rewards
from upweight.data.trajectories import ENDS, NAMES, how_ended, warn_of_ends
from upweight.data.validate import as_flags, as_rewards

Order = slice | NDArray[np.int64]  # of the table's rows in the dataset; a slice where it is the table's own


class TableLayout(TypedDict, total=False):
    """Which column is what, and what to make of gaps; None where there is no such column."""

    observations: str | Sequence[str]
    actions: str | Sequence[str]
    rewards: str | None
    episode: str
    next_observations: str | Sequence[str] | None
    terminated: str | None
    truncated: str | None
    timestep: str | None
    label: str | None
    success: str | None
    score: str | None
    ends: str | None
    missing_rewards: str | None
    categories: Sequence[str] | Mapping[str, Sequence[Any]]


SEVERAL = ("observations", "actions", "next_observations", "categories")  # that may name several columns
CHOICES = {"ends": ENDS, "missing_rewards": ("zero", "drop")}
KEYS = tuple(get_type_hints(TableLayout))
_PARTS = tuple(key for key in KEYS if key not in CHOICES and key != "categories")
_USUAL = {  # names of columns that nothing is said about
    **{part: NAMES[part] for part in ("observations", "actions", "rewards", "truncated")},
    "terminated": (*NAMES["terminated"], *NAMES["done"]),
    "episode": ("episode", "episode_index", "episode_id"),
}
_FOR_REWARDS = ("success", "score")  # in their place
_NEEDED = ("episode", "observations", "actions")
_MOST_NAMES = 40  # of columns in a message


def from_frame(frame: Any, layout: TableLayout, *, source: str) -> dict[str, Any]:
    """Keyword arguments of ``Dataset.assemble`` from a pandas, polars or Arrow table, or a mapping of columns."""
    table = _Table(frame, layout, source)
    episodes = table.episodes()
    observations, following = table.features("observations"), table.features("next_observations")
    check_filled(observations, part="observations", source=source)
    parts: dict[str, Any] = {"observations": ArrayColumn(table.joined(observations, "observations"))}
    if following:
        last = np.arange(table.num_rows)[table.order][episodes.last_steps]  # rows of the table
        check_filled(following, part="next_observations", source=source, spared=last)
        rows = np.array(table.joined(following, "next_observations"))
        known = np.isfinite(rows[episodes.last_steps]).reshape(len(episodes), -1).all(axis=1)
        unknown = episodes.last_steps[~known]
        rows[unknown] = parts["observations"].read()[unknown]
        episodes = replace(episodes, final_known=known)
        parts["next_observations"] = ArrayColumn(rows)
    if "label" in table.chosen:
        (name,) = table.chosen["label"]
        parts["labels"] = [str(value) for value in table.cells(name)[table.order][episodes.starts]]
    rewards: Any = table.rewards()
    if (success := table.flags("success")) is not None:
        episodes, rewards = success_rewards(success, episodes, source=source)
    if "score" in table.chosen:
        rewards = table.score(episodes)
    return {
        **parts,
        **table.actions(),
        "episodes": episodes,
        "rewards": rewards,
        "metadata": {"categories": table.categories} if table.categories else {},
    }


def read_beside(frame: Any, layout: Mapping[str, Any], part: str, *, source: str) -> NDArray[Any]:
    """[M, ...] finite numbers that are no part of a dataset, in the order of its steps.

    ``layout`` has a further key ``part``, which messages call them by: a column, or what several begin with.
    """
    table = _Table(frame, layout, source, beside=(part,))
    found = table.features(part)
    check_filled(found, part=part, source=source)
    return table.joined(found, part)


def is_frame(source: Any) -> bool:
    """Whether it has columns with names, as pandas, polars, Arrow and mappings have them."""
    return _column_names(source) is not None


def check_layout(layout: Mapping[str, Any], *, source: str) -> None:
    """Refuse keys that there are not, and values that cannot be."""
    for key, value in layout.items():
        if key not in KEYS:
            raise DatasetError(f"{source}: a table has no {key!r}; {hint(key, KEYS)}")
        if value is None:
            continue
        if key in CHOICES:
            is_right, expected = value in CHOICES[key], " or ".join(map(repr, CHOICES[key]))
        elif key == "categories" and isinstance(value, Mapping):
            is_right = all(isinstance(each, Sequence) and not isinstance(each, str) for each in value.values())
            expected = "lists of categories by column"
        elif key in SEVERAL and not isinstance(value, str):
            is_right = isinstance(value, Sequence) and len(value) > 0 and all(isinstance(name, str) for name in value)
            expected = "names of columns"
        else:
            is_right, expected = isinstance(value, str), "the name of a column"
        if not is_right:
            raise DatasetError(f"{source}: {key}: expected {expected}, found {value!r}")


def choose_columns(
    names: Sequence[str], layout: Mapping[str, Any], *, source: str, beside: Sequence[str] = ()
) -> dict[str, list[str]]:
    """The columns of each part of the dataset, and of further parts ``beside`` it; parts that there are not are left out."""
    check_layout({key: value for key, value in layout.items() if key not in beside}, source=source)
    chosen: dict[str, list[str]] = {"categories": _category_columns(layout)}
    for part in (*_PARTS, *beside):
        wanted = _said_or_usual(part, names, layout)
        if isinstance(wanted, str):
            is_one = wanted in names or part not in (*SEVERAL, *beside)
            chosen[part] = [wanted] if is_one else _alike(wanted, names) or [wanted]
        elif wanted is not None:
            chosen[part] = list(wanted)
    if silent := [part for part in _NEEDED if part not in chosen]:
        options, keys = f"--{', --'.join(silent)}", f"{'=..., '.join(silent)}=..."
        raise DatasetError(
            f"{source}: nothing says which columns are {', '.join(silent)}; {_columns_of(names)}. Let upweight init guess them "
            f"(of a file), or say it with {options} (upweight.load(..., {keys}))"
        )
    for part, wanted in chosen.items():
        for name in wanted:
            if list(names).count(name) != 1:
                raise DatasetError(_wrong_column(name, part, names, source))
    return chosen


def _column_names(frame: Any) -> list[Any] | None:
    """None of what is no table."""
    names = (getattr(frame, name, None) for name in ("column_names", "columns", "keys"))  # Arrow; frames; mappings
    given = next((each for each in names if each is not None), None)
    if given is None or not hasattr(frame, "__getitem__"):
        return None
    return list(given() if callable(given) else given)


def _said_or_usual(part: str, names: Sequence[str], layout: Mapping[str, Any]) -> Any:
    """What is said about a part, else the usual name that there is a column of; None where there is none."""
    if part in layout or (part == "rewards" and any(layout.get(key) is not None for key in _FOR_REWARDS)):
        return layout.get(part)
    usual = _USUAL.get(part, ())
    return next((name for name in usual if name in names or (part in SEVERAL and _alike(name, names))), None)


def _alike(name: str, names: Sequence[str]) -> list[str]:
    return [each for each in names if each.startswith((f"{name}_", f"{name}."))]


def _category_columns(layout: Mapping[str, Any]) -> list[str]:
    given = layout.get("categories") or ()
    return [given] if isinstance(given, str) else list(given)


def _wrong_column(name: str, part: str, names: Sequence[str], source: str) -> str:
    if name in names:
        return f"{source}: expected one column {name!r}, found several; {_columns_of(names)}"
    near = closest(name, names)
    meant = f"did you mean {near[0]!r}? " if near else ""
    option = f"--{part.replace('_', '-')}"
    return f"{source}: missing column {name!r}; {meant}{_columns_of(names)}; say with {part}= ({option}) which it is"


def _columns_of(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"the table has {', '.join(names[:_MOST_NAMES])}{more}"


class _Table:
    """A frame whose columns are chosen; everything per row is in the frame's order until it is put in ``order``."""

    def __init__(self, frame: Any, layout: Mapping[str, Any], source: str, beside: Sequence[str] = ()) -> None:
        every = _column_names(frame)
        if every is None:
            raise DatasetError(
                f"{source}: expected a table (pandas, polars, Arrow or a mapping of columns), found {type(frame).__name__}"
            )
        self._names = {str(name): name for name in every}
        self._frame, self._layout, self._source = frame, layout, source
        self.chosen = choose_columns([str(name) for name in every], layout, source=source, beside=beside)
        self.categories: dict[str, list[Any]] = {}  # those found, by column
        (episode,) = self.chosen["episode"]
        self.num_rows = len(self._frame[self._names[episode]])
        if self.num_rows == 0:
            raise DatasetError(f"{source}: expected at least one step, found none")
        self._ids = identifiers(self.cells(episode), name=episode, source=source)
        self.order = self._in_order(episode)
        self.order = self._of_known_return()

    def cells(self, name: str) -> NDArray[Any]:
        """A column [M] as the frame has it."""
        cells = np.asarray(self._frame[self._names[name]])
        if len(cells) != self.num_rows:
            raise DatasetError(f"{self._source}: column {name!r}: expected {self.num_rows} rows, found {len(cells)}")
        return cells

    def numbers(self, name: str, *, or_categories: bool = False) -> NDArray[Any]:
        return numbers(self.cells(name), name=name, source=self._source, or_categories=or_categories)

    def features(self, part: str) -> dict[str, NDArray[Any]]:
        """Columns of numbers [M] or [M, ...]; of categories, [M, K] of 0 and 1. A next observation is like its observation."""
        names = self.chosen.get(part, [])
        likes = self.chosen["observations"] if part == "next_observations" else names
        if names and len(names) != len(likes):
            raise DatasetError(
                f"{self._source}: next_observations: expected a column for each of {', '.join(likes)}, "
                f"found {', '.join(names)}"
            )
        may_be = part in SEVERAL  # what lies beside the dataset is numbers
        wanted = self.chosen["categories"] if may_be else []
        return {
            name: one_hot(*self._codes(name, like)) if like in wanted else self.numbers(name, or_categories=may_be)
            for name, like in zip(names, likes, strict=False)
        }

    def joined(self, columns: Mapping[str, NDArray[Any]], part: str) -> NDArray[Any]:
        """[M, d], side by side and in order; a column that was named alone keeps its shape."""
        if list(columns) == [_said_or_usual(part, list(self._names), self._layout)]:
            return np.array(next(iter(columns.values()))[self.order])  # a copy: the caller may change theirs
        flat = [column.reshape(self.num_rows, -1) for column in columns.values()]
        count = len(self._ids[self.order])
        rows = np.empty((count, sum(each.shape[1] for each in flat)), np.result_type(*flat))
        place = 0
        for each in flat:
            rows[:, place : place + each.shape[1]] = each[self.order]
            place += each.shape[1]
        return rows

    def actions(self) -> dict[str, Any]:
        """Categories are discrete actions, with their number; numbers are what they are."""
        names, wanted = self.chosen["actions"], self.chosen["categories"]
        if not set(names) & set(wanted):
            columns = {name: self.numbers(name, or_categories=True) for name in names}
            check_filled(columns, part="actions", source=self._source)
            return {"actions": ArrayColumn(self.joined(columns, "actions"))}
        if len(names) > 1:
            raise DatasetError(
                f"{self._source}: actions: expected one column of categories, or numbers, found {', '.join(names)}"
            )
        codes, count = self._codes(names[0], names[0])
        check_filled({names[0]: np.where(codes < 0, np.nan, codes)}, part="actions", source=self._source)
        return {"actions": ArrayColumn(codes[self.order]), "num_actions": count}

    def rewards(self) -> NDArray[Any] | None:
        """[M], empty ones as what ``missing_rewards`` says; None where there is no column, or nothing in it."""
        if "rewards" not in self.chosen:
            if not {"rewards", *_FOR_REWARDS} & set(self._layout):
                self._warn("no column is called rewards, and none is named")
            return None
        (name,) = self.chosen["rewards"]
        rewards = self.numbers(name)
        empty = np.isnan(rewards)
        if empty.all():
            self._warn(f"column {name!r} is empty")
            return None
        if empty.any():
            rewards = np.where(empty, rewards.dtype.type(0), rewards)
        check_filled({name: rewards}, part="rewards", source=self._source)
        return np.array(as_rewards(rewards, key=name, num_steps=self.num_rows, source=self._source)[self.order])

    def _warn(self, why: str) -> None:
        warnings.warn(
            f"{self._source}: {why}, so these are data without rewards; name the rewards with rewards=... (--rewards), flags of "
            "success with success=... (--success), or a number that says how good an episode was with score=... (--score)",
            UpweightWarning,
            stacklevel=3,
        )

    def _of_known_return(self) -> Order:
        """The rows in order, without the episodes whose return is not known, if ``missing_rewards`` says so.

        Where most episodes of several rows have a reward in each, one gap is enough to be left out. Else gaps are the rule, and
        an episode is left out if it has no reward at all.
        """
        choice = self._layout.get("missing_rewards")
        if "rewards" not in self.chosen or set(_FOR_REWARDS) & self.chosen.keys():
            return self.order
        (name,) = self.chosen["rewards"]
        empty = np.isnan(self.numbers(name))[self.order]
        if empty.ndim > 1 or not empty.any() or empty.all():
            return self.order
        ids = self._ids[self.order]
        starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        sizes = np.diff(starts, append=len(ids))
        gaps = np.add.reduceat(empty.astype(np.int64), starts)
        some, all_empty = int((gaps > 0).sum()), int((gaps == sizes).sum())
        found = (
            f"{self._source}: column {name!r}: {int(empty.sum()):,} of {len(empty):,} rows have no reward; {some:,} of "
            f"{len(gaps):,} episodes have such rows, and {all_empty:,} no reward at all"
        )
        if choice is None:
            raise DatasetError(
                f"{found}. Where an empty reward means 0, say missing_rewards='zero' (--missing-rewards zero). To leave out "
                "episodes whose return is not known, missing_rewards='drop' (--missing-rewards drop)"
            )
        several = sizes > 1
        are_rule = (gaps[several] > 0).sum() > (gaps[several] == 0).sum()
        unknown = gaps == sizes if are_rule or choice == "zero" else gaps > 0
        if not unknown.any():
            return self.order
        if choice == "zero":
            warnings.warn(
                f"{found}: these count as returns of 0. If they are not known, leave them out with missing_rewards='drop' "
                "(--missing-rewards drop)",
                UpweightWarning,
                stacklevel=2,
            )
            return self.order
        if unknown.all():
            raise DatasetError(f"{found}: missing_rewards='drop' leaves no episode")
        warnings.warn(f"{found}: {int(unknown.sum()):,} episodes are left out", UpweightWarning, stacklevel=2)
        kept: NDArray[np.int64] = np.arange(self.num_rows)[self.order][~np.repeat(unknown, sizes)]
        return kept

    def score(self, episodes: Episodes) -> NDArray[np.float64]:
        """[M] rewards that are the column's value in the last row of an episode, and 0 before."""
        (name,) = self.chosen["score"]
        values, rewards = self.numbers(name), np.zeros(self.num_rows)
        last = np.arange(self.num_rows)[self.order][episodes.last_steps]  # rows of the table
        others = np.setdiff1d(np.arange(self.num_rows), last)
        check_filled({name: values}, part="score (last rows of episodes)", source=self._source, spared=others)
        rewards[episodes.last_steps] = values[last]
        return rewards

    def episodes(self) -> Episodes:
        """By the episode's id; ended as the flags say or, without any, with the last row, as ``ends`` says."""
        ids, ends = self._ids[self.order], self._layout.get("ends")
        ended, cut = self.flags("terminated"), self.flags("truncated")
        has_flags = ended is not None
        if has_flags and ends == "terminated":
            raise DatasetError(
                f"{self._source}: ends='terminated' is for tables that do not say how episodes end, but column "
                f"{self.chosen['terminated'][0]!r} does; leave one of them out"
            )
        if ended is not None and cut is not None and self.chosen["terminated"][0] in NAMES["done"]:
            ended = ended & ~cut  # the older word for either
        if ended is None:
            last = np.append(ids[1:] != ids[:-1], True)
            at_end, stopped = how_ended(None, cut, None, ends, self._source)
            ended, cut = last & at_end, last & stopped if cut is None else cut
            if ends is None and ended.any():
                warn_of_ends(int(ended.sum()), self._source)
        episodes = segment_by_id(ids, ended, cut, next_known=False, source=self._source)
        return as_time_limits(episodes, source=self._source) if has_flags and ends == "truncated" else episodes

    def flags(self, part: str) -> NDArray[np.bool_] | None:
        if part not in self.chosen:
            return None
        (name,) = self.chosen[part]
        return as_flags(self.numbers(name), key=name, num_steps=self.num_rows, source=self._source)[self.order]

    def _codes(self, name: str, like: str) -> tuple[NDArray[np.int64], int]:
        """The numbers of a column's categories [M] and how many there are; those of the column ``like``, if it is known."""
        given = self._layout.get("categories")
        known = self.categories.get(like, given.get(like) if isinstance(given, Mapping) else None)
        codes, self.categories[like] = encode(self.cells(name), known, name=name, source=self._source)
        return codes, len(self.categories[like])

    def _in_order(self, episode: str) -> Order:
        """Episodes in the order in which they begin, each one's rows by time."""
        ids, source = self._ids, self._source
        begins = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        _, firsts, which = np.unique(ids[begins], return_index=True, return_inverse=True)
        stands_together = len(firsts) == len(begins)
        if "timestep" not in self.chosen:
            if not stands_together:
                again = int(begins[np.setdiff1d(np.arange(len(begins)), firsts)[0]])
                raise DatasetError(
                    f"{source}: column {episode!r}: episode {ids[again]} comes back in row {again + 1} after another one; "
                    "if these rows are one episode, say with timestep= (--timestep) which column orders them"
                )
            return slice(None)
        (name,) = self.chosen["timestep"]
        when = times(self.cells(name), name=name, source=source)
        of_row = np.repeat(np.argsort(np.argsort(firsts))[which], np.diff(begins, append=len(ids)))
        order = np.lexsort((when, of_row))
        same = (of_row[order[1:]] == of_row[order[:-1]]) & (when[order[1:]] == when[order[:-1]])
        if same.any():
            one, two = sorted(order[int(np.argmax(same)) :][:2].tolist())
            raise DatasetError(
                f"{source}: column {name!r}: rows {one + 1} and {two + 1} are one time ({when[one]}) of one episode "
                f"({ids[one]}); give each step its own, or repeated episodes their own {episode!r}"
            )
        return order
