"""Plain PyTorch: the cost of a batch from a DataLoader over tensors in memory, without worker processes."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

import upweight as uw
from upweight.adapters.pytorch import WeightedBatchSampler, WeightedTransitions

BATCH = 256


def speed_tasks(dataset: uw.Dataset) -> dict[str, Callable[[], object]]:
    """One batch of 256 of all columns. PyTorch's samplers draw an epoch of M indices when it begins, which is seldom timed."""
    steps = _tensors(dataset)
    weights = uw.EpisodeSampler(dataset, uw.ReturnWeighting()).probabilities()  # [M]
    count = dataset.num_steps
    uniform = RandomSampler(steps, replacement=True, num_samples=count, generator=torch.Generator().manual_seed(0))
    weighted = WeightedRandomSampler(weights, count, generator=torch.Generator().manual_seed(0))
    ours = WeightedBatchSampler(dataset, "rw", BATCH, seed=0)
    loaders: dict[str, DataLoader[Any]] = {
        "PyTorch RandomSampler (uniform)": DataLoader(steps, sampler=uniform, batch_size=BATCH, drop_last=True),
        "PyTorch WeightedRandomSampler (weighted)": DataLoader(
            steps, sampler=weighted, batch_size=BATCH, drop_last=True
        ),
        "PyTorch WeightedBatchSampler (ours)": DataLoader(steps, sampler=ours, batch_size=None),
        "PyTorch WeightedTransitions (ours)": DataLoader(
            WeightedTransitions(dataset, "rw", BATCH, seed=0), batch_size=None
        ),
    }
    return {label: _endless(loader).__next__ for label, loader in loaders.items()}


def draw_observations(dataset: uw.Dataset, weighting: str, seed: int) -> Callable[[], NDArray[Any]]:
    """Observations [256, d] of a batch."""
    batches = iter(DataLoader(WeightedTransitions(dataset, weighting, BATCH, seed=seed), batch_size=None))
    return lambda: next(batches)["observations"].numpy()


def _tensors(dataset: uw.Dataset) -> TensorDataset:
    """All logged steps, one row each, as a user would keep them."""
    columns = (
        dataset.observations,
        dataset.actions,
        dataset.rewards,
        dataset.next_observations,
        dataset.terminated,
    )
    return TensorDataset(*(torch.tensor(column) for column in columns))


def _endless(loader: DataLoader[Any]) -> Iterator[Any]:
    while True:
        yield from loader
