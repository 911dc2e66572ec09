r"""Drawing steps on the device: the same distribution as :class:`upweight.EpisodeSampler`, in whole numbers.

Each agent has its own alias table over the episodes (see ``samplers/alias.py``). A draw takes four random words. The first
two are a 64-bit fraction u: the whole part of :math:`u N` is the cell, its next 32 bits are compared with the cell's threshold.
The other two choose one of the episode's steps in the same way. No float is involved: 23 bits would be too few.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from upweight.data.statistics import episode_mass
from upweight.samplers.alias import build_alias_table

Array = jax.Array


class EpisodeTable(NamedTuple):
    """An agent's weights as an alias table over its own n episodes; with a leading axis A for a population.

    Cells beyond n are never drawn: they are there because all agents of a population have arrays of one size. What is drawn
    depends on the agent's own episodes alone, not on what else the dataset holds.
    """

    cells: Array  # uint32 [] their number n
    threshold: Array  # uint32 [n] out of 2^32
    owner: Array  # int32 [n] the episode (of the whole dataset) below the threshold
    alias: Array  # int32 [n] the episode above it


class EpisodeLayout(NamedTuple):
    """Where the episodes lie; shared by all agents."""

    starts: Array  # uint32 [N]
    sizes: Array  # uint32 [N] trainable steps


def make_table(
    weights: NDArray[np.float64], sizes: NDArray[np.int64], episodes: NDArray[np.int64], cells: int
) -> EpisodeTable:
    """The table (in NumPy, padded to ``cells``) for weights [n] of ``episodes`` [n] that have ``sizes`` [n] steps."""
    count = len(weights)
    table = build_alias_table(episode_mass(weights, sizes))  # in float64
    threshold = np.floor(table.threshold * 2.0**32)
    full = threshold >= 2.0**32  # a cell that belongs to its owner alone: make the alias the owner too
    alias = np.where(full, np.arange(count), table.alias)

    def padded(values: NDArray[Any], dtype: type) -> Any:
        return np.pad(values.astype(dtype), (0, cells - count))

    return EpisodeTable(
        cells=np.uint32(count),  # type: ignore[arg-type]  # moved to the device with the other agents' tables
        threshold=padded(np.where(full, 0, threshold), np.uint32),
        owner=padded(episodes, np.int32),
        alias=padded(episodes[alias], np.int32),
    )


def draw_steps(key: Array, table: EpisodeTable, layout: EpisodeLayout, count: int) -> tuple[Array, Array]:
    """``count`` flat step indices (int32) of one agent, and the episodes they belong to."""
    words = jax.random.bits(key, (4, count), jnp.uint32)
    cell, remainder = _scale(words[0], words[1], table.cells)
    own = remainder < table.threshold[cell]
    episode = jnp.where(own, table.owner[cell], table.alias[cell])
    offset, _ = _scale(words[2], words[3], layout.sizes[episode])
    return (layout.starts[episode] + offset).astype(jnp.int32), episode


def _scale(high: Array, low: Array, factor: Array) -> tuple[Array, Array]:
    """The fraction high.low (64 bits) times ``factor``: its whole part and the 32 bits after the point."""
    whole = _high_product(high, factor)
    fraction = high * factor  # modulo 2^32
    with_low = fraction + _high_product(low, factor)
    return whole + (with_low < fraction).astype(jnp.uint32), with_low


def _high_product(a: Array, b: Array) -> Array:
    """The upper 32 bits of a 32 by 32 bit product, from 16-bit halves."""
    half = jnp.uint32(0xFFFF)
    a_low, a_high, b_low, b_high = a & half, a >> 16, b & half, b >> 16
    low, middle, other = a_low * b_low, a_high * b_low, a_low * b_high
    carry = (low >> 16) + (middle & half) + (other & half)
    return a_high * b_high + (middle >> 16) + (other >> 16) + (carry >> 16)
