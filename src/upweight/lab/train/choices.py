r"""What given policies do at given observations, as arrays: computed once, whatever networks the policies are made of.

Critics that evaluate a policy need its action at the next observation of a step, thousands of times. The policy does not change,
so :math:`P \times M` choices are computed before; all seeds of a policy share them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from upweight.lab.train.nn import MLP, Compute, Linear, apply_mlp
from upweight.policies.policy import LOG_STD_RANGE, Policy

Array = jax.Array
Bounds = tuple[NDArray[np.float32], NDArray[np.float32]]  # [a] what -1 and 1 stand for
_BLOCK_ROWS = 2**15


class Discrete(NamedTuple):
    """Of actions that are numbered."""

    probabilities: Any  # [P, M, n]


class Continuous(NamedTuple):
    r""":math:`a = k f(\mu + \sigma\epsilon) + o` with f = tanh where squashed, else clip to [-1, 1]; in the critics' unit."""

    mean: Any  # [P, M, a]
    std: Any  # [P, M, a], or [P, 1, a] where it is the same everywhere
    squashed: Any  # bool [P, 1, 1]
    slope: Any  # [P, 1, a] k, from the unit of the policy to that of the critic
    offset: Any  # [P, 1, a] o

    def actions(self, noise: Array | None) -> Array:
        """Of gathered rows [..., a]; ``noise`` is standard normal."""
        raw = self.mean if noise is None else self.mean + self.std * noise
        inside = jnp.where(self.squashed, jnp.tanh(raw), jnp.clip(raw, -1, 1))
        return self.slope * inside + self.offset


Choices = Discrete | Continuous


def take_choices(choices: Any, policy: Array, rows: Array) -> Any:
    """Of one policy at some of the observations; leaves [P, M, ...] or [P, 1, ...] become [B, ...]."""
    return jax.tree.map(lambda leaf: leaf[policy, rows if leaf.shape[1] > 1 else jnp.zeros_like(rows)], choices)


def is_random(policy: Policy) -> bool:
    """Whether its actions have to be drawn: of discrete ones expectations are taken."""
    return policy.kind in {"gaussian", "tanh_gaussian"}


def choice_bytes(policies: Sequence[Policy], num_observations: int, itemsize: int) -> int:
    """What the choices of one policy take."""
    return num_observations * max(len(policy.layers[-1][1]) for policy in policies) * itemsize


def make_choices(policies: Sequence[Policy], observations: NDArray[Any], bounds: Bounds | None, dtype: Any) -> Choices:
    """Of all policies at observations [M, d]; ``bounds`` are the critics', None if actions are discrete."""
    rows = observations.reshape(len(observations), -1)
    blocks = [jnp.asarray(rows[first : first + _BLOCK_ROWS], dtype) for first in range(0, len(rows), _BLOCK_ROWS)]
    outputs = [jnp.concatenate([_outputs(policy, block) for block in blocks]) for policy in policies]  # [M, ...] each
    if bounds is None:
        return Discrete(jnp.stack(outputs))
    low, high = bounds
    lows, highs = (np.stack([getattr(each, name) for each in policies]) for name in ("action_low", "action_high"))
    squashed = np.array([policy.kind == "tanh_gaussian" for policy in policies])
    same = [np.zeros(len(low)) if policy.log_std is None else np.exp(policy.log_std) for policy in policies]
    std = jnp.asarray(np.stack(same)[:, None], dtype)  # [P, 1, a]
    if squashed.any():
        pairs = zip(outputs, std, squashed, strict=True)
        std = jnp.stack(
            [o[:, len(low) :] if own else jnp.broadcast_to(s, (len(rows), len(low))) for o, s, own in pairs]
        )
    return Continuous(
        jnp.stack([output[:, : len(low)] for output in outputs]),
        std,
        jnp.asarray(squashed[:, None, None]),
        slope=jnp.asarray((highs - lows)[:, None] / (high - low), dtype),
        offset=jnp.asarray((highs + lows - high - low)[:, None] / (high - low), dtype),
    )


def _outputs(policy: Policy, rows: Array) -> Array:
    """[m, ...] probabilities, or means (and standard deviations, where they depend on the observation)."""
    layers = tuple(Linear(jnp.asarray(w, rows.dtype), jnp.asarray(b, rows.dtype)) for w, b in policy.layers)
    mean, scale = (jnp.asarray(each, rows.dtype) for each in (policy.observation_mean, policy.observation_scale))
    return _evaluate(layers, mean, scale, rows, policy.kind)


@partial(jax.jit, static_argnames="kind")
def _evaluate(layers: MLP, mean: Array, scale: Array, rows: Array, kind: str) -> Array:
    outputs = apply_mlp(layers, (rows - mean) / scale, Compute(mean.dtype))
    if kind == "categorical":
        return jax.nn.softmax(outputs)
    if kind == "greedy":
        return jax.nn.one_hot(jnp.argmax(outputs, axis=-1), outputs.shape[-1], dtype=outputs.dtype)
    if kind == "tanh_gaussian":
        means, log_stds = jnp.split(outputs, 2, axis=-1)
        return jnp.concatenate([means, jnp.exp(jnp.clip(log_stds, *LOG_STD_RANGE))], axis=-1)
    return jnp.tanh(outputs)
