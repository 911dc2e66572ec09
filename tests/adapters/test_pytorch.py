"""PyTorch: batches of indices for a DataLoader, and transitions from several workers and ranks."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp
from numpy.typing import NDArray
from scipy.stats import chisquare
from torch.utils.data import DataLoader, TensorDataset

import upweight as uw
from support.adapters import Adapted, check_actor_apart, check_adapter, numbered_dataset, steps_of
from support.datasets import rows_only
from upweight.adapters.pytorch import MOST_WORKERS, WeightedBatchSampler, WeightedTransitions

# Workers come from a server process without threads: forking the test process, in which other libraries have theirs, may hang.
PROCESSES = mp.get_context("forkserver")
PROCESSES.set_forkserver_preload(["pytest", "upweight.adapters.pytorch"])
WEIGHTS = np.random.default_rng(1).random(20) ** 2


def transitions(*, seed: int = 0, **options: Any) -> WeightedTransitions:
    return WeightedTransitions(numbered_dataset(), WEIGHTS, 16, seed=seed, **options)


def drawn(batches: Any, count: int | None = None) -> NDArray[np.int64]:
    """[count, batch size] the steps of batches of transitions."""
    return np.stack([steps_of(batch["observations"]) for batch in islice(batches, count)])


def two_workers(batches: WeightedTransitions, **options: Any) -> DataLoader[Any]:
    return DataLoader(batches, batch_size=None, num_workers=2, multiprocessing_context=PROCESSES, **options)


# ---- the contract ---------------------------------------------------------------------------------------------------
def test_index_batches() -> None:
    def make(dataset: uw.Dataset, weights: NDArray[np.float64], seed: int) -> Adapted:
        batches = WeightedBatchSampler(dataset, weights, 256, seed=seed)
        steps = TensorDataset(torch.tensor(dataset.observations))
        return adapted(batches, DataLoader(steps, sampler=batches, batch_size=None), lambda batch: batch[0])

    check_adapter(make, numbered_dataset())


@pytest.mark.parametrize("discrete", [False, True])
def test_transition_batches(discrete: bool) -> None:
    def make(dataset: uw.Dataset, weights: NDArray[np.float64], seed: int) -> Adapted:
        batches = WeightedTransitions(rows_only(dataset), weights, 256, seed=seed)  # nothing is read as a whole
        return adapted(batches, DataLoader(batches, batch_size=None), lambda batch: batch["observations"])

    check_adapter(make, numbered_dataset(discrete=discrete))


@pytest.mark.parametrize("looked_up", [False, True])
def test_an_actor_apart(looked_up: bool) -> None:
    def make(dataset: uw.Dataset, weighting: Any, actor_weighting: Any, seed: int) -> Adapted:
        kind = WeightedTransitions if looked_up else WeightedBatchSampler
        batches = kind(dataset, weighting, 256, actor_weighting=actor_weighting, seed=seed)
        if not looked_up:
            steps = TensorDataset(torch.tensor(dataset.observations))
            return adapted(batches, DataLoader(steps, sampler=batches, batch_size=None), itemgetter(0))
        loader = DataLoader(batches, batch_size=None)
        if actor_weighting is None:
            return adapted(batches, loader, itemgetter("observations"))
        return adapted(batches, loader, lambda batch: np.stack([part["observations"] for part in batch]))

    check_actor_apart(make, numbered_dataset())


def adapted(batches: Any, loader: DataLoader[Any], observations: Any) -> Adapted:
    """An adapter whose batches have 256 rows, as the contract draws them."""
    iterator: list[Iterator[Any]] = [iter(loader)]

    def restore(state: Any) -> None:
        batches.load_state_dict(state)
        iterator[0] = iter(loader)

    return Adapted(lambda _: steps_of(observations(next(iterator[0]))), batches.state_dict, restore)


def test_a_batch_holds_the_transitions_of_its_steps() -> None:
    dataset = numbered_dataset()
    batch = next(iter(WeightedTransitions(dataset, "rw", 64, seed=0)))
    expected = dataset.transitions(steps_of(batch["observations"]))
    assert list(batch) == list(expected._fields)
    for name, array in expected._asdict().items():
        np.testing.assert_array_equal(batch[name].numpy(), array)


# ---- epochs and states ----------------------------------------------------------------------------------------------
def test_epochs_have_a_length_and_differ() -> None:
    batches = WeightedBatchSampler(numbered_dataset(), "rw", 8, seed=0, num_batches=5)
    first, second = torch.stack(list(batches)), torch.stack(list(batches))
    assert len(batches) == 5 and first.shape == second.shape == (5, 8)
    assert (first != second).any()


def test_without_a_length_batches_never_end() -> None:
    batches = transitions()
    with pytest.raises(TypeError, match="give num_batches"):
        len(batches)
    assert drawn(batches, 300).shape == (300, 16)


@pytest.mark.parametrize("used", [0, 2, 5, 7])
def test_a_saved_state_goes_on_within_the_epoch(used: int) -> None:
    def endless(batches: WeightedTransitions) -> Iterator[dict[str, torch.Tensor]]:
        while True:
            yield from batches

    batches = transitions(num_batches=5)
    stream = endless(batches)
    for _ in range(used):
        next(stream)
    file = io.BytesIO()
    torch.save(batches.state_dict(), file)
    following = drawn(stream, 7)
    file.seek(0)
    other = transitions(seed=9, num_batches=5)
    other.load_state_dict(torch.load(file, weights_only=True))
    np.testing.assert_array_equal(drawn(endless(other), 7), following)


@pytest.mark.slow
def test_a_state_goes_on_after_the_batches_seen_however_many_were_drawn_ahead() -> None:
    dataset = numbered_dataset()

    def sampler() -> WeightedBatchSampler:
        return WeightedBatchSampler(dataset, WEIGHTS, 16, seed=0, num_batches=12)

    def loader(batches: WeightedBatchSampler) -> DataLoader[Any]:
        steps = TensorDataset(torch.tensor(dataset.observations))
        ahead: dict[str, Any] = {"num_workers": 2, "prefetch_factor": 3, "multiprocessing_context": PROCESSES}
        return DataLoader(steps, sampler=batches, batch_size=None, **ahead)

    def seen_steps(loaded: Any, count: int | None = None) -> list[list[int]]:
        return [steps_of(batch[0]).tolist() for batch in islice(loaded, count)]

    expected = [index.tolist() for epoch in [sampler()] for _ in range(2) for index in epoch]
    batches = sampler()
    loop = iter(loader(batches))
    assert seen_steps(loop, 3) == expected[:3]
    assert batches.state_dict()["position"] > 3  # what the loader has drawn ahead is not told apart
    state = batches.state_dict(batches_seen=3)
    assert seen_steps(loop) == expected[3:12]
    assert batches.state_dict(batches_seen=12)["position"] == 0  # of the next epoch

    resumed = sampler()
    resumed.load_state_dict(state)
    loop = iter(loader(resumed))
    assert seen_steps(loop, 2) == expected[3:5]
    again = sampler()
    again.load_state_dict(resumed.state_dict(batches_seen=2))  # counted from where this loop began
    assert seen_steps(loader(again)) == expected[5:12]
    assert seen_steps(loader(again)) == expected[12:]


def test_more_batches_cannot_have_been_seen_than_were_drawn() -> None:
    batches = WeightedBatchSampler(numbered_dataset(), "rw", 8, seed=0, num_batches=5)
    next(iter(batches))
    with pytest.raises(uw.AdapterError, match="in which 1 batches were drawn, found 2"):
        batches.state_dict(batches_seen=2)


def test_a_state_of_other_episodes() -> None:
    state = WeightedBatchSampler.from_lengths([3, 4], [1, 1], 8, seed=0).state_dict()
    with pytest.raises(uw.AdapterError, match="these 20 episodes .* found 2 episodes"):
        transitions().load_state_dict({**state, "begun": torch.zeros(MOST_WORKERS)})


def test_an_abandoned_epoch_is_not_drawn_again() -> None:
    batches = transitions(num_batches=5)
    assert (drawn(batches, 2) != drawn(batches, 2)).any()


# ---- many steps -----------------------------------------------------------------------------------------------------
def test_beyond_the_whole_numbers_of_float32() -> None:
    lengths = np.full(4_000, 10_000)  # 40 million steps; float32 is exact up to 2**24 = 16.8 million
    weights = np.zeros(4_000)
    weights[[10, -1]] = 1.0, 3.0
    batches = WeightedBatchSampler.from_lengths(lengths, weights, 65_536, seed=0)
    index = next(iter(batches))
    assert index.dtype == torch.int64
    last = index[index >= 39_990_000]
    assert abs(len(last) / len(index) - 0.75) < 0.01
    assert int(last.max()) < 40_000_000 and len(np.unique(last)) > 9_800  # nearly all 10,000, the odd ones too
    assert set(np.unique(index[index < 39_990_000] // 10_000)) == {10}


# ---- workers --------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_workers_draw_the_right_steps_from_streams_of_their_own() -> None:
    batches = transitions(num_batches=801)
    steps = drawn(two_workers(batches))
    assert steps.shape == (801, 16)
    expected = uw.EpisodeSampler(numbered_dataset(), WEIGHTS).probabilities()
    for part in (steps, steps[0::2], steps[1::2]):
        counts = np.bincount(part.ravel(), minlength=len(expected))
        assert (counts[expected == 0] == 0).all()
        assert chisquare(counts[expected > 0], part.size * expected[expected > 0]).pvalue > 1e-3
    assert len(np.unique(steps, axis=0)) == 801  # no batch twice, from whichever worker


@pytest.mark.slow
def test_workers_repeat_with_the_seed_and_go_on_with_the_epoch() -> None:
    batches = transitions(num_batches=5)
    loader = two_workers(batches)
    epochs = [drawn(loader)]
    state = batches.state_dict()
    epochs += [drawn(loader), drawn(loader)]
    assert all((one != two).any() for one, two in [epochs[:2], epochs[1:], epochs[::2]])
    again = transitions(num_batches=5)
    lasting = two_workers(again, persistent_workers=True)  # one set of processes for all epochs
    for epoch in epochs:
        np.testing.assert_array_equal(drawn(lasting), epoch)
    other = transitions(seed=3, num_batches=5)
    other.load_state_dict(state)
    np.testing.assert_array_equal(drawn(two_workers(other)), epochs[1])


@pytest.mark.slow
def test_workers_hand_out_the_critics_and_the_actors_batches() -> None:
    pairs = list(two_workers(transitions(num_batches=400, actor_weighting=np.eye(20)[3])))
    np.testing.assert_array_equal(
        drawn(critic for critic, _ in pairs), drawn(two_workers(transitions(num_batches=400)))
    )
    actor, first = drawn(actor for _, actor in pairs), numbered_dataset().starts[3]
    assert set(actor.ravel()) <= set(range(first, first + numbered_dataset().lengths[3]))
    assert len(np.unique(actor, axis=0)) == 400  # no batch twice, from whichever worker


# ---- ranks ----------------------------------------------------------------------------------------------------------
def test_a_rank_draws_its_own_batches_and_loads_the_state_of_any() -> None:
    first, second = transitions(rank=0), transitions(rank=1)
    np.testing.assert_array_equal(drawn(first, 4), drawn(transitions(), 4))
    assert (drawn(transitions(rank=0), 4) != drawn(second, 4)).any()
    other = transitions(rank=1)
    other.load_state_dict(first.state_dict())  # as where only rank 0 saves
    np.testing.assert_array_equal(drawn(other, 3), drawn(transitions(rank=1), 7)[4:])


DRAW_ON_A_RANK = """
import sys, torch
from upweight.adapters.pytorch import WeightedBatchSampler

store, rank = sys.argv[1:]
torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=2)
print(next(iter(WeightedBatchSampler.from_lengths([5, 7], [1, 2], 16, seed=0))).tolist())
torch.distributed.barrier()  # who leaves while the other still connects, breaks its connection
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_the_rank_comes_from_the_process_group(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DRAW_ON_A_RANK, str(tmp_path / "store")]
    processes = [subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in (0, 1)]
    found = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    for rank in (0, 1):
        expected = WeightedBatchSampler.from_lengths([5, 7], [1, 2], 16, seed=0, rank=rank)
        assert found[rank] == next(iter(expected)).tolist()


# ---- what is refused ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected a whole number of at least 1, found 0"),
        ({"batch_size": 2.5}, "batch_size: expected a whole number of at least 1, found 2.5"),
        ({"num_batches": 0}, "num_batches: expected a whole number of at least 1, found 0"),
        ({"seed": -1}, "seed: expected a whole number of at least 0, found -1"),
        ({"seed": None}, "seed: expected a whole number of at least 0, found None"),
        ({"rank": True}, "rank: expected a whole number of at least 0, found True"),
    ],
)
def test_bad_numbers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(uw.AdapterError, match=message):
        WeightedBatchSampler(numbered_dataset(), **{"weighting": "rw", "batch_size": 8, "seed": 0, **options})


def test_bad_weights() -> None:
    with pytest.raises(uw.WeightingError, match="expected 20 weights .* found shape \\(3,\\)"):
        WeightedBatchSampler(numbered_dataset(), np.ones(3), 8, seed=0)
    with pytest.raises(uw.WeightingError, match="expected 3 weights .* found shape \\(2,\\)"):
        WeightedBatchSampler.from_lengths([4, 5, 6], [1, 1], 8, seed=0)
