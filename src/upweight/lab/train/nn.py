"""Multi-layer perceptrons as plain pytrees (a tuple of layers, ReLU between them), and how they learn: Adam.

The learning rate is data, so that changing it never recompiles. No agent axis is in sight here: the population adds it with
``vmap``.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from upweight.lab.train.kernels.choice import fits

Array = jax.Array
_ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)


class Linear(NamedTuple):
    """x @ weight + bias."""

    weight: Array  # [in, out]
    bias: Array  # [out]
    rounded: Array | None = None  # the weight as products want it, where that is another number type; see with_rounded


MLP = tuple[Linear, ...]


class Compute(NamedTuple):
    """How networks are computed."""

    dtype: Any  # of products and activations
    fused: bool = False  # by the kernels, where they know the network's shape


def init_mlp(
    key: Array, sizes: Sequence[int], *, scheme: str = "torch", final_bound: float | None = None, dtype: Any
) -> MLP:
    r"""Layers ``sizes[0] -> sizes[1] -> ...``.

    ``torch``: weights and biases :math:`U(\pm 1/\sqrt{in})`, PyTorch's default. ``orthogonal``: orthogonal weights times
    :math:`\sqrt 2`, biases 0. ``lecun``: normal weights of variance :math:`1/in`, cut off at two standard deviations, biases 0,
    Flax's default. ``final_bound`` makes the last layer :math:`U(\pm bound)` with bias 0.
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
            make = _orthogonal if scheme == "orthogonal" else jax.nn.initializers.lecun_normal()
            weight = make(weight_key, (width_in, width_out), dtype)
            bias = jnp.zeros(width_out, dtype)
        layers.append(Linear(weight, bias))
    return tuple(layers)


def _orthogonal(key: Array, shape: tuple[int, int], dtype: Any) -> Array:
    """Orthogonal weights, one after another under ``vmap``.

    Batched QR factorisations of one program wait for each other's threads: for ever, on a CPU of few cores.
    """
    make = jax.nn.initializers.orthogonal(2**0.5)
    one_by_one = jax.custom_batching.sequential_vmap(lambda key: make(key, shape, dtype))  # type: ignore[no-untyped-call]
    weight: Array = one_by_one(key)
    return weight


def apply_mlp(layers: MLP, x: Array, compute: Compute) -> Array:
    """Outputs [..., out] for inputs [..., in]; products and activations in ``compute.dtype``, outputs as the parameters are."""
    if compute.fused and fits(layers, x.shape[-1]):
        return apply_stacked(jax.tree.map(lambda leaf: leaf[None], layers), x, compute)[0]
    dtype = layers[0].weight.dtype
    x = x.astype(compute.dtype)
    for number, layer in enumerate(layers):
        rounded = layer.weight.astype(compute.dtype) if layer.rounded is None else _rounded(layer.weight, layer.rounded)
        x = x @ rounded + layer.bias.astype(compute.dtype)
        x = jax.nn.relu(x) if number < len(layers) - 1 else x
    return x.astype(dtype)


def apply_stacked(layers: MLP, x: Array, compute: Compute) -> Array:
    """Outputs [K, ..., out] of K networks (stacked) for the same inputs [..., in]."""
    count = layers[0].weight.shape[0]
    if compute.fused and fits(layers, x.shape[-1]):
        from upweight.lab.train.kernels.networks import networks  # needs a jax that not everybody has

        outputs = networks(layers, x.reshape(-1, x.shape[-1]))
        return outputs.reshape(count, *x.shape[:-1], -1)
    # Each network gets its own copy of the (small) inputs: the products are then plain batched ones.
    copies = jnp.broadcast_to(x, (count, *x.shape))
    return jax.vmap(apply_mlp, in_axes=(0, 0, None))(layers, copies, compute)


def apply_critics(critics: MLP, observations: Array, actions: Array, compute: Compute) -> Array:
    """Values [K, B] of actions [B, a] by K critics (stacked), or [K, B, n] of n actions each [B, n, a]."""
    if actions.ndim > observations.ndim:
        observations = jnp.broadcast_to(observations[:, None], (*actions.shape[:-1], observations.shape[-1]))
    return apply_stacked(critics, jnp.concatenate([observations, actions], axis=-1), compute)[..., 0]


@jax.custom_vjp
def _rounded(weight: Array, rounded: Array) -> Array:
    """``rounded``, with the gradient going to the weight that it was made of."""
    return rounded


_rounded.defvjp(
    lambda weight, rounded: (rounded, weight), lambda weight, g: (g.astype(weight.dtype), jnp.zeros_like(g))
)


def with_rounded(states: Any, dtype: Any) -> Any:
    """States whose networks also hold their weights rounded to ``dtype``, if that is another type than their own.

    ``adam_step`` and ``soft_update`` then round what they compute in the same pass over memory, instead of one for each use.
    """
    return _map_layers(
        lambda layer: layer if layer.weight.dtype == dtype else layer._replace(rounded=layer.weight.astype(dtype)),
        states,
    )


def without_rounded(states: Any) -> Any:
    return _map_layers(lambda layer: layer._replace(rounded=None), states)


def _map_layers(do: Callable[..., Linear], states: Any, *others: Any) -> Any:
    """Of all networks, not of Adam's moments, which have the same structure."""
    kinds = (Linear, optax.ScaleByAdamState)
    return jax.tree.map(
        lambda part, *rest: do(part, *rest) if isinstance(part, Linear) else (rest[-1] if rest else part),
        states,
        *others,
        is_leaf=lambda part: isinstance(part, kinds),
    )


def _rounded_like(old: Any, new: Any) -> Any:
    def layer(before: Linear, after: Linear) -> Linear:
        return after if before.rounded is None else after._replace(rounded=after.weight.astype(before.rounded.dtype))

    return _map_layers(layer, old, new)


def soft_update(target: Any, online: Any, tau: Array) -> Any:
    r""":math:`\bar\theta \leftarrow (1 - \tau)\bar\theta + \tau\theta`."""
    bare = without_rounded(target), without_rounded(online)
    return _rounded_like(target, jax.tree.map(lambda old, new: old + tau * (new - old), *bare))


def init_adam(parameters: Any) -> Any:
    """Moments of zero for every parameter."""
    return _ADAM.init(parameters)


def adam_step(
    gradients: Any, moments: Any, parameters: Any, learning_rate: Array, decay: Array | None = None
) -> tuple[Any, Any]:
    """New parameters and moments; ``decay`` is the share of every parameter that is taken away besides (AdamW)."""
    direction, moments = _ADAM.update(without_rounded(gradients), moments)
    bare = without_rounded(parameters)
    kept = bare if decay is None else jax.tree.map(lambda p: (1 - decay) * p, bare)
    new = jax.tree.map(lambda p, d: p - learning_rate * d, kept, direction)
    return _rounded_like(parameters, new), moments


def cosine_decay(step: Array, total: Array) -> Array:
    r""":math:`(1 + \cos(\pi t/T))/2`, the factor that takes a learning rate to 0 over T updates."""
    return 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(step / total, 1.0)))
