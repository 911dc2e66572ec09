"""Minari: weights from and in its metadata, and our datasets as its own."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
from scipy.stats import chisquare

import upweight as uw
from support.adapters import OTHER_SEEDS, Adapted, check_adapter, numbered_dataset, steps_of
from support.datasets import assert_same, random_dataset, rows_only

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Minari's local folder, empty."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    yield tmp_path / "minari"
    assert os.environ["MINARI_DATASETS_PATH"] == str(tmp_path / "minari")


def recorded(
    dataset: uw.Dataset, dataset_id: str = "test/small-v0", storage: str = "hdf5", *, returns: bool = True
) -> Any:
    """A dataset that Minari itself wrote, as its collector would: episodes with the metadata of its callback."""
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage
    from minari.storage import get_dataset_path

    data = get_dataset_path(dataset_id) / "data"
    data.mkdir(parents=True)
    box = spaces.Box(-np.inf, np.inf, dataset.observation_shape, np.float32)
    made = MinariStorage.new(data, box, spaces.Box(-1, 1, dataset.action_shape, np.float32), data_format=storage)
    made.update_metadata({"dataset_id": dataset_id, "minari_version": "0.5.4"})
    buffers = []
    for number in range(dataset.num_episodes):
        steps = slice(dataset.starts[number], dataset.starts[number] + dataset.lengths[number])
        buffers.append(
            EpisodeBuffer(
                observations=np.concatenate([dataset.observations[steps], dataset.next_observations[steps][-1:]]),
                actions=dataset.actions[steps],
                rewards=dataset.rewards[steps],
                terminations=dataset.terminated[steps],
                truncations=dataset.truncated[steps],
            )
        )
    made.update_episodes(buffers)
    if returns:
        callback = minari.EpisodeMetadataCallback()
        made.update_episode_metadata(callback(vars(buffer)) for buffer in buffers)
    return minari.MinariDataset(made)


def logged() -> uw.Dataset:
    return random_dataset(0, num_episodes=9, next_known=True)


@pytest.mark.parametrize("storage", ["hdf5", "arrow", "parquet"])
@pytest.mark.parametrize("weighting", ["uniform", "rw", "aw", "top"])
def test_weights_are_those_of_the_dataset(weighting: str, storage: str) -> None:
    from upweight.adapters.minari import episode_weights

    dataset = logged()
    expected = uw.make_weighting(weighting)(dataset)
    np.testing.assert_allclose(episode_weights(recorded(dataset, storage=storage), weighting), expected, rtol=1e-6)


def test_weights_cost_no_steps() -> None:
    """Returns that stand in the metadata are believed; no reward and no observation but the first ones is read."""
    from upweight.adapters.minari import as_dataset, episode_weights

    source = recorded(logged())
    source.storage.update_episode_metadata([{"rewards_sum": float(number)} for number in range(9)], range(9))
    dataset = as_dataset(source)
    assert dataset.returns.tolist() == list(range(9))
    np.testing.assert_allclose(episode_weights(source, "rw"), uw.ReturnWeighting()(dataset))
    uw.AdvantageWeighting()(dataset)
    assert not any(column.is_loaded for column in dataset.columns.values())


def test_rewards_are_summed_where_the_metadata_hold_no_return() -> None:
    from upweight.adapters.minari import episode_weights

    source = recorded(logged(), returns=False)
    assert "rewards_sum" not in next(iter(source.storage.get_episode_metadata([0])))
    np.testing.assert_allclose(episode_weights(source, "rw"), uw.ReturnWeighting()(logged()), rtol=1e-6)


def test_a_view_has_weights_of_its_own() -> None:
    from upweight.adapters.minari import as_dataset, episode_weights

    dataset = logged()
    view = recorded(dataset).filter_episodes(lambda episode: episode.id in {1, 4, 5, 8})
    part = dataset.subset([1, 4, 5, 8])
    np.testing.assert_allclose(episode_weights(view, "rw"), uw.ReturnWeighting()(part), rtol=1e-6)
    np.testing.assert_array_equal(as_dataset(view).observations, part.observations)
    np.testing.assert_array_equal(as_dataset(view).next_observations, part.next_observations)


@pytest.mark.parametrize("storage", ["hdf5", "arrow"])
def test_weights_are_kept_as_metadata(storage: str) -> None:
    from upweight.adapters.minari import read_weights, write_weights

    weights = write_weights(recorded(logged(), storage=storage), "rw")
    source = minari.load_dataset("test/small-v0")
    np.testing.assert_array_equal(read_weights(source), weights)
    assert [entry["upweight"] for entry in source.storage.get_episode_metadata(range(9))] == weights.tolist()
    others = np.arange(9.0)
    write_weights(source, others, key="others")
    np.testing.assert_allclose(read_weights(source, key="others"), others / 36)
    np.testing.assert_array_equal(read_weights(source), weights)
    with pytest.raises(uw.AdapterError, match="there are weights 'upweight' already; .*overwrite=True"):
        write_weights(source, "uniform")
    np.testing.assert_array_equal(read_weights(source), weights)
    write_weights(source, "uniform", overwrite=True)
    np.testing.assert_allclose(read_weights(source), 1 / 9)
    assert uw.load("minari:test/small-v0").check().num_episodes == 9


def test_weights_of_views() -> None:
    from upweight.adapters.minari import read_weights, write_weights

    source = recorded(logged())
    view = source.filter_episodes(lambda episode: episode.id in {2, 3, 6})
    rest = source.filter_episodes(lambda episode: episode.id not in {2, 3, 6})
    write_weights(source, np.arange(9.0))
    np.testing.assert_allclose(read_weights(view), np.array([2, 3, 6]) / 11)
    weights = write_weights(view, "rw", overwrite=True)
    np.testing.assert_allclose(read_weights(view), weights)
    assert read_weights(source)[[2, 3, 6]].tolist() == weights.tolist()
    assert read_weights(source).sum() == pytest.approx(1)
    with pytest.raises(uw.WeightingError, match="of all 6 episodes of this view are 0"):
        read_weights(rest)


def test_a_dataset_that_grew_after_weighting() -> None:
    from upweight.adapters.minari import episode_weights, read_weights, sample_episodes, write_weights

    source = recorded(logged())
    weights = write_weights(source, "rw")
    (first,) = source.iterate_episodes([0])
    names = ("observations", "actions", "rewards", "terminations", "truncations")
    buffer = minari.data_collector.EpisodeBuffer(**{name: getattr(first, name) for name in names})
    source.update_dataset_from_buffer([buffer])
    with pytest.raises(
        uw.AdapterError, match="are of 9 episodes with .* there are 10 with .* weight the dataset again"
    ):
        read_weights(source)
    with pytest.raises(uw.WeightingError, match="expected 10 weights"):
        sample_episodes(source, weights, 3, seed=0)
    assert len(episode_weights(source, "rw")) == 10


def test_keys() -> None:
    from upweight.adapters.minari import read_weights, write_weights

    source = recorded(logged())
    for key in ("total_steps", "rewards_sum", "a/b"):
        with pytest.raises(uw.AdapterError, match=f"key '{key}' is in use, or holds a slash"):
            write_weights(source, "rw", key=key)
    with pytest.raises(uw.AdapterError, match="expected weights under the key 'mine', found none"):
        read_weights(source, key="mine")
    write_weights(source, "rw")
    with pytest.raises(uw.AdapterError, match="expected weights under the key 'mine', found upweight"):
        read_weights(source, key="mine")


def test_weights_half_written_do_not_count() -> None:
    from upweight.adapters.minari import read_weights, write_weights

    source = recorded(logged())
    write_weights(source, "rw")
    source.storage.update_metadata({"upweight_weights": {"upweight": None}})  # as a killed process leaves it
    with pytest.raises(uw.AdapterError, match="found none"):
        read_weights(source)
    write_weights(source, "rw")
    assert len(read_weights(source)) == 9


def test_episodes_are_drawn_by_their_weight() -> None:
    from upweight.adapters.minari import sample_episodes

    source = recorded(logged()).filter_episodes(lambda episode: episode.id % 2 == 0)  # ids 0, 2, 4, 6, 8
    weights = np.array([0.1, 0.0, 0.2, 0.3, 0.4])
    drawn = sample_episodes(source, weights, 20_000, seed=1)
    counts = np.bincount(drawn, minlength=9)[::2]
    assert counts.sum() == 20_000
    assert counts[1] == 0
    assert chisquare(counts[weights > 0], 20_000 * weights[weights > 0]).pvalue > 1e-3
    one, same, other = (sample_episodes(source, weights, 50, seed=seed) for seed in (1, np.int64(1), 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    for seed in OTHER_SEEDS:
        with pytest.raises(uw.AdapterError, match="seed: expected a whole number of at least 0, found"):
            sample_episodes(source, weights, 3, seed=seed)
    episodes = list(source.iterate_episodes(drawn[:3]))
    assert [episode.id for episode in episodes] == drawn[:3].tolist()


@pytest.mark.filterwarnings("ignore:.*observation after .* terminal steps is unknown:upweight.DataLossWarning")
def test_contract() -> None:
    """Steps drawn from a Minari dataset, through the batches for any loop."""
    from upweight.adapters.minari import as_dataset, export_mix

    numbered = numbered_dataset(terminated=True)
    source = export_mix(numbered, "test/numbered-v0")

    def make(_: uw.Dataset, weights: np.ndarray, seed: int) -> Adapted:
        batches = uw.batches(as_dataset(source), weights, 256, seed=seed, prefetch=0)

        def draw(count: int) -> np.ndarray:
            return np.concatenate([steps_of(next(batches).observations) for _ in range(count // 256)])

        return Adapted(draw, batches.state_dict, batches.load_state_dict)

    check_adapter(make, numbered, draws=20_000)


def test_an_exported_mix_is_the_mix(folder: Path) -> None:
    from upweight.adapters.minari import as_dataset, episode_weights, export_mix

    good, poor = (
        recorded(random_dataset(seed, num_episodes=9, next_known=True), f"test/part-v{seed}") for seed in (0, 1)
    )
    mixed = uw.mix(as_dataset(good), as_dataset(poor), fraction=0.3, num_steps=40, seed=0)
    export_mix(mixed, "mixes/hopper/small-v2", description="30% good")
    theirs = minari.load_dataset("mixes/hopper/small-v2")
    assert (theirs.id, theirs.spec.version, theirs.spec.namespace) == ("mixes/hopper/small-v2", 2, "mixes/hopper")
    assert theirs.storage.metadata["description"] == "30% good"
    assert (theirs.total_episodes, theirs.total_steps) == (mixed.num_episodes, mixed.num_steps)
    for number, episode in enumerate(theirs.iterate_episodes()):
        steps = slice(mixed.starts[number], mixed.starts[number] + mixed.lengths[number])
        np.testing.assert_array_equal(episode.observations[:-1], mixed.observations[steps])
        np.testing.assert_array_equal(episode.observations[1:], mixed.next_observations[steps])
        np.testing.assert_array_equal(episode.actions, mixed.actions[steps])
        np.testing.assert_array_equal(episode.rewards, mixed.rewards[steps])
        np.testing.assert_array_equal(episode.terminations, mixed.terminated[steps])
        np.testing.assert_array_equal(episode.truncations, mixed.truncated[steps])
    back = uw.load("minari:mixes/hopper/small-v2")
    np.testing.assert_array_equal(back.labels, mixed.labels)
    assert back.metadata["mix"]["fraction"] == 0.3
    np.testing.assert_allclose(episode_weights(theirs, "rw"), uw.ReturnWeighting()(mixed), rtol=1e-6)
    assert set(minari.list_local_datasets()) == {"mixes/hopper/small-v2", "test/part-v0", "test/part-v1"}
    assert not list(folder.rglob(".*"))  # nothing left of the writing


@pytest.mark.parametrize("given", [{"next_known": True}, {}])
def test_a_mix_is_written_episode_by_episode(given: dict[str, Any]) -> None:
    from gymnasium import spaces

    from upweight.adapters.minari import as_dataset, export_mix

    class Space:
        observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        action_space, spec = spaces.Box(-1, 1, (2,), np.float32), None

    dataset, chosen = random_dataset(0, num_episodes=9, **given), [4, 0, 7, 7]
    hidden = rows_only(dataset)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", uw.DataLossWarning)  # of last steps
        expected = as_dataset(export_mix(dataset.subset(chosen), "mixes/whole-v0", env=Space()))
        found = as_dataset(export_mix(hidden.subset(chosen), "mixes/gathered-v0", env=Space()))
    assert_same(found, expected, metadata=False)
    assert hidden.columns["actions"].most <= dataset.lengths.max()
    nothing = uw.Dataset.from_arrays(
        observations=np.zeros((2, 1)), actions=np.zeros(2), rewards=None, terminated=[0, 1]
    )
    with pytest.raises(uw.DatasetError, match="no rewards"):
        export_mix(nothing, "mixes/nothing-v0")


def test_nothing_is_overwritten() -> None:
    from upweight.adapters.minari import export_mix

    export_mix(logged(), "mix-v0")
    with pytest.raises(uw.AdapterError, match="there is a dataset 'mix-v0' already; choose another version"):
        export_mix(random_dataset(1, next_known=True), "mix-v0")
    assert minari.load_dataset("mix-v0").total_steps == logged().num_steps


def test_a_dataset_is_replaced_if_asked_once_the_new_one_is_complete(tmp_path: Path) -> None:
    from upweight.adapters.minari import as_dataset, export_mix

    path = Path(export_mix(logged(), "mix-v0").storage.data_path).parent
    before = sorted(path.parent.iterdir())
    uw.save(logged(), tmp_path / "gone.npz")
    gone = uw.load(tmp_path / "gone.npz")
    (tmp_path / "gone.npz").unlink()
    with pytest.raises((uw.DatasetError, OSError), match="gone.npz"):
        export_mix(gone, "mix-v0", overwrite=True)
    assert minari.load_dataset("mix-v0").total_steps == logged().num_steps
    half = as_dataset(minari.load_dataset("mix-v0")).subset([0, 2])  # read from the files that it replaces
    assert export_mix(half, "mix-v0", overwrite=True).total_steps == half.num_steps
    assert sorted(path.parent.iterdir()) == before
    assert export_mix(logged(), "mix-v1", overwrite=True).total_steps == logged().num_steps


def test_an_environment_gives_spaces_and_comes_back() -> None:
    import gymnasium

    from upweight.adapters.minari import export_mix

    rng = np.random.default_rng(0)
    balance = uw.Dataset.from_arrays(
        observations=rng.normal(size=(20, 4)).astype(np.float32),
        next_observations=rng.normal(size=(20, 4)).astype(np.float32),
        actions=rng.integers(0, 2, 20),
        rewards=np.ones(20),
        terminated=np.arange(20) % 5 == 4,
    )
    with gymnasium.make("CartPole-v1") as env, pytest.warns(uw.DataLossWarning, match="differ from the following"):
        source = export_mix(balance, "cartpole/mix-v0", env=env)
        assert source.action_space == env.action_space
        assert source.observation_space == env.observation_space
        with source.recover_environment() as again:
            assert again.spec.id == "CartPole-v1"
        known = uw.load(source).metadata
        assert (known["env_id"], known["time_limit"]) == ("CartPole-v1", 500)
        together = uw.concat([source, source]).metadata
        assert (together["env_id"], together["time_limit"]) == ("CartPole-v1", 500)
    with (
        gymnasium.make("Pendulum-v1") as other,
        pytest.raises(uw.AdapterError, match=r"the observations are float32 of shape \(4,\)"),
    ):
        export_mix(balance, "cartpole/mix-v1", env=other)
    continuous = random_dataset(0, next_known=True)
    space = gymnasium.spaces.Box(-1, 1, continuous.observation_shape, continuous.observations.dtype.type)

    class Choices(gymnasium.Env):
        observation_space = space
        action_space = gymnasium.spaces.Discrete(3)

    with pytest.raises(uw.AdapterError, match=r"the actions are float.* does not fit the environment's Discrete\(3\)"):
        export_mix(continuous, "cartpole/mix-v2", env=Choices())


@pytest.mark.parametrize("dataset_id", ["mix", "mix-v", "a b-v0", "", "../mix-v0"])
def test_ids(dataset_id: str) -> None:
    from upweight.adapters.minari import export_mix

    with pytest.raises(uw.AdapterError, match="expected an id like 'mixes/hopper-v0'"):
        export_mix(logged(), dataset_id)


def test_wrong_types() -> None:
    from upweight.adapters.minari import as_dataset, episode_weights, export_mix

    for function in (as_dataset, lambda source: episode_weights(source, "rw")):
        with pytest.raises(uw.AdapterError, match=r"expected a MinariDataset \(see minari.load_dataset\), found str"):
            function("D4RL/door/human-v2")
    with pytest.raises(uw.DatasetError, match=r"expected a dataset: an upweight.Dataset.* found int"):
        export_mix(3, "mix-v0")
    with pytest.raises(uw.WeightingError, match="expected 9 weights"):
        episode_weights(recorded(logged()), np.ones(3))


def test_metadata_that_disagree_with_the_file() -> None:
    from upweight.adapters.minari import episode_weights

    source = recorded(logged())
    source.storage.update_metadata({"total_episodes": 8})
    with pytest.raises(uw.AdapterError, match="expected 8 episodes, as its metadata say, found 9"):
        episode_weights(source, "rw")
