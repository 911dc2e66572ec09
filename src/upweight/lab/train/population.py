"""The compiled program: one ``scan`` over updates of one ``vmap`` over agents, called piece by piece (see ``schedule.py``).

An agent's randomness is a function of its own seed and of the update's number, nothing else: it draws the same batches
whoever it trains with. Everything that differs between agents (:class:`Agents`) is data, so new values never recompile.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from upweight.lab.train.algorithm import Algorithm, Array, Batch, Batches, Setup
from upweight.lab.train.choices import Choices, take_choices
from upweight.lab.train.config import Config
from upweight.lab.train.nn import with_rounded, without_rounded
from upweight.lab.train.sampling import EpisodeLayout, EpisodeTable, draw_steps
from upweight.lab.train.schedule import Piece
from upweight.lab.train.spread import Spread

Sums = dict[str, Array]  # of each metric [A]


class Agents(NamedTuple):
    """What tells the agents of a population apart; every leaf has a leading axis A."""

    seed: Array  # uint32 [A]
    hyper: dict[str, Array]  # the traced settings [A]
    table: EpisodeTable  # [A, ...] over each agent's own episodes
    actor_table: EpisodeTable | None  # the same, where actor and critic draw differently
    episode_weight: Array | None  # [A, N] loss weights where samples are reweighted
    observation_mean: Array  # [A, d]
    observation_scale: Array  # [A, d]
    reward_scale: Array  # [A]
    action_low: Array | None  # [A, a] what -1 stands for, where actions are numbers
    action_high: Array | None  # [A, a] what 1 stands for
    policy: Array | None = None  # int32 [A] which of the given policies it evaluates, if it does


class Data(NamedTuple):
    """The dataset on the device, shared by all agents."""

    rows: Array  # [M, width]: observation, action and, if needed, next observation, reward, terminated; as they were given
    layout: EpisodeLayout
    next_choices: Choices | None = None  # [P, M, ...] what given policies do at the next observations
    # Of rows that were gathered for one piece: which of them each update takes, as `Program.draws` has it.
    drawn: Any = None


class Interval(NamedTuple):
    """What is under way between two lines of the log."""

    began: Any  # the states where the block began: what an agent that diverges is put back to
    sums: Sums  # of each metric over the healthy updates so far
    counts: Sums  # how many these were


class Progress(NamedTuple):
    """Everything that changes during training; what a checkpoint holds."""

    states: Any  # the algorithm's, [A, ...]
    # int32 [A] that they had at the last end of a block; no more are added to an agent that diverged.
    num_updates: Array
    diverged_at: Array  # int32 [A] the first update with a NaN, -1 while all is well
    interval: Interval | None = None


class Program:
    """A population of one algorithm with one set of shapes, on one device or over several."""

    def __init__(self, algorithm: Algorithm, config: Config, setup: Setup, spread: Spread | None = None) -> None:
        self.algorithm, self.config, self.setup = algorithm, config, setup
        self.period = algorithm.period(config)
        self._spread = spread or Spread(1)
        self.begin_interval = jax.jit(self._spread.over(self._begin_interval, each=2, shared=1))
        self._advance = jax.jit(self._advance_spread, static_argnames="count", donate_argnums=(0, 1))

    def start(self, agents: Agents) -> Progress:
        """Freshly initialised agents."""

        def begin(seeds: Array) -> Progress:
            states = jax.vmap(lambda seed: self.algorithm.init(_init_key(seed), self.setup, self.config))(seeds)
            return Progress(states, jnp.zeros(seeds.shape, jnp.int32), jnp.full(seeds.shape, -1, jnp.int32))

        return jax.jit(self._spread.over(begin, each=1))(agents.seed)

    def advance(self, progress: Progress, agents: Agents, data: Data, piece: Piece) -> Progress:
        """Some more updates, in a new interval unless one is under way; ``progress`` is used up. A new count is compiled."""
        interval = progress.interval or self.begin_interval(progress, agents, data)
        first, ends_block = jnp.int32(piece.first), jnp.bool(piece.ends_block)
        progress = progress._replace(interval=None)
        return self._advance(progress, interval, agents, data, first, ends_block, count=piece.size)

    def draw(self, agents: Agents, data: Data, update: int) -> Array:
        """The steps [A, B] that each agent learns from at one update; for tests and the curious."""
        return jax.vmap(lambda agent: self._draw(agent, data.layout, jnp.int32(update))[0])(agents)

    def draws(self, agents: Agents, layout: EpisodeLayout, first: Array, count: int) -> Any:
        """What :meth:`_draw` gives, of ``count`` updates and all agents: [count, A, ...]."""
        updates = first + jnp.arange(count, dtype=jnp.int32)
        return jax.vmap(lambda t: jax.vmap(lambda agent: self._draw(agent, layout, t))(agents))(updates)

    def _advance_spread(self, *arguments: Any, count: int) -> Progress:
        return self._spread.over(partial(self._advance_all, count=count), each=3, shared=3)(*arguments)

    # ---- one population, or one device's share of it --------------------------------------------------------------
    def _begin_interval(self, progress: Progress, agents: Agents, data: Data) -> Interval:
        """Every metric at zero; their names are found without computing anything: phase 0 reports them all."""

        def probe(progress: Progress, agents: Agents) -> dict[str, Array]:
            drawn = jax.vmap(lambda agent: self._draw(agent, data.layout, jnp.int32(0)))(agents)
            step = partial(self._agent_update, data=data, update=jnp.int32(0), phase=0)
            return jax.vmap(step)(progress, agents, drawn)[1]

        names = list(jax.eval_shape(probe, progress, agents))
        sums, counts = ({name: jnp.zeros(len(agents.seed), self.setup.dtype) for name in names} for _ in range(2))
        return Interval(jax.tree.map(jnp.copy, progress.states), sums, counts)

    def _advance_all(
        self,
        progress: Progress,
        interval: Interval,
        agents: Agents,
        data: Data,
        first: Array,
        ends_block: Array,
        count: int,
    ) -> Progress:
        """``count`` updates; at the end of a block an agent that diverged is put back to where it began, and stays there."""
        begun = progress._replace(states=with_rounded(progress.states, self.setup.compute.dtype))
        after, sums, counts = self._updates((begun, interval.sums, interval.counts), agents, data, first, count)
        after = after._replace(states=without_rounded(after.states))
        lost = ends_block & (after.diverged_at < 0) & ~jax.vmap(_all_finite)(after.states)
        diverged_at = jnp.where(lost, first + count - 1, after.diverged_at)
        healthy = diverged_at < 0
        states = jax.vmap(_choose)(healthy | ~ends_block, after.states, interval.began)
        num_updates = jnp.where(healthy & ends_block, first + count, after.num_updates)
        began = _choose(ends_block, states, interval.began)
        return Progress(states, num_updates, diverged_at, Interval(began, sums, counts))

    def _updates(self, carry: Any, agents: Agents, data: Data, first: Array, count: int) -> Any:
        """Draw all batches, then scan over whole periods and unroll what is left."""
        updates = first + jnp.arange(count, dtype=jnp.int32)
        drawn = self.draws(agents, data.layout, first, count) if data.drawn is None else data.drawn
        whole = count // self.period * self.period

        def one_period(carry: Any, inputs: Any) -> tuple[Any, None]:
            times, draws = inputs  # [period], [period, ...]; at the end maybe fewer
            for phase in range(len(times)):
                here = jax.tree.map(lambda leaf, phase=phase: leaf[phase], draws)
                carry = self._one_update(carry, agents, data, times[phase], here, phase)
            return carry, None

        def periods(leaf: Array) -> Array:
            return leaf[:whole].reshape(-1, self.period, *leaf.shape[1:])

        # Of two updates in a row XLA lets only the second write Adam's moments, and computes the first's again.
        pairs = 2 if self.setup.compute.fused and self.period == 1 else 1
        carry, _ = jax.lax.scan(one_period, carry, jax.tree.map(periods, (updates, drawn)), unroll=pairs)
        return one_period(carry, jax.tree.map(lambda leaf: leaf[whole:], (updates, drawn)))[0]

    def _one_update(self, carry: Any, agents: Agents, data: Data, update: Array, drawn: Any, phase: int) -> Any:
        progress, sums, counts = carry
        step = partial(self._agent_update, data=data, update=update, phase=phase)
        progress, metrics, alive = jax.vmap(step)(progress, agents, drawn)
        sums = {name: total + metrics[name] if name in metrics else total for name, total in sums.items()}
        counts = {name: count + alive if name in metrics else count for name, count in counts.items()}
        return progress, sums, counts

    # ---- one agent ----------------------------------------------------------------------------------------------
    def _agent_update(
        self, progress: Progress, agent: Agents, drawn: Any, data: Data, update: Array, phase: int
    ) -> tuple[Progress, dict[str, Array], Array]:
        """One update of one agent."""
        steps, weights, actor_steps = drawn
        critic = self._batch(agent, data, steps, weights)
        actor = critic if actor_steps is None else self._batch(agent, data, actor_steps, None)
        key = jax.random.fold_in(_update_key(agent.seed, update), 2)
        noise = _once(self.algorithm.noise(key, self.setup, self.config))
        states, metrics = self.algorithm.update(
            progress.states, Batches(critic, actor), noise, agent.hyper, update, self.setup, self.config, phase
        )
        bad = (progress.diverged_at < 0) & ~jnp.isfinite(sum(metrics.values()))
        diverged_at = jnp.where(bad, update, progress.diverged_at)
        alive = diverged_at < 0
        shown = {name: jnp.where(alive, value, 0) for name, value in metrics.items()}
        return progress._replace(states=states, diverged_at=diverged_at), shown, alive.astype(self.setup.dtype)

    def _draw(self, agent: Agents, layout: EpisodeLayout, update: Array) -> tuple[Array, Array | None, Array | None]:
        """Steps [B] for the critic, their loss weights, and steps for the actor where it draws its own."""
        key = _update_key(agent.seed, update)
        count = self.config.batch_size
        steps, episodes = draw_steps(jax.random.fold_in(key, 0), agent.table, layout, count)
        weights = None if agent.episode_weight is None else agent.episode_weight[episodes]
        if agent.actor_table is None:
            return steps, weights, None
        return steps, weights, draw_steps(jax.random.fold_in(key, 1), agent.actor_table, layout, count)[0]

    def _batch(self, agent: Agents, data: Data, steps: Array, weights: Array | None) -> Batch:
        """Gather the rows and split them; scale observations, actions (to [-1, 1]) and rewards as this agent does."""
        rows = _once(data.rows.at[steps].get(mode="promise_in_bounds"))
        size = self.setup.observation_size
        width = 1 if self.algorithm.discrete else self.setup.action_size
        observations, actions, rest = rows[:, :size], rows[:, size : size + width], rows[:, size + width :]
        if agent.action_low is None or agent.action_high is None:
            actions = actions[:, 0].astype(jnp.int32)
        else:
            actions = jnp.clip(2 * (actions - agent.action_low) / (agent.action_high - agent.action_low) - 1, -1, 1)
        if self.algorithm.uses_rewards:
            following, terminated = rest[:, :size], rest[:, size + 1]
            rewards = rest[:, size] * agent.reward_scale
            rewards = rewards + self.config.reward_shift if self.config.reward_shift else rewards
        else:
            rewards = terminated = jnp.zeros(len(rows), rows.dtype)
            following = observations
        if self.config.normalize_observations:
            observations, following = (
                (part - agent.observation_mean) / agent.observation_scale for part in (observations, following)
            )
        choice = None if agent.policy is None else take_choices(data.next_choices, agent.policy, steps)
        return Batch(observations, actions, rewards, following, terminated, weights, choice)


def _all_finite(states: Any) -> Array:
    checks = [
        jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(states) if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    return jnp.all(jnp.array(checks))


def _choose(condition: Array, one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)


def _once(values: Any) -> Any:
    """The same values, which XLA might else compute again for each use."""
    return jax.lax.optimization_barrier(values)  # type: ignore[no-untyped-call]


def _init_key(seed: Array) -> Array:
    return jax.random.fold_in(jax.random.key(seed), 0)


def _update_key(seed: Array, update: Array) -> Array:
    """The root of an agent's randomness at one update."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1), update)
