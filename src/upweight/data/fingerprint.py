"""Hashes that tell whether two datasets are the same. Steps are read in blocks, so that data larger than memory have one too."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.data.columns import Column, ShiftedColumn
from upweight.data.dataset import Dataset
from upweight.data.segment import TERMINATED
from upweight.data.validate import check_finite

_BLOCK_BYTES = 1 << 22


def content_hash(dataset: Dataset) -> str:
    """SHA-256 of all numbers of its steps."""
    return _hash(map(_bytes, _blocks(dataset)))


def _blocks(dataset: Dataset) -> Iterator[NDArray[Any]]:
    """Every column of steps, block after block; an ended step counts for ``terminated`` or for ``truncated``."""
    columns = {name: dataset.columns[name] for name in dataset.columns if name != "flags"}
    columns.setdefault("next_observations", ShiftedColumn(columns["observations"], dataset.episodes.last_steps))
    for name in ("observations", "actions", "rewards", "next_observations"):
        if name in columns:
            column = columns[name]
            row_bytes = int(np.prod(column.shape[1:], dtype=object)) * column.dtype.itemsize
            for block in column.blocks(0, len(column), max(1, _BLOCK_BYTES // max(1, row_bytes))):
                check_finite(block, key=name, source=dataset.source)
                yield block
    for low in range(0, dataset.num_steps, _BLOCK_BYTES):
        steps = np.arange(low, min(low + _BLOCK_BYTES, dataset.num_steps))
        yield (dataset.rows("flags", steps) & TERMINATED) != 0
    last_of_truncated = dataset.episodes.last_steps[dataset.episodes.truncated]  # in order
    for low in range(0, dataset.num_steps, _BLOCK_BYTES):
        truncated = np.zeros(min(_BLOCK_BYTES, dataset.num_steps - low), bool)
        first, last = np.searchsorted(last_of_truncated, [low, low + len(truncated)])
        truncated[last_of_truncated[first:last] - low] = True
        yield truncated


def fingerprint(dataset: Dataset) -> str:
    """A short hash of everything that training can see: also how the numbers are shaped, and what is known of the episodes.

    Steps that cannot be learned from, and actions that were never taken, are told apart only where there are any.
    """
    shaped: tuple[Column | NDArray[Any], ...] = (
        dataset.columns["observations"],
        dataset.columns["actions"],
        dataset.lengths,
    )
    described = [f"{array.dtype.str} {array.shape}".encode() for array in shaped]
    episodes = [dataset.lengths, dataset.complete, *([] if dataset.labels is None else [_narrow(dataset.labels)])]
    rewards = str(dataset.columns["rewards"].dtype if dataset.has_rewards else None).encode()
    if (dataset.num_transitions < dataset.lengths).any():
        episodes.append(dataset.num_transitions)
    if dataset.unseen_actions:
        described.append(f"{dataset.num_actions} actions".encode())
    return _hash([content_hash(dataset).encode(), rewards, *described, *map(_bytes, episodes)])[:16]


def _narrow(labels: NDArray[np.str_]) -> NDArray[np.str_]:
    """[N] the same labels in the narrowest type that holds them: a subset keeps the width of the whole."""
    return labels.astype(f"<U{max(1, int(np.char.str_len(labels).max()))}")


def _bytes(array: NDArray[Any]) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _hash(parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
