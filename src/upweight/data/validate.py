"""Checks at the door: turn what a user or a file gives into arrays the rest of the package can trust."""

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError, UpweightWarning, WeightingError
from upweight.base.files import strict_json
from upweight.data.columns import Column
from upweight.data.segment import Episodes

NUMERIC_KINDS = "biuf"
_FINITE_BLOCK_BYTES = 1 << 24
_ENDS_LOOKED_AT = 16  # first, for a shifted array; all of them only if it seems one


def check_step_array(shape: tuple[int, ...], dtype: np.dtype, *, key: str, num_steps: int, source: str) -> None:
    """Refuse a field that cannot hold one numeric row per step."""
    if dtype.kind not in NUMERIC_KINDS:
        raise DatasetError(f"{source}: key {key!r}: expected numbers, found dtype {dtype}")
    if len(shape) == 0 or shape[0] != num_steps:
        raise DatasetError(f"{source}: key {key!r}: expected {num_steps} rows (one per step), found shape {shape}")
    if 0 in shape[1:]:
        raise DatasetError(f"{source}: key {key!r}: expected at least one number per step, found shape {shape}")


def as_array(values: Any, *, key: str, source: str) -> NDArray[Any]:
    """``values`` as a numeric array; ragged nestings and objects are refused."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise DatasetError(f"{source}: key {key!r}: expected a rectangular array of numbers ({error})") from None
    if array.dtype.kind not in NUMERIC_KINDS:
        raise DatasetError(f"{source}: key {key!r}: expected numbers, found dtype {array.dtype}")
    return array


def as_vector(values: Any, *, key: str, num_steps: int | None = None, source: str) -> NDArray[Any]:
    """``values`` as an array [M]; a trailing axis of length one, as some files have it, is dropped."""
    array = as_array(values, key=key, source=source)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DatasetError(f"{source}: key {key!r}: expected one number per step, found shape {array.shape}")
    if num_steps is not None and len(array) != num_steps:
        raise DatasetError(f"{source}: key {key!r}: expected {num_steps} rows (one per step), found {len(array)}")
    return array


def as_flags(values: Any, *, key: str, num_steps: int | None = None, source: str) -> NDArray[np.bool_]:
    """``values`` as booleans [M]; numbers are accepted if they are all 0 or 1."""
    array = as_vector(values, key=key, num_steps=num_steps, source=source)
    if array.dtype.kind == "b":
        return array
    flags = array == 1
    if not (flags | (array == 0)).all():
        wrong = ~(flags | (array == 0))
        odd = array[wrong][0]
        empty = f" in {int(wrong.sum()):,} rows; write 0 where a cell is empty" if odd != odd else ""
        raise DatasetError(f"{source}: key {key!r}: expected only 0 and 1 (or booleans), found {odd}{empty}")
    return flags


def as_rewards(values: Any, *, key: str, num_steps: int, source: str) -> NDArray[Any]:
    """``values`` as finite rewards [M]; whole numbers become float64, floats keep their type."""
    rewards = as_vector(values, key=key, num_steps=num_steps, source=source)
    if rewards.dtype.kind != "f":
        rewards = rewards.astype(np.float64)
    check_finite(rewards, key=key, source=source)
    return rewards


def sum_rewards(rewards: NDArray[Any], starts: NDArray[np.int64], *, source: str) -> NDArray[np.float64]:
    r"""[N] :math:`G_i = \sum_t r_{i,t}` of episodes that begin at ``starts``."""
    with np.errstate(over="ignore"):  # reported below
        totals = np.add.reduceat(rewards, starts, dtype=np.float64)
    if not np.isfinite(totals).all():
        raise DatasetError(f"{source}: key 'rewards': the sum over an episode overflows; rescale the rewards")
    return totals


def as_episodes(read: Callable[[str], NDArray[Any]], *, has_next: bool, source: str) -> Episodes:
    """Episodes from a file of ours: ``read(key)`` gives their lengths and flags [N]."""
    lengths = as_vector(read("lengths"), key="lengths", source=source)
    if lengths.dtype.kind not in "iu" or lengths.size == 0 or lengths.min() < 1 or lengths.max() > 1 << 48:
        raise DatasetError(f"{source}: key 'lengths': expected whole numbers of at least 1, one per episode")
    flags = {
        key: as_flags(read(key), key=key, num_steps=len(lengths), source=source)
        for key in ("terminated", "truncated", "complete", "final_known")
    }
    ended = flags["terminated"] | flags["truncated"]
    if (flags["terminated"] & flags["truncated"]).any() or (flags["complete"] & ~ended).any():
        raise DatasetError(f"{source}: the episode flags contradict each other (terminated and truncated, or neither)")
    if not has_next and flags["final_known"].any():
        raise DatasetError(
            f"{source}: missing key 'next_observations', although 'final_known' says that some are known"
        )
    return Episodes(lengths.astype(np.int64), **flags)  # copies in memory: the file may change or go


def check_finite(array: NDArray[Any], *, key: str, source: str) -> None:
    """Refuse NaN and infinity, naming the first row that has one."""
    if array.dtype.kind != "f" or array.size == 0:
        return
    rows_per_block = max(1, _FINITE_BLOCK_BYTES // max(1, array[:1].nbytes))
    for first in range(0, len(array), rows_per_block):
        block = array[first : first + rows_per_block]
        if np.isfinite(block).all():
            continue
        bad = ~np.isfinite(block).reshape(len(block), -1).all(axis=1)
        row = first + int(np.argmax(bad))
        raise DatasetError(
            f"{source}: key {key!r}: expected finite numbers, found NaN or infinity in row {row} "
            f"({int(bad.sum())} such rows nearby); repair or drop the episode"
        )


def check_flags(flags: Column | None, episodes: Episodes, *, source: str) -> None:
    """Refuse stored flags of steps that contradict the flags of their episodes."""
    if flags is not None and not np.array_equal(flags.read(), episodes.flags(0, len(episodes))):
        raise DatasetError(
            f"{source}: flags of steps are not those of their episodes; the file is damaged: pack it again"
        )


def check_columns(
    episodes: Episodes,
    observations: Column,
    actions: Column,
    rewards: Column | None,
    next_observations: Column | None,
    *,
    source: str,
) -> None:
    """Refuse columns that do not fit the episodes or each other."""
    columns = {
        "observations": observations,
        "actions": actions,
        "rewards": rewards,
        "next_observations": next_observations,
    }
    for key, column in columns.items():
        if column is not None:
            check_step_array(column.shape, column.dtype, key=key, num_steps=episodes.num_steps, source=source)
    if next_observations is not None and next_observations.shape != observations.shape:
        raise DatasetError(
            f"{source}: key 'next_observations': expected the shape of the observations {observations.shape}, "
            f"found {next_observations.shape}"
        )
    if next_observations is not None:
        warn_of_shift(episodes, observations, next_observations, source=source)


def warn_of_shift(episodes: Episodes, observations: Column, next_observations: Column, *, source: str) -> None:
    """Warn where next observations are the observations moved up by one row, over the ends of episodes.

    That is: at nine of ten ends :math:`s'_i` is the first observation of episode i + 1. Ends between two episodes with the same
    start tell nothing, and neither do ends in one and the same state: going home is no mistake.
    """

    def at_ends(ends: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.generic], NDArray[np.generic]]:
        after, following = (
            next_observations.rows(episodes.last_steps[ends]),
            observations.rows(episodes.starts[ends + 1]),
        )
        return _rows_equal(after, following), following, observations.rows(episodes.starts[ends])

    ends = np.flatnonzero(episodes.final_known[:-1])
    if len(ends) < 2:
        return
    same, following, start = at_ends(ends[:_ENDS_LOOKED_AT])
    telling = ~_rows_equal(following, start)
    if not same.any() or same[telling].sum() < 0.9 * telling.sum() or (following[same] == following[same][0]).all():
        return
    count = int(at_ends(ends)[0].sum())
    warnings.warn(
        f"{source}: key 'next_observations': at {count} of {len(ends)} episode ends the next observation is the first one of the "
        "following episode, as if the observations had been moved up by one row. Give the observation that really came "
        "after the last step, or leave next_observations out: then nothing is learned from last steps of truncated episodes. "
        "If each episode really goes on where the one before it stopped, they are pieces: join them with join=True (--join)",
        UpweightWarning,
        stacklevel=5,
    )


def _rows_equal(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray((a == b).reshape(len(a), -1).all(axis=1))


def as_metadata(entries: Mapping[str, Any] | None, *, source: str) -> Mapping[str, Any]:
    """A read-only copy of metadata that JSON can express."""
    try:
        metadata = strict_json(dict(entries or {}))
    except (TypeError, ValueError) as error:
        raise DatasetError(f"{source}: expected metadata that can be written as JSON ({error})") from None
    return MappingProxyType(metadata)


def as_labels(labels: Any, *, num_episodes: int, source: str) -> NDArray[np.str_] | None:
    """Provenance labels as an array of strings [N]; None if there are none."""
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.shape != (num_episodes,):
        raise DatasetError(f"{source}: expected {num_episodes} labels (one per episode), found shape {array.shape}")
    array = array.astype(str)
    array.flags.writeable = False
    return array


def as_episode_index(values: Any, *, num_episodes: int, source: str, allow_none: bool = False) -> NDArray[np.int64]:
    """Episode indices from indices or a boolean mask [N]."""
    array = np.asarray(values)
    if array.dtype == bool:
        if array.shape != (num_episodes,):
            raise DatasetError(f"{source}: expected a mask over {num_episodes} episodes, found shape {array.shape}")
        array = np.flatnonzero(array)
    array = np.atleast_1d(array)
    if array.size == 0 and allow_none:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise DatasetError(f"{source}: expected at least one episode, given by whole numbers or a mask [N]")
    array = array.astype(np.int64)
    if array.min() < -num_episodes or array.max() >= num_episodes:
        raise DatasetError(f"{source}: expected episode indices below {num_episodes}, found {array.max()}")
    return array % num_episodes


def as_weights(values: Any, *, count: int, what: str) -> NDArray[np.float64]:
    """A copy of ``values`` as float64 [count]: finite, non-negative, at least one above zero. ``what`` has a weight each."""
    try:
        weights = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise WeightingError(
            f"expected an array of {count} weights, found {values!r:.60}; names are for training and adapters:"
            " give numbers here, or, of episodes, a weighting such as uw.ReturnWeighting(0.1)"
        ) from None
    if weights.shape != (count,):
        raise WeightingError(f"expected {count} weights (one per {what}), found shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise WeightingError("expected finite, non-negative weights with at least one above zero")
    return weights
