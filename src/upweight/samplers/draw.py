"""The draw both samplers share: an outcome from an alias table, and a whole number below its size."""

import numpy as np
from numpy.typing import NDArray

from upweight.samplers.alias import build_alias_table


class TwoLevelDraw:
    """Draw outcome k with probability ``mass[k]``, then one of its ``size[k]`` consecutive steps.

    Row 2k of the merged tables is the owner of alias cell k, row 2k + 1 its alias, so a draw is one comparison and
    two look-ups. Both levels come from one call to the generator.
    """

    def __init__(self, mass: NDArray[np.float64], first: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        table = build_alias_table(mass)
        cells = np.arange(len(mass))
        outcome = np.stack([cells, table.alias], axis=1).ravel()  # [2K]
        self._limit = cells + table.threshold  # [K] u * K below it: the owner
        self._first = first[outcome]  # [2K]
        self._size = size[outcome].astype(np.float64)  # [2K]
        self._count = float(len(mass))

    def __call__(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        u = rng.random(2 * count)
        position = u[:count]
        position *= self._count
        row = position.astype(np.int64)
        above = position >= self._limit.take(row)
        row += row
        row += above
        within = u[count:]
        within *= self._size.take(row)
        steps = within.astype(np.int64)  # below size: u < 1 and the product rounds down (53 bits are plenty)
        steps += self._first.take(row)
        return steps
