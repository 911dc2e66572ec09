"""Multi-layer perceptrons as plain pytrees (a tuple of layers, ReLU between them), and how they learn: Adam.

The learning rate is data, so that changing it never recompiles. No agent axis is in sight here: the population adds it with
``vmap``.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

Array = jax.Array
_ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)


class Linear(NamedTuple):
    """x @ weight + bias."""

    weight: Array  # [in, out]
    bias: Array  # [out]


MLP = tuple[Linear, ...]


def init_mlp(
    key: Array, sizes: Sequence[int], *, scheme: str = "torch", final_bound: float | None = None, dtype: Any
) -> MLP:
    r"""Layers ``sizes[0] -> sizes[1] -> ...``.

    ``torch``: weights and biases :math:`U(\pm 1/\sqrt{in})`, PyTorch's default. ``orthogonal``: orthogonal weights times
    :math:`\sqrt 2`, biases 0. ``final_bound`` makes the last layer :math:`U(\pm bound)` with bias 0.
    """
    layers = []
    for number, (width_in, width_out) in enumerate(itertools.pairwise(sizes)):
        weight_key, bias_key = jax.random.split(jax.random.fold_in(key, number))
        is_last = number == len(sizes) - 2
        if is_last and final_bound is not None:
            weight = jax.random.uniform(weight_key, (width_in, width_out), dtype, -final_bound, final_bound)
            bias = jnp.zeros(width_out, dtype)
        elif scheme == "torch":
            bound = width_in**-0.5
            weight = jax.random.uniform(weight_key, (width_in, width_out), dtype, -bound, bound)
            bias = jax.random.uniform(bias_key, (width_out,), dtype, -bound, bound)
        else:
            weight = jax.nn.initializers.orthogonal(2**0.5)(weight_key, (width_in, width_out), dtype)
            bias = jnp.zeros(width_out, dtype)
        layers.append(Linear(weight, bias))
    return tuple(layers)


def apply_mlp(layers: MLP, x: Array, compute: Any) -> Array:
    """Outputs [..., out] for inputs [..., in]; products and activations in ``compute``, outputs as the parameters are."""
    dtype = layers[0].weight.dtype
    x = x.astype(compute)
    for layer in layers[:-1]:
        x = jax.nn.relu(x @ layer.weight.astype(compute) + layer.bias.astype(compute))
    weight, bias = layers[-1].weight.astype(compute), layers[-1].bias.astype(compute)
    return (x @ weight + bias).astype(dtype)


def apply_critics(critics: MLP, observations: Array, actions: Array, compute: Any) -> Array:
    """Values [K, B] of actions [B, a] by K critics (stacked), or [K, B, n] of n actions each [B, n, a]."""
    if actions.ndim > observations.ndim:
        observations = jnp.broadcast_to(observations[:, None], (*actions.shape[:-1], observations.shape[-1]))
    inputs = jnp.concatenate([observations, actions], axis=-1)
    count = critics[0].weight.shape[0]
    # Each critic gets its own copy of the (small) inputs: the products are then plain batched ones.
    copies = jnp.broadcast_to(inputs, (count, *inputs.shape))
    return jax.vmap(apply_mlp, in_axes=(0, 0, None))(critics, copies, compute)[..., 0]


def soft_update(target: Any, online: Any, tau: Array) -> Any:
    r""":math:`\bar\theta \leftarrow (1 - \tau)\bar\theta + \tau\theta`."""
    return jax.tree.map(lambda old, new: old + tau * (new - old), target, online)


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
