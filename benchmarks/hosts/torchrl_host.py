"""TorchRL: the cost of a batch from a replay buffer, and behaviour cloning with its own loss."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict.nn import TensorDictModule
from torchrl.data import RandomSampler, TensorDictReplayBuffer, TensorStorage
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, Sampler
from torchrl.modules import MLP
from torchrl.objectives import BCLoss

import upweight as uw
from upweight.adapters.torchrl import EpisodeWeightedSampler, to_tensordict

SPEED_BATCH, BC_BATCH, LEARNING_RATE = 256, 64, 1e-3


def speed_tasks(dataset: uw.Dataset) -> dict[str, Callable[[], object]]:
    """One batch of 256 from a replay buffer, by sampler. The prioritized one is left out where TorchRL cannot build it."""
    rows = to_tensordict(dataset)
    samplers = {
        "TorchRL RandomSampler (uniform)": RandomSampler(),
        "TorchRL EpisodeWeightedSampler (ours)": EpisodeWeightedSampler(dataset, "rw", seed=0),
        # rw draws from fewer rows, which the processor's caches then hold; this one draws from all, as the first does
        "TorchRL EpisodeWeightedSampler (ours, uniform weights)": EpisodeWeightedSampler(dataset, "uniform", seed=0),
    }
    tasks = {label: _buffer(rows, sampler, SPEED_BATCH).sample for label, sampler in samplers.items()}
    try:
        prioritized = _prioritized(dataset, rows)
    except RuntimeError:  # its compiled trees fit one release of PyTorch
        return tasks
    return {**tasks, "TorchRL PrioritizedSampler (weighted)": prioritized.sample}


def draw_observations(dataset: uw.Dataset, weighting: str, seed: int) -> Callable[[], NDArray[Any]]:
    """Observations [256, d] of a batch."""
    sampler = EpisodeWeightedSampler(dataset, weighting, seed=seed)
    buffer = _buffer(to_tensordict(dataset), sampler, SPEED_BATCH)
    return lambda: buffer.sample()["observation"].numpy()


def train_bc(
    dataset: uw.Dataset, weighting: str, seed: int, updates: int
) -> Callable[[NDArray[Any]], NDArray[np.float32]]:
    """Behaviour cloning by TorchRL's loss; a function from observations [B, obs] to actions [B, act] in [-1, 1]."""
    with torch.random.fork_rng(devices=[]):  # the layers' first weights come from PyTorch's global generator
        torch.manual_seed(seed)
        network = MLP(
            in_features=dataset.observation_shape[0],
            out_features=dataset.action_shape[0],
            num_cells=[64, 64],
            activation_class=torch.nn.ReLU,
        )
    policy = torch.nn.Sequential(network, torch.nn.Tanh())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The name target_actor_network_params")  # TorchRL's, of its own class
        loss = BCLoss(TensorDictModule(policy, in_keys=["observation"], out_keys=["action"]), loss_function="l2")
    optimizer = torch.optim.Adam(loss.parameters(), lr=LEARNING_RATE)
    buffer = _buffer(to_tensordict(dataset), EpisodeWeightedSampler(dataset, weighting, seed=seed), BC_BATCH)
    for _ in range(updates):
        optimizer.zero_grad()
        loss(buffer.sample())["loss_bc"].backward()
        optimizer.step()

    def act(observations: NDArray[Any]) -> NDArray[np.float32]:
        with torch.no_grad():
            return policy(torch.tensor(observations, dtype=torch.float32)).clamp(-1, 1).numpy()

    return act


def _buffer(rows: Any, sampler: Sampler, batch_size: int) -> TensorDictReplayBuffer:
    """A buffer on ``rows`` themselves, so that several of them differ in nothing but the sampler."""
    return TensorDictReplayBuffer(storage=TensorStorage(rows), sampler=sampler, batch_size=batch_size)


def _prioritized(dataset: uw.Dataset, rows: Any) -> TensorDictReplayBuffer:
    """TorchRL's own weights, one per row."""
    sampler = PrioritizedSampler(len(rows), alpha=1.0, beta=0.0)
    buffer = _buffer(rows, sampler, SPEED_BATCH)
    probabilities = uw.EpisodeSampler(dataset, uw.ReturnWeighting()).probabilities()[dataset.trainable]
    buffer.update_priority(torch.arange(len(rows)), torch.as_tensor(probabilities * len(rows)))
    return buffer
