"""Policies and environments for tests of the rollout layer."""

import itertools
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv

import upweight as uw
from upweight.lab.play.block import Episode, make_block, play

SHORT_CHEETAH = "upweight-tests/ShortHalfCheetah-v0"


def make_policy(
    env_id: str,
    kind: str | None = None,
    *,
    seed: int = 0,
    hidden: int = 32,
    inputs: int | None = None,
    metadata: dict[str, object] | None = None,
) -> uw.Policy:
    """An untrained policy that fits the environment, unless it has other ``inputs``."""
    environment = uw.make_environment(env_id)
    observation_size, space = inputs or environment.observation_space.shape[0], environment.action_space
    environment.close()
    discrete = isinstance(space, gymnasium.spaces.Discrete)
    kind = kind or ("categorical" if discrete else "deterministic")
    size = int(space.n) if discrete else space.shape[0]
    outputs = 2 * size if kind == "tanh_gaussian" else size
    rng = np.random.default_rng(seed)
    layers = tuple(
        ((rng.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32), rng.normal(size=b).astype(np.float32) / 10)
        for a, b in itertools.pairwise([observation_size, hidden, hidden, outputs])
    )
    return uw.Policy(
        kind=kind,
        layers=layers,
        observation_mean=np.zeros(observation_size, np.float32),
        observation_scale=np.ones(observation_size, np.float32),
        log_std=np.full(size, -1.0, np.float32) if kind == "gaussian" else None,
        action_low=None if discrete else np.asarray(space.low, np.float32),
        action_high=None if discrete else np.asarray(space.high, np.float32),
        metadata=metadata or {},
    )


def run_block(*what: Any, **options: Any) -> list[Episode]:
    """Play a block in this process."""
    return play(make_block(*what, **options))


def register_short_cheetah(max_steps: int = 40) -> str:
    """HalfCheetah, which never terminates, with a short time limit; known to this process only."""
    if SHORT_CHEETAH not in gymnasium.registry:
        entry = gymnasium.spec("HalfCheetah-v5").entry_point
        gymnasium.register(SHORT_CHEETAH, entry_point=entry, max_episode_steps=max_steps)
    return SHORT_CHEETAH


class Faulty(CartPoleEnv):
    """Raises, or gives a reward that is no number, at its first step."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def step(self, action: Any) -> Any:
        if self.fault == "raises":
            raise ZeroDivisionError("division by zero")
        observation, _, *flags = super().step(action)
        return (observation, math.nan, *flags)


def register_faulty(fault: str) -> str:
    env_id = f"upweight-tests/{fault}-v0"
    if env_id not in gymnasium.registry:
        gymnasium.register(env_id, entry_point=Faulty, kwargs={"fault": fault}, max_episode_steps=5)
    return env_id


class Counted(CartPoleEnv):
    """Knows how many of its kind are open."""

    open_ones = 0

    def __init__(self, fault: str = "", stuck: bool = False) -> None:
        super().__init__()
        self.fault, self.stuck = fault, stuck
        Counted.open_ones += 1

    def step(self, action: Any) -> Any:
        if self.fault:
            raise ZeroDivisionError(self.fault)
        return super().step(action)

    def close(self) -> None:
        super().close()
        Counted.open_ones -= 1
        if self.stuck:
            raise OSError("stuck")


def register_counted(**options: Any) -> str:
    """Known to this process only; registering it again, with other options, gives the id a new meaning."""
    env_id = "upweight-tests/counted-v0"
    gymnasium.registry.pop(env_id, None)
    gymnasium.register(env_id, entry_point=Counted, max_episode_steps=5, **options)
    return env_id


def register_numbered_from_one() -> str:
    """CartPole whose actions are called 1 and 2."""

    def make() -> Any:
        environment = CartPoleEnv()
        environment.action_space = gymnasium.spaces.Discrete(2, start=1)
        return environment

    env_id = "upweight-tests/from-one-v0"
    if env_id not in gymnasium.registry:
        gymnasium.register(env_id, entry_point=make, max_episode_steps=5)
    return env_id
