"""The d3rlpy adapter: d3rlpy's own batches, drawn by our weights, in d3rlpy's own training."""

import copy
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import d3rlpy
import gymnasium
import numpy as np
import pytest
import structlog
import torch
from d3rlpy.constants import ActionSpace
from d3rlpy.dataset import (
    BasicTrajectorySlicer,
    BasicTransitionPicker,
    Episode,
    FIFOBuffer,
    FrameStackTrajectorySlicer,
    FrameStackTransitionPicker,
    InfiniteBuffer,
    MDPDataset,
    MixedReplayBuffer,
    MultiStepTransitionPicker,
    ReplayBuffer,
    SparseRewardTransitionPicker,
    TrajectoryMiniBatch,
    TransitionMiniBatch,
)

import upweight as uw
from support.adapters import Adapted, check_actor_apart, check_adapter, numbered_dataset, steps_of
from support.datasets import random_dataset, rows_only, with_arrays
from upweight.adapters.d3rlpy import TwoBatches, WeightedReplayBuffer, actor_apart
from upweight.adapters.draws import Draws

BATCH_FIELDS = ("observations", "actions", "rewards", "next_observations", "next_actions", "terminals", "intervals")
SLICE_FIELDS = ("observations", "actions", "rewards", "returns_to_go", "terminals", "timesteps", "masks")


class OtherPicker(BasicTransitionPicker):
    """A kind of basic picker that picks something else."""

    def __call__(self, episode: Any, index: int) -> Any:
        transition = super().__call__(episode, index)
        return dataclasses.replace(transition, reward=2 * transition.reward)


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    before, threads = structlog.get_config(), torch.get_num_threads()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    torch.set_num_threads(1)
    yield
    structlog.configure(**before)
    torch.set_num_threads(threads)


def mdp_dataset(dataset: uw.Dataset, **changes: Any) -> ReplayBuffer:
    """The same steps in a replay buffer, put there by d3rlpy's own means."""
    arrays = {
        "observations": dataset.observations,
        "actions": dataset.actions,
        "rewards": dataset.rewards,
        "terminals": dataset.terminated.astype(np.float32),
        "timeouts": dataset.truncated.astype(np.float32),
    }
    return MDPDataset(**(arrays | changes))


def as_buffer(dataset: uw.Dataset) -> Any:
    return mdp_dataset(dataset)


def as_is(dataset: uw.Dataset) -> Any:
    return dataset


def located(episodes: Any, rows: Any) -> list[tuple[Any, int]]:
    """The episode of each flat row and the row's place in it, found the slow way."""
    places = [(episode, step) for episode in episodes for step in range(episode.size())]
    return [places[row] for row in rows]


def assert_same_bits(found: Any, expected: Any, fields: tuple[str, ...]) -> None:
    for field in fields:
        ours, theirs = getattr(found, field), getattr(expected, field)
        pairs = zip(ours, theirs, strict=True) if isinstance(theirs, list) else [(ours, theirs)]
        for mine, other in pairs:
            assert (mine.shape, mine.dtype) == (other.shape, other.dtype), field
            assert mine.tobytes() == other.tobytes(), field


def assert_d3rlpys_batches(dataset: uw.Dataset, source: Any, **options: Any) -> None:
    """What a weighted buffer of ``source`` draws is what d3rlpy makes of the same rows of the same steps."""
    weights = np.random.default_rng(1).random(dataset.num_episodes)
    weighted = WeightedReplayBuffer(source, weights, seed=3, **options)
    episodes = mdp_dataset(dataset).episodes if isinstance(source, uw.Dataset) else source.episodes
    draws = Draws.of(dataset, weights, 3)
    places = located(episodes, draws.rows(200))
    expected = [weighted.transition_picker(*place) for place in places]
    batch = weighted.sample_transition_batch(200)
    assert_same_bits(batch, TransitionMiniBatch.from_transitions(expected), BATCH_FIELDS)
    assert len(batch.transitions) == 200
    for mine, other in zip(batch.transitions, expected, strict=True):
        np.testing.assert_array_equal(mine.rewards_to_go, other.rewards_to_go)
    slices = [weighted.trajectory_slicer(*place, 5) for place in located(episodes, draws.rows(50))]
    assert_same_bits(
        weighted.sample_trajectory_batch(50, 5), TrajectoryMiniBatch.from_partial_trajectories(slices), SLICE_FIELDS
    )


# ---- which steps are drawn --------------------------------------------------------------------------------------------
DRAWN: dict[str, Callable[[WeightedReplayBuffer, int], Any]] = {
    "batch": lambda buffer, count: buffer.sample_transition_batch(count).observations,
    "single": lambda buffer, count: [buffer.sample_transition().observation for _ in range(count)],
    "slices": lambda buffer, count: buffer.sample_trajectory_batch(count, 2).observations[:, -1],
    "single slice": lambda buffer, count: [buffer.sample_trajectory(1).observations[0] for _ in range(count)],
}


@pytest.mark.parametrize("made_of", [as_buffer, as_is])
@pytest.mark.parametrize("how", DRAWN)
@pytest.mark.parametrize("picker", [BasicTransitionPicker, OtherPicker])
def test_contract(made_of: Callable[[uw.Dataset], Any], how: str, picker: type) -> None:
    def make(dataset: uw.Dataset, weights: np.ndarray, seed: int) -> Adapted:
        buffer = WeightedReplayBuffer(made_of(dataset), weights, seed=seed, transition_picker=picker())
        return Adapted(lambda count: steps_of(DRAWN[how](buffer, count)), buffer.state_dict, buffer.load_state_dict)

    check_adapter(make, numbered_dataset(), draws=10_000)


@pytest.mark.parametrize("picker", [BasicTransitionPicker, OtherPicker])
def test_an_actor_apart(picker: type) -> None:
    def make(dataset: uw.Dataset, weighting: Any, actor_weighting: Any, seed: int) -> Adapted:
        how = {"actor_weighting": actor_weighting, "seed": seed, "transition_picker": picker()}
        buffer = WeightedReplayBuffer(dataset, weighting, **how)

        def draw(count: int) -> np.ndarray:
            batch = buffer.sample_transition_batch(count)
            if actor_weighting is None:
                return steps_of(batch.observations)
            critic, actor = batch
            return np.stack([steps_of(critic.observations), steps_of(actor.observations)])

        return Adapted(draw, buffer.state_dict, buffer.load_state_dict)

    check_actor_apart(make, numbered_dataset(), draws=10_000)


def test_only_the_own_seed_matters() -> None:
    first, second = (WeightedReplayBuffer(numbered_dataset(), "rw", seed=4) for _ in range(2))
    d3rlpy.seed(1)
    before = np.random.get_state()[1].copy()  # noqa: NPY002  (d3rlpy's own draws use it)
    drawn = first.sample_transition_batch(64).observations
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    d3rlpy.seed(2)
    np.testing.assert_array_equal(second.sample_transition_batch(64).observations, drawn)


def test_weights_are_of_whole_episodes_and_raw_rewards() -> None:
    """The reward of a last step counts, though d3rlpy has no transition for it when the episode was cut off."""
    rewards = np.array([0, 0, 9, 1, 1, 1, 4, 0], np.float32)
    ends = np.array([0, 0, 1, 0, 0, 1, 0, 1], np.float32)
    source = MDPDataset(
        np.arange(16, dtype=np.float32).reshape(8, 2), np.full((8, 1), 0.5, np.float32), rewards, np.zeros(8), ends
    )
    for weighting in ("rw", uw.ReturnWeighting(temperature=0.1)):
        state = WeightedReplayBuffer(source, weighting).state_dict()["sampler"]
        expected = np.exp((np.array([9, 3, 4]) - 3) / 6 / 0.1)
        np.testing.assert_allclose(state["weights"], expected / expected.sum())
        np.testing.assert_array_equal(state["sizes"], [2, 2, 1])


def test_episodes_without_a_transition() -> None:
    """One step and cut off: d3rlpy leaves it out, and it does not set the scale of the others."""
    dataset = uw.Dataset.from_arrays(
        observations=np.arange(10, dtype=np.float32).reshape(5, 2),
        actions=np.linspace(0.1, 0.9, 5, dtype=np.float32)[:, None],
        rewards=[100.0, 1.0, 1.0, 2.0, 2.0],
        terminated=[False, False, True, False, True],
        truncated=[True, False, False, False, False],
    )
    buffer = WeightedReplayBuffer(dataset, "rw")
    assert (buffer.size(), buffer.transition_count) == (2, 4) == (mdp_dataset(dataset).size(), len(buffer.buffer))
    np.testing.assert_allclose(
        buffer.state_dict()["sampler"]["weights"], [0, *(np.exp([0, 10]) / np.exp([0, 10]).sum())]
    )
    even = WeightedReplayBuffer(dataset, "uniform").sample_transition_batch(500)
    assert set(even.observations[:, 0]) == {2.0, 4.0, 6.0, 8.0}  # steps 1 to 4
    assert_same_bits(even, TransitionMiniBatch.from_transitions(list(even.transitions)), BATCH_FIELDS)


def test_the_buffer_counts_as_d3rlpys_does() -> None:
    dataset = numbered_dataset()
    buffer, reference = WeightedReplayBuffer(dataset, "uniform"), mdp_dataset(dataset)
    assert buffer.transition_count == reference.transition_count
    assert buffer.size() == reference.size()
    assert buffer.dataset_info == reference.dataset_info
    for index in range(reference.transition_count):
        (mine, step), (theirs, expected) = buffer.buffer[index], reference.buffer[index]
        assert step == expected
        np.testing.assert_array_equal(mine.observations, theirs.observations)
    with pytest.raises(IndexError, match=f"0 to {reference.transition_count - 1}"):
        buffer.buffer[reference.transition_count]


def test_dump_can_be_read_by_d3rlpy(tmp_path: Any) -> None:
    dataset = numbered_dataset()
    with (tmp_path / "dump.h5").open("w+b") as file:
        WeightedReplayBuffer(dataset, "rw").dump(file)
        loaded = ReplayBuffer.load(file, InfiniteBuffer())
    for mine, theirs in zip(mdp_dataset(dataset).episodes, loaded.episodes, strict=True):
        np.testing.assert_array_equal(mine.observations, theirs.observations)
        assert mine.terminated == theirs.terminated


# ---- what a batch holds -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("made_of", [as_buffer, as_is])
@pytest.mark.parametrize("terminated", [True, False, None])
@pytest.mark.parametrize("discrete", [True, False])
def test_batches_are_d3rlpys(made_of: Callable[[uw.Dataset], Any], terminated: bool | None, discrete: bool) -> None:
    dataset = numbered_dataset(discrete=discrete, terminated=terminated)
    assert_d3rlpys_batches(dataset, made_of(dataset))
    assert_d3rlpys_batches(dataset, made_of(dataset), transition_picker=OtherPicker())


@pytest.mark.parametrize("made_of", [as_buffer, as_is])
@pytest.mark.parametrize("shape, dtype", [((2, 6, 6), np.uint8), ((3, 40, 40), np.uint8), ((3,), np.float64)])
def test_images_and_doubles(made_of: Callable[[uw.Dataset], Any], shape: tuple[int, ...], dtype: Any) -> None:
    dataset = random_dataset(2, observation_shape=shape, observation_dtype=dtype)
    dataset = dataset.subset(dataset.num_transitions > 0)  # d3rlpy leaves the others out
    assert_d3rlpys_batches(dataset, made_of(dataset))


@pytest.mark.parametrize("side, copied", [(6, True), (40, False)])
def test_large_observations_stay_where_they_are(side: int, copied: bool) -> None:
    source = mdp_dataset(random_dataset(2, observation_shape=(3, side, side), observation_dtype=np.uint8))
    mine = WeightedReplayBuffer(source, "rw").episodes[0].observations
    assert np.shares_memory(mine, source.episodes[0].observations) != copied


@pytest.mark.parametrize(
    "picker, slicer",
    [
        (MultiStepTransitionPicker(n_steps=3, gamma=0.9), BasicTrajectorySlicer()),
        (SparseRewardTransitionPicker(failure_return=-7.0), BasicTrajectorySlicer()),
        (FrameStackTransitionPicker(n_frames=3), FrameStackTrajectorySlicer(n_frames=3)),
    ],
)
def test_other_pickers_and_slicers(picker: Any, slicer: Any) -> None:
    dataset = random_dataset(2, observation_shape=(1, 4, 4), observation_dtype=np.uint8)
    dataset = dataset.subset(dataset.num_transitions > 0)
    for source in (dataset, mdp_dataset(dataset)):
        assert_d3rlpys_batches(dataset, source, transition_picker=picker, trajectory_slicer=slicer)
    configured = mdp_dataset(dataset, transition_picker=picker, trajectory_slicer=slicer)
    taken_over = WeightedReplayBuffer(configured, "rw")
    assert taken_over.transition_picker is picker
    assert taken_over.trajectory_slicer is slicer


def test_a_packed_dataset_stays_on_the_disk(tmp_path: Any) -> None:
    ds = random_dataset(3, num_episodes=20)
    packed = uw.pack(ds, tmp_path / "a.packed")
    ours, theirs = (WeightedReplayBuffer(data, "rw", seed=1) for data in (packed, ds))
    assert np.shares_memory(ours.episodes[0].observations, packed.observations)
    np.testing.assert_array_equal(
        ours.sample_transition_batch(32).observations, theirs.sample_transition_batch(32).observations
    )


@pytest.mark.parametrize("picker", [BasicTransitionPicker(), MultiStepTransitionPicker(n_steps=3, gamma=0.9)])
def test_parts_of_packed_data_are_gathered(picker: Any) -> None:
    """An episode, or the rows of a batch, at a time."""
    chosen = [5, 0, 11, 5]
    dataset = random_dataset(3, num_episodes=20)
    hidden = rows_only(dataset)
    ours, theirs = (
        WeightedReplayBuffer(data.subset(chosen), "uniform", seed=1, transition_picker=picker)
        for data in (hidden, dataset)
    )
    for _ in range(3):
        mine, expected = (buffer.sample_transition_batch(6) for buffer in (ours, theirs))
        for name in (
            "observations",
            "actions",
            "rewards",
            "next_observations",
            "next_actions",
            "terminals",
            "intervals",
        ):
            np.testing.assert_array_equal(getattr(mine, name), getattr(expected, name))
        one, other = (buffer.sample_trajectory(3) for buffer in (ours, theirs))
        np.testing.assert_array_equal(one.observations, other.observations)
    assert len(ours.episodes) == len(theirs.episodes) == len(ours.episodes[:9])
    assert [len(episode) for episode in ours.episodes] == [len(episode) for episode in theirs.episodes]
    assert hidden.columns["observations"].most <= max(6, dataset.lengths.max())


def test_nothing_to_draw() -> None:
    ends = {"terminated": np.zeros(2, bool), "truncated": np.ones(2, bool)}
    single = uw.Dataset.from_arrays(
        observations=np.zeros((2, 1)), actions=np.zeros((2, 1)), rewards=np.zeros(2), **ends
    )
    with pytest.raises(uw.WeightingError, match="at least one episode with a transition"):
        WeightedReplayBuffer(single, "uniform")


def test_tuple_observations() -> None:
    dataset = numbered_dataset()
    second = np.random.default_rng(0).integers(0, 255, (dataset.num_steps, 1, 2, 1), dtype=np.uint8)
    assert_d3rlpys_batches(dataset, mdp_dataset(dataset, observations=[dataset.observations, second]))


def test_advantage_weights_look_at_first_observations() -> None:
    """Also at those of a tuple, side by side, and at those that stay in d3rlpy's episodes."""
    dataset = numbered_dataset()
    parts = [dataset.observations[:, :1], dataset.observations[:, 1:]]
    expected = WeightedReplayBuffer(dataset, "aw").state_dict()["sampler"]["weights"]
    assert not np.allclose(expected, uw.ReturnWeighting()(dataset))
    for source in (
        mdp_dataset(dataset),
        mdp_dataset(dataset, transition_picker=OtherPicker()),
        mdp_dataset(dataset, observations=parts),
    ):
        found = WeightedReplayBuffer(source, "aw").state_dict()["sampler"]["weights"]
        np.testing.assert_allclose(found, expected, rtol=1e-9)  # the regression may round otherwise in another layout


def test_one_observation_more_than_steps() -> None:
    """As Minari has it; d3rlpy never looks at the last one, and neither may the rows shift."""
    plain = mdp_dataset(numbered_dataset())
    longer = [
        Episode(np.concatenate([e.observations, e.observations[-1:] + 50]), e.actions, e.rewards, e.terminated)
        for e in plain.episodes
    ]
    mine = WeightedReplayBuffer(SimpleNamespace(episodes=longer), "rw")
    assert_same_bits(
        mine.sample_transition_batch(200), WeightedReplayBuffer(plain, "rw").sample_transition_batch(200), BATCH_FIELDS
    )


def test_transitions_are_a_sequence() -> None:
    transitions = WeightedReplayBuffer(numbered_dataset(), "rw").sample_transition_batch(5).transitions
    assert [t.observation[0] for t in transitions[1:3]] == [
        transitions[1].observation[0],
        transitions[2].observation[0],
    ]
    assert transitions[-1].observation[0] == transitions[4].observation[0]
    with pytest.raises(IndexError):
        transitions[5]


def test_numbers_per_step_become_vectors() -> None:
    dataset = uw.Dataset.from_arrays(
        observations=np.arange(6), actions=np.linspace(0, 1, 6), rewards=np.ones(6), terminated=np.arange(6) % 3 == 2
    )
    batch = WeightedReplayBuffer(dataset, "uniform").sample_transition_batch(4)
    assert (batch.observations.shape, batch.actions.shape, batch.rewards.shape) == ((4, 1), (4, 1), (4, 1))


# ---- training ---------------------------------------------------------------------------------------------------------
def small(name: str, **options: Any) -> Any:
    """An algorithm of d3rlpy with small networks."""
    encoder = d3rlpy.models.VectorEncoderFactory(hidden_units=[8])
    config = getattr(d3rlpy.algos, f"{name}Config")
    encoders = {field: encoder for field in config.__dataclass_fields__ if field.endswith("encoder_factory")}
    return config(batch_size=16, **encoders, **options).create(device="cpu")


QUIETLY = {"logger_adapter": d3rlpy.logging.NoopAdapterFactory(), "show_progress": False}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BC", "TD3PlusBC", "IQL", "CQL", "CalQL", "DiscreteCQL"])
def test_fit(name: str) -> None:
    """Training draws from the buffer's own generator, a batch per update, and the losses are numbers."""
    dataset = numbered_dataset(discrete=name.startswith("Discrete"))
    buffer, twin = (WeightedReplayBuffer(dataset, "rw", seed=5) for _ in range(2))
    ((_, metrics),) = small(name).fit(buffer, n_steps=4, n_steps_per_epoch=4, **QUIETLY)
    assert np.isfinite(list(metrics.values())).all()
    assert "loss" in metrics or "critic_loss" in metrics
    twin.sample_transition()  # for its shape
    for _ in range(4):
        twin.sample_transition_batch(16)
    np.testing.assert_array_equal(
        buffer.sample_transition_batch(16).observations, twin.sample_transition_batch(16).observations
    )


APART = ["AWAC", "CQL", "CalQL", "CRR", "DDPG", "DiscreteSAC", "IQL", "PRDC", "ReBRAC", "SAC", "TD3", "TD3PlusBC"]


@pytest.mark.slow
@pytest.mark.parametrize("name", APART)
def test_fit_with_an_actor_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In d3rlpy's own training every loss of critics sees the critics' rows, and the actor's loss the actor's."""
    dataset = numbered_dataset(discrete=name.startswith("Discrete"))
    buffer, twin = (WeightedReplayBuffer(dataset, "uniform", actor_weighting="rw", seed=5) for _ in range(2))
    algorithm = actor_apart(small(name))
    algorithm.create_impl((3,), buffer.dataset_info.action_size)
    seen: dict[str, list[Any]] = {}
    for loss in ("compute_target", "compute_critic_loss", "compute_value_loss", "compute_actor_loss"):
        if hasattr(type(algorithm.impl), loss):
            monkeypatch.setattr(
                algorithm.impl, loss, recorder(getattr(algorithm.impl, loss), seen.setdefault(loss, []))
            )
    algorithm.fit(buffer, n_steps=4, n_steps_per_epoch=4, **QUIETLY)
    pairs = [twin.sample_transition_batch(16) for _ in range(4)]
    of_critics, of_actor = (
        np.stack([steps_of(batch.observations) for batch in part]) for part in zip(*pairs, strict=True)
    )
    every = getattr(algorithm.config, "update_actor_interval", 1)
    np.testing.assert_array_equal(seen.pop("compute_actor_loss"), of_actor[::every])
    assert ("compute_value_loss" in seen) == (name == "IQL")
    for loss, rows in seen.items():
        np.testing.assert_array_equal(rows, of_critics, err_msg=loss)
    assert "update_actor" not in vars(algorithm.impl)  # it is the class's own between updates


def recorder(loss: Any, seen: list[Any]) -> Any:
    """The loss, which notes the rows of the batches it sees."""

    def recorded(batch: Any, *rest: Any) -> Any:
        seen.append(steps_of(batch.observations))
        return loss(batch, *rest)

    return recorded


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TD3PlusBC", "IQL", "CQL", "CalQL"])
def test_from_one_batch_twice_an_actor_apart_learns_as_ever(name: str) -> None:
    """Scalers and returns to go included."""
    buffer = WeightedReplayBuffer(numbered_dataset(), "rw", seed=2)
    batches = [buffer.sample_transition_batch(16) for _ in range(3)]

    def learned(apart: bool) -> Any:
        d3rlpy.seed(0)
        algorithm = small(
            name,
            observation_scaler=d3rlpy.preprocessing.StandardObservationScaler(mean=np.ones(3), std=np.full(3, 9.0)),
            action_scaler=d3rlpy.preprocessing.MinMaxActionScaler(minimum=-2 * np.ones(2), maximum=2 * np.ones(2)),
            reward_scaler=d3rlpy.preprocessing.MultiplyRewardScaler(0.1),
        )
        algorithm.create_impl((3,), 2)
        update = actor_apart(algorithm).update if apart else algorithm.update
        for batch in batches:
            update(TwoBatches(batch, batch) if apart else batch)
        return algorithm

    for mine, theirs in zip(parameters(learned(True)), parameters(learned(False)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)


def parameters(algorithm: Any, *names: str) -> list[np.ndarray]:
    """The parameters of an algorithm's networks, or of those with ``names``."""
    modules = algorithm.impl.modules.get_torch_modules()
    return [each.detach().numpy() for name in names or modules for each in modules[name].parameters()]


@pytest.mark.slow
def test_an_actor_apart_leaves_the_critics_as_they_are(tmp_path: Any) -> None:
    """IQL: Q and V do not depend on the actor, so they learn the same, bit for bit; the actor copies the good episodes alone."""
    good = np.arange(400) // 10 % 4 == 1
    dataset = uw.Dataset.from_arrays(
        observations=np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32),
        actions=np.where(good, 0.8, -0.8).astype(np.float32)[:, None],
        rewards=np.where(good, 0.01, 0.0).astype(np.float32),
        terminated=np.arange(400) % 10 == 9,
    )

    def learned(actor_weighting: str | None) -> Any:
        d3rlpy.seed(0)
        algorithm = small("IQL", actor_learning_rate=0.02)
        buffer = WeightedReplayBuffer(dataset, "uniform", actor_weighting=actor_weighting)
        algorithm = algorithm if actor_weighting is None else actor_apart(algorithm)
        algorithm.fit(buffer, n_steps=150, n_steps_per_epoch=150, **QUIETLY)
        return algorithm

    alone, apart, again = learned(None), learned("rw"), learned("rw")
    for critics, expected in zip(*(parameters(each, "q_funcs", "value_func") for each in (apart, alone)), strict=True):
        np.testing.assert_array_equal(critics, expected)
    for first, second in zip(parameters(apart), parameters(again), strict=True):
        np.testing.assert_array_equal(first, second)
    assert alone.predict(dataset.observations).mean() < 0 < 0.6 < apart.predict(dataset.observations).mean()
    apart.save(str(tmp_path / "apart.d3"))
    ordinary = d3rlpy.load_learnable(str(tmp_path / "apart.d3"))
    np.testing.assert_array_equal(ordinary.predict(dataset.observations), apart.predict(dataset.observations))
    assert np.isfinite(ordinary.update(WeightedReplayBuffer(dataset, "rw").sample_transition_batch(16))["actor_loss"])


def test_a_copy_of_an_actor_apart_learns_itself() -> None:
    algorithm = actor_apart(small("TD3PlusBC"))
    algorithm.create_impl((3,), 2)
    before, other = parameters(algorithm), copy.deepcopy(algorithm)
    before = [each.copy() for each in before]
    other.update(WeightedReplayBuffer(numbered_dataset(), "uniform", actor_weighting="rw").sample_transition_batch(16))
    assert any((mine != theirs).any() for mine, theirs in zip(parameters(other), before, strict=True))
    for mine, theirs in zip(parameters(algorithm), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name, discrete", [("DecisionTransformer", False), ("DiscreteDecisionTransformer", True)])
def test_fit_decision_transformer(name: str, discrete: bool) -> None:
    buffer, twin = (WeightedReplayBuffer(numbered_dataset(discrete=discrete), "rw", seed=5) for _ in range(2))
    algorithm = small(name, context_size=4, num_layers=1, max_timestep=20)
    algorithm.fit(buffer, n_steps=4, n_steps_per_epoch=2, **QUIETLY)
    assert algorithm.grad_step == 4
    twin.sample_transition()
    for _ in range(4):
        twin.sample_trajectory_batch(16, 4)
    following = buffer.sample_trajectory_batch(16, 4)
    assert_same_bits(following, twin.sample_trajectory_batch(16, 4), SLICE_FIELDS)
    assert np.isfinite(algorithm.update(following)["loss"])


@pytest.mark.slow
def test_calql_gets_the_returns_to_go() -> None:
    """Cal-QL's targets need the rest of each episode: the same update from d3rlpy's batch of the same rows."""
    dataset = numbered_dataset()
    buffer = WeightedReplayBuffer(dataset, "rw", seed=2)
    batch = buffer.sample_transition_batch(16)
    losses = []
    for given in (batch, TransitionMiniBatch.from_transitions(list(batch.transitions))):
        d3rlpy.seed(0)
        algorithm = small("CalQL")
        algorithm.build_with_dataset(buffer)
        losses.append(algorithm.update(given))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)  # where a batch lies in memory may change rounding


@pytest.mark.slow
def test_scalers_and_evaluators() -> None:
    """Scalers see all transitions alike; the simulator and d3rlpy's own metrics run on the weighted buffer."""
    rng = np.random.default_rng(0)
    dataset = uw.Dataset.from_arrays(
        observations=rng.normal(3, 2, (60, 3)),
        actions=rng.uniform(-2, 2, (60, 1)),
        rewards=rng.normal(size=60),
        terminated=np.arange(60) % 12 == 11,
    )
    algorithm = small(
        "TD3PlusBC",
        observation_scaler=d3rlpy.preprocessing.StandardObservationScaler(),
        action_scaler=d3rlpy.preprocessing.MinMaxActionScaler(),
        reward_scaler=d3rlpy.preprocessing.ReturnBasedRewardScaler(),
    )
    evaluators = {
        "return": d3rlpy.metrics.EnvironmentEvaluator(gymnasium.make("Pendulum-v1"), n_trials=1),
        "td_error": d3rlpy.metrics.TDErrorEvaluator(),
        "scale": d3rlpy.metrics.AverageValueEstimationEvaluator(),
    }
    buffer = WeightedReplayBuffer(dataset, "rw")
    ((_, metrics),) = algorithm.fit(buffer, n_steps=3, n_steps_per_epoch=3, evaluators=evaluators, **QUIETLY)
    assert -2000 < metrics["return"] < 0
    assert np.isfinite([metrics["td_error"], metrics["scale"]]).all()
    np.testing.assert_allclose(algorithm.observation_scaler.mean, dataset.observations.mean(axis=0), rtol=1e-5)


@pytest.mark.slow
def test_weighting_changes_what_is_learned() -> None:
    """Good episodes act 0.8, bad ones -0.8, equally often: BC learns their mean from uniform draws, and 0.8 from RW."""
    good = np.arange(400) // 10 % 2 == 1
    rng = np.random.default_rng(0)
    dataset = uw.Dataset.from_arrays(
        observations=rng.normal(size=(400, 3)).astype(np.float32),
        actions=np.where(good, 0.8, -0.8).astype(np.float32)[:, None],
        rewards=good.astype(np.float32),
        terminated=np.arange(400) % 10 == 9,
    )
    means = {}
    for weighting in ("uniform", "rw"):
        d3rlpy.seed(0)
        algorithm = small("BC", learning_rate=0.01)
        algorithm.fit(WeightedReplayBuffer(dataset, weighting), n_steps=200, n_steps_per_epoch=200, **QUIETLY)
        means[weighting] = float(algorithm.predict(dataset.observations).mean())
    assert abs(means["uniform"]) < 0.2
    assert means["rw"] > 0.7


def test_beside_an_online_buffer() -> None:
    offline = WeightedReplayBuffer(numbered_dataset(), np.eye(20)[3])
    online = mdp_dataset(numbered_dataset(episodes=4))
    mixed = MixedReplayBuffer(online, offline, secondary_mix_ratio=0.5)
    drawn = steps_of(mixed.sample_transition_batch(40).observations)
    first = numbered_dataset().starts[3]
    assert set(drawn[20:]) <= set(range(first, first + numbered_dataset().lengths[3]))


@pytest.mark.slow
def test_several_times_faster_than_uniform_sampling() -> None:
    """How many times is a matter of the machine: the benchmark measures it."""
    dataset = random_dataset(0, num_episodes=300, max_length=60, observation_shape=(11,))
    ours, theirs = WeightedReplayBuffer(dataset, "rw"), mdp_dataset(dataset)

    def seconds(buffer: ReplayBuffer) -> float:
        began = time.perf_counter()
        buffer.sample_transition_batch(256)
        return time.perf_counter() - began

    pairs = np.array([(seconds(ours), seconds(theirs)) for _ in range(30)])
    assert np.median(pairs[:, 1]) > 3 * np.median(pairs[:, 0])


# ---- what is refused, and what is warned of -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    "change",
    [
        lambda buffer: buffer.append(np.zeros(3), np.zeros(2), 0.0),
        lambda buffer: buffer.append_episode(buffer.episodes[0]),
        lambda buffer: buffer.clip_episode(True),
        lambda buffer: buffer.buffer.append(buffer.episodes[0], 0),
    ],
)
def test_nothing_can_be_added(change: Callable[[WeightedReplayBuffer], None]) -> None:
    buffer = WeightedReplayBuffer(numbered_dataset(), "rw")
    with pytest.raises(uw.AdapterError, match="the episodes that were weighted"):
        change(buffer)


def test_later_changes_of_the_source_are_not_seen() -> None:
    source = mdp_dataset(numbered_dataset(), observations=numbered_dataset().observations.copy())
    buffer, untouched = WeightedReplayBuffer(source, "rw"), WeightedReplayBuffer(numbered_dataset(), "rw")
    for episode in source.episodes:
        episode.observations[:] = 0
    source.append_episode(source.episodes[0])
    assert_same_bits(buffer.sample_transition_batch(50), untouched.sample_transition_batch(50), BATCH_FIELDS)
    with pytest.raises(ValueError, match="read-only"):
        buffer.episodes[0].rewards[0] = 1.0


@pytest.mark.parametrize(
    "name", ["BC", "DiscreteBC", "DQN", "DiscreteCQL", "DiscreteBCQ", "NFQ", "BCQ", "BEAR", "PLAS"]
)
def test_where_actor_and_critics_do_not_learn_apart(name: str) -> None:
    with pytest.raises(
        uw.AdapterError, match=f"whose actor and critics learn apart.*found {name}, .* a weighting only"
    ):
        actor_apart(getattr(d3rlpy.algos, f"{name}Config")().create(device="cpu"))


def test_what_is_no_algorithm_with_an_actor() -> None:
    for other in (
        d3rlpy.algos.IQLConfig(),
        small("DecisionTransformer", context_size=4, num_layers=1, max_timestep=20),
    ):
        with pytest.raises(uw.AdapterError, match=f"made by create.., found {type(other).__name__}"):
            actor_apart(other)


def test_two_batches_and_algorithms_that_take_one() -> None:
    """Neither learns in silence from what is not meant for it."""
    apart, alone = (WeightedReplayBuffer(numbered_dataset(), "uniform", actor_weighting=how) for how in ("rw", None))
    with pytest.raises(uw.AdapterError, match=r"found two, the critics' and the actor's: fit actor_apart\(algorithm\)"):
        small("TD3PlusBC").fit(apart, n_steps=1, n_steps_per_epoch=1, **QUIETLY)
    (algorithm := actor_apart(small("TD3PlusBC"))).create_impl((3,), 2)
    mixed = MixedReplayBuffer(mdp_dataset(numbered_dataset()), apart, secondary_mix_ratio=0.5)
    for buffer in (alone, mixed):
        with pytest.raises(uw.AdapterError, match="expected two batches, the critics' and the actor's, found one"):
            algorithm.update(buffer.sample_transition_batch(16))
    for sample in (lambda: apart.sample_trajectory(2), lambda: apart.sample_trajectory_batch(4, 2)):
        with pytest.raises(uw.AdapterError, match="learns from slices: make the buffer without actor_weighting"):
            sample()
    assert not hasattr(apart.sample_transition_batch(4), "something_else")


def test_other_ways_to_make_a_buffer_point_here() -> None:
    for way in (WeightedReplayBuffer.load, WeightedReplayBuffer.from_episode_generator):
        with pytest.raises(uw.AdapterError, match=r"WeightedReplayBuffer\(buffer, weighting\)"):
            way(None, InfiniteBuffer())


@pytest.mark.parametrize("picker", [BasicTransitionPicker(), OtherPicker()])
def test_an_episode_still_being_written(picker: Any) -> None:
    """Its return is not known yet: it gets no weight, and what is written later is not seen."""
    source = mdp_dataset(numbered_dataset(), transition_picker=picker)
    for step in range(4):
        source.append(np.full(3, 1000.0 + step, np.float32), np.zeros(2, np.float32), 99.0)
    with pytest.warns(uw.UpweightWarning, match="1 of 21 episodes are incomplete"):
        buffer = WeightedReplayBuffer(source, "rw")
    assert buffer.state_dict()["sampler"]["weights"][-1] == 0
    source.append(np.zeros(3, np.float32), np.zeros(2, np.float32), 0.0)
    source.clip_episode(True)
    assert (len(buffer.episodes[-1]), buffer.episodes[-1].terminated) == (4, False)
    finished = WeightedReplayBuffer(source, "rw")
    assert finished.state_dict()["sampler"]["weights"][-1] > 0.9
    assert finished.episodes[-1].terminated


def test_a_version_that_keeps_the_episode_being_written_elsewhere() -> None:
    """It must not be taken for a finished one."""
    source = mdp_dataset(numbered_dataset())
    del source._writer
    with pytest.raises(uw.AdapterError, match="which episode it is still writing.* finished ones as its `episodes`"):
        WeightedReplayBuffer(source, "rw")
    finished = SimpleNamespace(episodes=list(source.episodes))
    assert WeightedReplayBuffer(finished, "rw").transition_count == source.transition_count


def test_a_full_fifo_buffer() -> None:
    episodes = mdp_dataset(numbered_dataset()).episodes
    full = ReplayBuffer(FIFOBuffer(limit=40), episodes=episodes)
    with pytest.warns(uw.UpweightWarning, match="counts 40 transitions, but its episodes have"):
        buffer = WeightedReplayBuffer(full, "uniform")
    assert buffer.transition_count > 40


def test_what_d3rlpy_cannot_hold() -> None:
    dataset = numbered_dataset(terminated=False)
    following = dataset.next_observations.copy()
    with_last = with_arrays(dataset, next_observations=following)
    assert with_last.num_transitions.sum() == dataset.num_steps
    assert_d3rlpys_batches(dataset, with_last)  # the last step is left out, as d3rlpy does
    following[0] += 1
    with pytest.warns(uw.DataLossWarning, match="differ from the observation of the following step"):
        WeightedReplayBuffer(with_arrays(dataset, next_observations=following), "rw")


@pytest.mark.parametrize("source", [None, [1, 2], SimpleNamespace(episodes=[1]), SimpleNamespace(episodes=3)])
def test_other_things_than_buffers(source: Any) -> None:
    with pytest.raises(uw.UpweightError, match=f"expected a .*d3rlpy.* found {type(source).__name__}"):
        WeightedReplayBuffer(source, "rw")


def test_no_episode() -> None:
    with pytest.raises(uw.AdapterError, match="at least one episode, found none"):
        WeightedReplayBuffer(SimpleNamespace(episodes=[]), "rw")


def test_no_transition() -> None:
    with pytest.raises(uw.WeightingError, match="at least one episode with a transition"):
        WeightedReplayBuffer(SimpleNamespace(episodes=[make_episode(1)]), "uniform")


def test_no_rewards() -> None:
    without = uw.Dataset.from_arrays(
        observations=np.zeros((4, 2)), actions=np.zeros(4), rewards=None, terminated=[0, 1, 0, 1]
    )
    with pytest.raises(uw.DatasetError, match="no rewards"):
        WeightedReplayBuffer(without, "uniform")


def make_episode(steps: int, **changes: Any) -> Episode:
    rng = np.random.default_rng(steps)
    arrays = {"observations": rng.normal(size=(steps, 3)), "actions": rng.normal(size=(steps, 2))}
    return Episode(**({**arrays, "rewards": np.ones((steps, 1)), "terminated": False} | changes))


@pytest.mark.parametrize(
    "bad, message",
    [
        (make_episode(4, rewards=np.ones((3, 1))), r"episode 1: .*found \(4, 3\), \(4, 2\) and \(3, 1\)"),
        (make_episode(4, rewards=np.ones(4)), r"rewards \[n, 1\], found .*\(4,\)"),
        (make_episode(4, observations=np.ones((3, 3))), r"observations \[n, \.\.\.\].*found \(3, 3\)"),
        (make_episode(4, observations=np.ones(4)), r"found \(4,\)"),
        (make_episode(4, actions=np.ones(4)), r"actions \[n, A\].* \(4,\)"),
        (make_episode(0), "expected n >= 1 steps"),
        (make_episode(4, observations=np.ones((4, 5))), r"observations \[\(3,\)\].* as in episode 0, found \[\(5,\)\]"),
        (make_episode(4, actions=np.ones((4, 1))), r"as in episode 0, found .*\(1,\)"),
    ],
)
def test_episodes_that_do_not_fit(bad: Episode, message: str) -> None:
    with pytest.raises(uw.AdapterError, match=message):
        WeightedReplayBuffer(SimpleNamespace(episodes=[make_episode(5), bad]), "rw")


def test_weightings_that_do_not_fit() -> None:
    for source in (numbered_dataset(), mdp_dataset(numbered_dataset())):
        with pytest.raises(uw.WeightingError, match="expected 20 weights"):
            WeightedReplayBuffer(source, np.ones(19))
        with pytest.raises(uw.WeightingError, match="did you mean 'rw'"):
            WeightedReplayBuffer(source, "rww")
    state = WeightedReplayBuffer(numbered_dataset(episodes=5), "rw").state_dict()
    with pytest.raises(uw.AdapterError, match="these 20 episodes .* found 5 episodes"):
        WeightedReplayBuffer(numbered_dataset(), "rw").load_state_dict(state)


# ---- discrete or continuous ---------------------------------------------------------------------------------------------
def test_d3rlpy_takes_continuous_actions_for_discrete_ones() -> None:
    """It looks at the first episode alone, where all actions happen to be whole numbers."""
    dataset = numbered_dataset()
    actions = dataset.actions.copy()
    actions[: dataset.lengths[0]] = 4.0
    source = mdp_dataset(dataset, actions=actions)
    assert source.dataset_info.action_space == ActionSpace.DISCRETE
    with pytest.raises(uw.AdapterError, match="whole numbers from 0 .*pass action_space=ActionSpace.CONTINUOUS"):
        WeightedReplayBuffer(source, "rw")
    for given in (
        WeightedReplayBuffer(source, "rw", action_space=ActionSpace.CONTINUOUS),
        WeightedReplayBuffer(SimpleNamespace(episodes=source.episodes), "rw"),  # all actions are looked at
    ):
        assert (given.dataset_info.action_space, given.dataset_info.action_size) == (ActionSpace.CONTINUOUS, 2)


def test_our_datasets_tell_by_the_dtype() -> None:
    whole = uw.Dataset.from_arrays(
        observations=np.zeros((6, 2)), actions=np.ones((6, 1)), rewards=np.ones(6), terminated=np.arange(6) % 3 == 2
    )
    assert WeightedReplayBuffer(whole, "rw").dataset_info.action_space == ActionSpace.CONTINUOUS
    choices = WeightedReplayBuffer(whole, "rw", action_space=ActionSpace.DISCRETE)
    assert (choices.dataset_info.action_space, choices.dataset_info.action_size) == (ActionSpace.DISCRETE, 2)
    with pytest.raises(AssertionError, match="continuous action-space|discrete action-space"):
        small("BC").fit(choices, n_steps=1, n_steps_per_epoch=1, **QUIETLY)


def test_number_of_actions() -> None:
    discrete = numbered_dataset(discrete=True)
    assert WeightedReplayBuffer(discrete, "rw").dataset_info.action_size == 3
    assert WeightedReplayBuffer(discrete, "rw", action_size=5).dataset_info.action_size == 5
    larger = mdp_dataset(discrete, action_size=4)
    assert WeightedReplayBuffer(larger, "rw").dataset_info.action_size == 4
    with pytest.raises(uw.AdapterError, match=r"expected 2 discrete actions \(action_size\), found action 2"):
        WeightedReplayBuffer(discrete, "rw", action_size=2)
    with pytest.raises(uw.AdapterError, match="continuous actions of size 3, found 2"):
        WeightedReplayBuffer(numbered_dataset(), "rw", action_size=3)
    with pytest.raises(uw.AdapterError, match="as action_space, found 'discrete'"):
        WeightedReplayBuffer(discrete, "rw", action_space="discrete")
    for bad in (-np.ones((6, 1), int), np.ones((6, 2), int)):
        wrong = uw.Dataset.from_arrays(
            observations=np.zeros((6, 2)), actions=bad, rewards=np.ones(6), terminated=np.arange(6) % 3 == 2
        )
        with pytest.raises(uw.AdapterError, match="expected discrete actions as whole numbers from 0"):
            WeightedReplayBuffer(wrong, "rw")
