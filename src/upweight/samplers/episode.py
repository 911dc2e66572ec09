r"""Two-level sampling: an episode by its mass, then one of its steps, uniformly.

:math:`P(i) = w_i T_i / \sum_j w_j T_j` and :math:`P(t \mid i) = 1/T_i`, hence
:math:`w_{i,t} = w_i / \sum_j w_j T_j`: exactly the paper's step probability. (Drawing the episode by :math:`w_i` alone
would divide by its length.) :math:`T_i` counts the trainable steps.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.errors import WeightingError, naming_memory
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.statistics import effective_episodes, episode_mass
from upweight.data.validate import as_weights
from upweight.samplers.alias import TwoLevelDraw
from upweight.samplers.sampler import Sampler


class EpisodeSampler(Sampler):
    """Step indices of a dataset, drawn with episode weights; O(1) per draw and O(N) memory.

    Examples:
        >>> sampler = uw.EpisodeSampler(ds, uw.ReturnWeighting(0.1))
        >>> sampler.sample(np.random.default_rng(0), 5)  # steps 21 to 23 are of the best episode
        array([17, 22, 20, 19, 23])
    """

    unit: ClassVar[str] = "episode"

    def __init__(self, dataset: AnyDataset, weights: "ArrayLike | Callable[[Dataset], NDArray[np.float64]]") -> None:
        dataset = as_dataset(dataset)
        values = weights(dataset) if callable(weights) else weights
        self._setup(dataset.starts, dataset.num_transitions, values, dataset.num_steps)

    @classmethod
    def from_lengths(cls, lengths: ArrayLike, weights: ArrayLike) -> "EpisodeSampler":
        """For logs kept elsewhere: episodes of ``lengths`` [N] trainable steps, one after the other."""
        sizes = _whole_numbers(lengths)
        sampler = cls.__new__(cls)
        sampler._setup(np.cumsum(sizes) - sizes, sizes, weights, int(sizes.sum()))
        return sampler

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Any]) -> "EpisodeSampler":
        """The sampler that :meth:`state_dict` described; same generator, same draws."""
        sampler = cls.__new__(cls)
        sampler._setup(
            _whole_numbers(state["starts"]), _whole_numbers(state["sizes"]), state["weights"], int(state["num_steps"])
        )
        return sampler

    def sample(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """``count`` flat step indices, drawn independently."""
        return self._draw(rng, count)

    def probabilities(self) -> NDArray[np.float64]:
        """[M] probability of each step; 0 on steps that cannot be learned from."""
        mass = episode_mass(self._weights, self._sizes)
        per_step = np.divide(mass, self._sizes, out=np.zeros(len(mass)), where=self._sizes > 0)
        steps = np.zeros(self._num_steps)
        offset = np.arange(self._sizes.sum()) - np.repeat(np.cumsum(self._sizes) - self._sizes, self._sizes)
        steps[np.repeat(self._starts, self._sizes) + offset] = np.repeat(per_step, self._sizes)
        return steps

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Everything the sampler is made of, as arrays. The generator is the caller's."""
        return {
            "starts": self._starts.copy(),
            "sizes": self._sizes.copy(),
            "weights": self._weights.copy(),
            "num_steps": np.array(self._num_steps),
        }

    def _facts(self) -> dict[str, Any]:
        drawn = {"episodes": len(self._weights), "steps": int(self._sizes.sum())}
        return {**drawn, "effective_episodes": effective_episodes(self._weights)}

    def _setup(self, starts: NDArray[np.int64], sizes: NDArray[np.int64], weights: ArrayLike, num_steps: int) -> None:
        self._starts, self._sizes, self._num_steps = starts, sizes, num_steps
        self._weights = as_weights(weights, count=len(sizes), what="episode")
        with naming_memory("a sampler over the episodes"):
            self._draw = TwoLevelDraw(episode_mass(self._weights, sizes), starts, sizes)


def _whole_numbers(values: ArrayLike) -> NDArray[np.int64]:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu" or (array < 0).any():
        raise WeightingError(f"expected lengths as non-negative whole numbers [N], found {array.dtype} {array.shape}")
    return array.astype(np.int64)
