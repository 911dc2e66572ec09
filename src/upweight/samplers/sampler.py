"""What every sampler is: a source of flat step indices with known probabilities.

To add one, write a file in this folder with a subclass of :class:`Sampler`; the contract tests pick it up.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.text import Shown
from upweight.data.given import AnyDataset


class Sampler(Shown, ABC):
    """``Sampler(dataset, weights)``, with one weight per episode or per step, as ``unit`` says."""

    unit: ClassVar[str]  # "episode" or "step"

    @abstractmethod
    def __init__(self, dataset: AnyDataset, weights: ArrayLike) -> None: ...

    @abstractmethod
    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """``count`` flat step indices, drawn independently."""

    @abstractmethod
    def probabilities(self) -> NDArray[np.float64]:
        """[M] probability of each step; 0 on steps that cannot be learned from."""

    @abstractmethod
    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything the sampler is made of, as arrays. The generator is the caller's."""

    @classmethod
    @abstractmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "Sampler":
        """The sampler that :meth:`state_dict` described; same generator, same draws."""
