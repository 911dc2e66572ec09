"""Fitted Q evaluation: formulas by hand, values by linear algebra, and what it refuses."""

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset, tiny, with_arrays
from support.policies import linear, random_policy
from support.training import fqe_hyper
from upweight.lab.select import fqe
from upweight.lab.select.fqe import FQEConfig, State, evaluate_policies, make_algorithm
from upweight.lab.train.algorithm import Batch, Batches, Setup
from upweight.lab.train.choices import Discrete
from upweight.lab.train.nn import Compute, init_adam, init_mlp
from upweight.policies.policy import Policy

SMALL = FQEConfig(hidden_units=(8,), batch_size=8)


# ---- one update -----------------------------------------------------------------------------------------------------
def forward(layers: Any, x: np.ndarray) -> np.ndarray:
    for layer in layers[:-1]:
        x = np.maximum(x @ np.asarray(layer.weight) + np.asarray(layer.bias), 0)
    return x @ np.asarray(layers[-1].weight) + np.asarray(layers[-1].bias)


def test_an_update_written_out_with_terminals_time_limits_and_clipping() -> None:
    with jax.enable_x64(True):
        rng, setup = np.random.default_rng(0), Setup(3, 4, jnp.dtype("float64"), Compute(jnp.dtype("float64")))
        critic, target = (init_mlp(jax.random.key(n), (3, 8, 4), dtype=jnp.float64) for n in (1, 2))
        observations, following = rng.normal(size=(2, 6, 3))
        actions, rewards, probabilities = rng.integers(0, 4, 6), rng.normal(size=6), rng.dirichlet(np.ones(4), 6)
        terminated = np.array([0, 0, 1, 0, 1, 0.0])  # a time limit is a step like any other
        batch = Batch(observations, jnp.asarray(actions), rewards, following, terminated, None, Discrete(probabilities))
        settings = fqe_hyper(reward_mean=0.5, reward_std=2.0, discount=0.9, value_low=1.0, value_high=6.0, tau=0.25)
        method = make_algorithm([random_policy("categorical")])
        before = State(critic, target, init_adam(critic))
        update = jax.jit(partial(method.update, setup=setup, config=SMALL, phase=0))
        after, metrics = update(before, Batches(batch, batch), None, settings, 0)
        next_values = (0.5 + 2.0 * (probabilities * forward(target, following)).sum(axis=1)) / 0.1
        raw = rewards + 0.9 * (1 - terminated) * next_values
        assert (raw < 1).any() and (raw > 6).any() and ((raw > 1) & (raw < 6)).any()
        assert (raw[[2, 4]] == rewards[[2, 4]]).all()
        wanted = (0.1 * np.clip(raw, 1.0, 6.0) - 0.5) / 2.0
        found = forward(critic, observations)[np.arange(6), actions]
        np.testing.assert_allclose(metrics["loss"], np.mean((found - wanted) ** 2), rtol=1e-12)
        for new, old, online in zip(*map(jax.tree.leaves, (after.target, target, after.critic)), strict=True):
            np.testing.assert_allclose(new, 0.75 * old + 0.25 * online, rtol=1e-12)
        bias = np.asarray(critic[-1].bias)  # Adam's first step is the sign of the gradient
        slope = np.array([np.mean((2 * (found - wanted)) * (actions == a)) for a in range(4)])
        np.testing.assert_allclose(after.critic[-1].bias, bias * (1 - 1e-5) - 3e-4 * np.sign(slope), atol=1e-8)


# ---- values ---------------------------------------------------------------------------------------------------------
MOVES = np.array(
    [[[0.9, 0.1, 0.0], [0.1, 0.3, 0.6]], [[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]], [[0.3, 0.3, 0.4], [0.0, 0.0, 0.5]]]
)
REWARDS = np.array([[0.0, -0.2], [0.1, 0.5], [1.0, 0.3]])  # [state, action]; what lacks to 1 in MOVES ends the episode


def chain_log(episodes: int = 300, horizon: int = 8, seed: int = 0) -> uw.Dataset:
    """Random play of three states and two actions, stopped by a time limit unless a terminal state comes first."""
    rng, parts = np.random.default_rng(seed), []
    for _ in range(episodes):
        state, steps, ended = rng.integers(3), [], False
        while len(steps) < horizon and not ended:
            action = rng.integers(2)
            following = int(rng.choice(4, p=[*MOVES[state, action], 1 - MOVES[state, action].sum()]))
            steps.append((state, action, REWARDS[state, action]))
            state, ended = min(following, 2), following == 3
        states, actions, rewards = zip(*steps, strict=True)
        flags = {"terminated": ended, "truncated": not ended}
        parts.append({"observations": np.eye(3)[[*states, state]], "actions": actions, "rewards": rewards, **flags})
    return uw.Dataset.from_episodes(parts)


def chain_policy(first: float, second: float, third: float) -> Policy:
    """Takes action 1 with these probabilities in the three states."""
    return linear(np.log([[1 - p, p] for p in (first, second, third)]), [0.0, 0.0], kind="categorical")


@pytest.mark.slow
def test_values_are_those_of_the_bellman_equation_beyond_time_limits_and_not_beyond_terminals() -> None:
    log, gamma = chain_log(), 0.9
    chances = [(0.9, 0.9, 0.1), (0.1, 0.1, 0.9), (0.5, 0.5, 0.5)]
    exact = []
    for each in chances:
        p = np.array([[1 - x, x] for x in each])  # [state, action]
        exact.append(np.linalg.solve(np.eye(3) - gamma * np.einsum("sa,sat->st", p, MOVES), (p * REWARDS).sum(axis=1)))
    config = FQEConfig(hidden_units=(16,), batch_size=64, discount=gamma, tau=0.02, learning_rate=2e-3, weight_decay=0)
    found = evaluate_policies(log, [chain_policy(*each) for each in chances], seeds=(0, 1), updates=5000, config=config)
    first = log.initial_observations.argmax(axis=1)
    assert np.ptp(exact, axis=0).max() > 1
    for place, values in enumerate(exact):
        np.testing.assert_allclose(found.at_starts[place], np.tile(values[first], (2, 1)), atol=0.15)
        np.testing.assert_allclose(found.values[place], values[first].mean(), atol=0.1)
    assert np.abs(found.drift).max() < 0.1
    np.testing.assert_allclose(found.at_starts.mean(axis=2), found.values, rtol=1e-5)
    assert (found.gamma, found.reward_range, found.updates) == (gamma, (-0.2, 1.0), 5000)
    assert repr(found) == "QEstimates(policies=3, seeds=2, starts=300, updates=5000)"


@pytest.mark.slow
def test_a_critic_is_the_same_alone_and_among_others_and_draws_from_its_episodes_alone() -> None:
    log = random_dataset(0, num_episodes=30, next_known=True)
    policies = [random_policy(kind, seed) for seed, kind in enumerate(("gaussian", "tanh_gaussian", "deterministic"))]
    options: dict[str, Any] = {"updates": 200, "config": SMALL, "precision": "float64", "starts": [3, 29]}
    together = evaluate_policies(log, policies, seeds=(0, 7), episodes=np.arange(20), **options)
    rewards = log.rewards + 100.0 * (np.arange(log.num_steps) >= log.starts[20])  # of the other episodes
    changed = with_arrays(log, rewards=rewards, next_observations=log.next_observations)
    alone = evaluate_policies(changed, policies[1:2], seeds=(7,), episodes=np.arange(20), **options)
    np.testing.assert_allclose(together.at_starts[1:2, 1:], alone.at_starts, rtol=1e-6)
    assert not np.isclose(together.values[:, 0], together.values[:, 1]).any()
    assert together.starts.tolist() == [3, 29] and together.at_starts.shape == (3, 2, 2)


@pytest.mark.slow
def test_critics_of_a_seed_learn_from_a_draw_of_the_episodes_as_if_there_were_no_others() -> None:
    log = random_dataset(0, num_episodes=30, next_known=True)
    policies = [random_policy("deterministic", seed) for seed in (0, 1)]
    options: dict[str, Any] = {"updates": 200, "config": SMALL, "precision": "float64", "starts": [3, 29]}
    together = evaluate_policies(log, policies, seeds=(0, 7), episodes=np.arange(20), resample=True, **options)
    for place, seed in enumerate((0, 7)):
        drawn = np.sort(np.random.default_rng([seed, 1]).choice(20, 20))
        alone = evaluate_policies(log, policies, seeds=(seed,), episodes=drawn, **options)
        np.testing.assert_allclose(together.at_starts[:, [place]], alone.at_starts, rtol=1e-6)
    assert len(set(drawn)) < 20


@pytest.mark.slow
def test_a_critic_that_diverges_says_so_and_policies_are_evaluated_in_turn_if_need_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = random_policy("deterministic")
    broken = replace(good, observation_scale=np.zeros(3, np.float32))  # acts NaN
    log = random_dataset(0, num_episodes=30, next_known=True)
    ends = {"terminated": ~log.trainable, "truncated": log.terminated | log.truncated}
    log = with_arrays(log, rewards=np.full(log.num_steps, 0.1), next_observations=log.next_observations, **ends)
    monkeypatch.setattr(fqe, "_policies_at_once", lambda *_: 1)
    found = evaluate_policies(log, [good, broken], seeds=(0,), updates=100, config=SMALL, precision="bfloat16")
    assert found.diverged.tolist() == [[False], [True]]
    assert np.isnan(found.values).tolist() == np.isnan(found.at_starts).all(axis=2).tolist() == [[False], [True]]
    assert "diverged=1" in repr(found)
    np.testing.assert_allclose(found.values[0], 0.1 / (1 - 0.99), rtol=0.05)  # a reward that never changes, for ever


def test_policies_are_evaluated_at_once_as_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    policies, sizes = [random_policy("deterministic")] * 10, []
    log, setup = random_dataset(0), Setup(3, 2, jnp.dtype("float32"), Compute(jnp.dtype("float32")))
    training = fqe._CriticTraining(log, log.initial_observations, (0, 1), 100, FQEConfig(), setup, None)
    for memory in (2**34, 2**26, 2**25):
        monkeypatch.setattr(fqe, "device_memory", lambda memory=memory: memory)
        sizes.append(fqe._policies_at_once(training, policies))
    assert sizes[0] == 10 > sizes[1] > sizes[2] >= 1
    monkeypatch.setattr(fqe, "device_memory", lambda: 2**20)
    with pytest.raises(uw.ConfigError, match="one policy needs about"):
        fqe._policies_at_once(training, policies)


# ---- what is refused ------------------------------------------------------------------------------------------------
def refused(log: uw.Dataset, *policies: Policy, **options: Any) -> str:
    with pytest.raises((uw.ConfigError, uw.DatasetError)) as error:
        evaluate_policies(log, policies, **{"updates": 1, "config": SMALL, **options})
    return str(error.value)


def test_bad_input_is_refused_in_words() -> None:
    log, good = random_dataset(0, next_known=True), random_policy("deterministic")
    assert "numbers in an observation" in refused(log, good, random_policy("gaussian", observation=5))
    unsaid = random_dataset(0, discrete=True)
    actions = [random_policy("greedy", action=count) for count in (4, 5)]  # either may be what there are
    assert "expected policies of the same number of actions, found 4 and 5" in refused(unsaid, *actions)
    bare = with_arrays(log, rewards=None)
    assert "the dataset has no rewards" in refused(bare, good)
    assert "at least 2 episodes, found 1" in refused(log, good, episodes=[4])
    assert "all 3 policies are the same" in refused(log, good, good, random_policy("deterministic"))
    assert "at least one policy" in refused(log)
    assert "at least one seed" in refused(log, good, seeds=())
    with pytest.raises(uw.ConfigError, match="discount: expected a number below 1"):
        FQEConfig(discount=1.0)


def test_terminals_that_look_like_time_limits_are_named() -> None:
    log = tiny()
    ends = np.array([0, 0, 1, 0, 0, 1, 0, 0], bool)
    with pytest.warns(uw.UpweightWarning, match="20 of 20 terminal states come after exactly 3 steps"):
        refused(uw.concat([with_arrays(log, terminated=ends, truncated=np.arange(8) == 7)] * 10))
