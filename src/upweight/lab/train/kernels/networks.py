r"""Networks as a function of their layers and inputs, differentiated by hand and mapped over agents.

Only what is asked for is computed: symbolic zeros tell whether the gradient goes to the weights, to the inputs or nowhere. The
kernels take all agents at once: ``vmap`` over agents becomes one more axis of their arrays.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from upweight.lab.train.kernels.passes import OUTPUTS, WIDE, backward, forward, weight_gradient
from upweight.lab.train.kernels.tiles import BF16, F32, TILE, barrier

Layers = tuple[Any, ...]  # Linear: weights [K, in, out], biases [K, out] and maybe rounded weights of K networks


@jax.custom_vjp
def networks(layers: Layers, x: Any) -> Any:
    """Outputs [K, R, out] for inputs [R, in]."""
    return _outputs(layers, x, keep=(), masks=False)[0]


def _networks_forward(layers: Any, x: Any) -> tuple[Any, Any]:
    to_weights = any(leaf.perturbed for leaf in jax.tree.leaves(layers, is_leaf=_is_marked))
    to_inputs = x.perturbed
    layers, x = jax.tree.map(lambda marked: marked.value, (layers, x), is_leaf=_is_marked)
    # Of the activations the weights' gradients need those of the middle layers, the last ones of several outputs, and the first
    # ones of wide inputs; of others they are computed again.
    keep = range(x.shape[1] < WIDE, len(layers) - 1 - (layers[-1].weight.shape[2] == 1)) if to_weights else ()
    outputs, saved = _outputs(layers, x, keep=tuple(keep), masks=True)
    # None is no leaf of a pytree: it tells the backward pass what is not wanted.
    return outputs, (layers, x, saved, () if to_weights else None, () if to_inputs else None)


def _networks_backward(saved: Any, g: Any) -> tuple[Any, Any]:
    layers, x, ((padded, first, middle, last), hidden, words), to_weights, to_inputs = saved
    d_layers, dx = jax.tree.map(jnp.zeros_like, (layers, x))
    g_padded = _pad(g, len(padded), g.shape[2])
    arriving = g_padded[..., 0] if last.ndim == 2 else _pad(g_padded, OUTPUTS).astype(BF16)  # [K, R] or [K, R, 16]
    way = ([weight for weight, _ in middle], last, arriving, words)
    if to_inputs is not None:
        _, found = _over_agents(backward)(None, _pad(first.swapaxes(1, 2), max(WIDE, first.shape[1])), *way)
        dx = found.sum(0)[: len(x), : x.shape[1]].astype(x.dtype)
    if to_weights is not None:
        # The barrier keeps XLA from computing the inputs again, which it cannot do well in a transposition.
        deltas, d_first = _over_agents(backward)(barrier(padded).T, None, *way)
        if d_first is None:  # wide inputs
            d_first = jnp.einsum("rp,krh->kph", padded, deltas[0], preferred_element_type=F32)
            deltas = deltas[1:]
        gradients = [(d_first[:, : x.shape[1]], d_first[:, x.shape[1]])]
        sources = [(padded, first)] * (x.shape[1] < WIDE) + [(None, h) for h in hidden]
        gradients += [_over_agents(weight_gradient)(*a, delta) for a, delta in zip(sources, deltas, strict=False)]
        if last.ndim == 2:
            d_last = _last_from(middle[-1], gradients[-1], last)
        else:
            d_last = jnp.einsum("krh,kro->kho", hidden[-1], g_padded.astype(BF16), preferred_element_type=F32)
        gradients.append((d_last, g.sum(1)))
        pairs = zip(d_layers, gradients, strict=True)
        d_layers = tuple(layer._replace(weight=weight.astype(F32), bias=bias) for layer, (weight, bias) in pairs)
    return d_layers, dx


networks.defvjp(_networks_forward, _networks_backward, symbolic_zeros=True)


def _last_from(layer: Any, gradient: Any, last: Any) -> Any:
    r"""The gradient of a single output's weights, from that of the layer before, so that its activations never leave the chip.

    A ReLU unit with weights :math:`w`, bias :math:`b` and outgoing weight :math:`v` has, over all rows, :math:`v\,\partial_v = w
    \cdot \partial_w + b\,\partial_b`, since both are the sum of :math:`g\,v\,\max(0, w \cdot h + b)`.
    """
    # Without the barrier XLA would take weights that are not rounded, which Adam's pass reads too, and merge the two passes.
    weight, (d_weight, d_bias) = barrier((layer[0], gradient))
    bias = layer[1].astype(BF16).astype(F32)
    summed = jnp.sum(weight.astype(F32) * d_weight.astype(F32), axis=1) + bias * d_bias
    return (summed / jnp.where(last == 0, 1, last).astype(F32))[..., None]


def _outputs(layers: Layers, x: Any, *, keep: tuple[int, ...], masks: bool) -> tuple[Any, Any]:
    """[K, R, out], and for the way back what the kernel was given and saved.

    It is given inputs [R, P], padded to whole tiles and with a column of ones that the first bias is multiplied with.
    """
    (count, size), (top, *middle, bottom), outputs = x.shape, layers, layers[-1].weight.shape[2]
    width = next((width for width in (16, 32, WIDE) if width > size), size + 128 - size % 128)
    padded = _pad(jnp.concatenate([x, jnp.ones((count, 1), x.dtype)], axis=1), count + -count % TILE, width)
    first = _pad(jnp.concatenate([_rounded(top), top.bias[:, None].astype(BF16)], axis=1), width, top.bias.shape[1])
    last = _rounded(bottom)[..., 0] if outputs == 1 else _pad(_rounded(bottom), OUTPUTS).swapaxes(1, 2)
    ready = padded.astype(BF16), first, [(_rounded(layer), layer.bias) for layer in middle], last
    raw, *saved = _over_agents(forward, keep=keep, masks=masks)(*ready)
    return raw.reshape(*raw.shape[:2], -1)[:, :count, :outputs] + bottom.bias[:, None], (ready, *saved)


def _rounded(layer: Any) -> Any:
    return layer.weight.astype(BF16) if layer.rounded is None else layer.rounded


def _pad(array: Any, *sizes: int) -> Any:
    """With zeros at the ends of the last axes, so that these have ``sizes``."""
    old = array.shape[-len(sizes) :]
    widths = [(0, size - before) for size, before in zip(sizes, old, strict=True)]
    return jnp.pad(array, [(0, 0)] * (array.ndim - len(sizes)) + widths)


def _is_marked(value: Any) -> bool:
    return hasattr(value, "perturbed")


def _over_agents(kernel: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A kernel over N networks as a function of one agent's K networks, whose ``vmap`` is one call with all agents.

    The first argument is an agent's, the same for all its networks, or None.
    """

    def of_all(shared: Any, *arguments: Any) -> Any:  # [A, ...] and [A, K, ...]
        count = jax.tree.leaves(arguments)[0].shape[1]
        joined = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), arguments)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, count, *leaf.shape[1:]), kernel(shared, *joined, **options))

    @jax.custom_batching.custom_vmap
    def of_one(*arguments: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[0], of_all(*jax.tree.map(lambda leaf: leaf[None], arguments)))

    @of_one.def_vmap
    def of_many(size: int, mapped: Any, *arguments: Any) -> Any:
        def full(leaf: Any, has_axis: bool) -> Any:
            return leaf if has_axis else jnp.broadcast_to(leaf, (size, *leaf.shape))

        result = of_all(*jax.tree.map(full, arguments, tuple(mapped)))
        return result, jax.tree.map(lambda _: True, result)

    return of_one
