"""Policies made by hand."""

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
