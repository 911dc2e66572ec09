r"""Drawing steps on the device: the same distribution as :class:`upweight.EpisodeSampler`, in whole numbers.

Each agent has its own alias table over the episodes (see ``samplers/alias.py``). A draw takes four random words. The first
two are a 64-bit fraction u: the whole part of :math:`u N` is the cell, its next 32 bits are compared with the cell's threshold.
The other two choose one of the episode's steps in the same way. No float is involved: 23 bits would be too few.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from upweight.data.statistics import episode_mass
from upweight.samplers.alias import build_alias_table

Array = jax.Array


class EpisodeTable(NamedTuple):
    """An agent's weights as an alias table; [N], or [A, N] for a population."""

    threshold: Array  # uint32, out of 2^32
    alias: Array  # int32


class EpisodeLayout(NamedTuple):
    """Where the episodes lie; shared by all agents."""

    starts: Array  # uint32 [N]
    sizes: Array  # uint32 [N] trainable steps


def make_table(weights: NDArray[np.float64], sizes: NDArray[np.int64]) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """Threshold and alias for episode weights [N]; built on the host in float64."""
    table = build_alias_table(episode_mass(weights, sizes))
    threshold = np.floor(table.threshold * 2.0**32)
    full = threshold >= 2.0**32  # a cell that belongs to its owner alone: make the alias the owner too
    alias = np.where(full, np.arange(len(weights)), table.alias)
    return np.where(full, 0, threshold).astype(np.uint32), alias.astype(np.int32)


def draw_steps(key: Array, table: EpisodeTable, layout: EpisodeLayout, count: int) -> tuple[Array, Array]:
    """``count`` flat step indices (int32) of one agent, and the episodes they belong to."""
    words = jax.random.bits(key, (4, count), jnp.uint32)
    cell, remainder = _scale(words[0], words[1], jnp.uint32(table.threshold.shape[-1]))
    own = remainder < table.threshold[cell]
    episode = jnp.where(own, cell.astype(jnp.int32), table.alias[cell])
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
