"""Where a ReLU was off, in 32 bytes a row: all that the backward pass needs of a layer's activations.

Of the 256 units, bit c of word j (8 words of 32 bits) belongs to unit 8 c + j. In a warpgroup's registers the columns 8 c to
8 c + 7 of a matrix lie as those of any other c do, so packing is shifts and ors of registers, without a word between threads.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from upweight.engine.kernels.tiles import I32, barrier

WORDS = 8


def pack(z: Any, first: int, words: Any) -> Any:
    """Add to int32 [64, 8] (or None) which of z, float32 [64, 64] of the units from ``first``, are negative."""
    signs = lax.shift_right_arithmetic(lax.bitcast_convert_type(z, I32), jnp.full(z.shape, 31, I32))
    for place in range(z.shape[1] // WORDS):
        part = signs[:, WORDS * place : WORDS * (place + 1)] & _bit(first // WORDS + place)
        words = part if words is None else words | part
    return words


def masked(z: Any, first: int, words: Any) -> Any:
    """z, float32 [64, 64] of the units from ``first``, with 0 where the ReLU was off."""
    parts = []
    for place in range(z.shape[1] // WORDS):
        off = (words & _bit(first // WORDS + place)) != 0
        parts.append(jnp.where(off, np.float32(0), z[:, WORDS * place : WORDS * (place + 1)]))
    return barrier(jnp.concatenate(parts, axis=1))


def _bit(place: int) -> np.int32:
    return np.uint32(1 << place).view(np.int32)
