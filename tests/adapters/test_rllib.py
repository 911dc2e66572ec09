"""RLlib: real offline data, real learners."""

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import ray

import upweight as uw
from support.adapters import Adapted, check_adapter, numbered_dataset, steps_of
from support.datasets import rows_only

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context"),  # of Ray Data's own settings, to itself
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),  # of JAX, if it is loaded, when Ray starts its servers
]


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        log_to_driver=False,
        logging_level="ERROR",
        _temp_dir=str(tmp_path_factory.mktemp("ray")),
    )
    yield
    ray.shutdown()
    torch.set_num_threads(threads)


class Simulator(gym.Env):
    """What CQL insists on having, though it is never played."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, config: Any = None) -> None:
        pass

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(3, np.float32), {}


def make_config(
    name: str, paths: list[str], offline_data_class: Any, *, updates: int = 1, discrete: bool = False
) -> Any:
    from ray.rllib.algorithms.bc import BCConfig
    from ray.rllib.algorithms.cql import CQLConfig
    from ray.rllib.algorithms.iql import IQLConfig
    from ray.rllib.algorithms.marwil import MARWILConfig

    config = {"bc": BCConfig, "marwil": MARWILConfig, "cql": CQLConfig, "iql": IQLConfig}[name]()
    config.environment(
        Simulator if name == "cql" else None,
        observation_space=Simulator.observation_space,
        action_space=gym.spaces.Discrete(3) if discrete else Simulator.action_space,
    )
    config.env_runners(num_env_runners=0).learners(num_learners=0).training(train_batch_size_per_learner=64)
    config.offline_data(
        input_=paths, offline_data_class=offline_data_class, dataset_num_iters_per_learner=updates
    ).reporting(min_time_s_per_iteration=0, min_train_timesteps_per_iteration=0)
    if name == "cql":
        config.training(lr=None, num_actions=2, bc_iters=1)
    return config


def write(dataset: uw.Dataset, path: Path) -> list[str]:
    from upweight.adapters.rllib import write_parquet

    write_parquet(dataset, path)
    return [str(path)]


def open_data(config: Any) -> Any:
    """The offline data as an algorithm would set it up, without the algorithm."""
    from ray.rllib.env import INPUT_ENV_SPACES

    data = config.offline_data_class(config)
    data.spaces = {INPUT_ENV_SPACES: (config.observation_space, config.action_space)}
    data.module_spec = config.get_multi_rl_module_spec(
        spaces={**data.spaces, "default_policy": data.spaces[INPUT_ENV_SPACES]}
    )
    return data


def weighted(weighting: Any, seed: int = 0) -> Any:
    from upweight.adapters.rllib import WeightedOfflineData

    return WeightedOfflineData.with_weighting(weighting, seed=seed)


@pytest.fixture
def logged(tmp_path: Path) -> Callable[..., tuple[uw.Dataset, list[str]]]:
    def make(**options: Any) -> tuple[uw.Dataset, list[str]]:
        dataset = numbered_dataset(terminated=True, **options)
        return dataset, write(dataset, tmp_path / "logged.parquet")

    return make


@pytest.mark.parametrize(
    ("name", "streamed", "mapped", "draws"),
    [
        ("bc", False, True, 40_000),
        ("iql", True, True, 40_000),
        ("marwil", True, True, 20_000),
        ("marwil", False, False, 5_000),
    ],
)
def test_contract(logged: Any, name: str, streamed: bool, mapped: bool, draws: int) -> None:
    dataset, paths = logged()

    def make(dataset: uw.Dataset, weights: np.ndarray, seed: int) -> Adapted:
        config = make_config(name, paths, weighted(weights, seed)).offline_data(materialize_mapped_data=mapped)
        data = open_data(config)
        if not streamed:
            return Adapted(
                lambda count: steps_of(data.sample(count)["default_policy"]["obs"]),
                data.state_dict,
                data.load_state_dict,
            )
        (stream,) = data.sample(256, return_iterator=True, num_shards=0)
        batches = chain.from_iterable(repeat(stream.iter_torch_batches(batch_size=32)))  # one epoch after the other

        def draw(count: int) -> np.ndarray:
            return np.concatenate([steps_of(next(batches)["default_policy/obs"]) for _ in range(count // 32)])

        return Adapted(draw, data.state_dict, data.load_state_dict)

    check_adapter(make, dataset, draws=draws)


@pytest.mark.parametrize(("name", "discrete"), [("bc", False), ("bc", True), ("cql", False), ("iql", False)])
def test_gathered_batches_are_the_pre_learners(logged: Any, name: str, discrete: bool) -> None:
    from ray.rllib.offline.offline_prelearner import OfflinePreLearner

    class Own(OfflinePreLearner):  # one of the user's own is always called
        pass

    _, paths = logged(discrete=discrete)
    config = make_config(name, paths, weighted("rw", 5), discrete=discrete)
    gathered = open_data(config).sample(128)["default_policy"]
    for mapped in (False, True):
        own = config.copy().offline_data(prelearner_class=Own, materialize_mapped_data=mapped)
        piped = open_data(own).sample(128)["default_policy"]
        assert gathered.keys() == piped.keys()
        for key in gathered:
            assert gathered[key].dtype == piped[key].dtype
            np.testing.assert_array_equal(gathered[key], piped[key])


def test_rows_mapped_in_advance_are_those_mapped_when_drawn(logged: Any) -> None:
    _, paths = logged()
    config = make_config("marwil", paths, weighted("rw", 5)).debugging(seed=0)
    batches = []
    for mapped in (True, False):
        algorithm = config.copy().offline_data(materialize_mapped_data=mapped).build_algo()
        batches.append(algorithm.offline_data.sample(128, num_shards=0)["default_policy"])
        algorithm.stop()
    for key in ("obs", "actions", "new_obs", "value_targets", "loss_mask"):
        np.testing.assert_allclose(batches[0][key], batches[1][key], rtol=1e-5)


def test_a_learner_connector_of_the_user_is_used(logged: Any) -> None:
    from ray.rllib.connectors.connector_v2 import ConnectorV2

    class Marked(ConnectorV2):
        def __call__(self, *, batch: Any, episodes: Any, **_: Any) -> Any:
            for episode in episodes:
                self.add_n_batch_items(batch, "mark", [7.0] * len(episode), len(episode), episode)
            return batch

    _, paths = logged()
    config = make_config("bc", paths, weighted("rw")).learners(learner_connector=lambda *_, **__: Marked())
    assert (open_data(config).sample(8)["default_policy"]["mark"] == 7).all()


def test_connectors_that_change_the_number_of_rows(logged: Any) -> None:
    from ray.rllib.connectors.connector_v2 import ConnectorV2

    class Halved(ConnectorV2):
        def __call__(self, *, batch: Any, episodes: Any, **_: Any) -> Any:
            del episodes[::2]
            return batch

    _, paths = logged()
    config = make_config("bc", paths, weighted("rw")).learners(learner_connector=lambda *_, **__: Halved())
    with pytest.raises(uw.AdapterError, match="127 rows of 127, found 63 .*materialize_mapped_data=False"):
        open_data(config).sample(8)
    config.offline_data(materialize_mapped_data=False)
    assert len(open_data(config).sample(8)["default_policy"]["obs"]) == 4


# ---- packed folders ------------------------------------------------------------------------------------------------
def assert_same_batches(found: Any, expected: Any, batches: int = 2) -> None:
    for _ in range(batches):
        ours, theirs = (data.sample(128)["default_policy"] for data in (found, expected))
        assert ours.keys() == theirs.keys()
        for key in theirs:
            assert ours[key].dtype == theirs[key].dtype
            np.testing.assert_array_equal(ours[key], theirs[key])


@pytest.mark.parametrize("discrete", [False, True])
def test_batches_of_a_packed_folder_are_those_of_its_rows(logged: Any, tmp_path: Path, discrete: bool) -> None:
    from ray.rllib.offline.offline_prelearner import OfflinePreLearner

    class Own(OfflinePreLearner):
        pass

    dataset, paths = logged(discrete=discrete)
    uw.pack(dataset, tmp_path / "a.packed")
    for options in ({}, {"prelearner_class": Own}, {"prelearner_class": Own, "materialize_mapped_data": False}):
        rows, packed = (
            open_data(make_config("bc", given, weighted("rw", 5), discrete=discrete).offline_data(**options))
            for given in (paths, str(tmp_path / "a.packed"))
        )
        assert_same_batches(packed, rows)


def test_ends_of_a_packed_folder(tmp_path: Path) -> None:
    """Last steps whose next observation is unknown are not drawn, but count in the returns, which the rows leave out."""
    dataset = numbered_dataset()
    uw.pack(dataset, tmp_path / "a.packed")
    packed = open_data(make_config("bc", [str(tmp_path / "a.packed")], weighted("rw", 5)))
    np.testing.assert_array_equal(packed.weights, uw.ReturnWeighting()(dataset))
    with pytest.warns(uw.DataLossWarning, match="RLlib's rows do not keep"):
        paths = write(dataset, tmp_path / "a.parquet")
    assert_same_batches(packed, open_data(make_config("bc", paths, weighted(uw.ReturnWeighting()(dataset), 5))))
    assert packed.sample(256)["default_policy"]["truncateds"].any()


def test_several_packed_folders_are_one_after_the_other(tmp_path: Path) -> None:
    dataset = numbered_dataset(terminated=True)
    parts = [dataset.subset(np.arange(7)), dataset.subset(np.arange(7, 20))]
    paths = [str(tmp_path / f"{number}.packed") for number in range(2)]
    for part, path in zip(parts, paths, strict=True):
        uw.pack(part, path)
    found = open_data(make_config("bc", paths, weighted("rw", 5)))
    uw.pack(dataset, tmp_path / "all.packed")
    assert_same_batches(found, open_data(make_config("bc", [str(tmp_path / "all.packed")], weighted("rw", 5))))
    with pytest.raises(uw.AdapterError, match="packed folders alone, or none, found a.parquet among them"):
        open_data(make_config("bc", [*paths, "a.parquet"], weighted("rw")))


def test_of_a_packed_folder_nothing_but_the_drawn_rows_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = rows_only(numbered_dataset(terminated=True))
    uw.pack(numbered_dataset(terminated=True), tmp_path / "a.packed")
    monkeypatch.setattr("upweight.adapters.rllib_rows.load", lambda path: dataset)
    data = open_data(make_config("iql", [str(tmp_path / "a.packed")], weighted("aw")))
    for _ in range(2):
        data.sample(16)
    assert dataset.columns["observations"].gathered == 2 * 2 * 16  # with the following ones


def test_learners_open_a_packed_folder_themselves(tmp_path: Path) -> None:
    """What is sent to remote ones is where the rows are, not the rows."""
    dataset = uw.Dataset.from_arrays(
        observations=np.random.default_rng(0).normal(size=(10_000, 3)).astype(np.float32),
        actions=np.zeros((10_000, 2), np.float32),
        rewards=np.repeat(np.arange(10.0), 1000),
        terminated=np.arange(10_000) % 1000 == 999,
    )
    uw.pack(dataset, tmp_path / "a.packed")
    config = make_config("bc", [str(tmp_path / "a.packed")], weighted("rw", 3), updates=2)
    data = open_data(config)
    assert len(ray.cloudpickle.dumps(data._source(None))) < 20_000
    (stream,) = data.sample(256, return_iterator=True, num_shards=1)
    drawn = next(iter(stream.iter_torch_batches(batch_size=64)))["default_policy/obs"].numpy()
    assert {row.tobytes() for row in drawn} <= {row.tobytes() for row in dataset.observations}
    algorithm = config.build_algo()
    assert np.isfinite(algorithm.train()["learners"]["default_policy"]["total_loss"])
    algorithm.stop()


@pytest.mark.parametrize("name", ["bc", "marwil", "cql", "iql"])
def test_training(logged: Any, name: str) -> None:
    dataset, paths = logged()
    algorithm = make_config(name, paths, weighted("rw", 1), updates=3).build_algo()
    before = learned(algorithm).get_state()
    result = algorithm.train()["learners"]["default_policy"]
    after = learned(algorithm).get_state()
    algorithm.stop()
    assert result["num_module_steps_trained"] == 3 * 64
    assert np.isfinite(result["total_loss"])
    assert any((before[key] != after[key]).any() for key in before)
    np.testing.assert_allclose(algorithm.offline_data.weights, uw.ReturnWeighting()(dataset))


def test_what_is_cloned_follows_the_weights(tmp_path: Path) -> None:
    """Nine episodes in ten go left for nothing, one goes right and is paid: by return, the policy goes right."""
    good = np.repeat(np.arange(100) % 10 == 0, 10)
    dataset = uw.Dataset.from_arrays(
        observations=np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32),
        actions=np.where(good, 0.8, -0.8).astype(np.float32)[:, None].repeat(2, axis=1),
        rewards=good.astype(np.float32),
        terminated=np.arange(1000) % 10 == 9,
    )
    paths = write(dataset, tmp_path / "logged.parquet")
    actions = {}
    for weighting in ("rw", "uniform"):
        config = make_config("bc", paths, weighted(weighting), updates=150).training(lr=3e-3).debugging(seed=0)
        algorithm = config.build_algo()
        algorithm.train()
        actions[weighting] = policy_mean(algorithm, dataset.observations[:200])
        algorithm.stop()
    assert actions["rw"] > 0.5
    assert actions["uniform"] < -0.3


def learned(algorithm: Any) -> Any:
    return algorithm.offline_data.learner_handles[0].module["default_policy"]


def policy_mean(algorithm: Any, observations: np.ndarray) -> float:
    import torch

    with torch.no_grad():
        out = learned(algorithm).forward_inference({"obs": torch.from_numpy(observations.copy())})
    return float(out["action_dist_inputs"][:, :2].mean())


@pytest.mark.parametrize("weighting", ["rw", "aw", "uniform"])
def test_the_mean_return_of_drawn_trajectories(logged: Any, weighting: str) -> None:
    dataset, paths = logged()
    data = open_data(make_config("bc", paths, weighted(weighting)))
    weights = uw.make_weighting(weighting)(dataset)
    expected = uw.step_weighted_return(weights, dataset.returns, dataset.num_transitions)
    episode = np.repeat(np.arange(dataset.num_episodes), dataset.lengths)
    returns = dataset.returns[episode[steps_of(data.sample(20_000)["default_policy"]["obs"])]]
    assert returns.mean() == pytest.approx(expected, abs=4 * returns.std() / 20_000**0.5)
    if weighting != "uniform":
        uniform = uw.step_weighted_return(np.ones(dataset.num_episodes), dataset.returns, dataset.num_transitions)
        assert returns.mean() > uniform + 1


def test_remote_learners(logged: Any) -> None:
    _, paths = logged()
    config = make_config("marwil", paths, weighted("rw"), updates=2).learners(num_learners=1)
    algorithm = config.build_algo()
    result = algorithm.train()["learners"]["default_policy"]
    assert result["num_module_steps_trained"] == 2 * 64
    with pytest.raises(uw.AdapterError, match="1 remote learners .* cannot be saved"):
        algorithm.offline_data.state_dict()
    algorithm.stop()


def test_remote_learners_draw_their_own(logged: Any) -> None:
    dataset, paths = logged()
    data = open_data(make_config("bc", paths, weighted("rw", 3)))
    streams = data.sample(256, return_iterator=True, num_shards=2)
    first, second = (next(iter(stream.iter_torch_batches(batch_size=64))) for stream in streams)
    again = next(iter(streams[0].iter_torch_batches(batch_size=64)))
    assert (first["default_policy/obs"] != second["default_policy/obs"]).any()
    assert (first["default_policy/obs"] == again["default_policy/obs"]).all()
    assert data.sample(256, return_iterator=True, num_shards=2) is streams
    assert dataset.num_steps == data.dataset.num_steps


def test_values_come_from_the_module_that_learns(logged: Any) -> None:
    _, paths = logged()
    config = make_config("marwil", paths, weighted("rw"))
    config.offline_data(materialize_mapped_data=False, prelearner_module_synch_period=2)
    algorithm = config.build_algo()
    data = algorithm.offline_data

    def state() -> float:
        return float(data._local._prelearner._module["default_policy"].get_state()["vf.net.mlp.0.weight"].sum())

    seen = []
    for _ in range(4):
        algorithm.train()
        seen.append(state())
    algorithm.stop()
    assert seen[0] == seen[1] != seen[2] == seen[3]


def test_rows_that_were_written_are_read_back(tmp_path: Path) -> None:
    dataset = numbered_dataset(terminated=True).with_labels("x")
    data = weighted("uniform")(make_config("bc", write(dataset, tmp_path / "a.parquet"), None)).dataset
    for name in ("observations", "actions", "rewards", "next_observations", "terminated", "truncated", "lengths"):
        np.testing.assert_array_equal(getattr(data, name), getattr(dataset, name))


def test_rows_are_written_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import parquet

    dataset = numbered_dataset(terminated=True)
    (whole,) = write(dataset, tmp_path / "a.parquet")
    monkeypatch.setattr("upweight.adapters.rllib_rows._BLOCK_BYTES", 1000)
    hidden = rows_only(dataset)
    (tmp_path / "parts").mkdir()
    (parts,) = write(hidden, tmp_path / "parts" / "a.parquet")
    assert hidden.columns["actions"].most < 30 and parquet.ParquetFile(parts).num_row_groups > 4
    assert parquet.read_table(parts).equals(parquet.read_table(whole))


def test_images_keep_their_shape(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (6, 4, 5, 3), np.uint8)
    ends = np.array([0, 0, 1, 0, 0, 1], bool)
    dataset = uw.Dataset.from_arrays(observations=images, actions=np.arange(6), rewards=np.ones(6), terminated=ends)
    data = weighted("uniform")(make_config("bc", write(dataset, tmp_path / "a.parquet"), None, discrete=True)).dataset
    np.testing.assert_array_equal(data.observations, images)
    assert data.observations.dtype == np.uint8
    assert data.discrete_actions


def test_what_rows_cannot_say(tmp_path: Path) -> None:
    dataset = numbered_dataset(terminated=False)
    with pytest.warns(uw.DataLossWarning, match=r"the last step \(and its reward\) of 20 episodes"):
        paths = write(dataset, tmp_path / "a.parquet")
    data = weighted(uw.ReturnWeighting()(dataset))(make_config("bc", paths, None))
    np.testing.assert_array_equal(data.dataset.lengths, dataset.num_transitions)
    assert data.dataset.episodes.truncated.all()
    ended = numbered_dataset(terminated=True).mark_incomplete([0, 3])
    with pytest.warns(uw.DataLossWarning, match="2 ended episodes were declared incomplete"):
        write(ended, tmp_path / "b.parquet")
    with pytest.raises(uw.AdapterError, match="expected an upweight.Dataset .* found str"):
        write("hopper-medium", tmp_path / "c.parquet")


def test_a_folder_and_the_reader_of_ray_data(tmp_path: Path) -> None:
    first, second = numbered_dataset(terminated=True).split(0.5, seed=0)
    write(second, tmp_path / "b.parquet")
    write(first, tmp_path / "a.parquet")
    config = make_config("bc", [str(tmp_path)], weighted("rw", 2))
    here = open_data(config)
    there = open_data(config.copy().offline_data(input_read_method_kwargs={"override_num_blocks": 2}))
    expected = np.concatenate([first.observations, second.observations])
    for data in (here, there):
        np.testing.assert_array_equal(data.dataset.observations, expected)
    np.testing.assert_array_equal(*(data.sample(64)["default_policy"]["obs"] for data in (here, there)))


def test_columns_of_other_names_and_steps_of_episodes_that_alternate(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = {
        "game": ["x", "y", "x", "y"],
        "obs": [[1.0, 0, 0], [2.0, 0, 0], [3.0, 0, 0], [4.0, 0, 0]],
        "actions": [[0.0, 0]] * 4,
        "rewards": [1.0, 2.0, 3.0, 4.0],
        "dones": [False, False, True, True],
    }
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    config = make_config("bc", [str(tmp_path)], weighted("rw"))
    with pytest.raises(
        uw.AdapterError, match="expected columns eps_id, .*, new_obs, found game, obs, .*input_read_schema"
    ):
        open_data(config)
    data = open_data(config.copy().offline_data(input_read_schema={"eps_id": "game"}, ignore_final_observation=True))
    assert steps_of(data.dataset.observations).tolist() == [0, 2, 1, 3]
    assert data.dataset.returns.tolist() == [4, 6]
    assert data.sample(8)["default_policy"]["new_obs"].tolist() == [[0, 0, 0]] * 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": ["packed"] * 4}, "column 'obs': expected arrays of one shape, found str objects"),
        ({"obs": [[1.0], [1.0, 2.0], [1.0], [1.0]]}, "column 'obs': expected arrays of one shape, found ndarray"),
        ({"terminateds": [True, False, False, True]}, "step 0 is flagged as an end, but episode 'x' goes on"),
        ({"rewards": [1.0, np.nan, 1.0, 1.0]}, "rewards"),
    ],
)
def test_bad_rows(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows: dict[str, Any] = {"eps_id": ["x", "x", "y", "y"], "obs": [[1.0, 0, 0]] * 4, "new_obs": [[1.0, 0, 0]] * 4}
    rows |= {"actions": [[0.0, 0]] * 4, "rewards": [1.0] * 4, "terminateds": [False, True, False, True]}
    pq.write_table(pa.table(rows | change), tmp_path / "a.parquet")
    with pytest.raises((uw.AdapterError, uw.DatasetError), match=message):
        open_data(make_config("bc", [str(tmp_path / "a.parquet")], weighted("rw")))


def test_bad_settings(logged: Any) -> None:
    _, paths = logged()
    config = make_config("bc", paths, weighted("rw"))
    for name in ("input_read_episodes", "input_read_sample_batches"):
        with pytest.raises(uw.AdapterError, match=f"a row per step, found {name}=True"):
            open_data(config.copy().offline_data(**{name: True}))
    with pytest.raises(uw.AdapterError, match="a single agent .* found is_multi_agent=True"):
        open_data(config.copy().multi_agent(policies={"one", "two"}))
    with pytest.raises(uw.WeightingError, match="20"):
        open_data(make_config("bc", paths, weighted(np.ones(3))))
    with pytest.raises(uw.AdapterError, match="expected to be used by an RLlib algorithm"):
        weighted("rw")(config).sample(4)
    with pytest.raises(uw.AdapterError, match="a module without memory, found a stateful one"):
        open_data(config.copy().rl_module(model_config={"use_lstm": True, "max_seq_len": 4})).sample(4)


def test_a_state_of_other_data(logged: Any, tmp_path: Path) -> None:
    _, paths = logged()
    data = open_data(make_config("bc", paths, weighted("rw")))
    other = write(numbered_dataset(episodes=5, terminated=True), tmp_path / "other.parquet")
    with pytest.raises(uw.AdapterError, match="these 20 episodes .* found 5 episodes"):
        data.load_state_dict(open_data(make_config("bc", other, weighted("rw"))).state_dict())
