"""Uniformly random actions."""

from typing import Any

import numpy as np

from upweight.base.errors import RolloutError


def random_action(space: Any, rng: np.random.Generator) -> Any:
    """An action drawn uniformly from a bounded box (an array of its shape) or a discrete space (an int)."""
    if hasattr(space, "n"):
        return int(space.start) + int(rng.integers(space.n))
    draw = rng.random(space.shape, np.float32)
    return (space.low + draw * (space.high - space.low)).astype(space.dtype)


def check_can_be_random(env_id: str, space: Any) -> None:
    """Refuse spaces without a uniform distribution."""
    kind = type(space).__name__
    if kind != "Discrete" and not (kind == "Box" and np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise RolloutError(f"{env_id}: random actions need a discrete space or a bounded box, found {space}")
