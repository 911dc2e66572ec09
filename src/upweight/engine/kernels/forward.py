r"""All layers of networks in one kernel: :math:`h_1 = \max(0, xW_1)`, :math:`h_l = \max(0, h_{l-1}W_l + b_l)`, :math:`h_DW_o`.

Activations stay on the chip: a warpgroup's 64 rows of :math:`h_{l-1}` are the left operand, in shared memory, of the product
whose right operand, :math:`W_l`, streams by in chunks; :math:`h_l` then takes their place. What leaves is the output, and for
the backward pass masks and the activations it asks for.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from upweight.engine.kernels import tiles as t
from upweight.engine.kernels.masks import WORDS, pack
from upweight.engine.kernels.tiles import BF16, F32, I32, TILE, UNITS, gpu

OUTPUTS = 16  # columns that the last layer is padded to, if it has more than one


@partial(jax.jit, static_argnames=("keep", "masks"))
def forward(
    x: Any, first: Any, middle: Sequence[tuple[Any, Any]], last: Any, *, keep: tuple[int, ...], masks: bool
) -> tuple[Any, list[Any], list[Any]]:
    """Outputs without their bias [N, R] or [N, R, 16]; activations [N, R, 256] of the hidden layers in ``keep``; masks [N, R, 8].

    ``x`` [A, R, P] are inputs of A agents with a column of ones; the N / A networks of each share them. ``first`` [N, P, 256]
    has the first bias in that column's row. ``middle``: weights [N, 256, 256] in bfloat16 and biases [N, 256] of the other hidden
    layers. ``last``: [N, 256] in float32, or [N, 16, 256] in bfloat16.
    """
    (_, rows, width), networks, depth, single = x.shape, len(first), 1 + len(middle), last.ndim == 2
    wide = width == 64  # the first weights are as large as a chunk, and travel as one
    tiles = t.Tiles(networks, rows // TILE)
    scratch = {
        "x": t.shared(2, TILE, width, swizzle=2 * width),
        "last": t.shared(2, UNITS, dtype=F32) if single else t.shared(2, OUTPUTS, UNITS, swizzle=128),
        "biases": t.shared(2, depth - 1, UNITS),
        "hidden": t.shared(2, 64, UNITS, swizzle=128),
        "words": t.shared(2, 64, WORDS, dtype=I32),
        "out": t.shared(2, 64, dtype=F32) if single else t.shared(2, 64, OUTPUTS, dtype=F32),
    }
    if not wide:
        scratch["first"] = t.shared(2, width, UNITS, swizzle=2 * width)
    outputs = [t.array_type((networks, rows) if single else (networks, rows, OUTPUTS), F32)]
    outputs += [t.array_type((networks, rows, UNITS), BF16)] * len(keep)
    outputs += [t.array_type((networks, rows, WORDS), I32)] * (depth * masks)
    inputs = (x, first, last, *(weight for weight, _ in middle), *(bias.astype(BF16) for _, bias in middle))
    block, memory = (
        partial(_Forward, tiles, depth, keep, masks),
        t.with_ring(scratch, 1 + depth + (not wide), 64, UNITS),
    )
    out, *saved = t.launch("mlp_forward", block, tiles, outputs, memory)(*inputs)
    return out, saved[: len(keep)], saved[len(keep) :]


class _Forward:
    """One block's program; arrays in the GPU's memory are underlined (``x_``), those in shared memory are in ``self.s``."""

    def __init__(
        self, tiles: t.Tiles, depth: int, keep: tuple[int, ...], masks: bool, arrays: Sequence[Any], s: Any
    ) -> None:
        self.x_, self.first_, self.last_, *rest = arrays
        self.weights_, self.biases_, (self.out_, *saved) = (
            rest[: depth - 1],
            rest[depth - 1 : 2 * depth - 2],
            rest[2 * depth - 2 :],
        )
        self.kept_, self.words_ = dict(zip(keep, saved, strict=False)), saved[len(keep) :]
        self.tiles, self.depth, self.s, self.group = tiles, depth, s, lax.axis_index("group")
        self.single, self.wide = len(self.last_.shape) == 2, not hasattr(s, "first")
        self.share, self.chunks = self.first_.shape[0] // self.x_.shape[0], t.CHUNKS * (depth - 1) + self.wide
        self.small, self.ring = t.Ring(None, *s.small_barriers), t.Ring(s.weights, *s.barriers)

    def copy(self) -> None:
        t.stream(self.tiles, self.small, self.ring, self.chunks, self.copy_small, self.chunk_of)

    def copy_small(self, net: Any, row: Any, side: Any, ready: Any) -> None:
        gpu.copy_gmem_to_smem(self.x_.at[lax.div(net, self.share), pl.ds(row, TILE)], self.s.x.at[side], ready)
        gpu.copy_gmem_to_smem(self.last_.at[net], self.s.last.at[side], ready)
        for layer, bias_ in enumerate(self.biases_):
            gpu.copy_gmem_to_smem(bias_.at[net], self.s.biases.at[side, layer], ready)
        if not self.wide:
            gpu.copy_gmem_to_smem(self.first_.at[net], self.s.first.at[side], ready)

    def chunk_of(self, net: Any, chunk: int) -> Any:
        layer, part = divmod(chunk - self.wide, t.CHUNKS)
        return self.weights_[layer].at[net, pl.ds(64 * part, 64)] if layer >= 0 else self.first_.at[net]

    def compute(self) -> None:
        self.tiles.each_tile(self.compute_tile)

    def compute_tile(self, number: Any, net: Any, row: Any) -> None:
        side, item, place = self.small.wait(number), number * self.chunks, (net, pl.ds(row + 64 * self.group, 64))
        x, hidden = self.s.x.at[side, pl.ds(64 * self.group, 64)], self.s.hidden.at[self.group]
        first = self.s.weights.at[self.ring.wait(item)] if self.wide else self.s.first.at[side]
        z = t.product(x, first, (64, UNITS))
        if self.wide:
            self.ring.release(item)
        self.finish(0, z, place, side)
        for layer in range(1, self.depth):
            z = t.streamed_product(hidden, self.ring, item + self.wide + t.CHUNKS * (layer - 1))
            self.finish(layer, z, place, side)
        if not self.single:
            self.s.out[self.group] = t.product(hidden, self.s.last.at[side].transpose((1, 0)), (64, OUTPUTS))
            gpu.commit_smem()
            gpu.copy_smem_to_gmem(self.s.out.at[self.group], self.out_.at[place])
        self.small.release(number)

    def finish(self, layer: int, z: Any, place: Any, side: Any) -> None:
        """Bias, ReLU and mask of a layer; activations to shared memory, and out what is wanted."""
        ends_here = self.single and layer == self.depth - 1  # one output is a weighted sum of what is in registers
        words, sums = None, None
        gpu.wait_smem_to_gmem(0, wait_read_only=True)
        for c in range(0, UNITS, 64):
            part = z[:, c : c + 64]
            if layer:
                part = part + t.across(
                    gpu.load(self.s.biases.at[side, layer - 1, pl.ds(c, 64)], layout=t.ROW).astype(F32)
                )
            if self.words_:
                words = pack(part, c, words)
            part = jnp.maximum(part, np.float32(0))
            if not ends_here or layer in self.kept_:
                self.s.hidden[self.group, :, c : c + 64] = part.astype(BF16)
            if ends_here:
                part = part * t.across(gpu.load(self.s.last.at[side, pl.ds(c, 64)], layout=t.ROW))
                sums = part if sums is None else sums + part
        if words is not None:
            self.s.words[self.group] = words
        if sums is not None:
            self.s.out[self.group] = jnp.sum(sums, axis=1)
        gpu.commit_smem()
        if words is not None:
            gpu.copy_smem_to_gmem(self.s.words.at[self.group], self.words_[layer].at[place])
        if sums is not None:
            gpu.copy_smem_to_gmem(self.s.out.at[self.group], self.out_.at[place])
        if layer in self.kept_:
            gpu.copy_smem_to_gmem(self.s.hidden.at[self.group], self.kept_[layer].at[place])
