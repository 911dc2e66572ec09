"""Minari: batches of a dataset that it stores."""

import os
import tempfile
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

import upweight as uw
from upweight.adapters.minari import as_dataset, episode_weights, export_mix


def draw_observations(dataset: uw.Dataset, weighting: str, seed: int) -> Callable[[], NDArray[Any]]:
    """Observations [256, d] of a batch, with weights from Minari's metadata."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = folder
        stored = export_mix(dataset, "benchmark/mixed-v0")
        made = uw.batches(as_dataset(stored), episode_weights(stored, weighting), 256, seed=seed, prefetch=0)
        next(made)  # reads the arrays while they are there
    return lambda: next(made).observations
