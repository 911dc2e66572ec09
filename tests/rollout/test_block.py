from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.rollout import make_policy, register_short_cheetah
from upweight.rollout.block import run_block
from upweight.rollout.episode import Episode, episode_streams

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
        "return": float(
            np.add.accumulate(np.array(rewards, np.float64))[-1]
        ),  # in order; sum() compensates from 3.12 on
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


def test_random_actions_need_bounds() -> None:
    import gymnasium

    gymnasium.register("upweight-tests/Boundless-v0", entry_point=Boundless)
    with pytest.raises(uw.RolloutError, match="bounded box"):
        run_block("upweight-tests/Boundless-v0", None, SEEDS)


def Boundless() -> Any:
    import gymnasium

    environment = gymnasium.make("Pendulum-v1").unwrapped
    environment.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
    return environment
