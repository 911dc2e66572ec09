"""The environment in which the mazes' ant learns to walk: wherever it is told to, in the open.

The reward is the speed along a direction, in metres per second, as in OGBench's recipe; the direction is drawn anew every 100
steps. An ant that falls or turns over has lost the rest of its thousand steps.

    python -m reproduction.policies.training --tasks reproduction.policies.directional_ant:make --steps 1000000 \
        --environments 32 --updates 16 --output walking
    python -m reproduction.policies.directional_ant walking --output src/upweight/lab/recipes/policies/antmaze

The second command takes the snapshot that walked fastest, and measures how often it reaches the mazes' goals. It plays its mean
actions with noise of 0.2, as D4RL and OGBench do.
"""

import argparse
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from reproduction.policies.snapshots import read_progress
from upweight.base.files import write_json
from upweight.base.optional import installed_versions
from upweight.lab.play.ant import STATE_SIZE, VIEW_SIZE, Ant, own_view
from upweight.lab.play.evaluate import evaluate
from upweight.lab.play.mazes import MAZES, maze_id
from upweight.lab.recipes.ladder import WALKER
from upweight.policies.policy import Policy
from upweight.policies.safetensors_file import read_safetensors

# Entries of the state and the view after it that a walker is told. It gets no place and no heading, so it walks alike everywhere
# and in every direction.
SEEN = (2, *range(7, 15), *range(17, STATE_SIZE + VIEW_SIZE))
_STEPS_PER_DIRECTION = 100
_STEPS_PER_EPISODE = 1000
_NOISE = 0.2
_STEP_SECONDS = 0.1


class DirectionalAnt(gymnasium.Env[Any, Any]):  # type: ignore[misc]
    """Observations [28]: what :data:`SEEN` leaves of the ant's state and of its view of the direction."""

    def __init__(self) -> None:
        self.ant = Ant()
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (len(SEEN),), np.float32)
        self.action_space = gymnasium.spaces.Box(-1, 1, (self.ant.model.nu,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.state = self.ant.reset(self.np_random)
        self._turn()
        return self._observation(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        x, y = self.state[:2]
        self.state = self.ant.step(action)
        moved = (self.state[0] - x) * self.direction[0] + (self.state[1] - y) * self.direction[1]
        self.steps += 1
        if self.steps % _STEPS_PER_DIRECTION == 0:
            self._turn()
        fallen, late = not is_upright(self.state), self.steps >= _STEPS_PER_EPISODE
        return self._observation(), float(moved) / _STEP_SECONDS, fallen, late, {}

    def _turn(self) -> None:
        angle = self.np_random.uniform(-math.pi, math.pi)
        self.direction = (math.cos(angle), math.sin(angle))

    def _observation(self) -> NDArray[np.float32]:
        whole = np.concatenate([self.state, own_view(self.state, self.direction)])
        return whole[list(SEEN)].astype(np.float32)


def is_upright(state: NDArray[np.float64]) -> bool:
    """Neither fallen, nor thrown up, nor on its back."""
    w, x, y, z = (float(value) for value in state[3:7])
    return 0.2 <= state[2] <= 1.0 and w * w + z * z > x * x + y * y


def make() -> DirectionalAnt:
    """What ``reproduction.policies.directional_ant:make`` names."""
    return DirectionalAnt()


def read_walker(folder: Path, steps: int | None = None) -> Policy:
    """The snapshot after ``steps``, or the one with the highest mean return, as a policy on the ant's state and view [36]."""
    agents, times, means = read_progress(folder)
    known = np.where(np.isnan(means), -np.inf, means)
    row = int(known.max(axis=1).argmax()) if steps is None else int(np.flatnonzero(times == steps)[0])
    place = int(known[row].argmax())
    arrays, _ = read_safetensors(folder / "snapshots" / f"{times[row]:09d}.safetensors")
    own = {name: array[place].astype(np.float32) for name, array in arrays.items()}
    layers = [(own[f"layer{n}.weight"], own[f"layer{n}.bias"]) for n in range(len(own) // 2)]
    first = np.zeros((STATE_SIZE + VIEW_SIZE, layers[0][0].shape[1]), np.float32)
    first[list(SEEN)] = layers[0][0]
    layers[0] = (first, layers[0][1])
    size = len(layers[-1][1]) // 2  # the means; the deviations that follow belong to the training
    layers[-1] = (layers[-1][0][:, :size], layers[-1][1][:size])
    return Policy(
        kind="gaussian",
        layers=tuple(layers),
        observation_mean=np.zeros(len(first), np.float32),
        observation_scale=np.ones(len(first), np.float32),
        log_std=np.full(size, math.log(_NOISE), np.float32),
        action_low=-np.ones(size, np.float32),
        action_high=np.ones(size, np.float32),
        metadata={"algorithm": "sac", "steps": int(times[row]), "seed": agents[place][1]},
    )


def write_walker(walker: Policy, folder: Path, *, episodes: int) -> None:
    """The policy file, and beside it the share of ``episodes`` in which it reaches the goal from the start of each maze."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "walker.safetensors"
    walker.save(path, dtype=np.float16)
    played = {maze: evaluate(path, maze_id(maze, "goal"), episodes, stochastic=True) for maze in MAZES}
    about = {
        "file": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "steps": walker.metadata["steps"],
        "success": {maze: round(result.mean_return, 4) for maze, result in played.items()},
        "mean_length": {maze: round(float(result.lengths.mean()), 1) for maze, result in played.items()},
        "episodes": episodes,
        "versions": installed_versions("upweight", "gymnasium", "mujoco", "numpy"),
    }
    write_json(folder / Path(WALKER).name, about)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="written by reproduction.policies.training")
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--episodes", type=int, default=200, help="to measure it by, in each maze (default: 200)")
    parser.add_argument("--steps", type=int, default=None, help="of the snapshot (default: the best)")
    given = parser.parse_args(arguments)
    write_walker(read_walker(given.folder, given.steps), given.output, episodes=given.episodes)


if __name__ == "__main__":
    main()
