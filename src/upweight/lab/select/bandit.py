r"""A few real episodes, spent where they tell most: the upper confidence bound (UCB1) of Auer et al. (2002).

Every arm is played once, then the one with the highest

.. math:: \bar x_i + \sqrt{2 \ln n / n_i},

where :math:`\bar x_i` is its mean return with the lowest and highest of all returns so far at 0 and 1, n counts all episodes and
:math:`n_i` the arm's own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from upweight.base.progress import report


@dataclass(frozen=True)
class Played:
    """The returns that each arm got, in order; arms beyond the number of episodes allowed got none."""

    returns: tuple[tuple[float, ...], ...]

    @property
    def best(self) -> int:
        """The arm with the highest mean return; of equal ones the one played more, then the first."""
        seen = [arm for arm, mine in enumerate(self.returns) if mine]
        return max(seen, key=lambda arm: (float(np.mean(self.returns[arm])), len(self.returns[arm]), -arm))


def play_arms(play: Callable[[int, int], float], arms: int, allowed: int) -> Played:
    """Spend ``allowed`` episodes; ``play(arm, k)`` gives the return of the arm's k-th. The first arms should be the likeliest."""
    returns: list[list[float]] = [[] for _ in range(arms)]
    for done in range(allowed):
        report("real episodes", done, allowed)
        arm = next_arm(returns)
        returns[arm].append(play(arm, len(returns[arm])))
    report("real episodes", allowed, allowed)
    return Played(tuple(map(tuple, returns)))


def next_arm(returns: list[list[float]]) -> int:
    """The first arm that was not played, else the one with the highest bound (the first of equal ones)."""
    for arm, mine in enumerate(returns):
        if not mine:
            return arm
    counts = np.array([len(mine) for mine in returns])
    means = np.array([np.mean(mine) for mine in returns])
    every = [value for mine in returns for value in mine]
    scores = (means - min(every)) / ((max(every) - min(every)) or 1.0)
    return int(np.argmax(scores + np.sqrt(2 * np.log(counts.sum()) / counts)))
