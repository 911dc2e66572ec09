"""Adam with a learning rate that is data, so that changing it never recompiles."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

Array = jax.Array
_ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)


def init_adam(parameters: Any) -> Any:
    """Moments of zero for every parameter."""
    return _ADAM.init(parameters)


def adam_step(gradients: Any, moments: Any, parameters: Any, learning_rate: Array) -> tuple[Any, Any]:
    """New parameters and moments."""
    direction, moments = _ADAM.update(gradients, moments)
    return jax.tree.map(lambda p, d: p - learning_rate * d, parameters, direction), moments


def cosine_decay(step: Array, total: Array) -> Array:
    r""":math:`(1 + \cos(\pi t/T))/2`, the factor that takes a learning rate to 0 over T updates."""
    return 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(step / total, 1.0)))
