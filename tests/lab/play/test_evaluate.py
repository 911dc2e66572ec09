import json
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
import pytest

import upweight as uw
from support.rollout import make_policy, register_faulty, register_numbered_from_one, register_short_cheetah, run_block
from upweight.lab.study.fit import check_environment


def same(first: uw.Evaluation, second: uw.Evaluation) -> bool:
    return first.to_dict() == second.to_dict()


@pytest.mark.parametrize("env_id", ["Hopper-v5", "short cheetah"])
def test_bit_identical_for_any_number_of_workers(env_id: str) -> None:
    if env_id == "short cheetah":
        env_id = register_short_cheetah()
    policies = [make_policy(env_id, "gaussian", seed=seed, hidden=256) for seed in range(2)]
    one, two, three = (uw.evaluate(policies, env_id, 25, 1, stochastic=True, workers=count) for count in (1, 2, 3))
    for place in range(2):
        assert same(one[place], two[place])
        assert same(one[place], three[place])
    assert one[0].to_dict() != one[1].to_dict()


def test_an_episode_depends_on_seed_and_number_only() -> None:
    policies = [make_policy("Hopper-v5", seed=seed, hidden=256) for seed in range(3)]
    many = uw.evaluate(policies, "Hopper-v5", 12, workers=1)
    alone = uw.evaluate(policies[2], "Hopper-v5", 4, workers=1)
    np.testing.assert_array_equal(alone.returns, many[2].returns[:4])
    other = uw.evaluate(policies[2], "Hopper-v5", 4, seed=1, workers=1)
    assert not set(other.returns) & set(alone.returns)


def test_a_seed_for_each_policy() -> None:
    policies = [make_policy("Hopper-v5", seed=seed) for seed in range(3)]
    together = uw.evaluate(policies, "Hopper-v5", 3, [4, 0, 4], workers=1)
    for policy, seed, found in zip(policies, (4, 0, 4), together, strict=True):
        assert same(found, uw.evaluate(policy, "Hopper-v5", 3, seed, workers=1))
    with pytest.raises(uw.RolloutError, match="one for each of 3 policies, found 2"):
        uw.evaluate(policies, "Hopper-v5", 3, [4, 0])
    with pytest.raises(uw.RolloutError, match="seed: expected a whole number from 0"):
        uw.evaluate(policies, "Hopper-v5", 3, [4, 0, -1])


def test_policies_meet_the_same_starts() -> None:
    policies = [make_policy("Hopper-v5", seed=seed) for seed in range(2)]
    starts = []
    for policy in policies:
        episodes = run_block("Hopper-v5", policy, [(0, 0), (0, 1)], record=True)
        starts.append([episode.trajectory.visited[0] for episode in episodes if episode.trajectory is not None])
    np.testing.assert_array_equal(starts[0], starts[1])
    assert not np.array_equal(starts[0][0], starts[0][1])


class TestEvaluation:
    def test_numbers(self) -> None:
        returns = np.array([0.0, 3234.3, 10.0])
        result = uw.Evaluation("Hopper-v5", returns, np.array([1, 2, 3]), np.array([True, False, True]))
        assert result.mean_return == pytest.approx(3244.3 / 3)
        assert result.std_return == pytest.approx(np.std(returns))
        assert result.scores is not None
        np.testing.assert_allclose(result.scores, (returns + 20.272305) / (3234.3 + 20.272305))
        assert result.score == pytest.approx(result.scores.mean())
        assert json.loads(json.dumps(result.to_dict()))["terminated"] == [True, False, True]
        assert repr(result) == (
            "Evaluation(env_id='Hopper-v5', episodes=3, mean_return=1081, std_return=1522, score=0.3385)"
        )

    def test_without_reference_scores(self) -> None:
        result = uw.evaluate(make_policy("Pendulum-v1"), "Pendulum-v1", 2)
        assert result.score is None
        assert result.scores is None
        assert result.lengths.tolist() == [200, 200]
        assert not result.terminated.any()
        assert "score" not in repr(result)


class TestBadInput:
    @pytest.mark.parametrize(
        ("env_id", "trained_on", "message"),
        [
            ("Hopper-v5", "Walker2d-v5", "policy 0 expects 17 observations, but Hopper-v5 has 11"),
            ("InvertedPendulum-v5", "Hopper-v5", "policy 0 expects 11 observations, but InvertedPendulum-v5 has 4"),
            ("FrozenLake-v1", "CartPole-v1", "expected vector observations"),
            ("Hoper-v5", "Hopper-v5", "did you mean 'Hopper-v5"),
        ],
    )
    def test_another_task(self, env_id: str, trained_on: str, message: str) -> None:
        with pytest.raises(uw.RolloutError, match=message):
            uw.evaluate([make_policy(trained_on)], env_id)

    def test_other_actions(self) -> None:
        policy = make_policy("InvertedPendulum-v5")  # four observations, as CartPole
        with pytest.raises(uw.RolloutError, match="gives continuous actions, but CartPole-v1 takes discrete ones"):
            uw.evaluate(policy, "CartPole-v1")
        with pytest.raises(uw.RolloutError, match="gives discrete actions, but InvertedPendulum-v5 takes continuous"):
            uw.evaluate(make_policy("CartPole-v1"), "InvertedPendulum-v5")
        with pytest.raises(uw.RolloutError, match="policy 0 has 2 to choose from, but MountainCar-v0 has 3"):
            layer = (np.zeros((2, 2), np.float32), np.zeros(2, np.float32))
            policy = uw.Policy("greedy", (layer,), np.zeros(2, np.float32), np.ones(2, np.float32))
            uw.evaluate([policy], "MountainCar-v0")

    def test_actions_that_are_not_numbered_from_0(self) -> None:
        with pytest.raises(uw.RolloutError, match="from-one-v0: expected actions numbered from 0, found .*start=1"):
            uw.evaluate(make_policy("CartPole-v1"), register_numbered_from_one())

    @pytest.mark.parametrize(
        "options", [{"episodes": 0}, {"episodes": 2.5}, {"seed": -1}, {"seed": 2**32}, {"workers": 0}]
    )
    def test_numbers(self, options: dict[str, Any]) -> None:
        with pytest.raises(uw.RolloutError, match=f"{next(iter(options))}: expected a whole number"):
            uw.evaluate(make_policy("CartPole-v1"), "CartPole-v1", **options)

    def test_things_that_are_no_policies(self, tmp_path: Path) -> None:
        with pytest.raises(uw.RolloutError, match="expected a Policy or the path of one, found int"):
            uw.evaluate([3], "CartPole-v1")  # type: ignore[list-item]
        with pytest.raises(uw.DatasetError, match="no such file"):
            uw.evaluate(tmp_path / "none.safetensors", "CartPole-v1")

    def test_no_policies(self) -> None:
        assert uw.evaluate([], "CartPole-v1") == []


@pytest.mark.slow
def test_a_file_of_d4rls_ant(tmp_path: Path) -> None:
    """111 columns, of which the last 84 (contact forces) are zeros: loaded, trained on and evaluated."""
    played = [episode.trajectory for episode in run_block("Ant-v5", None, [(0, 0), (0, 1)], record=True)]
    paths = [trajectory for trajectory in played if trajectory is not None]
    rows = np.concatenate([path.observations for path in paths])
    ends = np.zeros(len(rows), bool)
    ends[np.cumsum([len(path.rewards) for path in paths]) - 1] = True
    with h5py.File(tmp_path / "ant.hdf5", "w") as file:
        file["observations"] = np.pad(rows, ((0, 0), (0, 84)))
        file["actions"] = np.concatenate([path.actions for path in paths])
        file["rewards"] = np.concatenate([path.rewards for path in paths])
        file["terminals"], file["timeouts"] = ends, np.zeros_like(ends)
    dataset = uw.load(tmp_path / "ant.hdf5")
    check_environment("Ant-v5", dataset)
    noisy = uw.Dataset.from_arrays(
        observations=dataset.observations + 1, actions=dataset.actions, rewards=dataset.rewards, terminated=ends
    )
    with pytest.raises(uw.RolloutError, match="Ant-v5 has 27, and zeros .* has other numbers there"):
        check_environment("Ant-v5", noisy)
    config = uw.algorithm_config("td3_bc", hidden_units=(8,), batch_size=8)  # scales observations; zeros have no scale
    (result,) = uw.train(dataset, [uw.Run(config, "rw", 0)], num_updates=4)
    assert result.policy is not None and result.policy.observation_size == 111
    evaluation = uw.evaluate(result.policy, "Ant-v5", 2, workers=1)
    assert np.isfinite(evaluation.returns).all() and evaluation.score is not None
    with pytest.raises(uw.RolloutError, match="expects 111 observations, but Walker2d-v5 has 17"):
        uw.evaluate(result.policy, "Walker2d-v5", 2)
    with pytest.raises(uw.RolloutError, match="policy 0 expects 50 observations, but Ant-v5 has 27 or 105 or 111"):
        uw.evaluate(make_policy("Ant-v5", inputs=50), "Ant-v5", 2)


@pytest.mark.slow
def test_the_ant_that_others_have() -> None:
    """Data with contact forces, as Gymnasium's own build records them: trained on, and evaluated in the same environment."""
    environment = gymnasium.make("Ant-v5")
    environment.action_space.seed(0)
    episodes = []
    for seed in range(3):
        visited, actions, rewards, ended = [environment.reset(seed=seed)[0]], [], [], False
        while not ended and len(rewards) < 200:
            actions.append(environment.action_space.sample())
            seen, reward, ended, _, _ = environment.step(actions[-1])
            visited.append(seen)
            rewards.append(reward)
        made = {"observations": visited[:-1], "next_observations": visited[1:], "actions": actions, "rewards": rewards}
        episodes.append({**made, "terminated": ended, "truncated": not ended})
    dataset = uw.Dataset.from_episodes(episodes).with_metadata(env_id="Ant-v5")
    assert dataset.observations.shape[1] == 105
    check_environment("Ant-v5", dataset)
    config = uw.algorithm_config("bc", hidden_units=(8,), batch_size=8)
    (result,) = uw.train(dataset, [uw.Run(config)], num_updates=4, evaluate_every=4)
    (again,) = uw.evaluate([result.policy], "Ant-v5", workers=1)
    assert result.points[-1]["returns"] == [round(value, 4) for value in again.returns.tolist()]
    other = uw.Dataset.from_arrays(
        observations=dataset.observations[:, :50],
        actions=dataset.actions,
        rewards=dataset.rewards,
        terminated=dataset.terminated,
        truncated=dataset.truncated,
    )
    with pytest.raises(uw.RolloutError, match=r"Ant-v5 has \(27,\) or \(105,\) or \(111,\), but .* has \(50,\)"):
        check_environment("Ant-v5", other)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises", "raises-v0: failed while it was played: ZeroDivisionError: division by zero"),
        ("nan", "nan-v0: expected rewards that are numbers, found a return of nan in episode 0"),
    ],
)
def test_environments_that_fail(fault: str, message: str, workers: int) -> None:
    """They are somebody else's code: whatever they do is told as an error of ours."""
    env_id = register_faulty(fault)
    with pytest.raises(uw.RolloutError, match=message):
        uw.evaluate([make_policy("CartPole-v1")] * 2, env_id, 11, workers=workers)


def test_a_rate_of_success_has_an_interval() -> None:
    def played(*returns: float) -> uw.Evaluation:
        return uw.Evaluation(
            "upweight/AntMaze-umaze-v0", np.array(returns), np.ones(len(returns), int), np.ones(len(returns), bool)
        )

    half = played(*[0.0, 1.0] * 10)
    assert half.score == 0.5
    assert half.success_interval == pytest.approx((0.299298, 0.700702), abs=1e-6)  # statsmodels' proportion_confint
    assert half.to_dict()["success_interval"] == list(half.success_interval or ())
    low, high = played(*[1.0] * 20).success_interval or (0, 0)
    assert (low, high) == pytest.approx((0.838875, 1.0), abs=1e-6)
    assert played(0.0, 0.5).success_interval is None and "success_interval" not in played(2.0).to_dict()


def test_sampling_what_cannot_be_sampled_is_said() -> None:
    sampled = make_policy("CartPole-v1")
    with pytest.warns(uw.UpweightWarning, match="stochastic: 1 of 2 policies know one action for each observation"):
        uw.evaluate([sampled, sampled.deterministic()], "CartPole-v1", 1, stochastic=True, workers=1)
