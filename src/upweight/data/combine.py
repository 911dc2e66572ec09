"""Lay datasets one after the other."""

from collections.abc import Sequence

import numpy as np

from upweight.base.errors import DatasetError
from upweight.data.columns import Column, ConcatenatedColumn, ShiftedColumn
from upweight.data.dataset import Dataset
from upweight.data.segment import join


def concat(datasets: Sequence[Dataset], *, source: str | None = None) -> Dataset:
    """One dataset with the episodes of all, in order. Labels are kept if every part has them."""
    if not datasets:
        raise DatasetError("concat: expected at least one dataset, found none")
    first = datasets[0]
    for other in datasets[1:]:
        for what in ("observation_shape", "action_shape", "discrete_actions", "has_rewards"):
            if getattr(other, what) != getattr(first, what):
                raise DatasetError(
                    f"cannot join {first.source!r} and {other.source!r}: expected the same {what}, "
                    f"found {getattr(first, what)} and {getattr(other, what)}"
                )
    numbers = {dataset.num_actions for dataset in datasets if dataset.num_actions is not None}
    if len(numbers) > 1:
        raise DatasetError(f"cannot join datasets of different num_actions: found {sorted(numbers)}")
    labelled = all(dataset.labels is not None for dataset in datasets)
    return Dataset.assemble(
        episodes=join([dataset.episodes for dataset in datasets]),
        observations=_joined([dataset._observations for dataset in datasets]),
        actions=_joined([dataset._actions for dataset in datasets]),
        rewards=_joined([dataset._rewards for dataset in datasets if dataset._rewards is not None])
        if first.has_rewards
        else None,
        next_observations=_next_observations(datasets),
        returns=np.concatenate([dataset.returns for dataset in datasets])
        if any(dataset._returns is not None for dataset in datasets)
        else None,
        labels=np.concatenate([dataset.labels for dataset in datasets if dataset.labels is not None])
        if labelled
        else None,
        num_actions=next(iter(numbers), None),
        source=source or " + ".join(dict.fromkeys(dataset.source for dataset in datasets)),
    )


def _joined(columns: Sequence[Column]) -> Column:
    return columns[0] if len(columns) == 1 else ConcatenatedColumn(columns)


def _next_observations(datasets: Sequence[Dataset]) -> Column | None:
    """None if no part has its own; otherwise parts without are filled by shifting their observations."""
    if all(dataset._next_observations is None for dataset in datasets):
        return None
    return _joined(
        [
            ShiftedColumn(dataset._observations, dataset.episodes.last_steps)
            if dataset._next_observations is None
            else dataset._next_observations
            for dataset in datasets
        ]
    )
