"""An ant in a maze. Imports Gymnasium, so it is only loaded with an environment."""

import math
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from upweight.lab.play.ant import STATE_SIZE, VIEW_SIZE, Ant, own_view
from upweight.lab.play.mazes import GOAL_RADIUS, MAZES, SIZE, Planner, centre

_START_NOISE = SIZE / 4  # metres around the centre of a cell, where an ant may start anywhere
Outcome = tuple[Any, float, bool, bool, dict[str, Any]]


class AntMaze(gymnasium.Env[Any, Any]):  # type: ignore[misc]
    """Observations [29]: the ant's positions and velocities. The reward is 1 at the goal, else 0, and the episode ends there.

    With a ``command``, the ant is told the way: observations are [36], its own view of where to head for in addition (see
    :func:`~upweight.lab.play.ant.own_view`). Without ``ends``, it goes on after the goal, to which it may come again.
    """

    def __init__(self, maze: str, command: str | None = None, ends: bool = True) -> None:
        self.maze, self.command, self.ends = MAZES[maze], command, ends
        self.ant = Ant(self.maze.walls())
        size = STATE_SIZE + (VIEW_SIZE if command else 0)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1, 1, (self.ant.model.nu,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        starts = self.maze.starts(self.command or "goal")
        place = np.array(centre(starts[int(self.np_random.integers(len(starts)))]))
        if len(starts) > 1:
            place += self.np_random.uniform(-_START_NOISE, _START_NOISE, 2)
        state = self.ant.reset(self.np_random, place)
        self.planner = Planner(self.maze, self.command, state[:2], self.np_random) if self.command else None
        return self._observe(state), {"success": False}

    def step(self, action: NDArray[np.float32]) -> Outcome:
        state = self.ant.step(action)
        arrived = math.dist(state[:2], self.maze.goal) <= GOAL_RADIUS
        return self._observe(state), float(arrived), arrived and self.ends, False, {"success": arrived}

    def _observe(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.planner is None:
            return state
        return np.concatenate([state, own_view(state, self.planner.direction(state[:2]))])
