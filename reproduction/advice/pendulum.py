"""Pendulum-v1 as a log: eight controllers from weak to good, and uniformly random torques.

A controller pumps energy until the pendulum is near the top, and holds it there with a linear law. The torque that it may use
grades it: a weak one hardly gets the pendulum up.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.data.dataset import Dataset
from upweight.data.mix import concat

ENV_ID = "Pendulum-v1"
GRADES = (0.1, 0.2, 0.3, 0.4, 0.55, 0.8, 1.3, 2.0)  # largest torque; the environment allows 2
EXPERT, RANDOM = len(GRADES) - 1, -1
_NOISE = 0.3  # standard deviation of what is added to the torque
_TOP_ENERGY = 5.0  # m g l / 2, at rest upright
_NEAR_TOP = 0.9  # cosine of the angle from which the linear law holds


def torque(observation: NDArray[Any], limit: float) -> float:
    """Of the controller: energy pumping far from the top, a linear law near it; both within ``limit``."""
    cosine, sine, speed = (float(number) for number in observation)
    if cosine > _NEAR_TOP:
        wanted = -(12 * np.arctan2(sine, cosine) + 3 * speed)
    else:
        energy = speed**2 / 6 + _TOP_ENERGY * cosine  # I = m l^2 / 3
        wanted = 2 * (_TOP_ENERGY - energy) * np.sign(speed if speed else 1)
    return float(np.clip(wanted, -limit, limit))


def play(grades: Iterable[tuple[int, int]], *, seed: int, top_starts: frozenset[int] = frozenset()) -> Dataset:
    """``(grade, steps)`` each: whole episodes of 200 steps. Grades in ``top_starts`` begin within 0.3 of upright."""
    return concat([_play_grade(*each, seed=seed, from_top=each[0] in top_starts) for each in grades], source="pendulum")


def _play_grade(grade: int, steps: int, *, seed: int, from_top: bool) -> Dataset:
    import gymnasium

    environment = gymnasium.make(ENV_ID)
    rng = np.random.default_rng([seed, grade + 1])
    episodes = []
    while 200 * len(episodes) < steps:
        options = {"x_init": 0.3, "y_init": 0.3} if from_top else None
        observation, _ = environment.reset(seed=int(rng.integers(2**31)), options=options)
        visited, actions, rewards, over = [observation], [], [], False
        while not over:
            wanted = (
                rng.uniform(-2, 2) if grade == RANDOM else torque(observation, GRADES[grade]) + _NOISE * rng.normal()
            )
            action = np.clip([wanted], -2, 2).astype(np.float32)
            observation, reward, terminated, truncated, _ = environment.step(action)
            visited.append(observation)
            actions.append(action)
            rewards.append(float(reward))
            over = terminated or truncated
        label = "random" if grade == RANDOM else f"grade-{grade}"
        arrays = {"observations": np.stack(visited), "actions": np.stack(actions), "rewards": np.array(rewards)}
        episodes.append({**arrays, "truncated": True, "label": label})
    return Dataset.from_episodes(episodes, metadata={"env_id": ENV_ID}, source="pendulum")
