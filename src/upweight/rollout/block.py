"""The one rollout loop: a fixed list of episodes, played in several environments in lockstep.

::

    lane 0   episode 0 ------------> episode 3 -----> 0 0 0 0     (nothing left: a row of zeros keeps the shape [lanes, d])
    lane 1   episode 1 -----> episode 2 ------------------->      (a lane that is done takes the next episode)

Every step is one batched call of the policy on a fixed shape. Every episode has its own seeds. Rows of a product of matrices may
round differently by their place, though not by what the other rows hold, so the lane of an episode counts too. Which lane that is
follows from the lengths of the episodes: a block gives the same numbers in any process, at any time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import RolloutError, UpweightError
from upweight.policies.policy import Policy
from upweight.rollout.environments import find_spec
from upweight.rollout.episode import Episode, Trajectory, episode_streams
from upweight.rollout.lanes import borrow_environments
from upweight.rollout.random_actions import check_can_be_random, random_action

LANES = 10
EpisodeSeed = tuple[int, ...]
Generators = list[np.random.Generator]
Chooser = Callable[[NDArray[np.float32], Generators], Sequence[Any] | NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Block:
    """Episodes to be played together, as a message to a worker process."""

    env_id: str
    policy: Policy | None  # None plays uniformly random actions
    episode_seeds: Sequence[EpisodeSeed]
    stochastic: bool = False
    record: bool = False
    lanes: int = LANES
    registration: Any = None  # the EnvSpec behind env_id, for workers that have not seen it registered


def make_block(env_id: str, policy: Policy | None, episode_seeds: Sequence[EpisodeSeed], **options: Any) -> Block:
    """A block that any process can play, also if ``env_id`` was registered in this one only."""
    return Block(env_id, policy, episode_seeds, registration=find_spec(env_id), **options)


def play(block: Block) -> list[Episode]:
    """The block's episodes, in the order of their seeds; what worker processes run."""
    if block.registration is not None:
        import gymnasium

        gymnasium.registry[block.registration.id] = block.registration
    try:
        return run_block(
            block.env_id,
            block.policy,
            block.episode_seeds,
            stochastic=block.stochastic,
            lanes=block.lanes,
            record=block.record,
        )
    except UpweightError:
        raise
    except Exception as error:  # an environment is somebody else's code, and may raise anything
        raise RolloutError(f"{block.env_id}: failed while it was played: {type(error).__name__}: {error}") from error


def run_block(
    env_id: str,
    policy: Policy | None,
    episode_seeds: Sequence[EpisodeSeed],
    *,
    stochastic: bool = False,
    lanes: int = LANES,
    record: bool = False,
) -> list[Episode]:
    """Play one episode per seed and return them in that order.

    ``policy`` None plays uniformly random actions; ``stochastic`` samples the policy's actions instead of taking its
    deterministic ones. ``record`` keeps every step.
    """
    if not episode_seeds:
        return []
    with borrow_environments(env_id, min(lanes, len(episode_seeds))) as environments:
        draws = stochastic or policy is None
        table = [_Lane(environment, number, draws, record) for number, environment in enumerate(environments)]
        choose = _chooser(env_id, policy, environments[0].action_space, stochastic)
        rows = np.zeros((lanes, *environments[0].observation_space.shape), np.float32)
        generators = [np.random.default_rng(0) for _ in range(lanes)]  # the unused lanes' stay
        episodes: list[Episode | None] = [None] * len(episode_seeds)
        upcoming = iter(range(len(episode_seeds)))
        playing = [lane for lane in table if _start_next(lane, upcoming, episode_seeds, rows, generators)]
        while playing:
            actions = choose(rows, generators)
            done = [lane for lane in playing if lane.step(actions, rows)]
            for lane in done:
                episodes[lane.episode] = lane.finish()
                if not _start_next(lane, upcoming, episode_seeds, rows, generators):
                    playing.remove(lane)
    return [episode for episode in episodes if episode is not None]


class _Lane:
    """One environment and the episode under way in it."""

    def __init__(self, environment: Any, number: int, draws: bool, record: bool) -> None:
        self.environment, self.number, self.draws, self.record = environment, number, draws, record
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
        return False

    def finish(self) -> Episode:
        trajectory = None
        if self.record:
            chosen = np.asarray(self.actions)
            chosen = chosen.astype(np.int64 if chosen.dtype.kind in "iu" else np.float32)
            trajectory = Trajectory(np.stack(self.visited), chosen, np.asarray(self.rewards, np.float32))
        return Episode(self.total, len(self.rewards), *self.flags, trajectory)


def _start_next(
    lane: _Lane,
    upcoming: Any,
    seeds: Sequence[EpisodeSeed],
    rows: NDArray[np.float32],
    generators: Generators,
) -> bool:
    """Begin the next unplayed episode; False if none is left."""
    episode = next(upcoming, None)
    if episode is None:
        rows[lane.number] = 0
        return False
    lane.start(episode, seeds[episode], rows, generators)
    return True


def _chooser(env_id: str, policy: Policy | None, space: Any, stochastic: bool) -> Chooser:
    """How the actions of all lanes are chosen: (observations [lanes, d], generators) -> [lanes] actions."""
    if policy is None:
        check_can_be_random(env_id, space)
        return lambda rows, generators: [random_action(space, rng) for rng in generators]
    act = policy.act
    if policy.is_discrete:
        return lambda rows, generators: act(rows, generators if stochastic else None).tolist()
    return lambda rows, generators: act(rows, generators if stochastic else None)
