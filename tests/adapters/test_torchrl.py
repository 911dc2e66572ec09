"""TorchRL: rows of replay buffers drawn by episode weights, sequences, files, and buffers that are not what was weighted."""

import json
import pickle  # what worker processes are sent with
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chisquare
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import (
    LazyTensorStorage,
    ListStorage,
    RandomSampler,
    ReplayBuffer,
    SamplerWithoutReplacement,
    Sequence,
    SliceSampler,
    TensorDictReplayBuffer,
    TensorStorage,
)

import upweight as uw
from support.adapters import Adapted, check_actor_apart, check_adapter, numbered_dataset, steps_of
from support.datasets import RowsOnly, rows_only, with_arrays
from upweight.adapters.torchrl import DatasetStorage, WeightedEpisodeSampler, to_dataset, to_tensordict
from upweight.data.segment import LAST, TRAINABLE, Episodes

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:abc")  # TorchRL's, on importing its collectors
WEIGHTS = np.random.default_rng(1).random(20) ** 2


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small networks on several threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def filled(rows: Any, sampler: WeightedEpisodeSampler | None = None, **options: Any) -> TensorDictReplayBuffer:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(len(rows)), sampler=sampler, batch_size=256, **options)
    buffer.extend(rows)
    return buffer


def gathering(dataset: uw.Dataset, sampler: WeightedEpisodeSampler | None = None, **options: Any) -> Any:
    return TensorDictReplayBuffer(storage=DatasetStorage(dataset), sampler=sampler, batch_size=256, **options)


def assert_equal(found: Any, expected: Any) -> None:
    """The same keys, and under each the same bits."""
    keys = set(expected.keys(include_nested=True, leaves_only=True))
    assert found.batch_size == expected.batch_size and set(found.keys(True, True)) == keys
    for key in keys:
        assert found[key].dtype == expected[key].dtype
        assert torch.equal(found[key], expected[key]), key


def known_ends() -> uw.Dataset:
    """A numbered dataset whose next observations are all known: every step is a row."""
    log = numbered_dataset()
    return with_arrays(log, next_observations=log.next_observations + 0.5)


# ---- the contract ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("discrete", [False, True])
def test_replay_buffer(discrete: bool, stored: bool) -> None:
    def make(dataset: uw.Dataset, weights: NDArray[np.float64], seed: int) -> Adapted:
        sampler = WeightedEpisodeSampler(dataset, weights, seed=seed)
        buffer = filled(to_tensordict(dataset), sampler) if stored else gathering(rows_only(dataset), sampler)
        sampler = buffer.sampler
        return Adapted(
            lambda count: steps_of(buffer.sample(count)["observation"]), sampler.state_dict, sampler.load_state_dict
        )

    check_adapter(make, numbered_dataset(discrete=discrete))


@pytest.mark.parametrize("stored", [False, True])
def test_an_actor_apart(stored: bool) -> None:
    def make(dataset: uw.Dataset, weighting: Any, actor_weighting: Any, seed: int) -> Adapted:
        sampler = WeightedEpisodeSampler(dataset, weighting, actor_weighting=actor_weighting, seed=seed)
        buffer = filled(to_tensordict(dataset), sampler) if stored else gathering(dataset, sampler)

        def draw(count: int) -> np.ndarray:
            rows = buffer.sample(count)
            if actor_weighting is None:
                return steps_of(rows["observation"])
            critic, actor = rows.reshape(2, -1)
            return np.stack([steps_of(critic["observation"]), steps_of(actor["observation"])])

        return Adapted(draw, buffer.state_dict, buffer.load_state_dict)

    check_actor_apart(make, known_ends())


def test_a_weighted_buffer_draws_as_its_dataset_does() -> None:
    dataset = known_ends()
    buffer = filled(to_tensordict(dataset))
    buffer.set_sampler(WeightedEpisodeSampler(buffer, "rw", seed=4))
    expected = filled(to_tensordict(dataset), WeightedEpisodeSampler(dataset, "rw", seed=4))
    for _ in range(3):
        torch.testing.assert_close(buffer.sample()["observation"], expected.sample()["observation"])


# ---- the layout -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("discrete", [False, True])
def test_rows_are_the_transitions(discrete: bool) -> None:
    dataset = numbered_dataset(discrete=discrete)
    rows = to_tensordict(dataset)
    steps = steps_of(rows["observation"])
    np.testing.assert_array_equal(steps, np.flatnonzero(dataset.trainable))
    expected = dataset.transitions(steps)
    np.testing.assert_array_equal(rows["observation"], expected.observations)
    np.testing.assert_array_equal(rows["action"], expected.actions)
    assert rows["action"].dtype == (torch.int64 if discrete else torch.float32)
    np.testing.assert_array_equal(rows["next", "observation"], expected.next_observations)
    np.testing.assert_array_equal(rows["next", "reward"][:, 0], expected.rewards)
    np.testing.assert_array_equal(rows["next", "terminated"][:, 0], expected.terminated)
    episode = np.searchsorted(dataset.starts, steps, side="right") - 1
    np.testing.assert_array_equal(rows["episode"], episode)
    last = np.append(episode[1:] != episode[:-1], True)
    np.testing.assert_array_equal(rows["next", "done"][:, 0], last)
    np.testing.assert_array_equal(rows["next", "truncated"][:, 0], last & ~expected.terminated)


def test_a_dataset_comes_back() -> None:
    dataset = known_ends()
    for source in (to_tensordict(dataset), filled(to_tensordict(dataset)), TensorStorage(to_tensordict(dataset))):
        back = to_dataset(source)
        for name in ("observations", "actions", "rewards", "next_observations", "terminated", "truncated", "lengths"):
            np.testing.assert_array_equal(getattr(back, name), getattr(dataset, name))
        np.testing.assert_array_equal(back.num_transitions, back.lengths)
        assert back.complete.all()


def test_episodes_are_told_apart_by_ids_or_by_ends() -> None:
    rows = to_tensordict(known_ends())
    lengths = known_ends().lengths
    ids = rows["episode"] + 7
    by_ends = rows.exclude("episode")
    by_collector = by_ends.clone().set(("collector", "traj_ids"), ids)
    by_name = by_ends.clone().set("run", ids[:, None])
    ids_alone = rows.exclude(("next", "done"), ("next", "terminated"), ("next", "truncated"))
    for data, options in [(by_ends, {}), (by_collector, {}), (by_name, {"trajectory": "run"}), (ids_alone, {})]:
        found = to_dataset(data, **options)
        np.testing.assert_array_equal(found.lengths, lengths)
        assert found.complete.all()
    assert to_dataset(ids_alone).truncated.sum() == 20
    done_alone = to_dataset(by_ends.exclude(("next", "terminated"), ("next", "truncated")))
    assert done_alone.terminated.sum() == 20


def test_other_names_of_observations_and_actions() -> None:
    rows = to_tensordict(known_ends()).rename_key_("observation", ("state", "joints")).rename_key_("action", "torque")
    rows.rename_key_(("next", "observation"), ("next", "state", "joints"))
    found = to_dataset(rows, observation=("state", "joints"), action="torque")
    np.testing.assert_array_equal(found.observations, known_ends().observations)


def test_an_episode_that_is_not_done_is_incomplete() -> None:
    rows = to_tensordict(known_ends())
    rows["next", "done"][-1] = rows["next", "terminated"][-1] = False
    assert not to_dataset(rows).complete[-1]
    with pytest.warns(uw.UpweightWarning, match="1 of 20 episodes are incomplete"):
        sampler = WeightedEpisodeSampler(rows, "rw")
    assert sampler.state_dict()["sampler"]["weights"][-1] == 0


# ---- a dataset as the storage ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("stored_next", [False, True])
def test_batches_of_a_dataset_are_those_of_its_rows(tmp_path: Path, discrete: bool, stored_next: bool) -> None:
    dataset = numbered_dataset(discrete=discrete)
    if stored_next:
        dataset = with_arrays(dataset, next_observations=dataset.next_observations + 0.5)
    packed = uw.pack(dataset, tmp_path / "a.packed")
    expected = filled(to_tensordict(dataset), WeightedEpisodeSampler(dataset, "rw", seed=3))
    for given in (dataset, packed, packed.subset(np.arange(20)), rows_only(dataset)):
        buffer = gathering(given, WeightedEpisodeSampler(given, "rw", seed=3))
        expected.sampler.load_state_dict(buffer.sampler.state_dict())
        for _ in range(3):
            assert_equal(buffer.sample(), expected.sample())
        assert len(buffer) == len(expected) == given.num_transitions.sum()


def test_nothing_but_the_drawn_rows_is_read() -> None:
    dataset = rows_only(numbered_dataset())
    storage = DatasetStorage(dataset)
    buffer = TensorDictReplayBuffer(storage=storage, batch_size=16, prefetch=2)
    buffer.set_sampler(WeightedEpisodeSampler(buffer, "aw", seed=0))
    before = dataset.columns["actions"].gathered
    assert "116 rows" in repr(buffer) and to_dataset(buffer) is to_dataset(storage) is dataset
    for _ in range(2):
        buffer.sample()
    buffer.synchronize()
    assert 32 <= dataset.columns["actions"].gathered - before <= 80  # the two, and what was made ahead


def test_more_rows_than_fit_into_32_bits() -> None:
    lengths, flags = np.array([1, 3_000_000_000]), np.array([True, True])
    count = int(lengths.sum())

    def one_episode(index: NDArray[np.integer]) -> NDArray[np.uint8]:
        return np.where((index == 0) | (index == count - 1), TRAINABLE | LAST, TRAINABLE).astype(np.uint8)

    dataset = uw.Dataset.assemble(
        episodes=Episodes(lengths, ~flags, flags, flags, flags),
        observations=RowsOnly((count, 1), np.float64, lambda index: index[:, None] + 0.0),
        actions=RowsOnly((count, 1), np.float32, lambda index: np.zeros((len(index), 1), np.float32)),
        rewards=RowsOnly((count,), np.float32, lambda index: np.ones(len(index), np.float32)),
        flags=RowsOnly((count,), np.uint8, one_episode),
        returns=np.array([0.0, 1.0]),
    )
    storage = DatasetStorage(dataset)
    assert len(storage) == count and storage[-1]["observation"].item() == count - 1
    batch = TensorDictReplayBuffer(storage=storage, batch_size=64).sample()  # by TorchRL's own sampler
    torch.testing.assert_close(batch["observation"][:, 0].long(), batch["index"])
    assert batch["index"].max() > 2**31


def test_rows_are_found_by_whatever_finds_them_in_a_tensordict() -> None:
    rows, storage = to_tensordict(numbered_dataset()), DatasetStorage(rows_only(numbered_dataset()))
    mask = torch.arange(len(rows)) % 5 == 2
    grid = torch.tensor([[1, 2], [3, 0]])
    for index in (3, -1, [4, 4, -2], np.array([7, 1]), grid, slice(5, 90, 7), mask, range(3), []):
        expected = rows[torch.tensor(index, dtype=torch.long) if isinstance(index, list | range) else index]
        assert_equal(storage[index], expected)
    assert_equal(pickle.loads(pickle.dumps(DatasetStorage(numbered_dataset())))[:], rows)
    for index, message in [
        (116, "rows from 0 to 115, found 116 to 116"),
        (torch.tensor([3, -117]), "found -117 to 3"),
        (mask[1:], "boolean index did not match"),
    ]:
        with pytest.raises(IndexError, match=message):
            storage[index]
    with pytest.raises(uw.AdapterError, match="a column is not read as a whole; take it from some rows"):
        storage["observation"]


def test_samplers_of_torchrl_draw_from_a_dataset() -> None:
    rows, storage = to_tensordict(known_ends()), DatasetStorage(known_ends())
    for sampler in (RandomSampler, SamplerWithoutReplacement, partial(SliceSampler, slice_len=2, strict_length=False)):
        drawn = []
        for given in (storage, TensorStorage(rows)):
            generator = torch.Generator().manual_seed(0)
            buffer = TensorDictReplayBuffer(storage=given, sampler=sampler(), batch_size=8, generator=generator)
            drawn.append(buffer.sample())
        assert_equal(*drawn)


def test_rows_of_a_dataset_are_not_written() -> None:
    dataset = numbered_dataset()
    rows, buffer = to_tensordict(dataset), gathering(dataset, WeightedEpisodeSampler(dataset, "rw"))
    expected = gathering(dataset, WeightedEpisodeSampler(dataset, "rw"))
    for write in (
        lambda: buffer.extend(rows),
        lambda: buffer.add(rows[0]),
        lambda: buffer.update_(rows),
        lambda: buffer.storage.__setitem__(0, rows[0]),
        buffer.empty,
    ):
        with pytest.raises(uw.AdapterError, match="an attempt to change them: .* put to_tensordict"):
            write()
    assert_equal(buffer.sample(), expected.sample())
    buffer.sample()["observation"].zero_()  # a batch is a copy
    assert_equal(to_tensordict(dataset), rows)


def test_the_state_of_a_buffer_on_a_dataset_leaves_the_rows_where_they_are(tmp_path: Path) -> None:
    dataset = rows_only(numbered_dataset())
    buffer = gathering(dataset, WeightedEpisodeSampler(dataset, "rw", seed=0))
    buffer.sample()
    buffer.dumps(tmp_path / "buffer")
    state, following = buffer.state_dict(), buffer.sample()
    assert sum(file.stat().st_size for file in (tmp_path / "buffer" / "storage").iterdir()) < 100
    for restore in (lambda other: other.loads(tmp_path / "buffer"), lambda other: other.load_state_dict(state)):
        other = gathering(dataset, WeightedEpisodeSampler(dataset, "uniform", seed=3))
        restore(other)
        assert_equal(other.sample(), following)
    small = numbered_dataset(episodes=5)
    with pytest.raises(uw.AdapterError, match="expected the state of a storage of 26 rows, found 116"):
        gathering(small, WeightedEpisodeSampler(small, "rw")).loads(tmp_path / "buffer")


def test_datasets_that_are_no_storage() -> None:
    with pytest.raises(uw.DatasetError, match="hopper.hdf5: no such file"):
        DatasetStorage("hopper.hdf5")
    single = uw.Dataset.from_arrays(
        observations=np.zeros((2, 1)),
        actions=np.zeros((2, 1)),
        rewards=np.zeros(2),
        terminated=np.zeros(2, bool),
        truncated=np.ones(2, bool),
    )
    with pytest.raises(uw.AdapterError, match="expected transitions that can be learned from, found none"):
        DatasetStorage(single)
    other = numbered_dataset().subset(np.arange(20)[::-1])
    with pytest.raises(uw.AdapterError, match="of a weighted episode"):
        gathering(other, WeightedEpisodeSampler(numbered_dataset(), "rw")).sample()


# ---- sequences ------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["pad", "stop"])
def test_sequences_stay_inside_episodes(boundary: str) -> None:
    dataset = numbered_dataset()
    unit = Sequence(4, episode_boundary=boundary)
    buffer = filled(to_tensordict(dataset), WeightedEpisodeSampler(dataset, WEIGHTS, seed=0), sample_unit=unit)
    gathered = gathering(rows_only(dataset), WeightedEpisodeSampler(dataset, WEIGHTS, seed=0), sample_unit=unit)
    anchors = []
    for _ in range(24):
        batch = buffer.sample()
        assert_equal(gathered.sample(), batch)
        batch = batch.reshape(256, 4)
        assert (batch["episode"] == batch["episode"][:, :1]).all()
        steps, valid = steps_of(batch["observation"]), batch["validity_mask"].numpy()
        following = valid[:, 1:]
        np.testing.assert_array_equal((steps[:, 1:] - steps[:, :-1])[following], 1)
        np.testing.assert_array_equal((steps[:, 1:] - steps[:, :-1])[~following], 0)  # padded by the last row
        anchors.append(batch["anchor_index"][:, 0].numpy())
    trainable = np.flatnonzero(dataset.trainable)
    counts = np.bincount(trainable[np.concatenate(anchors)], minlength=dataset.num_steps)
    expected = uw.EpisodeSampler(dataset, WEIGHTS).probabilities()
    assert chisquare(counts[expected > 0], counts.sum() * expected[expected > 0]).pvalue > 1e-3


@pytest.mark.slow
def test_sequences_of_critics_and_of_an_actor() -> None:
    """With as many sequences as steps in each: TorchRL would take a matrix of rows for something else."""
    dataset = numbered_dataset()

    def sampled(actor_weighting: Any) -> TensorDict:
        sampler = WeightedEpisodeSampler(dataset, "uniform", actor_weighting=actor_weighting)
        storage, unit = DatasetStorage(dataset), Sequence(8)
        return TensorDictReplayBuffer(storage=storage, sampler=sampler, batch_size=8, sample_unit=unit).sample()

    critic, actor = sampled(np.eye(20)[3]).reshape(2, 8, 8)
    assert_equal(critic, sampled(None).reshape(8, 8))
    assert (actor["episode"] == 3).all()


# ---- learning -------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The name target_actor_network_params:UserWarning")  # TorchRL's, of its own class
def test_behaviour_cloning_follows_the_weights() -> None:
    """Ten good episodes act +0.5 and forty bad ones -0.5: the mean action is -0.3, that of the good ones +0.5."""
    from torchrl.objectives import BCLoss

    good = np.repeat(np.arange(50) < 10, 20)
    ends = np.arange(1_000) % 20 == 19
    dataset = uw.Dataset.from_arrays(
        observations=np.random.default_rng(0).normal(size=(1_000, 3)).astype(np.float32),
        actions=np.where(good, 0.5, -0.5).astype(np.float32)[:, None],
        rewards=good.astype(np.float32),
        terminated=ends,
    )

    def learned_action(weighting: uw.Weighting) -> float:
        buffer = filled(to_tensordict(dataset), WeightedEpisodeSampler(dataset, weighting, seed=0))
        linear = torch.nn.Linear(3, 1)
        torch.nn.init.zeros_(linear.weight)
        torch.nn.init.zeros_(linear.bias)
        loss = BCLoss(TensorDictModule(linear, in_keys=["observation"], out_keys=["action"]), loss_function="l2")
        optimizer = torch.optim.SGD(loss.parameters(), lr=0.05)
        for _ in range(150):
            optimizer.zero_grad()
            loss(buffer.sample())["loss_bc"].backward()
            optimizer.step()
        return float(linear.bias.item())

    assert learned_action(uw.ReturnWeighting(0.1)) == pytest.approx(0.5, abs=0.02)
    assert learned_action(uw.Uniform()) == pytest.approx(-0.3, abs=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_an_actor_apart_leaves_the_critics_as_they_are() -> None:
    """IQL: Q and V do not depend on the actor, so they learn the same, bit for bit; the actor copies the good episodes alone."""
    from torchrl.modules import IndependentNormal, NormalParamExtractor, ProbabilisticActor, ValueOperator
    from torchrl.objectives import IQLLoss, SoftUpdate

    good = np.arange(50) < 10
    dataset = uw.Dataset.from_arrays(
        observations=np.random.default_rng(0).normal(size=(1_000, 3)).astype(np.float32),
        actions=np.where(np.repeat(good, 20), 0.5, -0.5).astype(np.float32)[:, None],
        rewards=np.where(np.repeat(good, 20), 0.01, 0.0).astype(np.float32),
        terminated=np.arange(1_000) % 20 == 19,
    )

    class Q(torch.nn.Linear):
        def forward(self, observation: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
            return super().forward(torch.cat([observation, action], -1))

    def learned(actor_weighting: str | None) -> tuple[torch.Tensor, float]:
        torch.manual_seed(0)
        sampler = WeightedEpisodeSampler(dataset, "uniform", actor_weighting=actor_weighting, seed=0)
        buffer = gathering(dataset, sampler)
        head = torch.nn.Sequential(torch.nn.Linear(3, 2), NormalParamExtractor())
        policy = TensorDictModule(head, in_keys=["observation"], out_keys=["loc", "scale"])
        actor = ProbabilisticActor(policy, in_keys=["loc", "scale"], distribution_class=IndependentNormal)
        q = ValueOperator(Q(4, 1), in_keys=["observation", "action"])
        loss = IQLLoss(actor, q, value_network=ValueOperator(torch.nn.Linear(3, 1), in_keys=["observation"]))
        optimizer, targets = torch.optim.Adam(loss.parameters(), lr=0.1), SoftUpdate(loss, tau=0.005)
        for _ in range(40):
            rows = buffer.sample()
            of_critics, of_actor = (rows, rows) if actor_weighting is None else rows.reshape(2, -1)
            terms = (loss.qvalue_loss(of_critics), loss.value_loss(of_critics), loss.actor_loss(of_actor))
            optimizer.zero_grad()
            sum(term for term, _ in terms).backward()
            optimizer.step()
            targets.step()
        critics = [*loss.qvalue_network_params.values(True, True), *loss.value_network_params.values(True, True)]
        mean = policy(TensorDict(observation=torch.zeros(1, 3)))["loc"].item()
        return torch.cat([part.detach().flatten() for part in critics]), mean

    (alone, mean), (critics, followed), again = learned(None), learned("rw"), learned("rw")
    assert mean == pytest.approx(-0.3, abs=0.1) and followed == pytest.approx(0.5, abs=0.05)
    assert torch.equal(critics, alone)
    assert torch.equal(again[0], critics) and again[1] == followed


# ---- files ----------------------------------------------------------------------------------------------------------
def test_the_buffer_keeps_the_state(tmp_path: Path) -> None:
    dataset = numbered_dataset()
    buffer = filled(to_tensordict(dataset), WeightedEpisodeSampler(dataset, WEIGHTS, seed=0))
    buffer.sample()
    torch.save(buffer.state_dict()["_sampler"], tmp_path / "sampler.pt")
    state = buffer.state_dict()
    buffer.dumps(tmp_path / "buffer")
    following = buffer.sample()["observation"]
    assert sorted(path.name for path in (tmp_path / "buffer" / "sampler").iterdir()) == [
        "episodes.npz",
        "generator.json",
    ]
    assert (
        json.loads((tmp_path / "buffer" / "sampler" / "generator.json").read_text())["generator"]["bit_generator"]
        == "PCG64"
    )

    def other() -> TensorDictReplayBuffer:
        return filled(to_tensordict(dataset), WeightedEpisodeSampler(dataset, "uniform", seed=3))

    (loaded := other()).load_state_dict(state)
    torch.testing.assert_close(loaded.sample()["observation"], following)
    (read := other()).loads(tmp_path / "buffer")
    torch.testing.assert_close(read.sample()["observation"], following)
    (plain := other()).sampler.load_state_dict(torch.load(tmp_path / "sampler.pt", weights_only=True))
    torch.testing.assert_close(plain.sample()["observation"], following)


def test_files_keep_the_state_of_an_actor_apart(tmp_path: Path) -> None:
    dataset = numbered_dataset()
    sampler = WeightedEpisodeSampler(dataset, "uniform", actor_weighting=WEIGHTS)
    buffer = gathering(dataset, sampler)
    sampler.dumps(tmp_path)
    following = buffer.sample()["index"]
    other = WeightedEpisodeSampler(dataset, WEIGHTS, actor_weighting="uniform", seed=3)
    other.loads(tmp_path)
    assert torch.equal(gathering(dataset, other).sample()["index"], following)
    with pytest.raises(uw.AdapterError, match="draws without an actor_weighting, found one with"):
        WeightedEpisodeSampler(dataset, "uniform").loads(tmp_path)
    WeightedEpisodeSampler(dataset, "uniform").dumps(tmp_path)  # over the other
    with pytest.raises(uw.AdapterError, match="draws with an actor_weighting, found one without"):
        other.loads(tmp_path)


def test_a_state_that_does_not_fit(tmp_path: Path) -> None:
    sampler = WeightedEpisodeSampler(numbered_dataset(), "rw")
    sampler.dumps(tmp_path / "sampler")
    small = WeightedEpisodeSampler(numbered_dataset(episodes=5), "rw")
    with pytest.raises(uw.AdapterError, match="these 5 episodes .* found 20 episodes"):
        small.loads(tmp_path / "sampler")
    with pytest.raises(uw.AdapterError, match="found no generator.json"):
        sampler.loads(tmp_path)


# ---- Minari ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def minari_buffer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TensorDictReplayBuffer:
    """What TorchRL makes of a Minari dataset with the episodes of :func:`known_ends`."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "minari" / "test").mkdir(parents=True)
    log = known_ends()
    with pytest.warns(uw.DataLossWarning, match="next observations that differ"):
        uw.save(log, tmp_path / "minari" / "test" / "numbered-v0", format="minari")
    from torchrl.data.datasets import MinariExperienceReplay

    return MinariExperienceReplay(
        "test/numbered-v0", batch_size=256, root=tmp_path / "torchrl", load_from_local_minari=True
    )


@pytest.mark.slow
def test_minari(minari_buffer: TensorDictReplayBuffer) -> None:
    dataset = uw.load("minari:test/numbered-v0")
    minari_buffer.storage[:].update_(to_tensordict(dataset))  # TorchRL 0.14.1 leaves it empty: see the next test
    minari_buffer.set_sampler(WeightedEpisodeSampler(minari_buffer, "rw", seed=0))
    first = minari_buffer.sample()
    minari_buffer.set_sampler(WeightedEpisodeSampler(dataset, "rw", seed=0))
    second = minari_buffer.sample()
    torch.testing.assert_close(first, second)
    expected = dataset.transitions(steps_of(first["observation"]))
    np.testing.assert_array_equal(first["action"], expected.actions)
    np.testing.assert_array_equal(first["next", "reward"][:, 0], expected.rewards)


@pytest.mark.slow
def test_minari_storage_of_zeros_is_noticed(minari_buffer: TensorDictReplayBuffer) -> None:
    minari_buffer.storage[:].zero_()  # what TorchRL 0.14.1 does by itself
    with pytest.raises(uw.AdapterError, match="expected rows that are done, found none"):
        WeightedEpisodeSampler(minari_buffer, "uniform")
    minari_buffer.set_sampler(WeightedEpisodeSampler(uw.load("minari:test/numbered-v0"), "rw"))
    with pytest.raises(uw.AdapterError, match="is not done at the end of a weighted episode"):
        minari_buffer.sample()


# ---- buffers that are not what was weighted -------------------------------------------------------------------------
def test_a_buffer_that_grew_or_was_never_filled() -> None:
    dataset = numbered_dataset()
    rows = to_tensordict(dataset)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(1_000), sampler=WeightedEpisodeSampler(dataset, "rw"), batch_size=8
    )
    buffer.extend(rows[:-1])
    with pytest.raises(uw.AdapterError, match=f"expected the {len(rows)} rows .* found {len(rows) - 1}"):
        buffer.sample()
    buffer.add(rows[-1])
    assert len(buffer.sample()) == 8
    buffer.extend(rows[:3])
    with pytest.raises(uw.AdapterError, match=f"expected the {len(rows)} rows .* found {len(rows) + 3}"):
        buffer.sample()


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("weight_the_buffer", [True, False])
def test_a_buffer_whose_rows_were_written_again(sampled: bool, weight_the_buffer: bool) -> None:
    dataset = known_ends()
    rows = to_tensordict(dataset)
    buffer = filled(rows, None if weight_the_buffer else WeightedEpisodeSampler(dataset, "rw"))
    if weight_the_buffer:
        buffer.set_sampler(WeightedEpisodeSampler(buffer, "rw"))
    if sampled:
        buffer.sample()
    buffer.add(rows[0])  # the storage is full: this replaces a row
    with pytest.raises(uw.AdapterError, match="written again or removed after weighting: make a new sampler"):
        buffer.sample()


def test_a_buffer_that_was_emptied_and_filled() -> None:
    dataset = numbered_dataset()
    buffer = filled(to_tensordict(dataset), WeightedEpisodeSampler(dataset, "rw"))
    buffer.empty()
    buffer.extend(to_tensordict(dataset))
    with pytest.raises(uw.AdapterError, match="written again or removed after weighting"):
        buffer.sample()


def test_rows_in_another_order() -> None:
    dataset = known_ends()
    buffer = filled(to_tensordict(dataset.subset(np.arange(20)[::-1])), WeightedEpisodeSampler(dataset, "rw"))
    with pytest.raises(uw.AdapterError, match="is done in the middle of a weighted episode"):
        buffer.sample()


def test_all_logged_steps_are_not_the_rows() -> None:
    dataset = numbered_dataset()  # cut episodes have a last step that cannot be learned from
    log = TensorDict({"observation": torch.tensor(dataset.observations)}, [dataset.num_steps])
    with pytest.raises(uw.AdapterError, match="steps without a known next observation were stored"):
        filled(log, WeightedEpisodeSampler(dataset, "rw")).sample()


def test_a_storage_of_two_dimensions() -> None:
    rows = to_tensordict(known_ends())
    rows = rows[: len(rows) // 2 * 2]
    rows["next", "done"][-1] = True
    sampler = WeightedEpisodeSampler(rows, "uniform")
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(len(rows), ndim=2), sampler=sampler, batch_size=8)
    buffer.extend(rows.reshape(2, -1))
    with pytest.raises(uw.AdapterError, match="one row per transition, found one of 2 dimensions"):
        buffer.sample()


# ---- what cannot be weighted ----------------------------------------------------------------------------------------
def test_sources_that_are_no_rows() -> None:
    rows = to_tensordict(known_ends())
    listed = ReplayBuffer(storage=ListStorage(10), batch_size=4)
    listed.extend([1, 2, 3])
    ring = TensorDictReplayBuffer(storage=LazyTensorStorage(50), batch_size=4)
    ring.extend(rows[:40])
    ring.extend(rows[40:80])
    for source, message in [
        (3, "expected a dataset: an upweight.Dataset, .* found int"),
        (rows[:100].reshape(10, 10), r"found TensorDict of batch size \[10, 10\]"),
        (listed, "found ReplayBuffer"),
        (LazyTensorStorage(10), "LazyTensorStorage with rows to weight, found it empty"),
        (ring, "keeps every row it was given, found 50 rows left of 80"),
        (rows.exclude(("next", "reward")), r"expected a tensor \('next', 'reward'\), found .*'done'"),
        (rows.exclude("observation"), "expected a tensor 'observation', found"),
        (rows.exclude("episode", ("next", "done")), r"expected \('next', 'done'\) or 'episode' to tell episodes apart"),
        (rows.clone().set(("next", "reward"), torch.zeros(len(rows), 2)), "expected one reward per row, found shape"),
    ]:
        with pytest.raises(uw.UpweightError, match=message):
            WeightedEpisodeSampler(source, "rw")


def test_ids_that_come_back() -> None:
    rows = to_tensordict(known_ends())
    rows["episode"][rows["episode"] == 5] = 2
    with pytest.raises(uw.DatasetError, match="the TensorDict: .* an episode id comes back after another one"):
        WeightedEpisodeSampler(rows, "rw")


def test_weights_of_the_wrong_number() -> None:
    with pytest.raises(uw.WeightingError, match="expected 20 weights .* found shape \\(3,\\)"):
        WeightedEpisodeSampler(to_tensordict(known_ends()), np.ones(3))
