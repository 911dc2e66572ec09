"""From a dataset and runs to the arrays of a compiled program."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.errors import DatasetError
from upweight.data.dataset import Dataset
from upweight.data.statistics import episode_mass
from upweight.data.validate import as_episode_index
from upweight.engine.algorithm import Algorithm, Setup
from upweight.engine.population import Agents, Data
from upweight.engine.run import Run
from upweight.engine.sampling import EpisodeLayout, EpisodeTable, make_table
from upweight.weightings.weighting import Weighting, resolve_weights

SCALE_FLOOR = 1e-3  # added to the standard deviation of observations, as d3rlpy and TD3+BC do
REWARD_RANGE = 1000.0
PRECISIONS = {"float32": ("float32", "float32"), "bfloat16": ("float32", "bfloat16"), "float64": ("float64", "float64")}


@dataclass(frozen=True)
class ActionSpace:
    """Continuous actions are learned in [-1, 1]; this is what that stands for."""

    size: int  # numbers in an action, or number of discrete actions
    low: NDArray[np.float32] | None
    high: NDArray[np.float32] | None


def action_space(dataset: Dataset) -> ActionSpace:
    """Bounds of the actions: [-1, 1] if all are within, else the range seen in each dimension.

    Of discrete actions there are as many as the dataset says or, where it does not know, as the highest that was taken.
    """
    actions = dataset.actions.reshape(dataset.num_steps, -1)
    if dataset.discrete_actions:
        if actions.shape[1] != 1 or actions.min() < 0:
            raise DatasetError(f"{dataset.source}: key 'actions': expected one whole number from 0 per step")
        return ActionSpace(dataset.num_actions or int(actions.max()) + 1, None, None)
    low, high = actions.min(axis=0), actions.max(axis=0)
    if (low >= -1).all() and (high <= 1).all():
        low, high = -np.ones_like(low), np.ones_like(high)
    high = np.where(high > low, high, low + 1)
    return ActionSpace(actions.shape[1], low.astype(np.float32), high.astype(np.float32))


def make_setup(dataset: Dataset, space: ActionSpace, precision: str) -> Setup:
    dtype, compute = PRECISIONS[precision]
    return Setup(_features(dataset), space.size, jnp.dtype(dtype), jnp.dtype(compute))


def make_data(dataset: Dataset, method: Algorithm, space: ActionSpace, setup: Setup) -> Data:
    """The dataset as one array of rows on the device, so that a batch is one gather."""
    count = dataset.num_steps
    observations = dataset.observations.reshape(count, -1)
    actions = dataset.actions.reshape(count, -1)
    if space.low is not None and space.high is not None:
        actions = 2 * (actions - space.low) / (space.high - space.low) - 1
    parts: list[Any] = [observations, actions]
    if method.uses_rewards:
        parts += [
            dataset.next_observations.reshape(count, -1),
            dataset.rewards[:, None],
            dataset.terminated[:, None],
        ]
    rows = np.concatenate([np.asarray(part, setup.dtype) for part in parts], axis=1)
    layout = EpisodeLayout(
        jnp.asarray(dataset.starts.astype(np.uint32)), jnp.asarray(dataset.num_transitions.astype(np.uint32))
    )
    return Data(jnp.asarray(rows), layout)


def make_agents(dataset: Dataset, runs: Sequence[Run], setup: Setup, num_updates: int) -> Agents:
    """Everything that tells the agents apart, stacked."""
    parts: dict[Any, _Part] = {}  # runs on the same episodes share what is computed from them
    made: list[tuple[Run, _Part]] = []
    for run in runs:
        key = None if run.episodes is None else np.asarray(run.episodes).tobytes()
        if key not in parts:
            parts[key] = _Part(dataset, run.episodes)
        made.append((run, parts[key]))
    cells = max(len(part.episodes) for part in parts.values())
    agents = [_make_agent(run, part, setup, num_updates, cells) for run, part in made]

    def stack(name: str) -> Any:
        return jnp.asarray(np.stack([agent[name] for agent in agents]), setup.dtype)

    def table(name: str) -> EpisodeTable:
        columns = zip(*(agent[name] for agent in agents), strict=True)
        return EpisodeTable(*(jnp.asarray(np.stack(column)) for column in columns))

    return Agents(
        seed=jnp.asarray(np.array([run.seed for run in runs], np.uint32)),
        hyper={key: jnp.asarray([agent["hyper"][key] for agent in agents], setup.dtype) for key in agents[0]["hyper"]},
        table=table("table"),
        actor_table=None if runs[0].actor_weighting is None else table("actor_table"),
        episode_weight=stack("episode_weight") if runs[0].reweight else None,
        observation_mean=stack("mean"),
        observation_scale=stack("scale"),
        reward_scale=stack("reward_scale"),
    )


class _Part:
    """The episodes one or more agents learn from, and what is computed from them, once."""

    def __init__(self, pool: Dataset, episodes: ArrayLike | None) -> None:
        self.pool = pool
        if episodes is None:
            self.episodes, self.dataset = np.arange(pool.num_episodes), pool
        else:
            self.episodes = as_episode_index(episodes, num_episodes=pool.num_episodes, source=pool.source)
            self.dataset = pool.subset(self.episodes)
        self.multiplicity = np.bincount(self.episodes, minlength=pool.num_episodes).astype(np.float64)
        self._weights: dict[Any, NDArray[np.float64]] = {}

    def weights(self, weighting: Any) -> NDArray[np.float64]:
        """Of its episodes [n]."""
        if not isinstance(weighting, Weighting):
            return resolve_weights(weighting, self.dataset)
        if weighting not in self._weights:
            self._weights[weighting] = resolve_weights(weighting, self.dataset)
        return self._weights[weighting]

    @cached_property
    def observation_statistics(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation (plus a little) of observations over trainable steps, unweighted."""
        pool, used = self.pool, np.flatnonzero(self.multiplicity > 0)
        steps = pool.episodes.steps_of(used)
        counts = np.repeat(self.multiplicity[used], pool.lengths[used]) * pool.trainable[steps]
        rows = pool.observations.reshape(pool.num_steps, -1)
        rows = rows if len(steps) == pool.num_steps else rows[steps]
        mean = (counts @ rows.astype(np.float64)) / counts.sum()
        variance = (counts @ (rows - mean) ** 2) / counts.sum()
        return mean, np.sqrt(variance) + SCALE_FLOOR

    @cached_property
    def reward_scale(self) -> float:
        returns = self.dataset.returns[self.dataset.complete]
        spread = float(np.ptp(returns)) if len(returns) else 0.0
        return REWARD_RANGE / spread if spread > 0 else 1.0


def _make_agent(run: Run, part: _Part, setup: Setup, num_updates: int, cells: int) -> dict[str, Any]:
    sizes = part.dataset.num_transitions
    weights = part.weights(run.weighting)
    even = np.ones(len(weights))
    agent: dict[str, Any] = {"hyper": run.config.traced_values(num_updates)}
    agent["table"] = make_table(even if run.reweight else weights, sizes, part.episodes, cells)
    if run.reweight:
        uniform, wanted = episode_mass(even, sizes), episode_mass(weights, sizes)
        agent["episode_weight"] = np.zeros(part.pool.num_episodes)
        agent["episode_weight"][part.episodes] = np.divide(
            wanted, uniform, out=np.zeros_like(wanted), where=uniform > 0
        )
    if run.actor_weighting is not None:
        agent["actor_table"] = make_table(part.weights(run.actor_weighting), sizes, part.episodes, cells)
    agent["mean"], agent["scale"] = np.zeros(setup.observation_size), np.ones(setup.observation_size)
    if run.config.normalize_observations:
        agent["mean"], agent["scale"] = part.observation_statistics
    agent["reward_scale"] = part.reward_scale if run.config.scale_rewards_by_return else 1.0
    return agent


def _features(dataset: Dataset) -> int:
    return int(np.prod(dataset.observation_shape)) if dataset.observation_shape else 1
