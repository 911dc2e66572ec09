"""d3rlpy: time per batch beside its own replay buffer, and behaviour cloning with its own BC."""

import logging
from collections.abc import Callable

import d3rlpy
import numpy as np
import structlog
import torch
from d3rlpy.dataset import InfiniteBuffer, MultiStepTransitionPicker, ReplayBuffer
from numpy.typing import NDArray

import upweight as uw
from upweight.adapters.d3rlpy import WeightedReplayBuffer

BATCH = 256
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))  # d3rlpy's log of every step


def speed_tasks(dataset: uw.Dataset) -> dict[str, Callable[[], object]]:
    """Draw a batch of 256; d3rlpy has no weighted sampling of its own. ``multi-step`` shows the cost without gathering."""
    weighted = WeightedReplayBuffer(dataset, "rw")
    uniform = ReplayBuffer(InfiniteBuffer(), episodes=weighted.episodes)
    picker = MultiStepTransitionPicker(n_steps=3, gamma=0.99)
    uniform_multi_step = ReplayBuffer(InfiniteBuffer(), episodes=weighted.episodes, transition_picker=picker)
    weighted_multi_step = WeightedReplayBuffer(dataset, "rw", transition_picker=picker)
    return {
        "d3rlpy ReplayBuffer (uniform)": lambda: uniform.sample_transition_batch(BATCH),
        "d3rlpy WeightedReplayBuffer (ours)": lambda: weighted.sample_transition_batch(BATCH),
        "d3rlpy ReplayBuffer, multi-step (uniform)": lambda: uniform_multi_step.sample_transition_batch(BATCH),
        "d3rlpy WeightedReplayBuffer, multi-step (ours)": lambda: weighted_multi_step.sample_transition_batch(BATCH),
    }


def draw_observations(dataset: uw.Dataset, weighting: str, seed: int) -> Callable[[], NDArray[np.float32]]:
    """Observations [256, d] of a batch."""
    buffer = WeightedReplayBuffer(dataset, weighting, seed=seed)
    return lambda: buffer.sample_transition_batch(BATCH).observations


def train_bc(
    dataset: uw.Dataset, weighting: str, seed: int, updates: int
) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Deterministic behaviour cloning, two hidden layers of 64, batch 64; returns observations [B, d] -> actions [B, A]."""
    d3rlpy.seed(seed)
    torch.set_num_threads(1)
    config = d3rlpy.algos.BCConfig(
        batch_size=64, encoder_factory=d3rlpy.models.VectorEncoderFactory(hidden_units=[64, 64])
    )
    algorithm = config.create(device="cpu")
    algorithm.fit(
        WeightedReplayBuffer(dataset, weighting, seed=seed),
        n_steps=updates,
        n_steps_per_epoch=updates,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
    )
    return lambda observations: np.clip(algorithm.predict(np.asarray(observations, np.float32)), -1.0, 1.0)
