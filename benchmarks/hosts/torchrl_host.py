"""TorchRL: the cost of a batch from a replay buffer, and behaviour cloning with its own loss."""

import atexit
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict.nn import TensorDictModule
from torchrl.data import LazyMemmapStorage, RandomSampler, TensorDictReplayBuffer, TensorStorage
from torchrl.data.replay_buffers.samplers import PrioritizedSampler, Sampler
from torchrl.data.replay_buffers.storages import Storage
from torchrl.modules import MLP
from torchrl.objectives import BCLoss

import upweight as uw
from upweight.adapters.torchrl import DatasetStorage, WeightedEpisodeSampler, to_tensordict

SPEED_BATCH, BC_BATCH, LEARNING_RATE = 256, 64, 1e-3


def speed_tasks(dataset: uw.Dataset) -> dict[str, Callable[[], object]]:
    """One batch of 256 from a replay buffer, by sampler and storage: rows in memory, then rows on the disk.

    The prioritized sampler is left out where TorchRL cannot build it.
    """
    rows = to_tensordict(dataset)
    stored = TensorStorage(rows)
    # rw draws from fewer rows, which the processor's caches then hold; those with uniform weights draw from all, as TorchRL's do
    buffers: dict[str, tuple[Storage, Sampler]] = {
        "TorchRL RandomSampler (uniform)": (stored, RandomSampler()),
        "TorchRL WeightedEpisodeSampler (ours)": (stored, WeightedEpisodeSampler(dataset, "rw", seed=0)),
        "TorchRL WeightedEpisodeSampler (ours, uniform weights)": (stored, _uniform(dataset)),
        "TorchRL DatasetStorage (ours, uniform weights)": (DatasetStorage(dataset), _uniform(dataset)),
    }
    try:
        prioritized = {"TorchRL PrioritizedSampler (weighted)": _prioritized(dataset, rows).sample}
    except RuntimeError:  # its compiled trees fit one release of PyTorch
        prioritized = {}
    folder = Path(tempfile.mkdtemp(prefix="upweight-torchrl-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    mapped = LazyMemmapStorage(len(rows), scratch_dir=folder / "torchrl")
    mapped.set(range(len(rows)), rows)
    packed = uw.pack(dataset, folder / "dataset.packed")
    on_disk: dict[str, tuple[Storage, Sampler]] = {
        "TorchRL LazyMemmapStorage (uniform)": (mapped, RandomSampler()),
        "TorchRL DatasetStorage, packed (ours, uniform weights)": (DatasetStorage(packed), _uniform(packed)),
    }
    in_memory, from_disk = (
        {label: _buffer(*parts, SPEED_BATCH).sample for label, parts in each.items()} for each in (buffers, on_disk)
    )
    return {**in_memory, **prioritized, **from_disk}


def packed_batches(folder: Path) -> Callable[[], object]:
    """Weighted batches of a packed folder, by its storage."""
    dataset = uw.load(folder)
    return _buffer(DatasetStorage(dataset), WeightedEpisodeSampler(dataset, "aw", seed=0), SPEED_BATCH).sample


def draw_observations(dataset: uw.Dataset, weighting: str, seed: int) -> Callable[[], NDArray[Any]]:
    """Observations [256, d] of a batch."""
    sampler = WeightedEpisodeSampler(dataset, weighting, seed=seed)
    buffer = _buffer(DatasetStorage(dataset), sampler, SPEED_BATCH)
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
    buffer = _buffer(DatasetStorage(dataset), WeightedEpisodeSampler(dataset, weighting, seed=seed), BC_BATCH)
    for _ in range(updates):
        optimizer.zero_grad()
        loss(buffer.sample())["loss_bc"].backward()
        optimizer.step()

    def act(observations: NDArray[Any]) -> NDArray[np.float32]:
        with torch.no_grad():
            return policy(torch.tensor(observations, dtype=torch.float32)).clamp(-1, 1).numpy()

    return act


def _buffer(storage: Storage, sampler: Sampler, batch_size: int) -> TensorDictReplayBuffer:
    return TensorDictReplayBuffer(storage=storage, sampler=sampler, batch_size=batch_size)


def _uniform(dataset: uw.Dataset) -> WeightedEpisodeSampler:
    return WeightedEpisodeSampler(dataset, "uniform", seed=0)


def _prioritized(dataset: uw.Dataset, rows: Any) -> TensorDictReplayBuffer:
    """TorchRL's own weights, one per row."""
    sampler = PrioritizedSampler(len(rows), alpha=1.0, beta=0.0)
    buffer = _buffer(TensorStorage(rows), sampler, SPEED_BATCH)
    probabilities = uw.EpisodeSampler(dataset, uw.ReturnWeighting()).probabilities()[dataset.trainable]
    buffer.update_priority(torch.arange(len(rows)), torch.as_tensor(probabilities * len(rows)))
    return buffer
