"""Checks at the door: turn what a user or a file gives into arrays the rest of the package can trust."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError, WeightingError

NUMERIC_KINDS = "biuf"
_FINITE_BLOCK_BYTES = 1 << 24


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
        odd = array[~(flags | (array == 0))][0]
        raise DatasetError(f"{source}: key {key!r}: expected only 0 and 1 (or booleans), found {odd}")
    return flags


def as_rewards(values: Any, *, key: str, num_steps: int, source: str) -> NDArray[Any]:
    """``values`` as finite rewards [M]; whole numbers become float64, floats keep their type."""
    rewards = as_vector(values, key=key, num_steps=num_steps, source=source)
    if rewards.dtype.kind != "f":
        rewards = rewards.astype(np.float64)
    check_finite(rewards, key=key, source=source)
    return rewards


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


def as_weights(values: Any, *, count: int, what: str) -> NDArray[np.float64]:
    """``values`` as float64 [count]: finite, non-negative, at least one above zero. ``what`` has a weight each."""
    try:
        weights = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise WeightingError(f"expected an array of {count} weights, found {type(values).__name__}") from None
    if weights.shape != (count,):
        raise WeightingError(f"expected {count} weights (one per {what}), found shape {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise WeightingError("expected finite, non-negative weights with at least one above zero")
    return weights
