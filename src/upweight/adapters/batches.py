"""Any training loop: batches of transitions as NumPy, PyTorch or JAX arrays, made ahead of their use."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.adapters.draws import Draws, GivenWeighting, for_each_learner
from upweight.base.checks import whole_number
from upweight.base.errors import AdapterError
from upweight.base.optional import require
from upweight.base.text import Shown
from upweight.data.dataset import Dataset, Transitions
from upweight.data.given import AnyDataset, as_dataset

_LIBRARIES = {"numpy": "", "torch": "torch", "jax": "train"}  # and the extra that brings it
_Made = tuple[Any, dict[str, Any]]  # a batch, and where the generator stood after it


class Batches(Shown, Iterator[Any]):
    """Batches without end; ``next(batches)`` is a :class:`Transitions` of arrays, or a pair of them. Made by :func:`batches`."""

    def __init__(
        self, dataset: Dataset, draws: Draws, convert: Callable[[Any], Any], batch_size: int, prefetch: int
    ) -> None:
        self._dataset, self._draws, self._convert = dataset, draws, convert
        self._batch_size, self._prefetch = batch_size, prefetch
        self._position = draws.position()  # after the last batch that was handed out
        self._thread = ThreadPoolExecutor(1, "upweight-batches") if prefetch else None
        self._coming: deque[Future[_Made]] = deque()

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Any:
        while self._thread is not None and len(self._coming) <= self._prefetch:
            self._coming.append(self._thread.submit(self._make))
        batch, self._position = self._make() if self._thread is None else self._coming.popleft().result()
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Weights and the place in the stream, after the last batch handed out, whatever has been made ahead."""
        return self._draws.state_dict(self._position)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called."""
        while self._coming:
            self._coming.popleft().result()
        self._draws.load_state_dict(state)
        self._position = self._draws.position()

    def _facts(self) -> dict[str, Any]:
        return {"batch_size": self._batch_size, "drawn_by": self._draws.sampler}

    def _make(self) -> _Made:
        rows = self._draws.rows(self._batch_size)
        batch = for_each_learner(rows, lambda rows: self._dataset.transitions(rows)._asdict(), self._batch_of)
        return batch, self._draws.position()

    def _batch_of(self, _: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]) -> Transitions:
        return Transitions(**{name: self._convert(column) for name, column in columns.items()})


def batches(
    dataset: AnyDataset,
    weighting: GivenWeighting,
    batch_size: int = 256,
    *,
    actor_weighting: GivenWeighting | None = None,
    seed: int = 0,
    arrays: str = "numpy",
    device: Any = None,
    prefetch: int = 2,
) -> Batches:
    r"""Batches of transitions, step t of episode i having probability :math:`w_i / \sum_j w_j T_j`.

    Args:
        dataset: a dataset, or anything that :func:`upweight.load` makes one of.
        weighting: a weighting, its name, a function of the dataset, or weights [N].
        batch_size: transitions in a batch.
        actor_weighting: what the actor draws by, if not by ``weighting``: every batch is then two, ``critic, actor = batch``.
        seed: a whole number from 0. The same seed gives the same batches, whatever the options below.
        arrays: "numpy", "torch" or "jax".
        device: where PyTorch or JAX should put the arrays; their default if None.
        prefetch: how many batches a thread makes ahead; 0: no thread.

    Examples:
        >>> batches = uw.batches(ds, "rw", 4, seed=0)
        >>> next(batches).observations.shape
        (4, 1)
    """
    batch_size = whole_number("batch_size", batch_size, least=1, error=AdapterError)
    prefetch = whole_number("prefetch", prefetch, least=0, error=AdapterError)
    convert = _converter(arrays, device)
    given = as_dataset(dataset)
    return Batches(given, Draws.of(given, weighting, seed, actor_weighting), convert, batch_size, prefetch)


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
