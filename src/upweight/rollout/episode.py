"""One episode: what came of it, and what was seen if it was recorded."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def episode_streams(seed: tuple[int, ...]) -> tuple[int, np.random.SeedSequence]:
    """The two independent sources of an episode's luck: a seed for the environment, and one for the choice of actions.

    ``seed`` is any tuple of whole numbers below 2^32; tuples of one length give streams of their own.
    """
    environment, actions = np.random.SeedSequence(seed).spawn(2)
    return int(environment.generate_state(1)[0]), actions
