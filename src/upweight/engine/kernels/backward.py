r"""The way back through all layers in one kernel: :math:`\delta_{l-1} = [h_{l-1} > 0] \cdot \delta_l W_l^\top`.

Gradients :math:`\delta_l`, of what goes into the ReLUs of layer l, are where activations are in the forward pass. For the weights
all leave but the first, whose product with the inputs, :math:`x^\top\delta_1`, is summed here; for the inputs only
:math:`\delta_1 W_1^\top` leaves.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from upweight.engine.kernels import tiles as t
from upweight.engine.kernels.masks import WORDS, masked
from upweight.engine.kernels.tiles import BF16, F32, I32, TILE, UNITS, gpu

WIDE = 64  # columns of inputs from which there is no room for their product with the gradients


@jax.jit
def backward_to_weights(
    x: Any, weights: Sequence[Any], last: Any, g: Any, words: Sequence[Any]
) -> tuple[list[Any], Any]:
    """Gradients before the ReLUs [N, R, 256] of all layers but the first, and of the first weights [N, 256, P].

    ``x`` [A, P, R]: inputs, transposed. ``weights`` [N, 256, 256]: of the middle layers. ``last`` [N, 256] in float32 with
    gradients of outputs ``g`` [N, R], or [N, 16, 256] and [N, R, 16] in bfloat16. ``words``: the layers' masks. With wide inputs
    the first layer is among those whose gradients leave, and None is in the place of its weights'.
    """
    (agents, width, rows), networks, depth = x.shape, len(g), len(words)
    tiles, wide = t.Tiles(networks, rows // TILE), width >= WIDE
    outputs, scratch = [t.array_type((networks, rows, UNITS), BF16)] * (depth - 1 + wide), _scratch(last, depth)
    if not wide:
        outputs.append(t.array_type((2 * tiles.units, UNITS, width), F32))  # of one warpgroup in one unit
        scratch |= {
            "x": t.shared(2, 2, width, 64, swizzle=128),
            "y": t.shared(2, 64, width, dtype=F32, swizzle=4 * width),
        }
    memory = t.with_ring(scratch, 2 + depth + 2 * (not wide), UNITS, 64)
    block = partial(_Backward, tiles, depth, networks // agents)
    inputs = (g, last, *weights, *words, *([] if wide else [x]))
    found = t.launch("mlp_backward", block, tiles, outputs, memory)(*inputs)
    if wide:
        return list(found), None
    return list(found[:-1]), found[-1].reshape(networks, 2 * tiles.splits, UNITS, width).sum(1)


@jax.jit
def backward_to_inputs(first: Any, weights: Sequence[Any], last: Any, g: Any, words: Sequence[Any]) -> Any:
    """Gradients of the inputs [N, R, 64] through each network; ``first`` [N, 256, 64], transposed; the rest as above."""
    tiles, depth = t.Tiles(len(g), g.shape[1] // TILE), len(words)
    scratch = _scratch(last, depth) | {"y": t.shared(2, 64, WIDE, dtype=F32, swizzle=128)}
    outputs, memory = [t.array_type((*g.shape[:2], WIDE), F32)], t.with_ring(scratch, 2 + depth, UNITS, 64)
    inputs = (g, last, *weights, *words, first)
    return t.launch("mlp_backward_to_inputs", partial(_Backward, tiles, depth, 0), tiles, outputs, memory)(*inputs)[0]


def _scratch(last: Any, depth: int) -> dict[str, Any]:
    single = last.ndim == 2
    return {
        "last": t.shared(2, UNITS, dtype=F32) if single else t.shared(2, *last.shape[1:], swizzle=32),
        "g": t.shared(2, TILE, dtype=F32) if single else t.shared(2, TILE, last.shape[1], swizzle=32),
        "words": t.shared(2, depth, TILE, WORDS, dtype=I32),
        "delta": t.shared(2, 64, UNITS, swizzle=128),
    }


class _Backward:
    """One block's program; arrays in the GPU's memory are underlined, those in shared memory are in ``self.s``.

    Of an agent's inputs ``share`` networks have a gradient; with 0 it is the inputs' gradient that is wanted.
    """

    def __init__(self, tiles: t.Tiles, depth: int, share: int, arrays: Sequence[Any], s: Any) -> None:
        self.g_, self.last_, *rest = arrays
        self.weights_, self.words_, rest = rest[: depth - 1], rest[depth - 1 : 2 * depth - 1], rest[2 * depth - 1 :]
        self.single, self.to_inputs, self.sums_first = len(self.g_.shape) == 2, not share, hasattr(s, "x")
        self.extra_: Any = (
            rest.pop(0) if self.to_inputs or self.sums_first else None
        )  # the first weights, or the inputs
        self.out_, self.tiles, self.depth, self.share, self.s = rest, tiles, depth, share, s
        self.chunks, self.group = t.CHUNKS * (depth - 1) + self.to_inputs, lax.axis_index("group")
        self.small, self.ring = t.Ring(None, *s.small_barriers), t.Ring(s.weights, *s.barriers)

    def copy(self) -> None:
        t.stream(self.tiles, self.small, self.ring, self.chunks, self.copy_small, self.chunk_of)

    def copy_small(self, net: Any, row: Any, side: Any, ready: Any) -> None:
        here = pl.ds(row, TILE)
        gpu.copy_gmem_to_smem(self.g_.at[net, here], self.s.g.at[side], ready)
        gpu.copy_gmem_to_smem(self.last_.at[net], self.s.last.at[side], ready)
        for layer, words_ in enumerate(self.words_):
            gpu.copy_gmem_to_smem(words_.at[net, here], self.s.words.at[side, layer], ready)
        for half in range(2 * self.sums_first):
            inputs = self.extra_.at[lax.div(net, self.share), :, pl.ds(row + 64 * half, 64)]
            gpu.copy_gmem_to_smem(inputs, self.s.x.at[side, half], ready)

    def chunk_of(self, net: Any, chunk: int) -> Any:
        layer, part = self.depth - 2 - chunk // t.CHUNKS, chunk % t.CHUNKS
        return self.weights_[layer].at[net, :, pl.ds(64 * part, 64)] if layer >= 0 else self.extra_.at[net]

    def compute(self) -> None:
        if self.sums_first:
            self.tiles.each_unit(self.compute_unit)
        else:
            self.tiles.each_tile(self.compute_tile)

    def compute_unit(self, unit: Any, net: Any, row: Any, count: Any, done: Any) -> None:
        """Tiles of one network, and the sum over them of inputs times gradients: [256, P] in registers."""
        delta, width = self.s.delta.at[self.group], self.s.x.shape[2]

        def one_tile(i: Any, total: Any) -> Any:
            # Not an accumulator of products that lives across tiles: the compiler would serialise all of them.
            inputs = self.s.x.at[self.compute_tile(done + i, net, row + i * TILE), self.group]
            total = total + t.product(delta.transpose((1, 0)), inputs.transpose((1, 0)), (UNITS, width))
            self.small.release(done + i)
            return total

        total = lax.fori_loop(0, count, one_tile, gpu.layout_cast(jnp.zeros((UNITS, width), F32), t.MATRIX))
        for first in range(0, UNITS, 64):
            gpu.wait_smem_to_gmem(0, wait_read_only=True)
            self.s.y[self.group] = total[first : first + 64]
            gpu.commit_smem()
            gpu.copy_smem_to_gmem(self.s.y.at[self.group], self.out_[-1].at[2 * unit + self.group, pl.ds(first, 64)])

    def compute_tile(self, number: Any, net: Any, row: Any) -> Any:
        """Back to the first ReLU; the side that the tile's inputs are on, which are released unless they are still needed."""
        side, item, here = self.small.wait(number), number * self.chunks, pl.ds(64 * self.group, 64)
        place, delta = (net, pl.ds(row + 64 * self.group, 64)), self.s.delta.at[self.group]
        if self.single:
            z = lax.broadcast_in_dim(gpu.load(self.s.g.at[side, here], layout=t.COLUMN), (64, 64), (0,))
        else:
            z = t.product(self.s.g.at[side, here], self.s.last.at[side], (64, UNITS))
        self.finish(self.depth - 1, z, place, side)
        for layer in range(self.depth - 1, 0, -1):
            z = t.streamed_product(delta, self.ring, item + t.CHUNKS * (self.depth - 1 - layer), transposed=True)
            self.finish(layer - 1, z, place, side)
        if self.to_inputs:
            chunk = item + self.chunks - 1
            self.s.y[self.group] = t.product(delta, self.s.weights.at[self.ring.wait(chunk)], (64, WIDE))
            self.ring.release(chunk)
            gpu.commit_smem()
            gpu.copy_smem_to_gmem(self.s.y.at[self.group], self.out_[0].at[place])
        if not self.sums_first:
            self.small.release(number)
        return side

    def finish(self, layer: int, z: Any, place: Any, side: Any) -> None:
        """Mask a layer's gradient; to shared memory, and out where wanted."""
        words = gpu.load(self.s.words.at[side, layer, pl.ds(64 * self.group, 64)], layout=t.MATRIX, optimized=False)
        gpu.wait_smem_to_gmem(0, wait_read_only=True)
        for c in range(0, UNITS, 64):
            if z.shape[1] == UNITS:
                part = z[:, c : c + 64]
            else:  # one output: its gradient in every column
                part = z * t.across(gpu.load(self.s.last.at[side, pl.ds(c, 64)], layout=t.ROW))
            self.s.delta[self.group, :, c : c + 64] = masked(part, c, words).astype(BF16)
        gpu.commit_smem()
        if not self.to_inputs and layer >= self.sums_first:
            gpu.copy_smem_to_gmem(self.s.delta.at[self.group], self.out_[layer - self.sums_first].at[place])
