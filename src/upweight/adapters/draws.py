"""What every adapter draws with: the core sampler and a generator of its own, whose state can be kept.

An actor may draw by weights of its own: then whatever is one for all learners is a :class:`Pair`, and rows come in two lines, the
critics' first. The actor's stream of random numbers is another one of the same seed, so the critics' rows stay what they are
without it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import whole_number
from upweight.base.errors import AdapterError
from upweight.data.dataset import Dataset
from upweight.samplers.episode import EpisodeSampler
from upweight.weightings.registry import make_weighting
from upweight.weightings.weighting import Weighting, resolve_weights

GivenWeighting = Weighting | Callable[[Dataset], NDArray[np.float64]] | ArrayLike | str
T = TypeVar("T")
_ACTOR_STREAM = 1  # appended to the numbers of the critics' stream
_ACTOR = "actor"  # in a state


class Pair(NamedTuple, Generic[T]):
    """What is the critics' and what is the actor's: ``critic, actor = pair``."""

    critic: T
    actor: T


def episode_weights(dataset: Dataset, weighting: GivenWeighting) -> NDArray[np.float64]:
    """[N] from a weighting, its short name ("rw"), any function of the dataset, or an array."""
    return resolve_weights(make_weighting(weighting) if isinstance(weighting, str) else weighting, dataset)


def checked_seed(seed: int) -> int:
    """The seed that a user gives to an adapter: a whole number from 0, which alone decides the draws."""
    return whole_number("seed", seed, least=0, error=AdapterError)


def one_or_pair(
    make: Callable[[GivenWeighting], T], weighting: GivenWeighting, actor_weighting: GivenWeighting | None
) -> T | Pair[T]:
    """What ``make`` makes of a weighting; a pair where the actor has one of its own."""
    made = make(weighting)
    return made if actor_weighting is None else Pair(made, make(actor_weighting))


def for_each_learner(
    rows: NDArray[np.int64],
    look_up: Callable[[NDArray[np.int64]], Mapping[str, NDArray[Any]]],
    make: Callable[[NDArray[np.int64], Mapping[str, NDArray[Any]]], T],
) -> T | Pair[T]:
    """What ``make`` makes of ``rows`` [B] and the columns [B, ...] there; a pair of ``rows`` [2, B], all looked up at once."""
    columns = look_up(rows.reshape(-1))
    if rows.ndim == 1:
        return make(rows, columns)
    critic, actor = rows
    first, second = slice(len(critic)), slice(len(critic), None)
    return Pair(
        make(critic, {name: column[first] for name, column in columns.items()}),
        make(actor, {name: column[second] for name, column in columns.items()}),
    )


class Draws:
    """Flat step indices by episode weights; the same seed gives the same sequence, and :meth:`state_dict` continues it.

    ``sampler`` is a pair where an actor draws by weights of its own. ``stream`` are numbers that tell apart several sequences of
    one seed.
    """

    def __init__(self, sampler: EpisodeSampler | Pair[EpisodeSampler], seed: int, stream: tuple[int, ...] = ()) -> None:
        critic, actor = sampler if isinstance(sampler, Pair) else (sampler, None)
        self._sampler = critic
        self._rng = np.random.default_rng(np.random.SeedSequence(checked_seed(seed), spawn_key=stream))
        self._actor = None if actor is None else Draws(actor, seed, (*stream, _ACTOR_STREAM))

    @classmethod
    def of(
        cls, dataset: Dataset, weighting: GivenWeighting, seed: int, actor_weighting: GivenWeighting | None = None
    ) -> "Draws":
        def sampler(given: GivenWeighting) -> EpisodeSampler:
            return EpisodeSampler(dataset, episode_weights(dataset, given))

        return cls(one_or_pair(sampler, weighting, actor_weighting), seed)

    @property
    def sampler(self) -> EpisodeSampler | Pair[EpisodeSampler]:
        """What draws."""
        return self._sampler if self._actor is None else Pair(self._sampler, self._actor._sampler)

    def rows(self, count: int) -> NDArray[np.int64]:
        """``count`` flat step indices, drawn independently: [count], or [2, count] where an actor draws apart."""
        rows = self.critic_rows(count)
        return rows if self._actor is None else np.stack([rows, self._actor.rows(count)])

    def critic_rows(self, count: int) -> NDArray[np.int64]:
        """[count], the critics' alone where an actor draws apart."""
        return self._sampler.sample(self._rng, count)

    def state_dict(self, position: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The sampler's arrays and the state of the generator, at an earlier :meth:`position` if one is given."""
        at = self.position() if position is None else position
        state = {**self.weights_state(), "generator": dict(at["generator"])}
        return state if self._actor is None else {**state, _ACTOR: self._actor.state_dict(at[_ACTOR])}

    def weights_state(self) -> dict[str, Any]:
        """The sampler's arrays, without the place in the sequence."""
        state: dict[str, Any] = {"sampler": self._sampler.state_dict()}
        return state if self._actor is None else {**state, _ACTOR: self._actor.weights_state()}

    def position(self) -> dict[str, Any]:
        """The state of the generator alone: whole numbers and names."""
        position = {"generator": dict(self._rng.bit_generator.state)}  # a copy: the generator goes on
        return position if self._actor is None else {**position, _ACTOR: self._actor.position()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called, on the same episodes; :meth:`weights_state` keeps the place."""
        if (self._actor is not None) != (_ACTOR in state):
            theirs, mine = ("with", "without") if self._actor is None else ("without", "with")
            raise AdapterError(
                f"expected the state of draws {mine} an actor_weighting, found one {theirs}: make both with the same weightings"
            )
        sampler = _of_the_same_episodes(self._sampler, state["sampler"])
        if self._actor is not None:
            self._actor.load_state_dict(state[_ACTOR])
        self._sampler = sampler
        if "generator" in state:
            self._rng.bit_generator.state = dict(state["generator"])


def _of_the_same_episodes(sampler: EpisodeSampler, state: Mapping[str, Any]) -> EpisodeSampler:
    """The sampler of a state, which must be of the episodes that ``sampler`` draws from."""
    found = EpisodeSampler.from_state_dict(state)
    mine, theirs = sampler.state_dict(), found.state_dict()
    if any(not np.array_equal(mine[key], theirs[key]) for key in ("starts", "sizes", "num_steps")):
        raise AdapterError(
            f"expected the state of draws from these {len(mine['sizes']):,} episodes of {mine['sizes'].sum():,} "
            f"transitions, found {len(theirs['sizes']):,} episodes of {theirs['sizes'].sum():,}"
        )
    return found
