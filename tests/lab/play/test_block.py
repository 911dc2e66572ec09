import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import upweight as uw
from support.rollout import Counted, make_policy, register_counted, register_short_cheetah, run_block
from upweight.lab.play import block as block_module
from upweight.lab.play.block import Episode, episode_streams

SEEDS = [(5, number) for number in range(6)]


def by_hand(env_id: str, policy: uw.Policy | None, seed: tuple[int, ...], *, stochastic: bool) -> dict[str, Any]:
    """The plainest loop there is."""
    environment = uw.make_environment(env_id)
    reset_seed, stream = episode_streams(seed)
    rng = np.random.default_rng(stream)
    observation, _ = environment.reset(seed=reset_seed)
    seen, actions, rewards = [observation], [], []
    terminated = truncated = False
    while not (terminated or truncated):
        if policy is None:
            space = environment.action_space
            if hasattr(space, "n"):
                action = int(rng.integers(space.n))
            else:
                action = space.low + rng.random(space.shape, np.float32) * (space.high - space.low)
        else:
            action = policy.act(observation, rng if stochastic else None)
        observation, reward, terminated, truncated, _ = environment.step(action)
        seen.append(observation)
        actions.append(action)
        rewards.append(reward)
    return {
        "return": float(np.cumsum(np.array(rewards, np.float64))[-1]),  # in order; sum() compensates from 3.12 on
        "flags": (terminated, truncated),
        "visited": np.array(seen, np.float32),
        "actions": np.array(actions),
        "rewards": np.array(rewards, np.float32),
    }


def outcome(episodes: list[Episode]) -> list[tuple[float, int, bool, bool]]:
    return [(episode.total_reward, episode.length, episode.terminated, episode.truncated) for episode in episodes]


@pytest.mark.parametrize(
    ("env_id", "kind", "stochastic"),
    [
        ("Hopper-v5", "deterministic", False),
        ("Hopper-v5", "gaussian", True),
        ("Hopper-v5", "tanh_gaussian", True),
        ("Hopper-v5", None, False),
        ("CartPole-v1", "categorical", True),
        ("CartPole-v1", "greedy", True),
        ("upweight/StochasticCartPole-v1", None, False),
        ("InvertedPendulum-v5", "gaussian", True),
    ],
)
def test_the_same_as_a_loop_by_hand(env_id: str, kind: str | None, stochastic: bool) -> None:
    policy = None if kind is None else make_policy(env_id, kind)
    episodes = run_block(env_id, policy, SEEDS[:3], stochastic=stochastic, lanes=1, record=True)
    for seed, episode in zip(SEEDS, episodes, strict=False):
        expected = by_hand(env_id, policy, seed, stochastic=stochastic)
        assert episode.total_reward == expected["return"]
        assert (episode.terminated, episode.truncated) == expected["flags"]
        assert episode.length == len(expected["rewards"])
        assert episode.trajectory is not None
        np.testing.assert_array_equal(episode.trajectory.visited, expected["visited"])
        np.testing.assert_array_equal(episode.trajectory.observations, expected["visited"][:-1])
        np.testing.assert_array_equal(episode.trajectory.next_observations, expected["visited"][1:])
        np.testing.assert_array_equal(episode.trajectory.actions, expected["actions"])
        np.testing.assert_array_equal(episode.trajectory.rewards, expected["rewards"])


@pytest.mark.parametrize(("env_id", "kind"), [("Hopper-v5", "gaussian"), ("CartPole-v1", "categorical")])
def test_an_episode_does_not_depend_on_its_company(env_id: str, kind: str) -> None:
    """In the same lane, beside others, or with the other lanes empty."""
    policy = make_policy(env_id, kind, hidden=256)

    def play(*seeds: tuple[int, int]) -> list[tuple[float, int, bool, bool]]:
        return outcome(run_block(env_id, policy, seeds, stochastic=True, lanes=5))

    a, b, c, d, *_ = SEEDS
    assert play(a, b, c)[1] == play(d, b)[1] == play(b, b, a, d, c)[1]
    assert play(a) == play(a, d, d)[:1]


def test_lanes_that_are_done_take_the_next_episode() -> None:
    policy = make_policy("Hopper-v5", "gaussian")
    first, again = (run_block("Hopper-v5", policy, SEEDS, stochastic=True, lanes=2, record=True) for _ in range(2))
    assert outcome(first) == outcome(again)
    assert len({episode.length for episode in first}) > 2  # lanes finish at different times
    for seed, episode in zip(SEEDS, first, strict=True):
        assert episode.trajectory is not None
        start, _ = uw.make_environment("Hopper-v5").reset(seed=episode_streams(seed)[0])
        np.testing.assert_array_equal(episode.trajectory.visited[0], start.astype(np.float32))
        assert len(episode.trajectory.rewards) == episode.length
        assert episode.trajectory.rewards.sum() == pytest.approx(episode.total_reward, rel=1e-5)


def test_lanes_change_rounding_at_most() -> None:
    policy = make_policy("CartPole-v1", "greedy")
    one, many = (run_block("CartPole-v1", policy, SEEDS, lanes=lanes) for lanes in (1, 4))
    assert outcome(one) == outcome(many)


class TestEnds:
    def test_hopper_falls(self) -> None:
        episodes = run_block("Hopper-v5", None, SEEDS)
        assert all(episode.terminated and not episode.truncated and episode.length < 1000 for episode in episodes)

    def test_half_cheetah_runs_into_its_time_limit(self) -> None:
        env_id = register_short_cheetah()
        episodes = run_block(env_id, None, SEEDS, record=True)
        assert all(episode.truncated and not episode.terminated and episode.length == 40 for episode in episodes)
        trajectory = episodes[0].trajectory
        assert trajectory is not None
        assert trajectory.visited.shape == (41, 17)
        assert trajectory.actions.shape == (40, 6)
        assert {array.dtype for array in (trajectory.visited, trajectory.actions, trajectory.rewards)} == {
            np.dtype(np.float32)
        }
        assert np.abs(trajectory.actions).max() <= 1
        assert len(np.unique(trajectory.actions)) == trajectory.actions.size

    def test_a_recorded_block_makes_a_dataset(self) -> None:
        episodes = run_block("CartPole-v1", None, SEEDS, record=True)
        parts = [
            {
                "observations": episode.trajectory.visited,
                "actions": episode.trajectory.actions,
                "rewards": episode.trajectory.rewards,
                "terminated": episode.terminated,
                "truncated": episode.truncated,
            }
            for episode in episodes
            if episode.trajectory is not None
        ]
        ds = uw.Dataset.from_episodes(parts)
        assert ds.discrete_actions
        np.testing.assert_array_equal(ds.returns, [episode.total_reward for episode in episodes])


class TestEnvironmentsAreClosed:
    def play(self, env_id: str, count: int) -> None:
        run_block(env_id, None, SEEDS[:count])

    def test_when_others_take_their_place(self) -> None:
        self.play("CartPole-v1", 1)
        before = Counted.open_ones
        env_id = register_counted()
        self.play(env_id, 3)
        self.play(env_id, 2)  # the same ones again
        assert Counted.open_ones == before + 3
        self.play("CartPole-v1", 1)
        assert Counted.open_ones == before

    def test_when_their_id_gets_a_new_meaning(self) -> None:
        self.play("CartPole-v1", 1)
        before = Counted.open_ones
        self.play(register_counted(), 3)
        self.play(register_counted(reward_threshold=1.0), 2)
        assert Counted.open_ones == before + 2
        self.play("CartPole-v1", 1)
        assert Counted.open_ones == before

    def test_after_an_error(self) -> None:
        self.play("CartPole-v1", 1)
        before = Counted.open_ones
        with pytest.raises(uw.RolloutError, match="ZeroDivisionError: broken"):
            self.play(register_counted(kwargs={"fault": "broken"}), 3)
        assert Counted.open_ones == before

    def test_one_that_cannot_be_closed_stops_nobody(self) -> None:
        self.play(register_counted(kwargs={"stuck": True}), 1)
        with pytest.warns(uw.UpweightWarning, match="counted-v0.*could not be closed: OSError: stuck"):
            self.play("CartPole-v1", 1)

    def test_at_the_end_of_the_process(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text("""
import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv
import upweight as uw
class Loud(CartPoleEnv):
    def close(self):
        print("closed")
gymnasium.register("script/Loud-v0", entry_point=Loud, max_episode_steps=7)
layer = (np.zeros((4, 2), np.float32), np.zeros(2, np.float32))
uw.evaluate(uw.Policy("greedy", (layer,), np.zeros(4), np.ones(4)), "script/Loud-v0", 3, workers=1)
print("done")
""")
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, timeout=120)
        assert done.stdout.splitlines() == ["closed", "done", *3 * ["closed"]]  # one looked at, three that played


def test_a_policy_of_d4rls_ant_reads_zeros_where_the_files_have_them() -> None:
    """D4RL's ant has 84 more numbers than the environment, all of them zero."""
    policy = make_policy("Ant-v5", inputs=111)
    for episode in run_block("Ant-v5", policy, SEEDS[:2], record=True):
        assert episode.trajectory is not None
        seen = episode.trajectory.observations
        assert seen.shape == (episode.length, 111) and seen[:, :27].all() and not seen[:, 27:].any()
        np.testing.assert_allclose(episode.trajectory.actions, policy.act(seen), atol=1e-5)


def test_the_ant_is_built_as_the_policy_reads_it() -> None:
    """The same ant whatever is read of it: without contact forces, with them, or with zeros in their place."""
    played, seen = dict[int, Episode](), dict[int, np.ndarray[Any, Any]]()
    for size in (27, 105, 111, 27):
        policy = make_policy("Ant-v5", inputs=size)
        constant = replace(policy, layers=tuple((0 * weight, 0 * offset + 0.3) for weight, offset in policy.layers))
        (played[size],) = run_block("Ant-v5", constant, SEEDS[:1], record=True)
        assert played[size].trajectory is not None
        seen[size] = played[size].trajectory.observations
        assert seen[size].shape == (played[size].length, size)
    assert np.abs(seen[105][:, 27:]).max() > 0 and np.abs(seen[105][:, 27:]).max() <= 1
    for size in (105, 111):
        assert played[size].total_reward == played[27].total_reward
        np.testing.assert_array_equal(seen[size][:, :27], seen[27])


def test_random_actions_need_bounds() -> None:
    import gymnasium

    gymnasium.register("upweight-tests/Boundless-v0", entry_point=Boundless)
    with pytest.raises(uw.RolloutError, match="bounded box"):
        run_block("upweight-tests/Boundless-v0", None, SEEDS)


def Endless() -> Any:
    """Never terminates, and has no time limit."""
    import gymnasium

    return gymnasium.make("Pendulum-v1").unwrapped


def Limited() -> Any:
    import gymnasium

    return gymnasium.wrappers.TimeLimit(Endless(), 9)


def test_an_episode_that_may_never_end_needs_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declared where the environment is registered, or by a wrapper; one that ends by itself needs none."""
    import gymnasium

    monkeypatch.setattr(block_module, "MOST_STEPS", 8)
    gymnasium.register("upweight-tests/Endless-v0", entry_point=Endless)
    message = r"Endless-v0: .*8 steps.*max_episode_steps"
    with pytest.raises(uw.RolloutError, match=message):
        run_block("upweight-tests/Endless-v0", None, SEEDS)
    with pytest.raises(uw.RolloutError, match=message):
        uw.evaluate(make_policy("upweight-tests/Endless-v0"), "upweight-tests/Endless-v0", episodes=1, workers=1)
    gymnasium.register("upweight-tests/Limited-v0", entry_point=Limited)
    gymnasium.register("upweight-tests/Ended-v0", entry_point=Endless, max_episode_steps=10)
    for env_id, length in (("upweight-tests/Limited-v0", 9), ("upweight-tests/Ended-v0", 10)):
        assert {episode.length for episode in run_block(env_id, None, SEEDS)} == {length}
    monkeypatch.setattr(block_module, "MOST_STEPS", 9)
    gymnasium.register("upweight-tests/EndsByItself-v0", entry_point=lambda: OwnClock(9))
    assert {episode.length for episode in run_block("upweight-tests/EndsByItself-v0", None, SEEDS)} == {9}


class OwnClock(CartPoleEnv):
    """Says itself that an episode is over, after so many steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.most = steps

    def reset(self, **options: Any) -> Any:
        self.steps = 0
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        self.steps += 1
        observation, reward, *_ = super().step(action)
        return observation, reward, False, self.steps == self.most, {}


def Boundless() -> Any:
    import gymnasium

    environment = gymnasium.make("Pendulum-v1").unwrapped
    environment.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    return environment
