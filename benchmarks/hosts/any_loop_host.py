"""A loop of one's own: NumPy rows gathered by hand, and ``uw.batches``."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import upweight as uw


def speed_tasks(dataset: uw.Dataset) -> dict[str, Callable[[], object]]:
    rng, trainable = np.random.default_rng(0), np.flatnonzero(dataset.trainable)
    tasks: dict[str, Callable[[], object]] = {
        "NumPy rng.integers and five gathers (uniform)": lambda: dataset.transitions(
            trainable[rng.integers(0, len(trainable), 256)]
        )
    }
    for arrays in ("numpy", "torch", "jax"):
        made = uw.batches(dataset, "rw", 256, arrays=arrays, prefetch=0)
        tasks[f'uw.batches(arrays="{arrays}") (ours)'] = made.__next__
    return tasks


def draw_observations(dataset: uw.Dataset, weighting: str, seed: int) -> Callable[[], NDArray[Any]]:
    """Observations [256, d] of a batch."""
    made = uw.batches(dataset, weighting, 256, seed=seed)
    return lambda: next(made).observations
