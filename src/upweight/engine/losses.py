"""Loss formulas that several algorithms share. All take one value per sample and average over the batch."""

import jax
import jax.numpy as jnp

Array = jax.Array


def batch_mean(values: Array, weights: Array | None) -> Array:
    """Mean over the batch [B]; with per-sample loss weights (reweighting instead of resampling) the weighted one."""
    return jnp.mean(values) if weights is None else jnp.mean(values * weights)


def td_target(rewards: Array, terminated: Array, discount: Array, next_values: Array) -> Array:
    r""":math:`y = r + \gamma(1 - d)V(s')`, as a constant."""
    return jax.lax.stop_gradient(rewards + discount * (1 - terminated) * next_values)


def expectile(difference: Array, tau: Array) -> Array:
    r""":math:`|\tau - 1[u < 0]|\,u^2` per sample."""
    return jnp.where(difference < 0, 1 - tau, tau) * difference**2


def huber(difference: Array) -> Array:
    r""":math:`u^2/2` up to 1, then :math:`|u| - 1/2`, per sample."""
    size = jnp.abs(difference)
    return jnp.where(size < 1, 0.5 * difference**2, size - 0.5)
