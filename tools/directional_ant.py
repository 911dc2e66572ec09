"""The environment in which the mazes' ant learns to walk: wherever it is told to, in the open.

The reward is the speed along a direction, in metres per second, as in OGBench's recipe; the direction is drawn anew every 100
steps. An ant that falls or turns over has lost the rest of its thousand steps.

    python -m tools.training --tasks tools.directional_ant:make --steps 1000000 --environments 32 --updates 16 --output walking
    python -m tools.directional_ant walking --output walker.safetensors

The second command takes the snapshot that walked fastest. It plays its mean actions with noise of 0.2, as D4RL and OGBench do.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from tools.snapshots import read_progress
from upweight.policies.policy import Policy
from upweight.policies.safetensors_file import read_safetensors
from upweight.rollout.ant import SEEN, STATE_SIZE, VIEW_SIZE, Ant, is_upright, own_view

_STEPS_PER_DIRECTION = 100
_STEPS_PER_EPISODE = 1000
_NOISE = 0.2


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
        return self._observation(), float(moved) / self.ant.step_seconds, fallen, late, {}

    def _turn(self) -> None:
        angle = self.np_random.uniform(-math.pi, math.pi)
        self.direction = (math.cos(angle), math.sin(angle))

    def _observation(self) -> NDArray[np.float32]:
        whole = np.concatenate([self.state, own_view(self.state, self.direction)])
        return whole[list(SEEN)].astype(np.float32)


def make() -> DirectionalAnt:
    """What ``tools.directional_ant:make`` names."""
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="written by tools.training")
    parser.add_argument("--output", type=Path, required=True, help="policy file to write")
    parser.add_argument("--steps", type=int, default=None, help="of the snapshot (default: the best)")
    given = parser.parse_args(arguments)
    read_walker(given.folder, given.steps).save(given.output, dtype=np.float16)


if __name__ == "__main__":
    main()
