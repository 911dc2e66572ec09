"""PyTorch: whole batches of step indices for a `DataLoader`, or whole batches of transitions as an `IterableDataset`.

Batches come from streams of random numbers, a new one for every epoch of every process::

    SeedSequence(seed, spawn_key=(rank, 0, epoch))            the training process itself
    SeedSequence(seed, spawn_key=(rank, 1 + worker, epoch))   a worker process of a DataLoader

An actor with weights of its own has streams of its own: a number more at the end. Draws are independent and with replacement, so
ranks and workers need not divide the steps among them for batches to be right.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.adapters.draws import (
    Draws,
    GivenWeighting,
    Pair,
    checked_seed,
    episode_weights,
    for_each_learner,
    one_or_pair,
)
from upweight.adapters.host import imports_from
from upweight.adapters.torch_states import as_arrays, as_tensors
from upweight.base.checks import whole_number
from upweight.base.errors import AdapterError
from upweight.data.given import AnyDataset, as_dataset
from upweight.samplers.episode import EpisodeSampler

with imports_from("torch", extra="torch", oldest="2.3", below="3"):
    import torch
    from torch.utils.data import IterableDataset, Sampler, get_worker_info

MOST_WORKERS = 1024  # of one DataLoader; a number for each is kept
_whole_number = partial(whole_number, error=AdapterError)


class WeightedBatchSampler(Sampler[torch.Tensor]):
    r"""Step indices [batch_size], step t of episode i having probability :math:`w_i / \sum_j w_j T_j`.

    For ``DataLoader(steps, sampler=WeightedBatchSampler(...), batch_size=None)``, where ``steps[index]`` takes an index tensor,
    as `TensorDataset` does, and has one row per logged step. An epoch has ``num_batches`` batches; without it, it never ends.
    ``rank`` is that of `torch.distributed` (0 without it) unless given; all ranks give the same ``seed``. With an
    ``actor_weighting``, indices are [2, batch_size], the critics' and the actor's: ``critic, actor = index``.
    """

    def __init__(
        self,
        dataset: AnyDataset,
        weighting: GivenWeighting,
        batch_size: int,
        *,
        actor_weighting: GivenWeighting | None = None,
        seed: int = 0,
        num_batches: int | None = None,
        rank: int | None = None,
    ) -> None:
        known = as_dataset(dataset)

        def sampler(given: GivenWeighting) -> EpisodeSampler:
            return EpisodeSampler(known, episode_weights(known, given))

        self._setup(one_or_pair(sampler, weighting, actor_weighting), batch_size, seed, num_batches, rank)

    @classmethod
    def from_lengths(
        cls,
        lengths: ArrayLike,
        weights: ArrayLike,
        batch_size: int,
        *,
        seed: int = 0,
        num_batches: int | None = None,
        rank: int | None = None,
    ) -> "WeightedBatchSampler":
        """For steps kept elsewhere: episodes of ``lengths`` [N] steps, one after the other, all to be learned from."""
        batches = cls.__new__(cls)
        batches._setup(EpisodeSampler.from_lengths(lengths, weights), batch_size, seed, num_batches, rank)
        return batches

    def _setup(
        self,
        sampler: EpisodeSampler | Pair[EpisodeSampler],
        batch_size: int,
        seed: int,
        num_batches: int | None,
        rank: int | None,
    ) -> None:
        self._sampler = sampler
        self.batch_size = _whole_number("batch_size", batch_size, least=1)
        self.num_batches = None if num_batches is None else _whole_number("num_batches", num_batches, least=1)
        self.rank = _distributed_rank() if rank is None else _whole_number("rank", rank, least=0)
        self._seed = checked_seed(seed)
        self._epoch = 0  # the one that is under way, or comes next if its position is 0
        self._position = self._began = 0  # batches drawn in it: so far, and before the loop that is under way
        self._resumed = False

    def __iter__(self) -> Iterator[torch.Tensor]:
        """The next epoch, or what was left of it when the state was saved."""
        if self._position > 0 and not self._resumed:
            self._epoch, self._position = self._epoch + 1, 0
        self._resumed = False
        self._began = self._position
        for rows in islice(self.stream(0, self._epoch), self._position, self.num_batches):
            self._position += 1
            yield torch.from_numpy(rows)

    def __len__(self) -> int:
        """Batches per epoch."""
        if self.num_batches is None:
            raise TypeError("these batches never end: give num_batches, the length of an epoch")
        return self.num_batches

    def stream(self, worker: int, epoch: int) -> Iterator[NDArray[np.int64]]:
        """Batches of step indices, [batch_size] or [2, batch_size], without end: determined by seed, rank and arguments."""
        draws = Draws(self._sampler, self._seed, (self.rank, worker, epoch))
        while True:
            yield draws.rows(self.batch_size)

    def state_dict(self, *, batches_seen: int | None = None) -> dict[str, Any]:
        """Episodes, weights, seed and the place in the stream, as tensors and numbers; the same on every rank.

        A DataLoader with worker processes draws ahead of the loop over it, which nobody sees from here. ``batches_seen``, the
        number of batches that this loop has had, is where the state goes on then; without it, after the last batch drawn.
        """
        position = self._position
        if batches_seen is not None:
            position = self._began + _whole_number("batches_seen", batches_seen, least=0)
        if position > self._position:
            raise AdapterError(
                f"expected batches_seen of the loop that is under way, in which {self._position - self._began} batches were "
                f"drawn, found {batches_seen}"
            )
        ended = position == self.num_batches
        return {
            **as_tensors(Draws(self._sampler, self._seed).weights_state()),
            "seed": self._seed,
            "epoch": self._epoch + ended,
            "position": 0 if ended else position,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called: the next epoch is what was left of that one."""
        draws = Draws(self._sampler, self._seed)
        draws.load_state_dict(as_arrays(state))  # refuses other episodes
        self._sampler = draws.sampler
        self._seed = checked_seed(state["seed"])
        self._epoch = _whole_number("epoch", state["epoch"], least=0)
        self._position = self._began = _whole_number("position", state["position"], least=0)
        self._resumed = True


class WeightedTransitions(IterableDataset[Any]):
    """Batches of transitions as tensors: observations, actions, rewards, next_observations, terminated.

    For ``DataLoader(WeightedTransitions(...), batch_size=None, num_workers=...)``. With workers, an epoch still has
    ``num_batches`` batches in all, every epoch draws afresh, and the same seed and number of workers give the same batches. With
    an ``actor_weighting``, every batch is two: ``critic, actor = batch``.
    """

    def __init__(
        self,
        dataset: AnyDataset,
        weighting: GivenWeighting,
        batch_size: int,
        *,
        actor_weighting: GivenWeighting | None = None,
        seed: int = 0,
        num_batches: int | None = None,
        rank: int | None = None,
    ) -> None:
        self._dataset = as_dataset(dataset)
        self._batches = WeightedBatchSampler(
            self._dataset,
            weighting,
            batch_size,
            actor_weighting=actor_weighting,
            seed=seed,
            num_batches=num_batches,
            rank=rank,
        )
        # Epochs that each worker has begun. A DataLoader makes new workers for every epoch, each from a copy of this object:
        # what they count must outlive them, so it lies in shared memory.
        self._begun = torch.zeros(MOST_WORKERS, dtype=torch.int64).share_memory_()

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        index = self._batches if worker is None else self._share_of(worker.id, worker.num_workers)
        return (for_each_learner(rows.numpy(), self._look_up, _as_batch) for rows in index)

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self._batches)

    def state_dict(self) -> dict[str, Any]:
        """Where the draws are: to the batch without worker processes, to the epoch with them."""
        return {**self._batches.state_dict(), "begun": self._begun.clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called."""
        self._batches.load_state_dict(state)
        self._begun.copy_(state["begun"])

    def _share_of(self, worker: int, workers: int) -> Iterator[torch.Tensor]:
        """What one of the worker processes adds to this epoch: every ``workers``-th batch, as the loader takes turns."""
        epoch = int(self._begun[worker])
        self._begun[worker] += 1
        total = self._batches.num_batches
        share = None if total is None else len(range(worker, total, workers))
        return map(torch.from_numpy, islice(self._batches.stream(1 + worker, epoch), share))

    def _look_up(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        return self._dataset.transitions(rows)._asdict()


def _as_batch(_: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(column) for name, column in columns.items()}


def _distributed_rank() -> int:
    """0 if there is no process group."""
    distributed = torch.distributed
    return int(distributed.get_rank()) if distributed.is_available() and distributed.is_initialized() else 0
