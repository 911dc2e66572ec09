"""How the rows of all networks are shared out among blocks, and what the programs of blocks have in common.

A kernel is one wave of blocks, one on each multiprocessor, which stay until all is done. A block has three warpgroups: two
compute, 64 rows each, and the third only copies, ahead of them, into shared memory.

    tile      128 rows of one network's input: 64 for each computing warpgroup
    unit      up to 10 tiles of one network, done by one block; more would find fewer weights in the L2 cache
    chunk     a quarter of a weight matrix [256, 256] in bfloat16, 32 kB: what one slot of the ring of weights holds
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

Arrays = Mapping[str, Any]
gpu: Any = mosaic_gpu  # its types differ from version to version
barrier: Any = lax.optimization_barrier  # has none
F32, BF16, I32 = jnp.float32, jnp.bfloat16, jnp.int32
UNITS, TILE = 256, 128  # of every hidden layer; rows
_SHARED_MEMORY, _BARRIERS = 232_448, 1024  # bytes that a block can have, and of them for barriers, more than enough


class Tiles:
    """Networks x tiles as units of work; block b does the units b, b + blocks, b + 2 blocks, ..."""

    def __init__(self, networks: int, per_network: int, *, per_unit: int = 10, rows: int = TILE) -> None:
        self.per_network, self.per_unit, self.rows = per_network, per_unit, rows
        self.splits = -(-per_network // per_unit)  # units of a network
        self.units = networks * self.splits
        # One for each multiprocessor; where kernels are interpreted few, so that blocks have several units each.
        self.blocks = min(jax.devices()[0].core_count if jax.default_backend() == "gpu" else 3, self.units)

    def each_unit(self, do: Callable[..., None]) -> Any:
        """``do(done, unit, net, row, count)``: its tiles are rows ``row``, ... of ``net``, after ``done`` others; all tiles."""

        def step(number: Any, done: Any) -> Any:
            unit = lax.axis_index("block") + number * self.blocks
            first = lax.rem(unit, self.splits) * min(self.per_unit, self.per_network)
            count = jnp.minimum(self.per_network - first, self.per_unit)
            do(done, unit, lax.div(unit, self.splits), first * self.rows, count)
            return done + count

        mine = lax.div(self.units - lax.axis_index("block") + self.blocks - 1, self.blocks)
        return lax.fori_loop(0, mine, step, 0)


class Ring(NamedTuple):
    """Slots in shared memory that are filled in turn: item i lies in slot i mod ``size``."""

    slots: Any  # [size, ...]
    full: Any  # barriers
    empty: Any

    @classmethod
    def of(cls, size: int, slots: Any = None, *, copies: int = 1) -> "Ring":
        """An item is full after ``copies`` copies, and empty when both warpgroups are done with it."""
        return cls(slots, *(gpu.Barrier(num_arrivals=arrivals, num_barriers=size) for arrivals in (copies, 2)))

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
        for ahead in range(self.size):
            self.claim(items + ahead)


def shared(*shape: int, dtype: Any = BF16, swizzle: int | None = None) -> Any:
    """An array in shared memory; an operand of products lies in tiles of 8 rows x ``swizzle`` bytes, free of bank conflicts."""
    if swizzle is None:
        return gpu.SMEM(shape, dtype)
    tiling = gpu.TilingTransform((8, swizzle // jnp.dtype(dtype).itemsize))
    return gpu.SMEM(shape, dtype, transforms=(tiling, gpu.SwizzleTransform(swizzle)))


def with_rings(scratch: Arrays, copies: int, *chunk: int) -> dict[str, Any]:
    """``scratch`` with rings for a tile's own ``copies``, and for weights: of these as many chunks as there is room for."""
    used = sum(math.prod(array.shape) * jnp.dtype(array.dtype).itemsize for array in jax.tree.leaves(scratch))
    size = min(4, (_SHARED_MEMORY - _BARRIERS - used) // (2 * math.prod(chunk)))
    return {**scratch, "small": Ring.of(2, copies=copies), "ring": Ring.of(size, shared(size, *chunk, swizzle=128))}


class BlockProgram(SimpleNamespace):
    """A block's program; its attributes are arrays in the GPU's memory, underlined (``x_``), and in shared memory (``x``).

    A subclass has ``small_arrays(net, row, side)``: (source, target) of what a tile needs, ``side`` being the targets' slot; and
    ``compute_unit``, as ``each_unit`` calls it, for the warpgroups (``group``) 0 and 1.
    """

    def chunks(self, net: Any = 0, row: Any = 0) -> list[Any]:
        """What a tile needs through the ring, one after the other: parts of the network's weights, mostly."""
        return []

    def compute(self) -> None:
        self.tiles.each_unit(self.compute_unit)

    def copy(self) -> Any:
        done = self.tiles.each_unit(self.copy_unit)
        self.small.drain(done)
        if self.chunks():
            self.ring.drain(done * len(self.chunks()))
        return done

    def copy_unit(self, done: Any, unit: Any, net: Any, row: Any, count: Any) -> None:
        @pl.loop(0, count)
        def _tile(i: Any) -> None:
            (side, arrived), here = self.small.claim(done + i), row + i * self.tiles.rows
            for source, target in self.small_arrays(net, here, side):
                gpu.copy_gmem_to_smem(source, target, arrived)
            chunks = self.chunks(net, here)
            for chunk, source in enumerate(chunks):
                slot, arrived = self.ring.claim((done + i) * len(chunks) + chunk)
                gpu.copy_gmem_to_smem(source, self.ring.slots.at[slot], arrived)

    def send(self, place: Any, **targets: Any) -> None:
        """Copy the warpgroup's part of the named arrays in shared memory to ``place`` in others, where there are any."""
        gpu.commit_smem()
        for name, target in targets.items():
            if target is not None:
                gpu.copy_smem_to_gmem(getattr(self, name).at[self.group], target.at[place])

    @classmethod
    def launch(cls, name: str, tiles: Tiles, inputs: Arrays, outputs: Arrays, scratch: Arrays) -> list[Any]:
        """Outputs as they are described: arrays, lists of them, or None."""

        def body(*arrays: Any, **memory: Any) -> None:
            named = {f"{name}_": array for name, array in zip((*inputs, *outputs), arrays, strict=True)}
            block = cls(tiles=tiles, group=lax.axis_index("group"), **named, **memory)

            @pl.when(block.group == 2)
            def _copy() -> None:
                gpu.set_max_registers(40, action="decrease")  # which it leaves to the other two
                block.copy()

            @pl.when(block.group < 2)
            def _compute() -> None:
                gpu.set_max_registers(232, action="increase")
                block.compute()
                gpu.wait_smem_to_gmem(0)

        lane = gpu.LoweringSemantics.Lane  # lowers in a third of the default's time
        parameters = gpu.CompilerParams(
            approx_math=True, lowering_semantics=lane, unsafe_no_auto_barriers=True, reduction_scratch_bytes=0
        )
        blocks = {"grid": (tiles.blocks,), "grid_names": ("block",), "num_threads": 3, "thread_name": "group"}
        interpret = None if jax.default_backend() == "gpu" else gpu.InterpretGPUParams()
        options = {"kernel_name": name, "compiler_params": parameters, "interpret": interpret}
        types = {"out_type": list(outputs.values()), "scratch_types": scratch}
        return gpu.kernel(body, **types, **blocks, **options)(*inputs.values())
