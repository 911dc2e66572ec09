"""Hashes that tell whether two datasets are the same."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.data.dataset import Dataset


def content_hash(dataset: Dataset) -> str:
    """SHA-256 of all numbers of its steps."""
    arrays: list[NDArray[Any]] = [dataset.observations, dataset.actions]
    if dataset.has_rewards:
        arrays.append(dataset.rewards)
    arrays += [dataset.next_observations, dataset.terminated, dataset.truncated]
    return _hash(*map(_bytes, arrays))


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
    return _hash(content_hash(dataset).encode(), rewards, *about, *map(_bytes, episodes))[:16]


def _bytes(array: NDArray[Any]) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _hash(*parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()
