r"""Epochs of indices, for training loops that ask a sampler for one index after the other.

An epoch is cut into blocks, each with a stream of random numbers of its own::

    SeedSequence(seed, spawn_key=(epoch, block))

so that the order is a pure function of the seed and the epoch, the same on every rank, needs the memory of one block, and can be
entered anywhere at no cost. Nothing global is read or changed.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from upweight.adapters.draws import Draws, checked_seed
from upweight.base.checks import whole_number
from upweight.base.errors import AdapterError
from upweight.base.text import Shown
from upweight.samplers.episode import EpisodeSampler

_BLOCK = 1 << 14  # indices drawn at a time
_whole_number = partial(whole_number, least=0, error=AdapterError)


class EpochSampler(Shown):
    r"""``length`` indices per epoch, each drawn with probability :math:`w_i / \sum_j w_j T_j`, with replacement.

    Every ``iter`` is the next epoch, unless :meth:`set_epoch` or :meth:`load_state_dict` say which. A state is where the *next*
    ``iter`` begins: its epoch, and how many of its indices to leave out. ``rename`` says what an index is called by who asks.
    """

    def __init__(
        self, sampler: EpisodeSampler, length: int, *, seed: int, rename: Mapping[int, int] | None = None
    ) -> None:
        self._sampler, self._length, self._rename = sampler, length, rename
        self.seed = checked_seed(seed)
        self._epoch = self._start_index = 0
        self._restored = False  # a state was loaded and not begun
        self._ahead = 0  # epochs that who counts them is behind

    def __iter__(self) -> Iterator[int]:
        epoch, start = self._epoch, self._start_index
        self._epoch, self._start_index, self._restored = epoch + 1, 0, False  # now, not when an index is asked for
        return self._rest_of(epoch, start)

    def __len__(self) -> int:
        """Indices per epoch, also of one that is resumed."""
        return self._length

    def set_epoch(self, epoch: int) -> None:
        """Which epoch the next ``iter`` is.

        Accelerate counts from 0 again after a restart, and says so to a sampler that knows better: a number below the epoch of a
        state that was just loaded means that epoch, and those that follow are counted from there.
        """
        number = _whole_number("epoch", epoch)
        if self._restored:
            self._restored, self._ahead = False, max(0, self._epoch - number)
        self._epoch = number + self._ahead

    def state_dict(self) -> dict[str, int]:
        """Where the next ``iter`` begins."""
        return {"epoch": self._epoch, "start_index": self._start_index}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Begin the next ``iter`` there."""
        self._epoch = _whole_number("epoch", state["epoch"])
        self._start_index = _whole_number("start_index", state["start_index"])
        self._restored, self._ahead = True, 0

    def _rest_of(self, epoch: int, start: int) -> Iterator[int]:
        for block in range(start // _BLOCK, -(-self._length // _BLOCK)):
            draws = Draws(self._sampler, self.seed, (epoch, block))
            first = block * _BLOCK
            rows = draws.rows(_BLOCK)[max(start - first, 0) : self._length - first].tolist()
            yield from rows if self._rename is None else map(self._rename.__getitem__, rows)

    def _facts(self) -> dict[str, Any]:
        return {"per_epoch": self._length, "seed": self.seed, "drawn_by": self._sampler}
