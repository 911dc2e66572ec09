"""Arrays that people give: flat ones with flags, or episodes one by one; and the names that they give to them.

Hand-made lists, imitation's, and those that Decision Transformer trains on come in through :func:`from_episodes`.
"""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError, UpweightWarning
from upweight.data.columns import ArrayColumn, Column
from upweight.data.endings import as_time_limits
from upweight.data.segment import Episodes, segment
from upweight.data.validate import as_array, as_flags, as_vector, check_step_array

# In order of preference: robot logs have both ``obs`` and the simulator's ``states``.
NAMES = {
    "observations": ("observations", "obs", "states", "observation", "state"),
    "actions": ("actions", "acts", "action"),
    "rewards": ("rewards", "rews", "reward"),
    "next_observations": ("next_observations", "next_obs", "new_obs", "next_states", "next_observation"),
    "terminated": ("terminated", "terminateds", "terminations", "terminals", "terminal"),
    "truncated": ("truncated", "truncateds", "truncations", "timeouts"),
    "done": ("dones", "done"),
}
ENDS = ("terminated", "truncated")
Flag = np.bool_ | NDArray[np.bool_]


def find_names(present: Iterable[str]) -> dict[str, str]:
    """Which of the names that are ``present`` stands for what."""
    names = set(present)
    found = {part: next((name for name in usual if name in names), None) for part, usual in NAMES.items()}
    return {part: name for part, name in found.items() if name is not None}


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
) -> dict[str, Any]:
    """Keyword arguments of ``Dataset.assemble``: flat arrays, cut into episodes at their flags."""
    ended = as_flags(terminated, key="terminated", source=source)
    cut = None if truncated is None else as_flags(truncated, key="truncated", num_steps=len(ended), source=source)
    episodes = segment(ended, cut, next_known=next_observations is not None, source=source)
    if complete is not None:
        whole = as_flags(complete, key="complete", num_steps=len(episodes), source=source)
        episodes = replace(episodes, complete=episodes.complete & whole)
    if final_known is not None:
        known = as_flags(final_known, key="final_known", num_steps=len(episodes), source=source)
        episodes = replace(episodes, final_known=episodes.final_known & known)
    given = {"observations": observations, "actions": actions, "next_observations": next_observations}
    columns = {
        key: values
        if values is None or isinstance(values, Column)
        else ArrayColumn(np.array(as_array(values, key=key, source=source)))  # a copy: the caller may change theirs
        for key, values in given.items()
    }
    rewards = None if rewards is None else np.array(as_vector(rewards, key="rewards", source=source))
    return {"episodes": episodes, "rewards": rewards, **columns}


def from_episodes(
    episodes: Iterable[Mapping[str, Any]], *, ends: str | None = None, source: str = "dataset"
) -> dict[str, Any]:
    """Keyword arguments of ``Dataset.assemble``; see :meth:`upweight.Dataset.from_episodes`."""
    given = [_episode(each, f"{source}: episode {number}") for number, each in enumerate(episodes)]
    if not given:
        raise DatasetError(f"{source}: expected at least one episode, found none")
    for key in ("rewards", "label"):
        if 0 < sum(each[key] is None for each in given) < len(given):
            raise DatasetError(f"{source}: expected {key!r} in every episode or in none")
    silent = [each for each in given if each["terminated"] is None and each["done"] is None and not each["truncated"]]
    if ends is None and silent:
        warn_of_ends(len(silent), source)
    terminated, truncated = np.array(
        [how_ended(each["terminated"], each["truncated"], each["done"], ends, source) for each in given]
    ).T
    known = np.array([each["next"] is not None for each in given])
    lengths = np.array([len(each["actions"]) for each in given], np.int64)
    complete = (terminated | truncated) & np.array([each["complete"] for each in given])
    ended = Episodes(lengths, terminated, truncated, complete, known)

    def join(key: str) -> NDArray[Any]:
        shapes = {each[key].shape[1:] for each in given}
        if len(shapes) > 1:
            raise DatasetError(f"{source}: key {key!r}: expected one shape in all episodes, found {sorted(shapes)}")
        return np.concatenate([each[key] for each in given])

    observations = join("observations")
    if known.any():
        for each in given:
            if each["next"] is None:
                each["next"] = np.concatenate([each["observations"][1:], each["observations"][-1:]])
    return {
        "episodes": as_time_limits(ended, source=source) if ends == "truncated" else ended,
        "observations": ArrayColumn(observations),
        "actions": ArrayColumn(join("actions")),
        "rewards": None if given[0]["rewards"] is None else join("rewards"),
        "next_observations": ArrayColumn(join("next")) if known.any() else None,
        "labels": None if given[0]["label"] is None else [each["label"] for each in given],
    }


def how_ended(
    terminated: Flag | None, truncated: Flag | None, done: Flag | None, ends: str | None, source: str
) -> tuple[Flag, Flag]:
    """Whether an episode (or each of N) terminated, or was truncated; ``ends`` says what it is where no flag does.

    ``done`` is the older word for either: it terminated unless it is said to be truncated.
    """
    if ends is not None and ends not in ENDS:
        raise DatasetError(f"{source}: ends: expected {' or '.join(map(repr, ENDS))}, found {ends!r}")
    if terminated is None and done is not None:
        terminated = done if truncated is None else done & ~truncated
    if terminated is None:
        cut = np.bool_(ends == "truncated") if truncated is None else truncated
        return ~cut, cut
    return terminated, ~terminated if truncated is None else truncated & ~terminated


def warn_of_ends(count: int, source: str) -> None:
    """Say what was assumed of ``count`` episodes."""
    warnings.warn(
        f"{source}: nothing says how {count:,} episodes ended ('terminated', 'terminals' or 'dones'), so they are taken as "
        "terminated: nothing comes after the last step. If so, say ends='terminated' (--ends terminated); if the recording only "
        "stopped there, ends='truncated'",
        UpweightWarning,
        stacklevel=4,
    )


def _episode(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The checked parts of one episode of T steps; those that are absent are None."""
    if not isinstance(given, Mapping):
        raise DatasetError(
            f"{where}: expected a mapping of arrays (observations, actions, rewards, ...), found {type(given).__name__}; "
            "vars() makes one of an object"
        )
    names = find_names(given)
    for part in ("observations", "actions"):
        if part not in names:
            found = ", ".join(map(str, given)) or "nothing"
            raise DatasetError(f"{where}: missing key {part!r} (or {', '.join(NAMES[part][1:])}); it has {found}")
    rewards = as_vector(given[names["rewards"]], key=names["rewards"], source=where) if "rewards" in names else None
    arrays = {
        part: as_array(given[name], key=name, source=where)
        for part, name in names.items()
        if part in {"observations", "actions", "next_observations"}
    }
    length = len(np.atleast_1d(arrays["actions"])) if rewards is None else len(rewards)
    if length == 0:
        raise DatasetError(
            f"{where}: key {names.get('rewards', names['actions'])!r}: expected at least one step, found none"
        )
    observations = arrays["observations"]
    has_final = observations.ndim > 0 and len(observations) == length + 1
    for part, array in arrays.items():
        rows = length + (has_final and part == "observations")  # T, or T + 1 observations
        check_step_array(array.shape, array.dtype, key=names[part], num_steps=rows, source=where)
    flags = {
        part: _end_flag(given[names[part]], names[part], length, where) if part in names else None
        for part in ("terminated", "truncated", "done")
    }
    return {
        "observations": observations[:length],
        "next": arrays.get("next_observations", observations[1:] if has_final else None),
        "actions": arrays["actions"],
        "rewards": rewards,
        **flags,
        "complete": bool(given.get("complete", True)),
        "label": given.get("label"),
    }


def _end_flag(value: Any, key: str, length: int, source: str) -> np.bool_:
    """One flag for the episode, or [T] flags of which only the last may be set."""
    if np.ndim(value) == 0:
        return np.bool_(value)
    flags = as_flags(value, key=key, num_steps=length, source=source)
    if flags[:-1].any():
        raise DatasetError(
            f"{source}: key {key!r}: step {int(np.argmax(flags))} of {length} is flagged, but is not the last"
        )
    return np.bool_(flags[-1])
