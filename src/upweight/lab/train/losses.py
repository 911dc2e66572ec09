"""Formulas that several algorithms share: losses, one value per sample, and log-probabilities of the policies' distributions."""

import math

import jax
import jax.numpy as jnp

Array = jax.Array
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


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


def normal_log_prob(x: Array, mean: Array, log_std: Array) -> Array:
    """Log-density [...] of independent normals, summed over the last axis."""
    z = (x - mean) * jnp.exp(-log_std)
    return jnp.sum(-0.5 * z**2 - log_std - _HALF_LOG_2PI, axis=-1)


def tanh_normal(mean: Array, log_std: Array, noise: Array, mask: Array | None = None) -> tuple[Array, Array]:
    r"""Action :math:`a = \tanh(u)`, :math:`u = \mu + \sigma\epsilon`, and its log-density (of the dimensions in ``mask``).

    :math:`\log\pi(a) = \log N(u) - \sum\log(1 - \tanh^2 u)`, the last term in its stable form
    :math:`2(\log 2 - u - \mathrm{softplus}(-2u))`.
    """
    raw = mean + jnp.exp(log_std) * noise
    jacobian = 2 * (math.log(2) - raw - jax.nn.softplus(-2 * raw))
    terms = -0.5 * noise**2 - log_std - _HALF_LOG_2PI - jacobian
    return jnp.tanh(raw), jnp.sum(terms if mask is None else terms * mask, axis=-1)


def tanh_normal_log_prob(action: Array, mean: Array, log_std: Array) -> Array:
    """Log-density of a given action; actions at the bounds are taken just inside."""
    inside = jnp.clip(action, -1 + 1e-6, 1 - 1e-6)
    raw = jnp.arctanh(inside)
    return normal_log_prob(raw, mean, log_std) - jnp.sum(jnp.log1p(-(inside**2)), axis=-1)
