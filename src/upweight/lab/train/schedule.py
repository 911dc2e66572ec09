"""When a training logs, checks the health of its agents, and can be stopped.

::

    interval  updates between two lines of the log; ends with a line, and with a block
    block     updates after which an agent that diverged is put back to where the block began
    piece     updates per call of the compiled program, for which batches are drawn ahead
    chunk     pieces that the device is given at a time: about two seconds' worth, as measured

The first three are functions of the settings alone, and the chunk is no part of any computation: how fast a machine is
changes nothing but how often it is heard of.
"""

import itertools
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax

from upweight.lab.train.algorithm import Algorithm
from upweight.lab.train.config import Config

BLOCK_UPDATES = 100
_LOGS_PER_TRAINING = 50
_TYPICAL_INPUT = 24  # numbers of an observation and an action
# A piece is at most so many operations, or else one period: one to two seconds of a CPU, a tenth of one of a GPU. A call costs
# 0.1 to 0.2 ms, which on a GPU are hidden because calls queue up while it computes, passes over all states, as much as two
# updates of Adam, and on a CPU fresh memory for what lies between. A loop that the host could leave at any update would make a
# GPU wait for the host at every update.
_OPERATIONS_PER_PIECE = {"cpu": 1e11, "gpu": 4e13}


class Piece(NamedTuple):
    """Updates that are made in one call of the compiled program."""

    first: int  # a multiple of the algorithm's period
    size: int
    ends_block: bool = True

    @property
    def end(self) -> int:
        return self.first + self.size


@dataclass(frozen=True)
class Schedule:
    """Of a training of ``num_updates``; see above."""

    num_updates: int
    interval: int
    block: int
    piece: int
    points: Sequence[int] = ()  # where policies are evaluated on their way, in order

    def interval_end(self, done: int) -> int:
        """Where the interval ends that update ``done`` is in."""
        return min((done // self.interval + 1) * self.interval, self.num_updates)

    def pieces(self, done: int) -> Iterator[Piece]:
        """From update ``done`` to the end of its interval, or to where policies are evaluated."""
        interval_end = self.interval_end(done)
        following = bisect(self.points, done)
        end = min([interval_end, *self.points[following : following + 1]])
        while done < end:
            into_interval = done % self.interval
            block_end = min(done - into_interval % self.block + self.block, interval_end)
            size = min(self.piece, block_end - done, end - done)
            yield Piece(done, size, done + size == block_end)
            done += size


def make_schedule(
    num_updates: int, log_every: int | None, algorithm: Algorithm, config: Config, num_agents: int
) -> Schedule:
    period = algorithm.period(config)
    interval = choose_interval(num_updates, period, log_every)
    block = choose_block(interval, period)
    return Schedule(num_updates, interval, block, choose_piece(block, algorithm, config, num_agents))


def choose_piece(block: int, algorithm: Algorithm, config: Config, num_agents: int) -> int:
    """The largest part of a block that makes whole periods and no more operations than a piece should."""
    period = algorithm.period(config)
    budget = _OPERATIONS_PER_PIECE["cpu" if jax.default_backend() == "cpu" else "gpu"]
    most = budget / (num_agents * operations_per_update(algorithm, config))
    sizes = [size for size in range(period, block + 1, period) if block % size == 0 and size <= most]
    return max(sizes, default=period)


def choose_interval(num_updates: int, period: int, log_every: int | None) -> int:
    """About a fiftieth of the training (or ``log_every``), a multiple of the period.

    If possible it divides the training, because a shorter last piece would be compiled again.
    """
    wanted = log_every or max(BLOCK_UPDATES, num_updates // _LOGS_PER_TRAINING)
    wanted = max(period, wanted // period * period)
    for interval in range(wanted, min(4 * wanted, num_updates) + 1, period):
        if num_updates % interval == 0:
            return interval
    return num_updates if num_updates <= 4 * wanted else wanted


def choose_block(interval: int, period: int) -> int:
    """The largest block of whole periods that divides the interval, again to compile one size only, unless that is small."""
    most = max(period, min(BLOCK_UPDATES, interval) // period * period)
    sizes = [size for size in range(period, most + 1, period) if interval % size == 0 and 4 * size >= most]
    return max(sizes, default=most)


def operations_per_update(algorithm: Algorithm, config: Config) -> float:
    """Floating-point operations of one agent's matrix products: forward and backward of every row that meets a network."""
    widths = (_TYPICAL_INPUT, *config.hidden_units, 1)
    weights = sum(inputs * outputs for inputs, outputs in itertools.pairwise(widths))
    return 4.0 * algorithm.network_rows(config) * weights
