r"""Gradients of weights and biases: :math:`h^\top\delta` and :math:`1^\top\delta` over the rows of each network.

A block does half of a network's matrix at a time: 128 of its rows, 64 in the registers of each warpgroup, while activations and
gradients pass through shared memory, 64 of their rows after the other. Activations of the first layer were never stored: they
are computed again from the inputs, which are much smaller.
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
from upweight.engine.kernels.tiles import BF16, F32, UNITS, gpu

_ONES, _HALF = 8, 128  # columns, the least that a product has; rows of the matrix in a unit


@jax.jit
def weight_gradient(source: Sequence[Any], delta: Any) -> tuple[Any, Any]:
    """[N, 256, 256] and [N, 256] in float32, from gradients ``delta`` [N, R, 256] and a ``source``.

    That is activations [N, R, 256], or the inputs [A, R, P] and first weights [N, P, 256].
    """
    (networks, rows, _), again = delta.shape, len(source) == 2
    width = source[0].shape[2] if again else _HALF
    tiles = t.Tiles(2 * networks, 1)
    size, piece = (4, 32) if rows > 1024 else (3, 128)  # slots; columns that are written at a time
    scratch = {
        "h": t.shared(size, 64, width, swizzle=min(2 * width, 128)),
        "delta": t.shared(size, 64, UNITS, swizzle=128),
        "ones": t.shared(_ONES, 64, swizzle=128),
        "weight": t.shared(2, 64, piece, dtype=F32, swizzle=128),
        "bias": t.shared(2, 64, _ONES, dtype=F32),
        "ones_full": gpu.Barrier(),
        "barriers": t.Ring.barriers(size, copies=2),
    }
    if again:
        scratch |= {"first": t.shared(1, width, _HALF, swizzle=2 * width), "active": t.shared(2, 64, 64, swizzle=128)}
        scratch["first_barriers"] = t.Ring.barriers(1)
    outputs = [t.array_type((networks, UNITS, columns), F32) for columns in (UNITS, _ONES)]
    block, inputs = partial(_WeightGradient, tiles, rows // 64), (jnp.ones((_ONES, 64), BF16), delta, *source)
    weight, bias = t.launch("mlp_weight_gradient", block, tiles, outputs, scratch)(*inputs)
    return weight, bias[..., 0]


class _WeightGradient:
    """One block's program; arrays in the GPU's memory are underlined, those in shared memory are in ``self.s``."""

    def __init__(self, tiles: t.Tiles, steps: int, arrays: Sequence[Any], s: Any) -> None:
        self.ones_, self.delta_, self.h_, *first, self.weight_, self.bias_ = arrays
        self.tiles, self.steps, self.s, self.group = tiles, steps, s, lax.axis_index("group")
        self.share, self.ring = self.delta_.shape[0] // self.h_.shape[0], t.Ring(None, *s.barriers)
        self.first_: Any = first[0] if first else None
        self.first = t.Ring(s.first, *s.first_barriers) if first else None

    def copy(self) -> None:
        gpu.copy_gmem_to_smem(self.ones_, self.s.ones, self.s.ones_full)

        def one_unit(unit: Any, _net: Any, _row: Any, _count: Any, done: Any) -> None:
            net, columns = lax.div(unit, 2), pl.ds(lax.rem(unit, 2) * _HALF, _HALF)
            if self.first is not None:
                slot, arrived = self.first.claim(done)
                gpu.copy_gmem_to_smem(self.first_.at[net, :, columns], self.first.slots.at[slot], arrived)

            def step(number: Any) -> None:
                slot, arrived = self.ring.claim(done * self.steps + number)
                rows = pl.ds(64 * number, 64)
                h = self.h_.at[net, rows, columns] if self.first is None else self.h_.at[lax.div(net, self.share), rows]
                gpu.copy_gmem_to_smem(h, self.s.h.at[slot], arrived)
                gpu.copy_gmem_to_smem(self.delta_.at[net, rows], self.s.delta.at[slot], arrived)

            t.repeat(self.steps, step)

        done = self.tiles.each_unit(one_unit)
        self.ring.drain(done * self.steps)
        if self.first is not None:
            self.first.drain(done)

    def compute(self) -> None:
        gpu.barrier_wait(self.s.ones_full)
        self.tiles.each_unit(self.compute_unit)

    def compute_unit(self, unit: Any, _net: Any, _row: Any, _count: Any, done: Any) -> None:
        net, mine = lax.div(unit, 2), pl.ds(lax.rem(unit, 2) * _HALF + 64 * self.group, 64)
        if self.first is not None:
            self.first.wait(done)

        def scoped(weight: Any, bias: Any) -> Any:
            def step(number: Any) -> None:
                item = done * self.steps + number
                slot = self.ring.wait(item)
                delta = self.s.delta.at[slot]
                gpu.wgmma(weight, self.activations(slot).transpose((1, 0)), delta)
                gpu.wgmma(bias, delta.at[:, mine].transpose((1, 0)), self.s.ones.transpose((1, 0)))
                gpu.wgmma_wait(2)  # the products of the step before are done: its slot may go
                pl.when(number > 0)(lambda: self.ring.release(item - 1))

            t.repeat(self.steps, step)
            gpu.wgmma_wait(0)
            self.ring.release(done * self.steps + self.steps - 1)
            return weight[...], bias[...]

        weight, bias = pl.run_scoped(scoped, gpu.ACC((64, UNITS), F32), gpu.ACC((64, _ONES), F32))
        if self.first is not None:
            self.first.release(done)
        self.write(net, mine, weight, bias)

    def activations(self, slot: Any) -> Any:
        """This warpgroup's 64 columns of them [64, 64].

        Where they are computed again, the product waits for those before it, which read what it overwrites.
        """
        columns = pl.ds(64 * self.group, 64)
        if self.first is None:
            return self.s.h.at[slot, :, columns]
        z = t.product(self.s.h.at[slot], self.s.first.at[0, :, columns], (64, 64))
        self.s.active[self.group] = jnp.maximum(z, np.float32(0)).astype(BF16)
        gpu.commit_smem()
        return self.s.active.at[self.group]

    def write(self, net: Any, mine: Any, weight: Any, bias: Any) -> None:
        piece = self.s.weight.shape[2]
        gpu.wait_smem_to_gmem(0, wait_read_only=True)
        self.s.bias[self.group] = bias
        for c in range(0, UNITS, piece):
            gpu.wait_smem_to_gmem(0, wait_read_only=True)
            self.s.weight[self.group] = weight[:, c : c + piece]
            gpu.commit_smem()
            gpu.copy_smem_to_gmem(self.s.weight.at[self.group], self.weight_.at[net, mine, pl.ds(c, piece)])
        gpu.copy_smem_to_gmem(self.s.bias.at[self.group], self.bias_.at[net, mine])
