"""Rows that stay where the dataset is: those of the next updates are gathered there while the device learns from the last ones.

::

    device   draw 1  draw 2  updates 1 ............  draw 3  updates 2 ............
    host     .     gather 1          . gather 2 ...          . gather 3 ...

Steps are drawn on the device as always, and a row has the same bits wherever it lay: batches are those of resident data.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from upweight.data.dataset import Dataset
from upweight.lab.train.population import Agents, Data, Program
from upweight.lab.train.prepare import gather_rows, gatherers, make_layout, row_width
from upweight.lab.train.schedule import Piece


class StreamedData:
    """The data of a population, a piece of its training at a time."""

    def __init__(self, dataset: Dataset, program: Program, agents: Agents) -> None:
        self._dataset, self._program, self._agents = dataset, program, agents
        self._layout = make_layout(dataset)
        self._pool = gatherers()
        self._draws = jax.jit(program.draws, static_argnames="count")

    def feed(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, Data]]:
        """Each piece with its rows; when the next is asked for, the device should be at work on this one."""
        rows = self._gather(self._draw(pieces[0]))
        for piece, following in pairwise([*pieces, None]):
            assert piece is not None
            drawn = None if following is None else self._draw(following)  # before the device begins with the piece
            yield piece, rows
            if drawn is not None:
                rows = self._gather(drawn)

    def sample(self) -> Data:
        """Of the first update, for its shapes."""
        return self._gather(self._draw(Piece(0, 1, False)))

    def _draw(self, piece: Piece) -> Any:
        return self._draws(self._agents, self._layout, jnp.int32(piece.first), count=piece.size)

    def _gather(self, drawn: Any) -> Data:
        """Rows [n, width] of all batches, one after the other, and the places [count, A, B] that batches have among them."""
        steps, weights, actor_steps = drawn
        parts = [np.asarray(part) for part in (steps, actor_steps) if part is not None]
        index = np.concatenate([part.ravel() for part in parts])
        method, setup = self._program.algorithm, self._program.setup
        rows = np.empty((len(index), row_width(method, setup)), setup.dtype)
        gather_rows(self._dataset, method, index, rows, self._pool)
        places = iter(np.arange(len(index), dtype=np.int32).reshape(len(parts), *steps.shape))
        placed = (next(places), weights, None if actor_steps is None else next(places))
        return Data(jax.device_put(rows), self._layout, drawn=jax.device_put(placed))
