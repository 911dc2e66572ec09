"""Any training loop: batches of transitions as NumPy, PyTorch or JAX arrays, made ahead of their use."""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from upweight.adapters.draws import Draws, GivenWeighting
from upweight.base.checks import whole_number
from upweight.base.errors import AdapterError
from upweight.base.optional import require
from upweight.base.text import Shown
from upweight.data.dataset import Dataset, Transitions
from upweight.io.loading import AnyDataset, as_dataset

_LIBRARIES = {"numpy": "", "torch": "torch", "jax": "train"}  # and the extra that brings it
_WINDOW_BYTES = 64 << 20  # gathered at a time from files that are read in groups of rows
_Made = tuple[Transitions, dict[str, Any]]  # a batch, and where the generator stood after it


class Batches(Shown, Iterator[Transitions]):
    """Batches without end; ``next(batches)`` is a :class:`Transitions` of arrays. Made by :func:`batches`."""

    def __init__(
        self, dataset: Dataset, draws: Draws, convert: Callable[[Any], Any], batch_size: int, prefetch: int, window: int
    ) -> None:
        self._dataset, self._draws, self._convert = dataset, draws, convert
        self._batch_size, self._window = batch_size, window
        self._ahead = -(-prefetch // window)  # windows
        self._position = draws.position()  # after the last batch that was handed out
        self._thread = ThreadPoolExecutor(1, "upweight-batches") if prefetch else None
        self._coming: deque[Future[list[_Made]]] = deque()
        self._ready: deque[_Made] = deque()  # what is left of a window

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Transitions:
        while self._thread is not None and len(self._coming) <= self._ahead:
            self._coming.append(self._thread.submit(self._make_window))
        if not self._ready:
            self._ready.extend(self._make_window() if self._thread is None else self._coming.popleft().result())
        batch, self._position = self._ready.popleft()
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Weights and the place in the stream, after the last batch handed out, whatever has been made ahead."""
        return {**self._draws.state_dict(), "generator": dict(self._position)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called."""
        while self._coming:
            self._coming.popleft().result()
        self._ready.clear()
        self._draws.load_state_dict(state)
        self._position = self._draws.position()

    def _facts(self) -> dict[str, Any]:
        return {"batch_size": self._batch_size, "drawn_by": self._draws.sampler}

    def _make_window(self) -> list[_Made]:
        """Draw batches one by one, gather the rows of all of them together, and hand each its own."""
        if self._window == 1:  # nothing to join or to cut: 5 us less
            columns = self._dataset.transitions(self._draws.rows(self._batch_size))
            return [(Transitions(*map(self._convert, columns)), self._draws.position())]
        drawn = [(self._draws.rows(self._batch_size), self._draws.position()) for _ in range(self._window)]
        columns = self._dataset.transitions(np.concatenate([index for index, _ in drawn]))
        spans = [slice(first, first + self._batch_size) for first in range(0, len(columns.rewards), self._batch_size)]
        return [
            (Transitions(*(self._convert(column[span]) for column in columns)), position)
            for span, (_, position) in zip(spans, drawn, strict=True)
        ]


def batches(
    dataset: AnyDataset,
    weighting: GivenWeighting,
    batch_size: int = 256,
    *,
    seed: int = 0,
    arrays: str = "numpy",
    device: Any = None,
    prefetch: int = 2,
    window: int | None = None,
) -> Batches:
    r"""Batches of transitions, step t of episode i having probability :math:`w_i / \sum_j w_j T_j`.

    ``dataset`` may also be a path, the name of one, a frame, or a dataset of d3rlpy or Minari.
    ``arrays`` is "numpy", "torch" or "jax"; ``device`` is where PyTorch or JAX should put them. ``prefetch`` batches are made
    ahead by a thread (0: none). ``window`` batches are drawn and gathered at a time: one or, from Parquet with an index, as many
    as make 64 MB, so that a row group is read once for all of them. The same seed gives the same batches, whatever the other
    options.

    Examples:
        >>> batches = uw.batches(ds, "rw", 4, seed=0)
        >>> next(batches).observations.shape
        (4, 1)
    """
    for name, value, least in (
        ("batch_size", batch_size, 1),
        ("prefetch", prefetch, 0),
        ("window", 1 if window is None else window, 1),
    ):
        whole_number(name, value, least=least, error=AdapterError)
    convert = _converter(arrays, device)
    given = as_dataset(dataset)
    draws = Draws.of(given, weighting, seed)
    return Batches(given, draws, convert, batch_size, prefetch, window or _window(given, batch_size))


def _window(dataset: Dataset, batch_size: int) -> int:
    """How many batches to gather at a time: no more than hold as many rows as there are."""
    if not dataset.columns["observations"].is_grouped:
        return 1
    columns = [dataset.columns[name] for name in ("observations", "observations", "actions")]
    row = sum(math.prod(column.shape[1:]) * column.dtype.itemsize for column in columns)
    return max(1, min(_WINDOW_BYTES // row, dataset.num_steps) // batch_size)


def _converter(arrays: str, device: Any) -> Callable[[Any], Any]:
    """From a NumPy array to one of the library that was asked for, on its device."""
    if arrays not in _LIBRARIES:
        raise AdapterError(f"arrays: expected one of {', '.join(_LIBRARIES)}, found {arrays!r}")
    if arrays == "numpy":
        if device is not None:
            raise AdapterError(f'device: NumPy arrays have none, found {device!r}; ask for arrays="torch" or "jax"')
        return lambda array: array
    library = require(arrays, extra=_LIBRARIES[arrays], purpose=f"batches of {arrays} arrays")
    if arrays == "jax":
        return lambda array: library.device_put(array, device)
    target = library.device("cpu" if device is None else device)
    if target.type == "cpu":
        return library.from_numpy
    return lambda array: library.from_numpy(array).pin_memory().to(target, non_blocking=True)
