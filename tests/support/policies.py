"""Policies made by hand, or by seed."""

import itertools
from typing import Any

import numpy as np

from upweight.policies.policy import Policy


def linear(weights: Any, bias: Any, *, kind: str = "deterministic", bound: float = 1.0) -> Policy:
    """Whose outputs are ``x @ weights + bias``."""
    weight, offset = np.asarray(weights, np.float32), np.asarray(bias, np.float32)
    size = len(offset)
    limits = {"action_low": np.full(size, -bound), "action_high": np.full(size, bound)}
    bounds = {} if kind in {"categorical", "greedy"} else limits
    return Policy(kind, ((weight, offset),), np.zeros(len(weight)), np.ones(len(weight)), **bounds)


def random_policy(kind: str, seed: int = 0, *, observation: int = 3, action: int = 2, bound: float = 1.0) -> Policy:
    """Of any kind, with numbers and a width from ``seed``."""
    rng = np.random.default_rng(seed)
    discrete = kind in {"categorical", "greedy"}
    widths = (observation, 5 + seed, 2 * action if kind == "tanh_gaussian" else action)
    layers = [(rng.normal(size=(i, o)), rng.normal(size=o)) for i, o in itertools.pairwise(widths)]
    bounds = None if discrete else np.full(action, bound, np.float32)
    return Policy(
        kind=kind,
        layers=tuple((w.astype(np.float32), b.astype(np.float32)) for w, b in layers),
        observation_mean=rng.normal(size=observation).astype(np.float32),
        observation_scale=rng.uniform(0.5, 2, observation).astype(np.float32),
        log_std=np.array([-1, 0.5], np.float32) if kind == "gaussian" else None,
        action_low=None if bounds is None else -bounds,
        action_high=bounds,
    )
