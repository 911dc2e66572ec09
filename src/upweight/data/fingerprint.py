"""Hashes that tell whether two datasets are the same."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.data.columns import ShiftedColumn
from upweight.data.dataset import Dataset

_PIECE_BYTES = 1 << 22


def content_hash(dataset: Dataset) -> str:
    """SHA-256 of all numbers of its steps."""
    return _hash(map(_bytes, _arrays(dataset)))


def _arrays(dataset: Dataset) -> Iterator[NDArray[Any]]:
    """Every array of steps; next observations that are not stored some rows at a time, without ever building them all."""
    yield dataset.observations
    yield dataset.actions
    if dataset.has_rewards:
        yield dataset.rewards
    if dataset._next_observations is not None:
        yield dataset.next_observations
    else:
        size = max(1, _PIECE_BYTES * dataset.num_steps // max(1, dataset.observations.nbytes))
        following = ShiftedColumn(dataset._observations, dataset.episodes.last_steps)
        yield from following.blocks(0, dataset.num_steps, size)
    yield dataset.terminated
    yield dataset.truncated


def fingerprint(dataset: Dataset) -> str:
    """A short hash of everything that training can see: also how the numbers are shaped, and what is known of the episodes.

    Steps that cannot be learned from, and actions that were never taken, are told apart only where there are any.
    """
    shapes = [dataset.observations, dataset.actions, dataset.lengths]
    about = [f"{array.dtype.str} {array.shape}".encode() for array in shapes]
    episodes = [dataset.lengths, dataset.complete, *([] if dataset.labels is None else [dataset.labels])]
    rewards = str(dataset.rewards.dtype if dataset.has_rewards else None).encode()
    if not dataset.trainable.all():
        episodes.append(dataset.num_transitions)
    if dataset.unseen_actions:
        about.append(f"{dataset.num_actions} actions".encode())
    return _hash([content_hash(dataset).encode(), rewards, *about, *map(_bytes, episodes)])[:16]


def _bytes(array: NDArray[Any]) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _hash(parts: Iterable[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
