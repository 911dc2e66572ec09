r"""Fitted Q evaluation: what given policies would earn, from logged steps alone (DOPE's settings; Fu et al., 2021).

One critic per policy and seed learns :math:`Q^\pi(s,a) = (\mu_r + \sigma_r f(s,a)) / (1-\gamma)`, where f is the network and
:math:`\mu_r, \sigma_r` are the mean and standard deviation of rewards:

.. math:: y = \mathrm{clip}(r + \gamma(1-d)\,E_{a' \sim \pi(s')}\bar Q(s',a'),\ V_{min},\ V_{max}),\qquad
          \min_f E\,(f(s,a) - ((1-\gamma)y - \mu_r)/\sigma_r)^2

on steps drawn uniformly. d is 1 at terminal states only, never at time limits. :math:`V_{min}, V_{max}` are the least and the
highest reward over :math:`1-\gamma`, and where episodes terminate 0 lies between them: what comes after is worth nothing.
The expectation is exact for discrete actions; of continuous ones one action is drawn per update. The estimate is the target
network's at initial states.

FQE oscillates rather than converges. Two averages are taken: the target network follows slowly (:math:`\tau`), and the estimate
is the mean over points in the last fifth of the updates; ``drift`` says how far it moved there. Networks begin with
:math:`f \approx 0`, where every action earns the mean reward for ever, and the slowest part of Q is learned at a rate of
:math:`\tau(1-\gamma)` per update: 20,000 updates leave 1/e of the error of that beginning, 60,000 a twentieth.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import whole_number
from upweight.base.errors import ConfigError, UpweightWarning
from upweight.base.interrupts import interrupts_wait
from upweight.base.progress import report
from upweight.base.text import Shown
from upweight.data.action_range import action_bounds
from upweight.data.dataset import Dataset
from upweight.data.endings import lost_rewards_note, time_limit_note
from upweight.data.success import NO_REWARDS
from upweight.data.validate import as_episode_index
from upweight.lab.select.fit import check_fit
from upweight.lab.train.advance import advances, speed
from upweight.lab.train.algorithm import Algorithm, Array, Batch, Batches, Hyper, Metrics, PolicyParts, Setup
from upweight.lab.train.choices import Bounds, Choices, Discrete, choice_bytes, is_random, make_choices, take_choices
from upweight.lab.train.config import Config, traced
from upweight.lab.train.device import compilation_cache, device_memory, number_types
from upweight.lab.train.kernels.choice import worthwhile
from upweight.lab.train.losses import td_target
from upweight.lab.train.nn import MLP, adam_step, apply_mlp, init_adam, soft_update
from upweight.lab.train.plan import CAUTION, USABLE_SHARE, agent_bytes, data_bytes
from upweight.lab.train.population import Agents, Program
from upweight.lab.train.prepare import blocks, make_agents, make_data, make_parts, make_setup
from upweight.lab.train.run import Run
from upweight.lab.train.schedule import make_schedule
from upweight.policies.policy import Policy

_AVERAGED = 0.2  # of the updates, at the end
_FINAL_BOUND = 3e-3  # of the last layer's weights at the start
_CONSTANT = 1e-6  # standard deviation of rewards, of the largest, below which they do not change at all
_RESAMPLE = 1  # of the streams that follow from a seed: which episodes its critics learn from
_TITLE = "fitted Q evaluation"


# ---- one critic ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class FQEConfig(Config):
    """DOPE's settings."""

    normalize_observations: bool = True
    learning_rate: float = traced(3e-4)
    weight_decay: float = traced(1e-5)  # share of every parameter that each update takes away
    discount: float = traced(0.99, high=1.0)
    tau: float = traced(0.005, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.discount == 1:
            raise ConfigError("discount: expected a number below 1, found 1: values must be bounded")


class State(NamedTuple):
    critic: MLP
    target: MLP
    moments: Any


def init(key: Array, setup: Setup, config: FQEConfig, discrete: bool) -> State:
    here, acts = setup.observation_size, setup.action_size
    sizes = (here, acts) if discrete else (here + acts, 1)
    critic = setup.init_network(key, *sizes, config, final_bound=_FINAL_BOUND)
    return State(critic, jax.tree.map(jnp.copy, critic), init_adam(critic))


def noise(key: Array, setup: Setup, config: FQEConfig) -> Array:
    return jax.random.normal(key, (config.batch_size, setup.action_size), setup.dtype)


def taken(critic: MLP, batch: Batch, setup: Setup) -> Array:
    """f [B] of the logged actions."""
    if isinstance(batch.next_choice, Discrete):
        every = apply_mlp(critic, batch.observations, setup.compute)
        return jnp.take_along_axis(every, batch.actions[:, None], axis=-1)[:, 0]
    return apply_mlp(critic, jnp.concatenate([batch.observations, batch.actions], axis=-1), setup.compute)[:, 0]


def chosen(critic: MLP, observations: Array, choice: Choices, epsilon: Array | None, setup: Setup) -> Array:
    """f [B] of what the policy does: the expectation of discrete actions, else of one that is drawn."""
    if isinstance(choice, Discrete):
        return jnp.sum(choice.probabilities * apply_mlp(critic, observations, setup.compute), axis=-1)
    inputs = jnp.concatenate([observations, choice.actions(epsilon)], axis=-1)
    return apply_mlp(critic, inputs, setup.compute)[:, 0]


def value(outputs: Array, hyper: Hyper) -> Array:
    """Q from the network's outputs f."""
    return (hyper["reward_mean"] + hyper["reward_std"] * outputs) / (1 - hyper["discount"])


def loss(critic: MLP, batch: Batch, wanted: Array, setup: Setup) -> Array:
    return jnp.mean((taken(critic, batch, setup) - wanted) ** 2)


def update(
    state: State,
    batches: Batches,
    noise: Array | None,
    hyper: Hyper,
    step: Array,
    setup: Setup,
    config: FQEConfig,
    phase: int,
) -> tuple[State, Metrics]:
    batch = batches.critic
    after = value(chosen(state.target, batch.next_observations, batch.next_choice, noise, setup), hyper)
    target = td_target(batch.rewards, batch.terminated, hyper["discount"], after)
    target = jnp.clip(target, hyper["value_low"], hyper["value_high"])
    wanted = ((1 - hyper["discount"]) * target - hyper["reward_mean"]) / hyper["reward_std"]
    error, gradients = jax.value_and_grad(loss)(state.critic, batch, wanted, setup)
    rate, decay = hyper["learning_rate"], hyper["weight_decay"]
    critic, moments = adam_step(gradients, state.moments, state.critic, rate, decay)
    return State(critic, soft_update(state.target, critic, hyper["tau"]), moments), {"loss": error}


def make_algorithm(policies: Sequence[Policy]) -> Algorithm:
    """What evaluates these policies: an algorithm that yields critics, and no policy of its own."""
    discrete = policies[0].is_discrete

    def no_policy(state: State, config: FQEConfig) -> PolicyParts:
        raise NotImplementedError

    made = Algorithm(
        name="fqe",
        config=FQEConfig,
        discrete=discrete,
        init=partial(init, discrete=discrete),
        update=update,
        policy=no_policy,
        network_rows=lambda config: 4 * config.batch_size,
    )
    return made._replace(noise=noise) if any(map(is_random, policies)) else made


# ---- all critics --------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, repr=False)
class QEstimates(Shown):
    """What P policies are worth by S critics each, at the first observations of N episodes; NaN where a critic diverged.

    Critics of one seed begin alike and see the same batches, so what a seed adds is much the same for all policies: compare
    policies seed by seed.
    """

    values: NDArray[np.float64]  # [P, S] discounted value, mean over the starting states
    at_starts: NDArray[np.float32]  # [P, S, N] at each of them
    drift: NDArray[np.float64]  # [P, S] how far ``values`` went up over the points that were averaged
    diverged: NDArray[np.bool_]  # [P, S]
    starts: NDArray[np.int64]  # [N] episodes of the dataset
    gamma: float
    reward_range: tuple[float, float]  # of the steps that were learned from
    updates: int

    def _facts(self) -> dict[str, Any]:
        policies, seeds, starts = self.at_starts.shape
        lost = {"diverged": int(self.diverged.sum())} if self.diverged.any() else {}
        return {"policies": policies, "seeds": seeds, "starts": starts, **lost, "updates": self.updates}


@dataclass(frozen=True, eq=False)
class _Critic(Run):
    """A run that evaluates instead of learning to act."""

    evaluator: Algorithm = None  # type: ignore[assignment]

    @property
    def method(self) -> Algorithm:
        return self.evaluator


@dataclass(frozen=True)
class _CriticTraining:
    """What the critics of all policies have in common."""

    part: Dataset  # what they learn from
    starts: NDArray[Any]  # [N, d]
    seeds: tuple[int, ...]
    updates: int
    config: FQEConfig
    setup: Setup
    bounds: Bounds | None  # of actions
    resample: bool = False

    def critics(self, evaluator: Algorithm) -> list[_Critic]:
        """Of one policy: one per seed."""
        count = self.part.num_episodes
        rngs = [np.random.default_rng([seed, _RESAMPLE]) if self.resample else None for seed in self.seeds]
        drawn = [None if rng is None else np.sort(rng.choice(count, count)) for rng in rngs]
        pairs = zip(self.seeds, drawn, strict=True)
        return [_Critic(self.config, seed=seed, episodes=each, evaluator=evaluator) for seed, each in pairs]


_USUAL = FQEConfig()


def evaluate_policies(
    dataset: Dataset,
    policies: Sequence[Policy],
    *,
    seeds: Sequence[int] = range(5),
    updates: int = 60_000,
    config: FQEConfig = _USUAL,
    precision: str = "float32",
    episodes: ArrayLike | None = None,
    starts: ArrayLike | None = None,
    resample: bool = False,
) -> QEstimates:
    """Fit a critic per policy and seed, as many at once as the device holds, and ask it what the policy is worth.

    ``episodes`` (indices, or a mask [N]) are what the critics learn from, all if None, and ``starts`` the episodes whose first
    observations are the starting states: the same if None. With ``resample`` critics of each seed learn from as many of these
    episodes, drawn with replacement: their spread then shows the luck of the log too. Policies are evaluated as they are, with
    actions drawn where they are stochastic; give ``policy.deterministic()`` for what :func:`upweight.evaluate` plays by default.
    """
    updates = whole_number("updates", updates, least=1, error=ConfigError)
    seeds = tuple(whole_number("seed", seed, least=0, most=2**32 - 1, error=ConfigError) for seed in seeds)
    if not seeds:
        raise ConfigError("expected at least one seed, found none")
    fitted = _index(dataset, episodes)
    asked = fitted if starts is None else _index(dataset, starts)
    part = dataset if episodes is None else dataset.subset(fitted)
    _check_data(part)
    _check_policies(dataset, policies)
    with number_types(precision), compilation_cache():
        setup = make_setup(dataset, precision)
        if dataset.discrete_actions:  # of which there may be more than the log shows
            setup = setup._replace(action_size=len(policies[0].layers[-1][1]))
        bounds = None if dataset.discrete_actions else action_bounds(blocks(dataset, "actions"))
        training = _CriticTraining(
            part, dataset.initial_observations[asked], seeds, updates, config, setup, bounds, resample
        )
        size = _policies_at_once(training, policies)
        groups = [policies[first : first + size] for first in range(0, len(policies), size)]
        found = [_evaluate(training, group) for group in groups]
    at_starts, values, drift, diverged = (np.concatenate(part) for part in zip(*found, strict=True))
    rewards = part.rewards[part.trainable]
    bounds_of_rewards = (float(rewards.min()), float(rewards.max()))
    return QEstimates(values, at_starts, drift, diverged, asked, config.discount, bounds_of_rewards, updates)


def _index(dataset: Dataset, episodes: ArrayLike | None) -> NDArray[np.int64]:
    if episodes is None:
        return np.arange(dataset.num_episodes)
    return as_episode_index(episodes, num_episodes=dataset.num_episodes, source=dataset.source)


def _check_data(part: Dataset) -> None:
    """Refuse data that no value can be learned from, and warn of ends that look like time limits."""
    if not part.has_rewards:
        raise ConfigError(f"fitted Q evaluation learns from rewards, but {part.source}: {NO_REWARDS}")
    if part.num_episodes < 2:
        raise ConfigError(
            f"{part.source}: fitted Q evaluation needs at least 2 episodes, found {part.num_episodes}: one beginning says "
            "nothing of others. Cut a long log into episodes, or hold out more of them"
        )
    for look in (lost_rewards_note, time_limit_note):
        if (note := look(part)) is not None:
            warnings.warn(f"{part.source}: {note}", UpweightWarning, stacklevel=3)


def _check_policies(dataset: Dataset, policies: Sequence[Policy]) -> None:
    """Refuse policies of other data, and those that cannot be told apart."""
    if not policies:
        raise ConfigError("expected at least one policy, found none")
    check_fit(dataset, policies)
    if len(sizes := {len(policy.layers[-1][1]) for policy in policies if policy.is_discrete}) > 1:
        raise ConfigError(
            f"expected policies of the same number of actions, found {' and '.join(map(str, sorted(sizes)))}"
        )
    if len(policies) > 1 and all(_same(policy, policies[0]) for policy in policies[1:]):
        raise ConfigError(f"all {len(policies)} policies are the same, number for number: there is nothing to compare")


def _same(one: Policy, other: Policy) -> bool:
    names = ("kind", "observation_mean", "observation_scale", "log_std", "action_low", "action_high")
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    pairs += [pair for layers in zip(one.layers, other.layers, strict=False) for pair in zip(*layers, strict=True)]
    return len(one.layers) == len(other.layers) and all(np.array_equal(*pair) for pair in pairs)


def _policies_at_once(training: _CriticTraining, policies: Sequence[Policy]) -> int:
    """How many fit into the device's memory with all their critics and choices (and a copy of these)."""
    critic = _Critic(training.config, evaluator=make_algorithm(policies))
    shared = data_bytes(training.part, critic, training.setup)
    choices = 2 * choice_bytes(policies, training.part.num_steps + len(training.starts), training.setup.dtype.itemsize)
    each = choices + CAUTION * len(training.seeds) * agent_bytes(training.part, critic, training.setup)
    fits = int((USABLE_SHARE * device_memory() - shared) // each)
    if fits < 1:
        raise ConfigError(
            f"fitted Q evaluation of one policy needs about {(shared + each) / 2**30:.1f} GiB, and the device has "
            f"{device_memory() / 2**30:.1f}; give fewer episodes or seeds"
        )
    parts = -(-len(policies) // fits)
    return -(-len(policies) // parts)


def _make_agents(training: _CriticTraining, critics: Sequence[_Critic], count: int) -> Agents:
    """Of each of ``count`` policies the ``critics``, one per seed; they differ in these two, and in the episodes of a seed."""
    parts = make_parts(training.part, critics)
    some = make_agents(critics, parts, training.setup, training.updates)  # [S]
    about = [_reward_facts(part.own, 1 / (1 - training.config.discount)) for part in parts]
    hyper = some.hyper | {name: jnp.asarray([each[name] for each in about], training.setup.dtype) for name in about[0]}
    some = some._replace(hyper=hyper)
    if training.bounds is not None:
        lowest, highest = (jnp.asarray([bound] * len(parts), training.setup.dtype) for bound in training.bounds)
        some = some._replace(action_low=lowest, action_high=highest)
    agents: Agents = jax.tree.map(lambda leaf: jnp.asarray(np.concatenate([leaf] * count)), some)
    return agents._replace(policy=jnp.asarray(np.repeat(np.arange(count, dtype=np.int32), len(parts))))


def _reward_facts(part: Dataset, horizon: float) -> dict[str, float]:
    """The unit of the critics, and the range of values."""
    rewards = part.rewards[part.trainable].astype(np.float64)
    low, high = rewards.min(), rewards.max()
    if part.episodes.terminated.any():
        low, high = min(low, 0.0), max(high, 0.0)
    peak = np.abs(rewards).max() or 1.0
    std = rewards.std() if rewards.std() > _CONSTANT * peak else peak
    return {"reward_mean": rewards.mean(), "reward_std": std, "value_low": low * horizon, "value_high": high * horizon}


def _evaluate(training: _CriticTraining, policies: Sequence[Policy]) -> tuple[NDArray[Any], ...]:
    """``at_starts``, ``values``, ``drift`` and ``diverged`` of policies whose critics train at once."""
    method = make_algorithm(policies)
    count, config = len(policies) * len(training.seeds), training.config
    setup, work = training.setup, (config.hidden_units, count, method.network_rows(config))
    fused = setup.compute.fused and worthwhile(*work, inputs=setup.observation_size + setup.action_size)
    program = Program(method, config, setup.with_kernels(fused))
    data = make_data(training.part, method, training.setup)
    dtype = training.setup.dtype
    data = data._replace(next_choices=make_choices(policies, training.part.next_observations, training.bounds, dtype))
    here = (
        jnp.asarray(training.starts.reshape(len(training.starts), -1), dtype),
        make_choices(policies, training.starts, training.bounds, dtype),
    )
    agents = _make_agents(training, training.critics(method), len(policies))
    schedule = make_schedule(training.updates, None, method, config, count)
    total, points, began = np.zeros((count, len(training.starts))), list[NDArray[Any]](), time.perf_counter()
    report(_TITLE, 0, training.updates, "compiling")
    with interrupts_wait("stopping after these updates; press Ctrl-C again to exit at once") as interrupts:
        begun = program.start(agents)
        for progress, done, records in advances(program, agents, data, begun, 0, schedule, range(count)):
            report(_TITLE, done, training.updates, speed(done / (time.perf_counter() - began), count, records))
            if progress.interval is None and done > (1 - _AVERAGED) * training.updates:
                seen = np.asarray(_at_starts(program, progress.states.target, agents, *here, jnp.int32(done)))
                total += seen
                points.append(seen.mean(axis=1, dtype=np.float64))
            interrupts.heed()
    lost = np.asarray(progress.diverged_at) >= 0
    at_starts = np.where(lost[:, None], np.nan, total / len(points)).astype(np.float32)
    shape = len(policies), len(training.seeds)
    values = np.where(lost, np.nan, np.mean(points, axis=0))
    columns = values, points[-1] - points[0], lost
    return (at_starts.reshape(*shape, -1), *(column.reshape(shape) for column in columns))


@partial(jax.jit, static_argnums=0)
def _at_starts(program: Program, targets: MLP, agents: Agents, starts: Array, choices: Choices, update: Array) -> Array:
    """[A, N] values, one critic after another: all at once would take the memory of all their activations."""
    setup, rows = program.setup.with_kernels(False), jnp.arange(len(starts))
    drawn = program.algorithm.noise is noise

    def one(inputs: tuple[MLP, Agents]) -> Array:
        target, agent = inputs
        observations = starts
        if program.config.normalize_observations:
            observations = (starts - agent.observation_mean) / agent.observation_scale
        assert agent.policy is not None
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(agent.seed), 2), update)
        epsilon = jax.random.normal(key, (len(starts), setup.action_size), setup.dtype) if drawn else None
        choice = take_choices(choices, agent.policy, rows)
        return value(chosen(target, observations, choice, epsilon, setup), agent.hyper)

    return jax.lax.map(one, (targets, agents))
