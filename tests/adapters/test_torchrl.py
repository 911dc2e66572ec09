"""TorchRL: rows of replay buffers drawn by episode weights, sequences, files, and buffers that are not what was weighted."""

import json
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
    ReplayBuffer,
    Sequence,
    TensorDictReplayBuffer,
    TensorStorage,
)

import upweight as uw
from support.adapters import Adapted, check_adapter, numbered_dataset, steps_of
from support.datasets import with_arrays
from upweight.adapters.torchrl import EpisodeWeightedSampler, to_dataset, to_tensordict

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:abc")  # TorchRL's, on importing its collectors
WEIGHTS = np.random.default_rng(1).random(20) ** 2


def filled(rows: Any, sampler: EpisodeWeightedSampler | None = None, **options: Any) -> TensorDictReplayBuffer:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(len(rows)), sampler=sampler, batch_size=256, **options)
    buffer.extend(rows)
    return buffer


def known_ends() -> uw.Dataset:
    """A numbered dataset whose next observations are all known: every step is a row."""
    log = numbered_dataset()
    return with_arrays(log, next_observations=log.next_observations + 0.5)


# ---- the contract ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("discrete", [False, True])
def test_replay_buffer(discrete: bool) -> None:
    def make(dataset: uw.Dataset, weights: NDArray[np.float64], seed: int) -> Adapted:
        buffer = filled(to_tensordict(dataset), EpisodeWeightedSampler(dataset, weights, seed=seed))
        sampler = buffer.sampler
        return Adapted(
            lambda count: steps_of(buffer.sample(count)["observation"]), sampler.state_dict, sampler.load_state_dict
        )

    check_adapter(make, numbered_dataset(discrete=discrete))


def test_a_weighted_buffer_draws_as_its_dataset_does() -> None:
    dataset = known_ends()
    buffer = filled(to_tensordict(dataset))
    buffer.set_sampler(EpisodeWeightedSampler(buffer, "rw", seed=4))
    expected = filled(to_tensordict(dataset), EpisodeWeightedSampler(dataset, "rw", seed=4))
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
        sampler = EpisodeWeightedSampler(rows, "rw")
    assert sampler.state_dict()["sampler"]["weights"][-1] == 0


# ---- sequences ------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.parametrize("boundary", ["pad", "stop"])
def test_sequences_stay_inside_episodes(boundary: str) -> None:
    dataset = numbered_dataset()
    unit = Sequence(4, episode_boundary=boundary)
    buffer = filled(to_tensordict(dataset), EpisodeWeightedSampler(dataset, WEIGHTS, seed=0), sample_unit=unit)
    anchors = []
    for _ in range(24):
        batch = buffer.sample().reshape(256, 4)
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
        buffer = filled(to_tensordict(dataset), EpisodeWeightedSampler(dataset, weighting, seed=0))
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


# ---- files ----------------------------------------------------------------------------------------------------------
def test_the_buffer_keeps_the_state(tmp_path: Path) -> None:
    dataset = numbered_dataset()
    buffer = filled(to_tensordict(dataset), EpisodeWeightedSampler(dataset, WEIGHTS, seed=0))
    buffer.sample()
    torch.save(buffer.state_dict()["_sampler"], tmp_path / "sampler.pt")
    state = buffer.state_dict()
    buffer.dumps(tmp_path / "buffer")
    following = buffer.sample()["observation"]
    assert sorted(path.name for path in (tmp_path / "buffer" / "sampler").iterdir()) == [
        "episodes.npz",
        "generator.json",
    ]
    assert json.loads((tmp_path / "buffer" / "sampler" / "generator.json").read_text())["bit_generator"] == "PCG64"

    def other() -> TensorDictReplayBuffer:
        return filled(to_tensordict(dataset), EpisodeWeightedSampler(dataset, "uniform", seed=3))

    (loaded := other()).load_state_dict(state)
    torch.testing.assert_close(loaded.sample()["observation"], following)
    (read := other()).loads(tmp_path / "buffer")
    torch.testing.assert_close(read.sample()["observation"], following)
    (plain := other()).sampler.load_state_dict(torch.load(tmp_path / "sampler.pt", weights_only=True))
    torch.testing.assert_close(plain.sample()["observation"], following)


def test_a_state_that_does_not_fit(tmp_path: Path) -> None:
    sampler = EpisodeWeightedSampler(numbered_dataset(), "rw")
    sampler.dumps(tmp_path / "sampler")
    small = EpisodeWeightedSampler(numbered_dataset(episodes=5), "rw")
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
    minari_buffer.set_sampler(EpisodeWeightedSampler(minari_buffer, "rw", seed=0))
    first = minari_buffer.sample()
    minari_buffer.set_sampler(EpisodeWeightedSampler(dataset, "rw", seed=0))
    second = minari_buffer.sample()
    torch.testing.assert_close(first, second)
    expected = dataset.transitions(steps_of(first["observation"]))
    np.testing.assert_array_equal(first["action"], expected.actions)
    np.testing.assert_array_equal(first["next", "reward"][:, 0], expected.rewards)


@pytest.mark.slow
def test_minari_storage_of_zeros_is_noticed(minari_buffer: TensorDictReplayBuffer) -> None:
    minari_buffer.storage[:].zero_()  # what TorchRL 0.14.1 does by itself
    with pytest.raises(uw.AdapterError, match="expected rows that are done, found none"):
        EpisodeWeightedSampler(minari_buffer, "uniform")
    minari_buffer.set_sampler(EpisodeWeightedSampler(uw.load("minari:test/numbered-v0"), "rw"))
    with pytest.raises(uw.AdapterError, match="is not done at the end of a weighted episode"):
        minari_buffer.sample()


# ---- buffers that are not what was weighted -------------------------------------------------------------------------
def test_a_buffer_that_grew_or_was_never_filled() -> None:
    dataset = numbered_dataset()
    rows = to_tensordict(dataset)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(1_000), sampler=EpisodeWeightedSampler(dataset, "rw"), batch_size=8
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
    buffer = filled(rows, None if weight_the_buffer else EpisodeWeightedSampler(dataset, "rw"))
    if weight_the_buffer:
        buffer.set_sampler(EpisodeWeightedSampler(buffer, "rw"))
    if sampled:
        buffer.sample()
    buffer.add(rows[0])  # the storage is full: this replaces a row
    with pytest.raises(uw.AdapterError, match="written again or removed after weighting: make a new sampler"):
        buffer.sample()


def test_a_buffer_that_was_emptied_and_filled() -> None:
    dataset = numbered_dataset()
    buffer = filled(to_tensordict(dataset), EpisodeWeightedSampler(dataset, "rw"))
    buffer.empty()
    buffer.extend(to_tensordict(dataset))
    with pytest.raises(uw.AdapterError, match="written again or removed after weighting"):
        buffer.sample()


def test_rows_in_another_order() -> None:
    dataset = known_ends()
    buffer = filled(to_tensordict(dataset.subset(np.arange(20)[::-1])), EpisodeWeightedSampler(dataset, "rw"))
    with pytest.raises(uw.AdapterError, match="is done in the middle of a weighted episode"):
        buffer.sample()


def test_all_logged_steps_are_not_the_rows() -> None:
    dataset = numbered_dataset()  # cut episodes have a last step that cannot be learned from
    log = TensorDict({"observation": torch.tensor(dataset.observations)}, [dataset.num_steps])
    with pytest.raises(uw.AdapterError, match="steps without a known next observation were stored"):
        filled(log, EpisodeWeightedSampler(dataset, "rw")).sample()


def test_a_storage_of_two_dimensions() -> None:
    rows = to_tensordict(known_ends())
    rows = rows[: len(rows) // 2 * 2]
    rows["next", "done"][-1] = True
    sampler = EpisodeWeightedSampler(rows, "uniform")
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
        ("hopper.hdf5", "expected an upweight Dataset, or .* found str"),
        (rows[:100].reshape(10, 10), r"found TensorDict of batch size \[10, 10\]"),
        (listed, "found ReplayBuffer"),
        (LazyTensorStorage(10), "LazyTensorStorage with rows to weight, found it empty"),
        (ring, "keeps every row it was given, found 50 rows left of 80"),
        (rows.exclude(("next", "reward")), r"expected a tensor \('next', 'reward'\), found .*'done'"),
        (rows.exclude("observation"), "expected a tensor 'observation', found"),
        (rows.exclude("episode", ("next", "done")), r"expected \('next', 'done'\) or 'episode' to tell episodes apart"),
        (rows.clone().set(("next", "reward"), torch.zeros(len(rows), 2)), "expected one reward per row, found shape"),
    ]:
        with pytest.raises(uw.AdapterError, match=message):
            EpisodeWeightedSampler(source, "rw")


def test_ids_that_come_back() -> None:
    rows = to_tensordict(known_ends())
    rows["episode"][rows["episode"] == 5] = 2
    with pytest.raises(uw.DatasetError, match="the TensorDict: .* an episode id comes back after another one"):
        EpisodeWeightedSampler(rows, "rw")


def test_weights_of_the_wrong_number() -> None:
    with pytest.raises(uw.WeightingError, match="expected 20 weights .* found shape \\(3,\\)"):
        EpisodeWeightedSampler(to_tensordict(known_ends()), np.ones(3))
