"""The one rollout loop: a fixed list of episodes, played in several environments in lockstep.

::

    lane 0   episode 0 ------------> episode 3 -----> 0 0 0 0     (nothing left: a row of zeros keeps the shape [lanes, d])
    lane 1   episode 1 -----> episode 2 ------------------->      (a lane that is done takes the next episode)

Every step is one batched call of the policy on a fixed shape. Every episode has its own seeds. Rows of a product of matrices may
round differently by their place, though not by what the other rows hold, so the lane of an episode counts too. Which lane that is
follows from the lengths of the episodes: a block gives the same numbers in any process, at any time.
"""

import atexit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import RolloutError, UpweightError
from upweight.lab.play.environments import (
    check_can_be_random,
    close_environment,
    find_spec,
    has_time_limit,
    make_environment,
    random_action,
)
from upweight.policies.policy import Policy

LANES = 10
MOST_STEPS = 100_000  # of an episode whose environment declares no time limit: it might never end
EpisodeSeed = tuple[int, ...]
Generators = list[np.random.Generator]
Chooser = Callable[[NDArray[np.float32], Generators], Sequence[Any] | NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The T steps of an episode, with every observation stored once."""

    visited: NDArray[np.float32]  # [T+1, ...], the last being the observation after the last step
    actions: NDArray[Any]  # [T, a] float32, or [T] int64 if discrete; as chosen, before any noise of the environment
    rewards: NDArray[np.float32]  # [T]

    @property
    def observations(self) -> NDArray[np.float32]:
        """[T, ...]"""
        return self.visited[:-1]

    @property
    def next_observations(self) -> NDArray[np.float32]:
        """[T, ...]"""
        return self.visited[1:]


@dataclass(frozen=True, eq=False)
class Episode:
    """The outcome of an episode."""

    total_reward: float  # summed in float64
    length: int  # steps
    terminated: bool  # reached a terminal state
    truncated: bool  # was stopped by the time limit; may come together with terminated
    trajectory: Trajectory | None = None  # where it was recorded


def episode_streams(seed: EpisodeSeed) -> tuple[int, np.random.SeedSequence]:
    """The two independent sources of an episode's luck: a seed for the environment, and one for the choice of actions.

    ``seed`` is any tuple of whole numbers below 2^32; tuples of one length give streams of their own.
    """
    environment, actions = np.random.SeedSequence(seed).spawn(2)
    return int(environment.generate_state(1)[0]), actions


@dataclass(frozen=True, eq=False)
class Block:
    """Episodes to be played together, as a message to a worker process."""

    env_id: str
    policy: Policy | None  # None plays uniformly random actions
    episode_seeds: Sequence[EpisodeSeed]
    stochastic: bool = False  # sample the policy's actions instead of taking its deterministic ones
    record: bool = False  # keep every step
    lanes: int = LANES
    registration: Any = None  # the EnvSpec behind env_id, for workers that have not seen it registered


def make_block(env_id: str, policy: Policy | None, episode_seeds: Sequence[EpisodeSeed], **options: Any) -> Block:
    """A block that any process can play, also if ``env_id`` was registered in this one only."""
    return Block(env_id, policy, episode_seeds, registration=find_spec(env_id), **options)


def play(block: Block) -> list[Episode]:
    """The block's episodes, one per seed and in their order; what worker processes run."""
    if not block.episode_seeds:
        return []
    if block.registration is not None:
        import gymnasium

        gymnasium.registry[block.registration.id] = block.registration
    try:
        size = None if block.policy is None else block.policy.observation_size
        with borrow_environments(block.env_id, size, min(block.lanes, len(block.episode_seeds))) as environments:
            return _play_in_lockstep(block, environments)
    except UpweightError:
        raise
    except Exception as error:  # an environment is somebody else's code, and may raise anything
        raise RolloutError(f"{block.env_id}: failed while it was played: {type(error).__name__}: {error}") from error


def _play_in_lockstep(block: Block, environments: list[Any]) -> list[Episode]:
    seeds, draws = block.episode_seeds, block.stochastic or block.policy is None
    limit = None if has_time_limit(environments[0]) else MOST_STEPS
    lanes = [_Lane(environment, number, draws, block.record, limit) for number, environment in enumerate(environments)]
    choose = _chooser(block, environments[0].action_space)
    rows = np.zeros((block.lanes, *environments[0].observation_space.shape), np.float32)
    generators = [np.random.default_rng(0) for _ in range(block.lanes)]  # the unused lanes' stay
    episodes: list[Episode | None] = [None] * len(seeds)
    upcoming = iter(range(len(seeds)))

    def start_next(lane: _Lane) -> bool:
        """Begin the next unplayed episode; False if none is left."""
        episode = next(upcoming, None)
        if episode is None:
            rows[lane.number] = 0
            return False
        lane.start(episode, seeds[episode], rows, generators)
        return True

    playing = [lane for lane in lanes if start_next(lane)]
    while playing:
        actions = choose(rows, generators)
        done = [lane for lane in playing if lane.step(actions, rows)]
        for lane in done:
            episodes[lane.episode] = lane.finish()
            if not start_next(lane):
                playing.remove(lane)
    return [episode for episode in episodes if episode is not None]


class _Lane:
    """One environment and the episode under way in it."""

    def __init__(self, environment: Any, number: int, draws: bool, record: bool, limit: int | None) -> None:
        self.environment, self.number, self.draws, self.record = environment, number, draws, record
        self.limit = limit  # steps that an episode may not go beyond
        self.advance = environment.step  # looked up once: this loop is what the package's speed depends on

    def start(self, episode: int, seed: EpisodeSeed, rows: NDArray[np.float32], generators: Generators) -> None:
        reset_seed, stream = episode_streams(seed)
        if self.draws:
            generators[self.number] = np.random.default_rng(stream)
        rows[self.number] = self.environment.reset(seed=reset_seed)[0]
        self.episode, self.total, self.flags = episode, 0.0, (False, False)
        self.rewards: list[float] = []
        self.actions: list[Any] = []
        self.visited = [rows[self.number].copy()] if self.record else []

    def step(self, actions: Sequence[Any] | NDArray[Any], rows: NDArray[np.float32]) -> bool:
        """Play this lane's action, put the next observation into its row; True at the end of the episode."""
        number = self.number
        rows[number], reward, terminated, truncated, _ = self.advance(actions[number])
        reward = float(reward)
        self.total += reward
        self.rewards.append(reward)
        if self.record:
            self.actions.append(actions[number])
            self.visited.append(rows[number].copy())
        if terminated or truncated:
            self.flags = (bool(terminated), bool(truncated))
            return True
        if len(self.rewards) == self.limit:
            raise RolloutError(
                f"{self.environment.spec.id}: expected a time limit, or episodes that end, found an episode that goes on after "
                f"{self.limit:,} steps; say how long one may be: gymnasium.register(..., max_episode_steps=1000), or "
                "gymnasium.wrappers.TimeLimit in a function of your own (module:function)"
            )
        return False

    def finish(self) -> Episode:
        trajectory = None
        if self.record:
            chosen = np.asarray(self.actions)
            chosen = chosen.astype(np.int64 if chosen.dtype.kind in "iu" else np.float32)
            trajectory = Trajectory(np.stack(self.visited), chosen, np.asarray(self.rewards, np.float32))
        return Episode(self.total, len(self.rewards), *self.flags, trajectory)


def _chooser(block: Block, space: Any) -> Chooser:
    """How the actions of all lanes are chosen: (observations [lanes, d], generators) -> [lanes] actions."""
    if block.policy is None:
        check_can_be_random(block.env_id, space)
        return lambda rows, generators: [random_action(space, rng) for rng in generators]
    act, stochastic = block.policy.act, block.stochastic
    if block.policy.is_discrete:
        return lambda rows, generators: act(rows, generators if stochastic else None).tolist()
    return lambda rows, generators: act(rows, generators if stochastic else None)


# ---- environments, kept for the next block ------------------------------------------------------------------------------
# What the last block left: {id and number of observations: (registration of the id, environments)}.
_idle: dict[tuple[str, int | None], tuple[Any, list[Any]]] = {}


@contextmanager
def borrow_environments(env_id: str, observation_size: int | None, count: int) -> Iterator[list[Any]]:
    """``count`` environments as :func:`make_environment` builds them, taken from those of an earlier block where possible:
    building one takes as long as hundreds of steps. Every episode starts with a seeded reset, which leaves nothing of the
    episode before."""
    spec, kind = find_spec(env_id), (env_id, observation_size)
    registered, environments = _idle.pop(kind, (spec, []))
    if registered != spec:  # the id has a new meaning
        _close(environments)
    try:
        while len(environments) < count:
            environments.append(make_environment(env_id, observation_size))
        yield environments[:count]
    except BaseException:
        _close(environments)
        raise
    close_idle_environments()
    _idle[kind] = (spec, environments)


@atexit.register
def close_idle_environments() -> None:
    """Close what is kept for the next block."""
    for kind in list(_idle):
        _close(_idle.pop(kind, (None, []))[1])


def _close(environments: list[Any]) -> None:
    while environments:
        close_environment(environments.pop())
