"""How the rows of all networks are shared out, and what the kernels have in common.

A kernel is one wave of blocks, one on each multiprocessor, which stay until all is done. A block has three warpgroups: two
compute, 64 rows each, and the third only copies: it streams weights through a ring of slots in shared memory, ahead of products.

    tile      128 rows of one network's input: 64 for each computing warpgroup
    unit      up to 8 tiles of one network, done by one block; no more, so that blocks side by side share few networks, whose
              weights they then find in the L2 cache
    chunk     a quarter of a weight matrix [256, 256] in bfloat16, 32 kB: what one slot of the ring holds
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

gpu: Any = mosaic_gpu  # its types differ from version to version
barrier: Any = lax.optimization_barrier  # has none
array_type: Any = jax.ShapeDtypeStruct  # has none
UNITS, TILE, CHUNKS = 256, 128, 4  # of every hidden layer; rows; of a weight matrix
F32, BF16, I32 = jnp.float32, jnp.bfloat16, jnp.int32
MATRIX = gpu.Layout.WGMMA  # in a warpgroup's registers
ROW, COLUMN = MATRIX.reduce(0), MATRIX.reduce(1)  # one of a matrix
_TILES_PER_UNIT = 8
_SHARED_MEMORY, _BARRIERS = 232_448, 1024  # bytes that a block can have, and of them for barriers, more than enough


@cache
def multiprocessors() -> int:
    """Of this GPU; where kernels are interpreted a few, so that blocks have several units each."""
    return int(jax.devices()[0].core_count) if jax.default_backend() == "gpu" else 3


class Tiles(NamedTuple):
    """Networks x rows as units of work; block b does the units b, b + blocks, b + 2 blocks, ..."""

    networks: int
    per_network: int  # tiles

    @property
    def splits(self) -> int:
        """Units of a network."""
        return -(-self.per_network // _TILES_PER_UNIT)

    @property
    def units(self) -> int:
        return self.networks * self.splits

    @property
    def blocks(self) -> int:
        return min(multiprocessors(), self.units)

    def each_unit(self, do: Callable[..., None]) -> Any:
        """``do(unit, net, row, count, done)``: its tiles are rows ``row``, ... of ``net``, after ``done`` others; all tiles."""

        def step(number: Any, done: Any) -> Any:
            unit = lax.axis_index("block") + number * self.blocks
            first = lax.rem(unit, self.splits) * min(_TILES_PER_UNIT, self.per_network)
            count = jnp.minimum(self.per_network - first, _TILES_PER_UNIT)
            do(unit, lax.div(unit, self.splits), first * TILE, count, done)
            return done + count

        mine = lax.div(self.units - lax.axis_index("block") + self.blocks - 1, self.blocks)
        return lax.fori_loop(0, mine, step, 0)

    def each_tile(self, do: Callable[..., Any]) -> Any:
        """``do(number, net, row)`` for each of this block's tiles; how many those are."""

        def one_unit(unit: Any, net: Any, row: Any, count: Any, done: Any) -> None:
            repeat(count, lambda i: do(done + i, net, row + i * TILE))

        return self.each_unit(one_unit)


def repeat(count: Any, do: Callable[[Any], Any]) -> None:
    def step(number: Any, carry: Any) -> Any:
        do(number)
        return carry

    lax.fori_loop(0, count, step, 0)


class Ring(NamedTuple):
    """Slots in shared memory that are filled in turn: item i lies in slot i mod ``size``."""

    slots: Any  # [size, ...]
    full: Any  # barriers
    empty: Any

    @staticmethod
    def barriers(size: int, *, copies: int = 1) -> tuple[Any, Any]:
        """An item is full after ``copies`` copies, and empty when both warpgroups are done with it."""
        return tuple(gpu.Barrier(num_arrivals=arrivals, num_barriers=size) for arrivals in (copies, 2))

    @property
    def size(self) -> int:
        return int(self.full.shape[0])

    def claim(self, item: Any) -> tuple[Any, Any]:
        """Wait until the item's slot is free; its number and the barrier that copies into it arrive at."""
        slot = lax.rem(item, self.size)
        pl.when(item >= self.size)(partial(gpu.barrier_wait, self.empty.at[slot]))
        return slot, self.full.at[slot]

    def wait(self, item: Any) -> Any:
        """Wait until the item has arrived; its slot."""
        slot = lax.rem(item, self.size)
        gpu.barrier_wait(self.full.at[slot])
        return slot

    def release(self, item: Any) -> None:
        gpu.barrier_arrive(self.empty.at[lax.rem(item, self.size)])

    def drain(self, items: Any) -> None:
        """Wait until the last of ``items`` are used: a block must not end while copies are under way."""
        for back in range(1, self.size + 1):
            slot = lax.rem(items - back + self.size, self.size)
            pl.when(items >= back)(partial(gpu.barrier_wait, self.empty.at[slot]))


def stream(
    tiles: Tiles, small: Ring, ring: Ring, chunks: int, copy_small: Callable[..., None], chunk_of: Callable[..., Any]
) -> None:
    """What the copying warpgroup does: for each tile its inputs, double-buffered, and all chunks of its network's weights."""

    def one_tile(number: Any, net: Any, row: Any) -> None:
        copy_small(net, row, *small.claim(number))
        for chunk in range(chunks):
            slot, arrived = ring.claim(number * chunks + chunk)
            gpu.copy_gmem_to_smem(chunk_of(net, chunk), ring.slots.at[slot], arrived)

    done = tiles.each_tile(one_tile)
    small.drain(done)
    ring.drain(done * chunks)


def product(left: Any, right: Any, shape: tuple[int, int]) -> Any:
    """left @ right in float32, both in shared memory."""

    def scoped(total: Any) -> Any:
        gpu.wgmma(total, left, right)
        return total[...]

    return pl.run_scoped(scoped, gpu.ACC(shape, F32))


def streamed_product(left: Any, ring: Ring, first: Any, *, transposed: bool = False) -> Any:
    """left [64, 256] @ W [256, 256] (or its transpose), with W's chunks arriving as items ``first``, ... of the ring."""

    def scoped(total: Any) -> Any:
        for chunk in range(CHUNKS):
            weight = ring.slots.at[ring.wait(first + chunk)]
            gpu.wgmma(total, left.at[:, pl.ds(64 * chunk, 64)], weight.transpose((1, 0)) if transposed else weight)
            if chunk:
                gpu.wgmma_wait(1)  # the product before is done: its chunk may go
                ring.release(first + chunk - 1)
        gpu.wgmma_wait(0)
        ring.release(first + CHUNKS - 1)
        return total[...]

    return pl.run_scoped(scoped, gpu.ACC((64, UNITS), F32))


def across(row: Any) -> Any:
    """[64] as every row of [64, 64]."""
    return lax.broadcast_in_dim(row, (64, 64), (1,))


def shared(*shape: int, dtype: Any = BF16, swizzle: int | None = None) -> Any:
    """An array in shared memory; an operand of products lies in tiles of 8 rows x ``swizzle`` bytes, free of bank conflicts."""
    if swizzle is None:
        return gpu.SMEM(shape, dtype)
    tiling = gpu.TilingTransform((8, swizzle // jnp.dtype(dtype).itemsize))
    return gpu.SMEM(shape, dtype, transforms=(tiling, gpu.SwizzleTransform(swizzle)))


def with_ring(scratch: Mapping[str, Any], copies: int, *chunk: int) -> dict[str, Any]:
    """``scratch`` with the ring of weights, as many chunks as there is room for, and with the barriers of all."""
    used = sum(math.prod(array.shape) * jnp.dtype(array.dtype).itemsize for array in scratch.values())
    size = min(4, (_SHARED_MEMORY - _BARRIERS - used) // (2 * math.prod(chunk)))
    barriers = {"small_barriers": Ring.barriers(2, copies=copies), "barriers": Ring.barriers(size)}
    return {**scratch, "weights": shared(size, *chunk, swizzle=128), **barriers}


def launch(
    name: str, block: Callable[..., Any], tiles: Tiles, outputs: Sequence[Any], scratch: Mapping[str, Any]
) -> Any:
    """The kernel as a function of its inputs.

    ``block((*inputs, *outputs), scratch)`` has a method ``copy`` for the third warpgroup, which leaves its registers to the other
    two, and ``compute`` for those.
    """

    def entry(*arrays: Any) -> None:
        pl.run_scoped(
            lambda **memory: run(block(arrays, SimpleNamespace(**memory))), collective_axes="group", **scratch
        )

    def run(program: Any) -> None:
        @pl.when(lax.axis_index("group") == 2)
        def _copy() -> None:
            gpu.set_max_registers(40, action="decrease")
            program.copy()

        @pl.when(lax.axis_index("group") < 2)
        def _compute() -> None:
            gpu.set_max_registers(232, action="increase")
            program.compute()
            gpu.wait_smem_to_gmem(0)

    return gpu.kernel(
        entry,
        out_type=list(outputs),
        grid=(tiles.blocks,),
        grid_names=("block",),
        num_threads=3,
        thread_name="group",
        kernel_name=name,
        compiler_params=gpu.CompilerParams(
            approx_math=True,
            lowering_semantics=gpu.LoweringSemantics.Lane,  # lowers in a third of the default's time
            unsafe_no_auto_barriers=True,
            reduction_scratch_bytes=0,
        ),
        interpret=None if jax.default_backend() == "gpu" else gpu.InterpretGPUParams(),
    )
