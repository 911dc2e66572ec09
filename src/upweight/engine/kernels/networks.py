r"""Networks as a function of their layers and inputs, differentiated by hand and mapped over agents.

Only what is asked for is computed: symbolic zeros tell whether the gradient goes to the weights, to the inputs or nowhere. The
kernels take all agents at once: ``vmap`` over agents becomes one more axis of their arrays.

With many rows, the last weights of a network with one output follow from the gradients before them. A ReLU unit with weights
:math:`w`, bias :math:`b` and outgoing weight :math:`v` has, over all rows, :math:`v\,\partial_v = w \cdot \partial_w +
b\,\partial_b`, since both are the sum of :math:`g\,v\,\max(0, w \cdot h + b)`. So the last activations never leave the chip.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from upweight.engine.kernels.backward import WIDE, backward_to_inputs, backward_to_weights
from upweight.engine.kernels.forward import OUTPUTS, forward
from upweight.engine.kernels.tiles import BF16, F32, TILE, barrier
from upweight.engine.kernels.weight_gradient import weight_gradient

MANY_ROWS = 1024  # from which the last activations are more to write than the gradients of weights are to read
Layers = tuple[Any, ...]  # Linear: weights [K, in, out], biases [K, out] and maybe rounded weights of K networks


@jax.custom_vjp
def networks(layers: Layers, x: Any) -> Any:
    """Outputs [K, R, out] for inputs [R, in]."""
    raw, _, _ = _forward((), False)(*_prepare(layers, x))
    return _finish(raw, layers, len(x))


def _networks_forward(layers: Any, x: Any) -> tuple[Any, Any]:
    to_weights = any(leaf.perturbed for leaf in jax.tree.leaves(layers, is_leaf=_is_marked))
    to_inputs = x.perturbed
    layers, x = jax.tree.map(lambda marked: marked.value, (layers, x), is_leaf=_is_marked)
    ready = _prepare(layers, x)
    # Of the activations the weights' gradients need those of the middle layers, and the last ones unless they are spared.
    keep = tuple(range(1, len(layers) - 1 - _spares_last(layers, ready[0]))) if to_weights else ()
    raw, hidden, words = _forward(keep, True)(*ready)
    # None is no leaf of a pytree: it tells the backward pass what is not wanted.
    wanted = (() if to_weights else None, () if to_inputs else None)
    return _finish(raw, layers, len(x)), (layers, x, ready, hidden, words, wanted)


def _networks_backward(saved: Any, g: Any) -> tuple[Any, Any]:
    layers, x, (padded, first, middle, last), hidden, words, (to_weights, to_inputs) = saved
    rows = padded.shape[0]
    short = jnp.pad(g, ((0, 0), (0, rows - len(x)), (0, 0)))
    arriving = (
        short[..., 0] if _outputs(layers) == 1 else _pad_columns(short, OUTPUTS).astype(BF16)
    )  # [K, R] or [K, R, 16]
    weights = [weight for weight, _ in middle]
    dx = jnp.zeros_like(x)
    if to_inputs is not None:
        transposed = _pad_columns(first.swapaxes(1, 2), WIDE)
        dx = _over_agents(backward_to_inputs)(transposed, weights, last, arriving, words)
        dx = dx.sum(0)[: len(x), : x.shape[1]].astype(x.dtype)
    if to_weights is None:
        return jax.tree.map(jnp.zeros_like, layers), dx
    # The barrier keeps XLA from computing the inputs again, which it cannot do well in a transposition.
    columns = barrier(padded).T
    deltas, d_first = _over_agents(backward_to_weights, shares_first=True)(columns, weights, last, arriving, words)
    if d_first is None:  # wide inputs
        d_first = jnp.einsum("rp,krh->khp", padded, deltas[0], preferred_element_type=F32)
        deltas = deltas[1:]
    width = x.shape[1]
    gradients = [(d_first[..., :width].swapaxes(1, 2), d_first[..., width])]
    gradients.append(_over_agents(_first_gradient, shares_first=True)(padded, first, deltas[0]))
    gradients += [_over_agents(_gradient)(h, delta) for h, delta in zip(hidden, deltas[1:], strict=False)]
    if _spares_last(layers, padded):
        (weight, bias), (d_weight, d_bias) = middle[-1], barrier(gradients[-1])  # this sum would spoil Adam's pass
        summed = jnp.sum(weight.astype(F32) * d_weight, axis=1) + bias.astype(BF16).astype(F32) * d_bias
        d_last = (summed / jnp.where(last == 0, 1, last))[..., None]
    else:
        d_last = jnp.einsum("krh,kro->kho", hidden[-1], short.astype(BF16), preferred_element_type=F32)
    gradients.append((d_last, g.sum(1)))
    unused = (layer._replace(rounded=jax.tree.map(jnp.zeros_like, layer.rounded)) for layer in layers)
    return tuple(a._replace(weight=w, bias=b) for a, (w, b) in zip(unused, gradients, strict=True)), dx


networks.defvjp(_networks_forward, _networks_backward, symbolic_zeros=True)


def _spares_last(layers: Layers, padded: Any) -> bool:
    return _outputs(layers) == 1 and padded.shape[0] > MANY_ROWS


def padded_width(inputs: int) -> int:
    """Columns that inputs take in the kernels, with one of ones that the first bias is multiplied with; 0 if they do not fit."""
    return next((width for width in (16, 32, 64) if width > inputs), 0)


def _prepare(layers: Layers, x: Any) -> tuple[Any, Any, Any, Any]:
    """Inputs [R, P] padded to whole tiles and with a column of ones, and all weights, as the kernels want them."""
    (count, size), width = x.shape, padded_width(x.shape[1])
    with_ones = jnp.concatenate([x, jnp.ones((count, 1), x.dtype)], axis=1)
    padded = jnp.pad(with_ones, ((0, -count % TILE), (0, width - size - 1)))
    top, *middle, bottom = layers
    first = jnp.concatenate([_rounded(top), top.bias[:, None].astype(BF16)], axis=1)
    last = bottom.weight[..., 0] if _outputs(layers) == 1 else _pad_columns(_rounded(bottom), OUTPUTS).swapaxes(1, 2)
    return padded.astype(BF16), _pad_rows(first, width), [(_rounded(layer), layer.bias) for layer in middle], last


def _rounded(layer: Any) -> Any:
    return layer.weight.astype(BF16) if layer.rounded is None else layer.rounded


def _finish(raw: Any, layers: Layers, rows: int) -> Any:
    """[K, R, out]: without padding, with the last bias."""
    outputs = raw[..., None] if _outputs(layers) == 1 else raw[..., : _outputs(layers)]
    return outputs[:, :rows] + layers[-1].bias[:, None]


def _outputs(layers: Layers) -> int:
    return int(layers[-1].weight.shape[2])


def _pad_columns(array: Any, width: int) -> Any:
    return jnp.pad(array, ((0, 0),) * (array.ndim - 1) + ((0, width - array.shape[-1]),))


def _pad_rows(array: Any, rows: int) -> Any:
    return jnp.pad(array, ((0, 0), (0, rows - array.shape[1]), (0, 0)))


def _is_marked(value: Any) -> bool:
    return hasattr(value, "perturbed")


def _gradient(h: Any, delta: Any) -> Any:
    return weight_gradient((h,), delta)


def _first_gradient(x: Any, first: Any, delta: Any) -> Any:
    return weight_gradient((x, first), delta)


def _forward(keep: tuple[int, ...], masks: bool) -> Callable[..., Any]:
    return _over_agents(lambda *arrays: forward(*arrays, keep=keep, masks=masks), shares_first=True)


def _over_agents(kernel: Callable[..., Any], *, shares_first: bool = False) -> Callable[..., Any]:
    """A kernel over N networks as a function of one agent's K networks, whose ``vmap`` is one call with all agents.

    With ``shares_first`` the first argument is an agent's, the same for all its networks.
    """

    def of_all(*arguments: Any) -> Any:  # [A, ...] if shared, else [A, K, ...]
        count = jax.tree.leaves(arguments[1])[0].shape[1]
        first = arguments[0] if shares_first else _join(arguments[0])
        result = kernel(first, *map(_join, arguments[1:]))
        return jax.tree.map(lambda leaf: leaf.reshape(-1, count, *leaf.shape[1:]), result)

    @jax.custom_batching.custom_vmap
    def of_one(*arguments: Any) -> Any:
        result = of_all(*jax.tree.map(lambda leaf: leaf[None], arguments))
        return jax.tree.map(lambda leaf: leaf[0], result)

    @of_one.def_vmap
    def of_many(size: int, mapped: Any, *arguments: Any) -> Any:
        full = jax.tree.map(
            lambda leaf, has_axis: leaf if has_axis else jnp.broadcast_to(leaf, (size, *leaf.shape)),
            arguments,
            tuple(mapped),
        )
        result = of_all(*full)
        return result, jax.tree.map(lambda _: True, result)

    return of_one


def _join(tree: Any) -> Any:
    """[A, K, ...] as [A K, ...]."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), tree)
