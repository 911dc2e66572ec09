r"""One-level sampling with a weight of its own for every step, :math:`P(m) = w_m / \sum_n w_n`."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.errors import WeightingError
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.validate import as_weights
from upweight.samplers.alias import TwoLevelDraw
from upweight.samplers.sampler import Sampler


class StepSampler(Sampler):
    """Step indices drawn by per-step weights [M]; O(1) per draw and O(M) memory.

    With a dataset, steps that cannot be learned from get weight 0.

    Examples:
        >>> uw.StepSampler(ds, ds.rewards).sample(np.random.default_rng(0), 5)
        array([20, 17,  8,  8, 23])
    """

    unit: ClassVar[str] = "step"

    def __init__(self, dataset: AnyDataset, weights: ArrayLike) -> None:
        dataset = as_dataset(dataset)
        values = as_weights(weights, count=dataset.num_steps, what="step")
        lost = dataset.episodes.last_steps[dataset.num_transitions < dataset.lengths]
        values[lost] = 0.0
        self._setup(values)

    @classmethod
    def from_weights(cls, weights: ArrayLike) -> "StepSampler":
        """For logs kept elsewhere: every step with a weight above zero can be drawn."""
        sampler = cls.__new__(cls)
        sampler._setup(as_weights(weights, count=np.size(weights), what="step"))
        return sampler

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "StepSampler":
        """The sampler that :meth:`state_dict` described; same generator, same draws."""
        return cls.from_weights(state["probabilities"])

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """``count`` flat step indices, drawn independently."""
        return self._draw(rng, count)

    def probabilities(self) -> NDArray[np.float64]:
        """[M] probability of each step."""
        return self._probabilities.copy()

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything the sampler is made of, as arrays. The generator is the caller's."""
        return {"probabilities": self._probabilities.copy()}

    def _facts(self) -> dict[str, Any]:
        return {"steps": len(self._probabilities), "with_weight": int(np.count_nonzero(self._probabilities))}

    def _setup(self, weights: NDArray[np.float64]) -> None:
        if not weights.any():
            raise WeightingError("the weights put no mass on any trainable step")
        scaled = weights / weights.max()
        self._probabilities = scaled / scaled.sum()
        count = len(weights)
        self._draw = TwoLevelDraw(self._probabilities, np.arange(count), np.ones(count, np.int64))
