"""What every adapter draws with: the core sampler and a generator of its own, whose state can be kept."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import whole_number
from upweight.base.errors import AdapterError
from upweight.data.dataset import Dataset
from upweight.samplers.episode import EpisodeSampler
from upweight.weightings.registry import make_weighting
from upweight.weightings.weighting import Weighting, resolve_weights

GivenWeighting = Weighting | Callable[[Dataset], NDArray[np.float64]] | ArrayLike | str


def episode_weights(dataset: Dataset, weighting: GivenWeighting) -> NDArray[np.float64]:
    """[N] from a weighting, its short name ("rw"), any function of the dataset, or an array."""
    return resolve_weights(make_weighting(weighting) if isinstance(weighting, str) else weighting, dataset)


def checked_seed(seed: int) -> int:
    """The seed that a user gives to an adapter: a whole number from 0, which alone decides the draws."""
    return whole_number("seed", seed, least=0, error=AdapterError)


class Draws:
    """Flat step indices by episode weights; the same seed gives the same sequence, and :meth:`state_dict` continues it.

    ``stream`` are numbers that tell apart several sequences of one seed.
    """

    def __init__(self, sampler: EpisodeSampler, seed: int, stream: tuple[int, ...] = ()) -> None:
        self.sampler = sampler
        self._rng = np.random.default_rng(np.random.SeedSequence(checked_seed(seed), spawn_key=stream))

    @classmethod
    def of(cls, dataset: Dataset, weighting: GivenWeighting, seed: int) -> "Draws":
        return cls(EpisodeSampler(dataset, episode_weights(dataset, weighting)), seed)

    def rows(self, count: int) -> NDArray[np.int64]:
        """``count`` flat step indices, drawn independently."""
        return self.sampler.sample(self._rng, count)

    def state_dict(self) -> dict[str, Any]:
        """The sampler's arrays and the state of the generator."""
        return {"sampler": self.sampler.state_dict(), "generator": self.position()}

    def position(self) -> dict[str, Any]:
        """The state of the generator alone: whole numbers and names."""
        return dict(self._rng.bit_generator.state)  # made anew at every look

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called, on the same episodes."""
        sampler = EpisodeSampler.from_state_dict(state["sampler"])
        mine, theirs = self.sampler.state_dict(), sampler.state_dict()
        if any(not np.array_equal(mine[key], theirs[key]) for key in ("starts", "sizes", "num_steps")):
            raise AdapterError(
                f"expected the state of draws from these {len(mine['sizes']):,} episodes of {mine['sizes'].sum():,} "
                f"transitions, found {len(theirs['sizes']):,} episodes of {theirs['sizes'].sum():,}"
            )
        self.sampler = sampler
        self._rng.bit_generator.state = dict(state["generator"])
