"""Against Minari itself: what it writes we read, what we write it reads."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`eval_env` is set to None:UserWarning"),
    pytest.mark.filterwarnings("ignore:env_spec is None:UserWarning"),
]


@pytest.fixture
def minari(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    module = pytest.importorskip("minari")
    yield module
    assert os.environ["MINARI_DATASETS_PATH"] == str(tmp_path / "minari")


def create(
    minari: Any, storage: str, observations: Any, space: Any, *, actions: Any = None, infos: Any = None, **options: Any
) -> Any:
    """Three episodes of 3, 2 and 4 steps: terminated, truncated, and cut by the collector."""
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    rng = np.random.default_rng(0)
    buffers = []
    for number, steps in enumerate((3, 2, 4)):
        ends = np.zeros((2, steps), bool)
        if number < 2:
            ends[number, -1] = True
        buffers.append(
            EpisodeBuffer(
                observations=observations(rng, steps + 1),
                actions=rng.integers(0, 2, steps) if actions is None else actions(rng, steps),
                rewards=rng.normal(size=steps),
                terminations=ends[0],
                truncations=ends[1],
                infos=None if infos is None else infos[number],
            )
        )
    return minari.create_dataset_from_buffers(
        "test/small-v0",
        buffer=buffers,
        observation_space=space,
        action_space=spaces.Discrete(3) if actions is None else spaces.Box(-1, 1, (2,), np.float32),
        data_format=storage,
        algorithm_name="x",
        code_permalink="x",
        author="x",
        author_email="x",
        description="x",
        **options,
    )


def vectors(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.normal(size=(count, 4)).astype(np.float32)


storages = pytest.mark.parametrize("storage", ["hdf5", "arrow", "parquet"])


@storages
def test_reads_what_minari_wrote(minari: Any, storage: str) -> None:
    from gymnasium import spaces

    theirs = create(
        minari,
        storage,
        vectors,
        spaces.Box(-np.inf, np.inf, (4,), np.float32),
        actions=lambda rng, steps: rng.uniform(-1, 1, (steps, 2)).astype(np.float32),
    )
    ds = uw.load("minari:test/small-v0")
    assert ds.lengths.tolist() == [3, 2, 4]
    assert ds.num_transitions.tolist() == [3, 2, 4]
    assert ds.episodes.terminated.tolist() == [True, False, False]
    assert ds.episodes.truncated.tolist() == [False, True, False]
    assert ds.complete.tolist() == [True, True, False]
    for number, episode in enumerate(theirs.iterate_episodes()):
        steps = slice(ds.starts[number], ds.starts[number] + ds.lengths[number])
        np.testing.assert_array_equal(ds.observations[steps], episode.observations[:-1])
        np.testing.assert_array_equal(ds.next_observations[steps], episode.observations[1:])
        np.testing.assert_array_equal(ds.actions[steps], episode.actions)
        np.testing.assert_array_equal(ds.rewards[steps], episode.rewards)
    np.testing.assert_array_equal(ds.initial_observations, ds.observations[ds.starts])


@storages
def test_returns_come_from_the_metadata(minari: Any, storage: str) -> None:
    from gymnasium import spaces

    theirs = create(minari, storage, vectors, spaces.Box(-np.inf, np.inf, (4,), np.float32))
    theirs.storage.update_episode_metadata([{"rewards_sum": float(value)} for value in (10, 20, 30)], range(3))
    ds = uw.load("minari:test/small-v0")
    assert ds.returns.tolist() == [10, 20, 30]
    with pytest.warns(uw.UpweightWarning, match="incomplete"):
        weights = uw.ReturnWeighting()(ds)
    assert weights[1] > weights[0] > weights[2] == 0
    columns = (
        ds.columns["rewards"],
        ds.columns["observations"],
        ds.columns["actions"],
        ds.columns["next_observations"],
    )
    assert not any(column is not None and column.is_loaded for column in columns)
    assert ds.num_actions == 3 and ds.actions.max() == 1  # as its action space says


@storages
def test_success_in_the_metadata_of_episodes(minari: Any, storage: str) -> None:
    from gymnasium import spaces

    written = create(minari, storage, vectors, spaces.Box(-np.inf, np.inf, (4,), np.float32))
    written.storage.update_episode_metadata([{"success": number == 1} for number in range(3)], range(3))
    ds = uw.load("minari:test/small-v0", success="success")
    assert ds.returns.tolist() == [0.0, 1.0, 0.0]
    with pytest.raises(uw.DatasetError, match=r"no 'solved' to tell .*success"):
        uw.load("minari:test/small-v0", success="solved")


@storages
def test_success_in_infos(minari: Any, storage: str) -> None:
    from gymnasium import spaces

    infos = [{"success": np.array(flags)} for flags in ([0, 0, 0, 1], [0, 0, 0], [0, 1, 0, 0, 0])]
    create(minari, storage, vectors, spaces.Box(-np.inf, np.inf, (4,), np.float32), infos=infos)
    assert uw.load("minari:test/small-v0", success="success").returns.tolist() == [1.0, 0.0, 1.0]


@storages
def test_dictionary_observations(minari: Any, storage: str) -> None:
    from gymnasium import spaces

    space = spaces.Dict(
        {
            "goal": spaces.Box(-np.inf, np.inf, (2,), np.float64),
            "state": spaces.Box(-np.inf, np.inf, (3,), np.float64),
        }
    )

    def observations(rng: np.random.Generator, count: int) -> dict[str, np.ndarray]:
        return {"goal": rng.normal(size=(count, 2)), "state": rng.normal(size=(count, 3))}

    theirs = create(minari, storage, observations, space)
    first = next(iter(theirs.iterate_episodes())).observations
    ds = uw.load("minari:test/small-v0")
    np.testing.assert_array_equal(ds.observations[:3], np.hstack([first["goal"], first["state"]])[:3])
    assert uw.load("minari:test/small-v0", observation_key="goal").observation_shape == (2,)
    with pytest.raises(uw.DatasetError):
        uw.load("minari:test/small-v0", observation_key="nothing").observations  # noqa: B018


@pytest.mark.parametrize("encoded", [True, False])
@pytest.mark.parametrize("storage", ["hdf5", "arrow"])
def test_images(minari: Any, storage: str, encoded: bool) -> None:
    from gymnasium import spaces

    def observations(rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.integers(0, 255, (count, 32, 40, 3), np.uint8)

    theirs = create(minari, storage, observations, spaces.Box(0, 255, (32, 40, 3), np.uint8), jpeg_encoding=encoded)
    ds = uw.load("minari:test/small-v0")
    assert ds.observation_shape == (32, 40, 3)
    assert ds.observations.dtype == np.uint8
    np.testing.assert_array_equal(ds.observations[:3], next(iter(theirs.iterate_episodes())).observations[:3])
    np.testing.assert_array_equal(ds.initial_observations, ds.observations[ds.starts])


def test_minari_reads_what_we_wrote(minari: Any, tmp_path: Path) -> None:
    from support.datasets import random_dataset

    ds = random_dataset(0, num_episodes=6, next_known=True, labels=True)
    assert uw.save(ds, tmp_path / "mine-v0", format="minari") == []
    theirs = minari.MinariDataset(tmp_path / "mine-v0" / "data")
    assert (theirs.total_episodes, theirs.total_steps) == (6, ds.num_steps)
    for number, episode in enumerate(theirs.iterate_episodes()):
        steps = slice(ds.starts[number], ds.starts[number] + ds.lengths[number])
        np.testing.assert_array_equal(episode.observations[:-1], ds.observations[steps])
        np.testing.assert_array_equal(episode.observations[-1], ds.next_observations[steps][-1])
        np.testing.assert_array_equal(episode.actions, ds.actions[steps])
        assert episode.terminations[-1] == ds.episodes.terminated[number]
        assert episode.truncations[-1] == ds.episodes.truncated[number]


def test_unknown_final_observations_cost_a_step_and_are_reported(minari: Any, tmp_path: Path) -> None:
    from support.datasets import tiny

    with pytest.warns(uw.DataLossWarning, match="the last step of 1 episodes"):
        uw.save(tiny(), tmp_path / "mine", format="minari")
    back = uw.load(tmp_path / "mine")
    assert back.lengths.tolist() == tiny().num_transitions.tolist() == [3, 1, 3]
    assert back.returns.tolist() == [6.0, 4.0, -3.0]
    assert back.episodes.truncated.tolist() == [False, True, False]


@storages
def test_files_of_a_minari_dataset_that_change_are_noticed(minari: Any, storage: str) -> None:
    from gymnasium import spaces

    given = create(minari, storage, vectors, spaces.Box(-np.inf, np.inf, (4,), np.float32))
    ds = uw.load(given.filter_episodes(lambda episode: episode.id != 1))
    for file in Path(given.storage.data_path).rglob("*.*"):
        os.utime(file, ns=(0, 1))
    with pytest.raises(uw.DatasetError, match="changed since it was loaded"):
        ds.observations  # noqa: B018


def test_an_id_that_is_not_there(minari: Any) -> None:
    with pytest.raises(uw.DatasetError, match="minari download mujoco/none-v0"):
        uw.load("minari:mujoco/none-v0")


def test_no_environment_is_built_from_a_file(minari: Any, tmp_path: Path) -> None:
    """Without recorded spaces Minari itself would import the entry point that the file names."""
    import json

    from support.datasets import random_dataset

    uw.save(random_dataset(0, next_known=True), tmp_path / "mine", format="minari")
    path = tmp_path / "mine" / "data" / "metadata.json"
    metadata = json.loads(path.read_text())
    del metadata["observation_space"], metadata["action_space"]
    metadata["env_spec"] = json.dumps({"id": "Bad-v0", "entry_point": "this_module_does_not_exist:Env"})
    path.write_text(json.dumps(metadata))
    assert uw.load(tmp_path / "mine").check().num_episodes == 12
