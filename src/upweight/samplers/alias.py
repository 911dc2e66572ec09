r"""Alias tables: draw from K outcomes with any probabilities in constant time (Walker 1977, Vose 1991).

Each of K equal cells is shared by at most two outcomes: its owner below a threshold, its alias above. The
table is built without a Python loop. Scale the probabilities to mean 1 and call outcomes below 1 light, the
others heavy. Laying the deficits of the light ones and the surpluses of the heavy ones end to end, each light
cell is filled by the heavy outcome whose stretch its deficit starts in; what is left of a heavy outcome after
its last light cell stays in its own cell, and the next heavy outcome fills that one up.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class AliasTable(NamedTuple):
    """Cell k belongs to outcome k below ``threshold[k]`` and to ``alias[k]`` above."""

    threshold: NDArray[np.float64]  # [K] in [0, 1]
    alias: NDArray[np.int64]  # [K]


def build_alias_table(probabilities: NDArray[np.float64]) -> AliasTable:
    """The table for ``probabilities`` [K], which sum to 1. Outcomes of probability 0 are never drawn."""
    count = len(probabilities)
    scaled = probabilities * count
    threshold = np.minimum(scaled, 1.0)
    alias = np.arange(count)
    is_light = scaled < 1.0
    light, heavy = np.flatnonzero(is_light), np.flatnonzero(~is_light)
    if len(light) == 0 or len(heavy) == 0:  # all equal, up to rounding
        return AliasTable(np.ones(count), alias)
    unit = 2.0 ** (62 - count.bit_length())  # sums of multiples of 1/unit are exact, over millions of outcomes too
    deficits = np.zeros(len(light) + 1, np.int64)  # before each light cell, and in all
    np.cumsum(np.rint((1.0 - scaled[light]) * unit).astype(np.int64), out=deficits[1:])
    surpluses = np.cumsum(np.rint((scaled[heavy] - 1.0) * unit).astype(np.int64))  # up to and with each heavy outcome
    del scaled, is_light
    # Light cell: the first heavy outcome whose surplus reaches beyond where the deficit starts.
    donor = np.searchsorted(surpluses, deficits[:-1], side="right")
    alias[light] = heavy[np.minimum(donor, len(heavy) - 1, out=donor)]
    del donor
    # Heavy cell: what is left of it after the light cell in which its surplus ran out.
    exhausted = np.minimum(np.searchsorted(deficits, surpluses, side="left"), len(light))
    threshold[heavy] = np.clip(1.0 + (surpluses - deficits[exhausted]) / unit, 0.0, 1.0)
    threshold[heavy[-1]] = 1.0
    alias[heavy[:-1]] = heavy[1:]
    return AliasTable(threshold, alias)


_STEPS = np.dtype([("first", np.int64), ("size", np.float64)])  # one memory access reads both


class TwoLevelDraw:
    """Draw outcome k with probability ``mass[k]``, then one of its ``size[k]`` consecutive steps.

    Row 2k of the steps is the owner of alias cell k, row 2k + 1 its alias, so a draw is one comparison and two look-ups, whose
    memory is what it costs where there are millions of outcomes. Both levels come from one call to the generator.
    """

    def __init__(self, mass: NDArray[np.float64], first: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        self._limit, alias = build_alias_table(mass)  # [K] u * K below it: the owner
        self._limit += np.arange(len(mass))
        steps = np.empty((len(mass), 2), _STEPS)
        for place, values in (("first", first), ("size", size)):
            steps[place][:, 0] = values
            steps[place][:, 1] = values[alias]
        self._steps = steps.ravel()  # [2K]
        self._count = np.array(float(len(mass)))

    def __call__(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        u = rng.random(2 * count)
        position, within = u[:count], u[count:]
        np.multiply(position, self._count, position)  # in place, which is the fastest
        row = position.astype(np.int64)
        above = position >= self._limit.take(row)
        np.add(row, row, row)
        np.add(row, above, row)
        drawn = self._steps.take(row)
        np.multiply(within, drawn["size"], within)
        steps: NDArray[np.int64] = within.astype(np.int64)  # below size: u < 1 and the product rounds down
        np.add(steps, drawn["first"], steps)
        return steps
