r"""The three kernels: through all layers of networks, back again, and the gradients of weights.

Forward: :math:`h_1 = \max(0, xW_1)`, :math:`h_l = \max(0, h_{l-1}W_l + b_l)`, :math:`h_DW_o`. A warpgroup's 64 rows of
:math:`h_{l-1}` are a product's left operand, in shared memory, while :math:`W_l` streams by; :math:`h_l` takes their place.
Back: :math:`\delta_{l-1} = [h_{l-1} > 0] \cdot \delta_l W_l^\top`, gradients of what goes into the ReLUs, in the same manner.
Weights: :math:`h^\top\delta` and :math:`1^\top\delta`, summed in registers while activations and gradients pass by.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl

from upweight.lab.train.kernels import tiles as t
from upweight.lab.train.kernels.tiles import BF16, F32, I32, TILE, UNITS, gpu

_array: Any = jax.ShapeDtypeStruct  # has no types
OUTPUTS = 16  # columns that the last layer is padded to, if it has more than one
WIDE = 64  # columns of inputs whose weights travel as a chunk, and whose product with gradients has no room; wider travel too
_PARTS = range(0, UNITS, 64)  # columns that chunks and parts of a layer begin with
_ONES, _HALF = 8, 128  # columns, the least that a product has; rows of a matrix in a unit
_WORDS = 8  # of a row's mask: bit 31 - c of word j is set if the ReLU of unit 8 c + j was off
_BITS = [np.uint32(1 << 31 - c).view(np.int32) for c in range(32)]
_MATRIX = gpu.Layout.WGMMA  # in a warpgroup's registers
_ROW, _COLUMN = _MATRIX.reduce(0), _MATRIX.reduce(1)  # one of a matrix


@partial(jax.jit, static_argnames=("keep", "masks"))
def forward(x: Any, first: Any, middle: Any, last: Any, *, keep: tuple[int, ...], masks: bool) -> tuple[Any, Any, Any]:
    """Outputs without their bias [N, R] or [N, R, 16]; activations [N, R, 256] of the hidden layers in ``keep``; masks [N, R, 8].

    ``x`` [A, R, P] are inputs of A agents with a column of ones; the N / A networks of each share them. ``first`` [N, P, 256]
    has the first bias in that column's row. ``middle``: weights [N, 256, 256] in bfloat16 and biases [N, 256] of the other hidden
    layers. ``last``: [N, 256] of one output, or [N, 16, 256], in bfloat16 too.
    """
    (_, rows, width), networks, depth, several = x.shape, len(first), 1 + len(middle), last.shape[1:-1]
    biases = [bias.astype(BF16) for _, bias in middle]
    inputs = {"x": x if width <= WIDE else _in_chunks(x), "first": first, "last": last}
    inputs |= {"weights": [weight for weight, _ in middle], "biases": biases}
    outputs = {
        "out": _array((networks, rows, *several), F32),
        "kept": [_array((networks, rows, UNITS), BF16) if i in keep else None for i in range(depth)],
        "words": [_array((networks, rows, _WORDS), I32) if masks else None] * depth,
    }
    scratch = {
        "x": t.shared(2, TILE, width, swizzle=2 * width) if width <= WIDE else None,
        "first": t.shared(2, width, UNITS, swizzle=2 * width) if width < WIDE else None,
        "last": t.shared(2, *last.shape[1:], swizzle=128 if several else None),
        "biases": t.shared(2, depth - 1, UNITS),
        "hidden": t.shared(2, 64, UNITS, swizzle=128),
    }
    memory = t.with_rings(scratch, depth + (width <= WIDE) + (width < WIDE), 64, UNITS)
    out, *saved = _Forward.launch("mlp_forward", t.Tiles(networks, rows // TILE), inputs, outputs, memory)
    return out, *map(jax.tree.leaves, saved)


@jax.jit
def backward(x: Any, first: Any, weights: Any, last: Any, g: Any, words: Any) -> tuple[list[Any], Any]:
    """Gradients before the ReLUs [N, R, 256] of all layers but the first, and of the first weights [N, P, 256].

    ``x`` [A, P, R]: inputs, transposed. ``weights`` [N, 256, 256]: of the middle layers. ``last`` [N, 256] with gradients of the
    output ``g`` [N, R] in float32, or [N, 16, 256] and [N, R, 16]. ``words``: the layers' masks. With wide inputs the first layer
    is among those whose gradients leave, and None is in the place of its weights'. Without inputs (None), but with the ``first``
    weights transposed [N, 256, P], P at least 64: none, and gradients of the inputs [N, R, P] through each network.
    """
    (networks, rows, *_), depth, several, to_inputs = g.shape, len(words), last.ndim > 2, x is None
    tiles, width = t.Tiles(networks, rows // TILE), first.shape[2] if to_inputs else x.shape[1]
    sums = width < WIDE
    inputs = {"g": g, "last": last, "weights": weights, "words": words, "x": x if sums else None}
    inputs["first"] = [first] if to_inputs else []
    delta = None if to_inputs else _array((networks, rows, UNITS), BF16)
    # Gradients of inputs, or sums: of a warpgroup in a unit.
    shape = (networks, rows, width) if to_inputs else (2 * tiles.units, width, UNITS)
    y = _array(shape, F32) if sums or to_inputs else None
    outputs = {"deltas": [None if sums else delta, *[delta] * (depth - 1)], "y": y}
    scratch = {
        "last": t.shared(2, *last.shape[1:], swizzle=32 if several else None),
        "g": t.shared(2, TILE, *g.shape[2:], dtype=g.dtype, swizzle=32 if several else None),
        "words": t.shared(2, depth, TILE, _WORDS, dtype=I32),
        "delta": t.shared(2, 64, UNITS, swizzle=128),
        "x": t.shared(2, 2, width, 64, swizzle=128) if sums else None,
    }
    memory, name = t.with_rings(scratch, 2 + depth + 2 * sums, UNITS, 64), "_to_inputs" if to_inputs else ""
    deltas, found = _Backward.launch(f"mlp_backward{name}", tiles, inputs, outputs, memory)
    return jax.tree.leaves(deltas), found.reshape(networks, 2 * tiles.splits, width, UNITS).sum(1) if sums else found


@jax.jit
def weight_gradient(x: Any, source: Any, delta: Any) -> tuple[Any, Any]:
    """[N, 256, 256] and, in float32, [N, 256], from gradients ``delta`` [N, R, 256] and activations ``source`` [N, R, 256].

    The former is rounded to bfloat16, as XLA's gradients of rounded weights are: half as much to write and to read. With inputs
    ``x`` [A, R, P] (or None), ``source`` is the first weights [N, P, 256] instead.
    """
    (networks, rows, _), again = delta.shape, x is not None
    width, steps, size = x.shape[2] if again else _HALF, rows // 64, 4
    inputs = {"ones": jnp.ones((_ONES, 64), BF16), "delta": delta, "h": x if again else source}
    inputs["first"] = source if again else None
    outputs = {"weight": _array((networks, UNITS, UNITS), BF16), "bias": _array((networks, UNITS, _ONES), F32)}
    scratch = {
        "h": t.shared(size, 64, width, swizzle=min(2 * width, 128)),
        "delta": t.shared(size, 64, UNITS, swizzle=128),
        "small": t.Ring.of(size, copies=2),
        "ones": t.shared(_ONES, 64, swizzle=128),
        "ones_full": gpu.Barrier(),
        "first": t.Ring.of(1, t.shared(1, width, _HALF, swizzle=2 * width)) if again else None,
        "active": t.shared(2, 64, 64, swizzle=128) if again else None,
        "weight": t.shared(2, 64, 64, swizzle=128),
    }
    tiles = t.Tiles(2 * networks, steps, per_unit=steps, rows=64)
    weight, bias = _WeightGradient.launch("mlp_weight_gradient", tiles, inputs, outputs, scratch)
    return weight, bias[..., 0]


class _Forward(t.BlockProgram):
    def chunks(self, net: Any = 0, row: Any = 0) -> list[Any]:
        weights_ = self.weights_ if self.first is not None else [self.first_, *self.weights_]
        found = [weight_.at[net, pl.ds(c, 64)] for weight_ in weights_ for c in range(0, weight_.shape[1], 64)]
        if self.x is None:  # wide inputs come too, each chunk of them before the two of weights that it meets
            for number in range(self.x_.shape[2]):
                found.insert(3 * number, self.x_.at[self.agent(net), lax.div(row, TILE), number])
        return found

    def agent(self, net: Any) -> Any:
        return lax.div(net, self.first_.shape[0] // self.x_.shape[0])

    def small_arrays(self, net: Any, row: Any, side: Any) -> Iterator[tuple[Any, Any]]:
        if self.x is not None:
            yield self.x_.at[self.agent(net), pl.ds(row, TILE)], self.x.at[side]
        yield self.last_.at[net], self.last.at[side]
        for layer, bias_ in enumerate(self.biases_):
            yield bias_.at[net], self.biases.at[side, layer]
        if self.first is not None:
            yield self.first_.at[net], self.first.at[side]

    def compute_unit(self, done: Any, unit: Any, net: Any, row: Any, count: Any) -> None:
        hidden, chunks = self.hidden.at[self.group], len(self.chunks())
        before = chunks - len(_PARTS) * len(self.weights_)  # of the first layer

        @pl.loop(0, count)
        def _tile(i: Any) -> None:
            side, item = self.small.wait(done + i), (done + i) * chunks
            place = (net, pl.ds(row + i * TILE + 64 * self.group, 64))
            self.finish(0, self.first_product(side, item, before), place, side)
            for layer in range(1, len(self.kept_)):
                z = _streamed(self.ring, hidden, item + before + len(_PARTS) * (layer - 1))
                self.finish(layer, z, place, side)
            if len(self.last_.shape) > 2:
                self.out_[place] = _product(hidden, self.last.at[side].transpose((1, 0)), (64, OUTPUTS))
            self.small.release(done + i)

    def first_product(self, side: Any, item: Any, arriving: int) -> Any:
        """Inputs times weights; ``arriving`` chunks of them from ``item`` on, where they do not all lie there."""
        mine = pl.ds(64 * self.group, 64)
        if not arriving:
            return _product(self.x.at[side, mine], self.first.at[side], (64, UNITS))

        def scoped(total: Any) -> Any:
            for some in (range(i, min(i + 3, arriving)) for i in range(0, arriving, 3)):
                weights = [self.ring.slots.at[self.ring.wait(item + i)] for i in some]
                if self.x is not None:
                    left = [self.x.at[side, mine]]
                else:
                    x = weights.pop(0)
                    left = [x.at[:, pl.ds(first + 64 * self.group, 64)] for first in (0, 128)]
                for pair in zip(left, weights, strict=True):
                    gpu.wgmma(total, *pair)
                gpu.wgmma_wait(0)
                for i in some:
                    self.ring.release(item + i)
            return total[...]

        return pl.run_scoped(scoped, gpu.ACC((64, UNITS), F32))

    def finish(self, layer: int, z: Any, place: Any, side: Any) -> None:
        """Bias, ReLU and mask of a layer; activations to shared memory, and out what is wanted."""
        words_, kept_ = self.words_[layer], self.kept_[layer]
        words: Any = None
        sums: Any = None
        # One output is a weighted sum of what is in registers.
        out_ = self.out_ if len(self.last_.shape) == 2 and layer == len(self.kept_) - 1 else None
        if self.kept_[layer - 1] is not None:  # still on its way, maybe
            gpu.wait_smem_to_gmem(0, wait_read_only=True)
        for c in _PARTS:
            part = z[:, c : c + 64]
            if layer:
                part = part + _across(self.biases.at[side, layer - 1, pl.ds(c, 64)])
            if words_ is not None:
                words = _pack(part, words)
            part = jnp.maximum(part, np.float32(0))
            if out_ is None or kept_ is not None:
                self.hidden[self.group, :, c : c + 64] = part.astype(BF16)
            if out_ is not None:
                part = part * _across(self.last.at[side, pl.ds(c, 64)])
                sums = part if sums is None else sums + part
        self.send(place, hidden=kept_)
        if words_ is not None:
            words_[place] = words
        if out_ is not None:
            out_[place] = jnp.sum(sums, axis=1)


class _Backward(t.BlockProgram):
    def chunks(self, net: Any = 0, row: Any = 0) -> list[Any]:
        way = [*self.weights_[::-1], *self.first_]
        return [weight_.at[net, :, pl.ds(c, 64)] for weight_ in way for c in range(0, weight_.shape[2], 64)]

    def small_arrays(self, net: Any, row: Any, side: Any) -> Iterator[tuple[Any, Any]]:
        yield self.g_.at[net, pl.ds(row, TILE)], self.g.at[side]
        yield self.last_.at[net], self.last.at[side]
        for layer, words_ in enumerate(self.words_):
            yield words_.at[net, pl.ds(row, TILE)], self.words.at[side, layer]
        for half in range(2 if self.x_ is not None else 0):
            agent = lax.div(net, self.g_.shape[0] // self.x_.shape[0])
            yield self.x_.at[agent, :, pl.ds(row + 64 * half, 64)], self.x.at[side, half]

    def compute_unit(self, done: Any, unit: Any, net: Any, row: Any, count: Any) -> None:
        """Tiles of one network, and the sum over them of inputs times gradients, if wanted: [256, P] in registers."""
        delta, sums = self.delta.at[self.group], self.x_ is not None
        shape = (UNITS, self.x_.shape[1]) if sums else None

        def one_tile(i: Any, total: Any) -> Any:
            side = self.compute_tile(done + i, net, row + i * TILE)
            if sums:  # not an accumulator of products that lives across tiles: the compiler would serialise all of them
                inputs = self.x.at[side, self.group]
                total = total + _product(delta.transpose((1, 0)), inputs.transpose((1, 0)), shape)
            self.small.release(done + i)
            return total

        total = lax.fori_loop(0, count, one_tile, gpu.layout_cast(jnp.zeros(shape, F32), _MATRIX) if sums else 0)
        if sums:
            y_ = self.y_.at[2 * unit + self.group].transpose((1, 0))
            y_[...] = gpu.layout_cast(total, gpu.Layout.WGMMA_TRANSPOSED)

    def compute_tile(self, number: Any, net: Any, row: Any) -> Any:
        """Back to the first ReLU, or beyond; the side that the tile's own arrays are on."""
        side, item, here = self.small.wait(number), number * len(self.chunks()), pl.ds(64 * self.group, 64)
        place, delta, depth = (net, pl.ds(row + 64 * self.group, 64)), self.delta.at[self.group], len(self.words_)
        if len(self.g_.shape) == 2:
            z = lax.broadcast_in_dim(gpu.load(self.g.at[side, here], layout=_COLUMN), (64, 64), (0,))
        else:
            z = _product(self.g.at[side, here], self.last.at[side], (64, UNITS))
        self.finish(depth - 1, z, place, side)
        for layer in range(depth - 1, 0, -1):
            z = _streamed(self.ring, delta, item + len(_PARTS) * (depth - 1 - layer), transposed=True)
            self.finish(layer - 1, z, place, side)
        before = len(_PARTS) * (depth - 1)  # the rest are of the first weights, if gradients go that far
        for chunk in range(before, len(self.chunks())):
            slot, columns = self.ring.wait(item + chunk), pl.ds(64 * (chunk - before), 64)
            self.y_[*place, columns] = _product(delta, self.ring.slots.at[slot], (64, 64))
            self.ring.release(item + chunk)
        return side

    def finish(self, layer: int, z: Any, place: Any, side: Any) -> None:
        """Mask a layer's gradient; to shared memory, and out where wanted."""
        words = gpu.load(self.words.at[side, layer, pl.ds(64 * self.group, 64)], layout=_MATRIX, optimized=False)
        gpu.wait_smem_to_gmem(0, wait_read_only=True)
        for c in _PARTS:
            # With one output, z is its gradient in every column.
            part = z[:, c : c + 64] if z.shape[1] == UNITS else z * _across(self.last.at[side, pl.ds(c, 64)])
            self.delta[self.group, :, c : c + 64] = _masked(part, c, words).astype(BF16)
        self.send(place, delta=self.deltas_[layer])


class _WeightGradient(t.BlockProgram):
    """A "network" is half of a matrix here, 64 rows of it in each warpgroup's registers, and a tile 64 rows of activations."""

    def small_arrays(self, half: Any, row: Any, side: Any) -> Iterator[tuple[Any, Any]]:
        net, columns, rows = *_half(half), pl.ds(row, 64)
        agent = lax.div(net, self.delta_.shape[0] // self.h_.shape[0])
        yield self.h_.at[net, rows, columns] if self.first is None else self.h_.at[agent, rows], self.h.at[side]
        yield self.delta_.at[net, rows], self.delta.at[side]

    def copy(self) -> None:
        gpu.copy_gmem_to_smem(self.ones_, self.ones, self.ones_full)
        done = super().copy()
        if self.first is not None:
            self.first.drain(lax.div(done, self.tiles.per_network))

    def copy_unit(self, done: Any, unit: Any, half: Any, row: Any, count: Any) -> None:
        if self.first is not None:
            slot, arrived = self.first.claim(lax.div(done, self.tiles.per_network))
            net, columns = _half(half)
            gpu.copy_gmem_to_smem(self.first_.at[net, :, columns], self.first.slots.at[slot], arrived)
        super().copy_unit(done, unit, half, row, count)

    def compute(self) -> None:
        gpu.barrier_wait(self.ones_full)
        super().compute()

    def compute_unit(self, done: Any, unit: Any, half: Any, row: Any, count: Any) -> None:
        number, mine = lax.div(done, self.tiles.per_network), pl.ds(_half(half)[1].start + 64 * self.group, 64)
        if self.first is not None:
            self.first.wait(number)

        def scoped(weight: Any, bias: Any) -> Any:
            @pl.loop(0, count)
            def _tile(i: Any) -> None:
                side = self.small.wait(done + i)
                delta = self.delta.at[side]
                gpu.wgmma(weight, self.activations(side).transpose((1, 0)), delta)
                gpu.wgmma(bias, delta.at[:, mine].transpose((1, 0)), self.ones.transpose((1, 0)))
                gpu.wgmma_wait(2)  # the products of the tile before are done: its slot may go
                pl.when(i > 0)(lambda: self.small.release(done + i - 1))

            gpu.wgmma_wait(0)
            self.small.release(done + count - 1)
            return weight[...], bias[...]

        weight, bias = pl.run_scoped(scoped, gpu.ACC((64, UNITS), F32), gpu.ACC((64, _ONES), F32))
        if self.first is not None:
            self.first.release(number)
        place = (lax.div(half, 2), mine)
        self.bias_[place] = bias
        for c in _PARTS:
            gpu.wait_smem_to_gmem(0, wait_read_only=True)
            self.weight[self.group] = weight[:, c : c + 64].astype(BF16)
            self.send((*place, pl.ds(c, 64)), weight=self.weight_)

    def activations(self, side: Any) -> Any:
        """This warpgroup's 64 columns of them [64, 64]; those of the first layer are computed again."""
        columns = pl.ds(64 * self.group, 64)
        if self.first is None:
            return self.h.at[side, :, columns]
        # This product waits for those before it, which read what is overwritten here.
        z = _product(self.h.at[side], self.first.slots.at[0, :, columns], (64, 64))
        self.active[self.group] = jnp.maximum(z, np.float32(0)).astype(BF16)
        gpu.commit_smem()
        return self.active.at[self.group]


def _in_chunks(x: Any) -> Any:
    """Inputs [A, R, P] as chunks [A, R / 128, P / 128, 64, 256]: rows of both warpgroups next to each other, twice 64 columns."""
    parts = x.reshape(len(x), -1, 2, 64, x.shape[2] // 128, 2, 64)  # agent, tile, warpgroup, row, chunk, part, column
    return parts.transpose(0, 1, 4, 3, 5, 2, 6).reshape(len(x), -1, x.shape[2] // 128, 64, UNITS)


def _half(number: Any) -> tuple[Any, Any]:
    """Of which network it is, and which rows."""
    return lax.div(number, 2), pl.ds(lax.rem(number, 2) * _HALF, _HALF)


def _product(left: Any, right: Any, shape: Any) -> Any:
    """left @ right in float32, both in shared memory."""

    def scoped(total: Any) -> Any:
        gpu.wgmma(total, left, right)
        return total[...]

    return pl.run_scoped(scoped, gpu.ACC(shape, F32))


def _streamed(ring: t.Ring, left: Any, first: Any, *, transposed: bool = False) -> Any:
    """left [64, 256] @ W [256, 256] (or its transpose), with W's chunks arriving as items ``first``, ... of the ring."""

    def scoped(total: Any) -> Any:
        for chunk, column in enumerate(_PARTS):
            weight = ring.slots.at[ring.wait(first + chunk)]
            gpu.wgmma(total, left.at[:, pl.ds(column, 64)], weight.transpose((1, 0)) if transposed else weight)
            if chunk:
                gpu.wgmma_wait(1)  # the product before is done: its chunk may go
                ring.release(first + chunk - 1)
        gpu.wgmma_wait(0)
        ring.release(first + len(_PARTS) - 1)
        return total[...]

    return pl.run_scoped(scoped, gpu.ACC((64, UNITS), F32))


def _across(row: Any) -> Any:
    """64 numbers in shared memory as every row of [64, 64]."""
    return lax.broadcast_in_dim(gpu.load(row, layout=_ROW).astype(F32), (64, 64), (1,))


def _pack(z: Any, words: Any) -> Any:
    """Push into int32 [64, 8] (or None) which of z, float32 [64, 64] of the next units, are negative."""
    signs = lax.shift_right_logical(lax.bitcast_convert_type(z, I32), jnp.full(z.shape, 31, I32))
    for c in range(0, 64, 8):
        part = signs[:, c : c + 8]
        words = part if words is None else lax.shift_left(words, jnp.full(words.shape, 1, I32)) | part
    return words


def _masked(z: Any, first: int, words: Any) -> Any:
    """z, float32 [64, 64] of the units from ``first``, with 0 where the ReLU was off."""
    parts = [jnp.where((words & _BITS[(first + c) // 8]) != 0, np.float32(0), z[:, c : c + 8]) for c in range(0, 64, 8)]
    return t.barrier(jnp.concatenate(parts, axis=1))
