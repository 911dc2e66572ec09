"""What every weighting is: a frozen dataclass that maps a dataset to episode weights.

To add one, write a file in this folder with a subclass of :class:`Weighting` that has a ``name`` and a
``weigh`` method. The command line, the docs and the contract tests pick it up. Its fields become options
of the command line, with the help in their metadata: ``field(default=0.1, metadata={"help": "..."})``.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.errors import UpweightWarning, WeightingError, naming_memory
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.validate import as_weights


@dataclass(frozen=True)
class Weighting(ABC):
    """``weighting(dataset) -> w`` float64 [N], non-negative, summing to 1; deterministic, no I/O of its own.

    Examples:
        >>> isinstance(uw.Half(), uw.Weighting), uw.Half().to_dict()
        (True, {'name': 'half', 'threshold': None, 'high': None})
    """

    name: ClassVar[str]  # the registry's short name
    permutation_equivariant: ClassVar[bool] = True  # reordering the episodes reorders the weights
    affine_invariant: ClassVar[bool] = True  # a * G + b (a > 0) gives the same weights
    uniform_when_constant: ClassVar[bool] = True  # equal returns give equal weights

    @property
    def uses_returns(self) -> bool:
        """Whether weights depend on returns; incomplete episodes then get weight 0."""
        return True

    @abstractmethod
    def weigh(self, dataset: Dataset, eligible: NDArray[np.int64]) -> NDArray[np.float64]:
        """Non-negative weights [K], up to a factor, of the K episodes at ``eligible``."""

    def __call__(self, dataset: AnyDataset) -> NDArray[np.float64]:
        """Episode weights [N] of a dataset, or of what :func:`upweight.load` makes one of."""
        dataset = as_dataset(dataset)
        eligible = self._eligible(dataset)
        weights = np.zeros(dataset.num_episodes)
        raw = as_weights(
            self.weigh(dataset, eligible), count=len(eligible), what=f"episode that {type(self).__name__} weighs"
        )
        weights[eligible] = raw / raw.sum()
        return weights

    def to_dict(self) -> dict[str, Any]:
        """Name and settings, JSON-able; :func:`upweight.weighting_from_dict` is the way back."""
        settings = {field.name: getattr(self, field.name) for field in fields(self) if field.metadata.get("json", True)}
        return {"name": self.name, **settings}

    def _eligible(self, dataset: Dataset) -> NDArray[np.int64]:
        """Episodes that may get weight: those with a transition and, if returns are used, complete ones."""
        trainable = dataset.num_transitions > 0
        if not trainable.any():
            raise WeightingError(f"{dataset.source}: expected at least one episode with a transition, found none")
        if not self.uses_returns:
            return np.flatnonzero(trainable)
        if not dataset.complete.any():
            raise WeightingError(
                f"{dataset.source}: expected at least one complete episode to weight by returns, "
                f"but all {dataset.num_episodes} were cut short"
            )
        cut = int((~dataset.complete).sum())
        if cut:
            warnings.warn(
                f"{dataset.source}: {cut} of {dataset.num_episodes} episodes are incomplete; their return means "
                f"nothing, so {type(self).__name__} gives them weight 0",
                UpweightWarning,
                stacklevel=3,
            )
        eligible = np.flatnonzero(trainable & dataset.complete)
        if len(eligible) == 0:
            raise WeightingError(f"{dataset.source}: no complete episode has a transition to learn from")
        return eligible


def resolve_weights(
    weighting: "Callable[[Dataset], NDArray[np.float64]] | ArrayLike", dataset: AnyDataset
) -> NDArray[np.float64]:
    """Episode weights [N] from a weighting or from an array of them (scaled to sum to 1).

    Examples:
        >>> uw.resolve_weights([0, 0, 0, 0, 1, 1, 1, 1], ds)
        array([0.  , 0.  , 0.  , 0.  , 0.25, 0.25, 0.25, 0.25])
    """
    dataset = as_dataset(dataset)
    what = f"episode of {dataset.source}"
    if callable(weighting):
        with naming_memory("weighting"):
            return as_weights(weighting(dataset), count=dataset.num_episodes, what=what)
    weights = as_weights(weighting, count=dataset.num_episodes, what=what)
    weights = weights / weights.max()  # first, so that the sum cannot overflow
    return weights / weights.sum()
