import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from scipy.stats import binomtest

import upweight as uw
from support.rollout import Counted, register_counted
from upweight.lab.play.action_noise import RandomActions
from upweight.lab.play.environments import STOCHASTIC, environment_spaces, find_spec

stochastic = pytest.mark.parametrize("env_id", STOCHASTIC)


class TestMakeEnvironment:
    def test_ant_is_built_without_contact_forces(self) -> None:
        assert uw.make_environment("Ant-v5").observation_space.shape == (27,)
        for size in (27, 105, 111):
            assert uw.make_environment("Ant-v5", size).observation_space.shape == (size,)
        with pytest.raises(uw.RolloutError, match="Ant-v5: expected 50 numbers .* has 27 or 105 or 111"):
            uw.make_environment("Ant-v5", 50)
        with pytest.raises(uw.RolloutError, match=r"Hopper-v5: expected 12 numbers .* has shape \(11,\)"):
            uw.make_environment("Hopper-v5", 12)

    def test_a_known_warning_of_mujoco_is_not_shown(self, capfd: pytest.CaptureFixture[str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            uw.make_environment("HalfCheetah-v5")
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize(
        ("env_id", "message"),
        [
            ("Hoper-v5", "did you mean 'Hopper-v5"),
            ("Hopper-v17", "did you mean 'Hopper-v"),
            ("upweight/StochasticCartPole-v2", "did you mean 'upweight/StochasticCartPole-v1"),
            ("no such thing", "unknown environment"),
            ("nomodule:Env-v0", "unknown environment"),
        ],
    )
    def test_unknown_ids(self, env_id: str, message: str) -> None:
        with pytest.raises(uw.RolloutError, match=message):
            uw.make_environment(env_id)

    def test_a_function_that_builds_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        code = "import gymnasium\n\ndef build():\n    return gymnasium.make('CartPole-v1', max_episode_steps=7)\n"
        (tmp_path / "plant_of_a_test.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        assert uw.make_environment("plant_of_a_test:build").observation_space.shape == (4,)
        assert environment_spaces("plant_of_a_test:build") == ((4,), 2, True)
        layer = (np.ones((4, 2), np.float32), np.zeros(2, np.float32))
        policy = uw.Policy("categorical", (layer,), observation_mean=np.zeros(4), observation_scale=np.ones(4))
        monkeypatch.setattr(sys, "path", sys.path[1:])  # workers begin without it
        uw.evaluate([policy] * 2, "CartPole-v1", episodes=1, workers=2)
        monkeypatch.syspath_prepend(tmp_path)
        played = uw.evaluate([policy] * 2, "plant_of_a_test:build", episodes=2, stochastic=True, workers=2)
        assert max(each.lengths.max() for each in played) == 7
        with pytest.raises(uw.RolloutError, match="unknown environment 'plant_of_a_test:biuld'"):
            uw.make_environment("plant_of_a_test:biuld")

    def test_an_id_that_a_module_registers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = "gymnasium.spec('CartPole-v1').entry_point"
        code = f"import gymnasium\ngymnasium.register('PlantOfATest-v3', {entry}, max_episode_steps=5)\n"
        (tmp_path / "plants_of_a_test.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        assert find_spec("plants_of_a_test:PlantOfATest-v3").max_episode_steps == 5
        assert environment_spaces("plants_of_a_test:PlantOfATest-v3") == ((4,), 2, True)
        layer = (np.ones((4, 2), np.float32), np.zeros(2, np.float32))
        policy = uw.Policy("categorical", (layer,), observation_mean=np.zeros(4), observation_scale=np.ones(4))
        for workers in (1, 2):
            (played,) = uw.evaluate([policy], "plants_of_a_test:PlantOfATest-v3", episodes=2, workers=workers)
            assert played.lengths.max() == 5
        with pytest.raises(uw.RolloutError, match="unknown environment"):
            find_spec("plants_of_a_test:PlantOfATest-v4")
        with pytest.raises(uw.RolloutError, match="unknown environment"):
            find_spec("no_such_module:CartPole-v1")

    def test_without_gymnasium(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "gymnasium", None)
        with pytest.raises(uw.MissingExtraError, match=r'pip install "upweight\[mujoco\]"'):
            uw.make_environment("CartPole-v1")

    def test_without_mujoco(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in [name for name in sys.modules if name.startswith("gymnasium.envs.mujoco")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "mujoco", None)
        with pytest.raises(uw.MissingExtraError, match=r'Hopper-v5 needs .*pip install "upweight\[mujoco\]"'):
            uw.make_environment("Hopper-v5")


class TestSpaces:
    def test_what_a_policy_must_know(self) -> None:
        assert environment_spaces("Hopper-v5") == ((11,), 3, False)
        assert environment_spaces("MountainCar-v0") == ((2,), 3, True)
        assert environment_spaces("Ant-v5") == ((27, 105, 111), 8, False)

    def test_nothing_stays_open(self) -> None:
        before = Counted.open_ones
        assert environment_spaces(register_counted()).action_size == 2
        assert Counted.open_ones == before


class TestStochasticEnvironments:
    @stochastic
    def test_registered_with_the_original_time_limit(self, env_id: str) -> None:
        uw.register_environments()
        uw.register_environments()  # again: nothing happens, no warning
        noisy, plain = gymnasium.make(env_id), gymnasium.make(STOCHASTIC[env_id])
        limits = {"CartPole-v1": 500, "Acrobot-v1": 500, "MountainCar-v0": 200}
        assert noisy.spec is not None
        assert noisy.spec.max_episode_steps == limits[STOCHASTIC[env_id]]
        assert noisy.action_space == plain.action_space
        assert noisy.observation_space == plain.observation_space

    @stochastic
    def test_starts_like_the_plain_one(self, env_id: str) -> None:
        for seed in range(5):
            noisy, plain = uw.make_environment(env_id), uw.make_environment(STOCHASTIC[env_id])
            np.testing.assert_array_equal(noisy.reset(seed=seed)[0], plain.reset(seed=seed)[0])

    @stochastic
    def test_the_same_seed_gives_the_same_trajectory(self, env_id: str) -> None:
        noisy = uw.make_environment(env_id)

        def trajectory(seed: int) -> list[list[float]]:
            seen = [noisy.reset(seed=seed)[0].tolist()]
            ended = False
            while not ended and len(seen) < 100:
                observation, _, terminated, truncated, _ = noisy.step(0)
                seen.append(observation.tolist())
                ended = terminated or truncated
            return seen

        first, other, again = trajectory(3), trajectory(4), trajectory(3)
        assert first == again != other

    def test_without_noise_it_is_the_plain_one(self) -> None:
        """The noise takes nothing from the environment's own stream, also over several episodes."""
        noisy, plain = RandomActions(gymnasium.make("CartPole-v1"), probability=0.0), gymnasium.make("CartPole-v1")
        for seed in (7, None, None):
            observations = [env.reset(seed=seed)[0] for env in (noisy, plain)]
            for step in range(8):
                np.testing.assert_array_equal(*observations)
                observations = [env.step(step % 2)[0] for env in (noisy, plain)]

    @stochastic
    def test_one_action_in_ten_is_random(self, env_id: str) -> None:
        spy = Spy(gymnasium.make(STOCHASTIC[env_id]))
        noisy = RandomActions(spy, probability=0.1)
        noisy.reset(seed=0)
        for _ in range(20_000):
            noisy.step(1)
        count = int(spy.action_space.n)
        changed = np.array(spy.played) != 1
        expected = 0.1 * (count - 1) / count  # a random action may be the given one
        assert binomtest(int(changed.sum()), len(changed), expected).pvalue > 0.001
        others = np.bincount(np.array(spy.played)[changed], minlength=count)
        assert others[1] == 0
        assert (others[np.arange(count) != 1] > 0.4 * changed.sum() / (count - 1)).all()


class Spy(gymnasium.Wrapper):
    """Notes the actions that arrive, and goes nowhere."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.played: list[int] = []

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        self.played.append(action)
        return np.zeros(4), 0.0, False, False, {}
