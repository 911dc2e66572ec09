r"""d3rlpy: a replay buffer that draws its batches by episode weights; give it to ``fit`` in place of the other one.

d3rlpy counts the transitions of an episode of n steps as n if it terminated and n - 1 if it was cut off, because an
episode holds no observation after its last step. These counts are the :math:`T_i` here: a row of a batch is step t of
episode i with probability :math:`w_i / \sum_j w_j T_j`, and its content is what d3rlpy's transition picker makes of it.

An actor can draw by weights of its own: a buffer with an ``actor_weighting`` hands out :class:`TwoBatches`, and
:func:`actor_apart` makes an algorithm that learns from them.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from upweight.adapters.d3rlpy_internals import learns_apart, picked, torch_batch
from upweight.adapters.draws import Draws, GivenWeighting, Pair, for_each_learner
from upweight.adapters.host import imports_from
from upweight.base.errors import AdapterError, DataLossWarning
from upweight.data.columns import ArrayColumn, Column, read_only
from upweight.data.dataset import Dataset
from upweight.data.given import as_dataset
from upweight.io.d3rlpy_buffers import actions_of, ending_in_the_unknown, read_log
from upweight.io.packed import MappedColumn

with imports_from("d3rlpy", extra="d3rlpy", oldest="2.8", below="2.9"):
    from d3rlpy.algos import QLearningAlgoBase
    from d3rlpy.constants import ActionSpace
    from d3rlpy.dataset import (
        BasicTransitionPicker,
        BufferProtocol,
        Episode,
        EpisodeBase,
        PartialTrajectory,
        ReplayBuffer,
        TrajectoryMiniBatch,
        TrajectorySlicerProtocol,
        Transition,
        TransitionMiniBatch,
        TransitionPickerProtocol,
    )

# Observations of more bytes than this are not copied: moving them costs more than d3rlpy's way of finding them.
_LARGEST_COPIED_ROW = 4096
Algorithm = TypeVar("Algorithm", bound=QLearningAlgoBase[Any, Any])


class TwoBatches(Pair[TransitionMiniBatch]):
    """The critics' batch and the actor's: ``critic, actor = buffer.sample_transition_batch(256)``."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in {field.name for field in fields(TransitionMiniBatch)}:
            raise AdapterError(
                f"expected one batch with {name}, found two, the critics' and the actor's: fit actor_apart(algorithm), on this "
                "buffer itself, or make the buffer without actor_weighting"
            )
        raise AttributeError(name)


def actor_apart(algorithm: Algorithm) -> Algorithm:
    """The algorithm itself, now for buffers with an ``actor_weighting``: its actor learns from the actor's batches.

    Everything else, such as the V of IQL, learns from the critics'. What ``save`` writes is loaded as the ordinary algorithm.
    """
    found = type(algorithm).__name__
    if not isinstance(algorithm, QLearningAlgoBase):
        raise AdapterError(f"expected a Q-learning algorithm of d3rlpy, made by create(), found {found}")
    if not learns_apart(algorithm):
        raise AdapterError(
            f"expected an algorithm whose actor and critics learn apart, such as TD3PlusBC, IQL or CQL, found {found}, which has "
            "no actor, no critics, or a behaviour model in its policy: give WeightedReplayBuffer a weighting only"
        )
    algorithm.update = _UpdateApart(algorithm)
    return algorithm


class _UpdateApart:
    """Stands in for the ``update`` of an algorithm."""

    def __init__(self, algorithm: QLearningAlgoBase[Any, Any]) -> None:
        self._algorithm = algorithm

    def __call__(self, batch: TwoBatches) -> dict[str, float]:
        if not isinstance(batch, TwoBatches):
            raise AdapterError(
                "expected two batches, the critics' and the actor's, found one: fit what actor_apart gives on a "
                "WeightedReplayBuffer with an actor_weighting, itself and not mixed with another buffer"
            )
        critic, actor = batch
        impl: Any = self._algorithm.impl
        impl.update_actor = lambda _: type(impl).update_actor(impl, torch_batch(self._algorithm, actor))
        try:
            return type(self._algorithm).update(self._algorithm, critic)
        finally:
            del impl.update_actor  # the class's own again


class WeightedReplayBuffer(ReplayBuffer):
    """The episodes of ``source``, drawn by ``weighting``; nothing can be added, since the weights are of these episodes.

    ``source``: a d3rlpy replay buffer, anything with d3rlpy's ``episodes``, an :class:`upweight.Dataset`, or what
    :func:`upweight.load` makes one of.
    ``weighting``: a weighting, its short name ("rw"), a function of the dataset, or an array with a weight per episode.
    It sees the raw rewards of whole episodes, before any scaler. Picker, slicer and action space are those of
    ``source`` unless given. The same ``seed`` gives the same batches, whatever d3rlpy's own seed is.
    ``actor_weighting``: what the actor draws by, if not by ``weighting``. A batch is then :class:`TwoBatches`, from which an
    algorithm learns that :func:`actor_apart` has made ready.
    """

    def __init__(
        self,
        source: Any,
        weighting: GivenWeighting,
        *,
        actor_weighting: GivenWeighting | None = None,
        seed: int = 0,
        transition_picker: TransitionPickerProtocol | None = None,
        trajectory_slicer: TrajectorySlicerProtocol | None = None,
        action_space: ActionSpace | None = None,
        action_size: int | None = None,
    ) -> None:
        picker = transition_picker or getattr(source, "transition_picker", None) or BasicTransitionPicker()
        gathers = type(picker) is BasicTransitionPicker
        if not hasattr(source, "episodes"):
            source = as_dataset(source)
        log = _log_of_dataset(source) if isinstance(source, Dataset) else _log_of_buffer(source, gathers)
        space, size = actions_of(source, log.dataset, action_space, action_size)
        self._draws = Draws.of(log.dataset, weighting, seed, actor_weighting)  # refuses episodes without a transition
        first = log.episodes[0]
        self._fixed = _FixedBuffer(log)
        super().__init__(
            self._fixed,
            transition_picker=picker,
            trajectory_slicer=trajectory_slicer or getattr(source, "trajectory_slicer", None),
            observation_signature=first.observation_signature,
            action_signature=first.action_signature,
            reward_signature=first.reward_signature,
            action_space=space,
            action_size=size,
            cache_size=1,  # room for episodes to be written, of which there will be none
        )
        self._flat = log.dataset if gathers and log.is_flat else None

    def sample_transition(self) -> Transition:
        return self._transitions_at(self._draws.critic_rows(1))[0]

    def sample_transition_batch(self, batch_size: int) -> Any:
        """A ``TransitionMiniBatch``, or :class:`TwoBatches` with an ``actor_weighting``."""
        batch = for_each_learner(self._draws.rows(batch_size), self._look_up, self._batch_of)
        return TwoBatches(*batch) if isinstance(batch, Pair) else batch

    def _look_up(self, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
        """The arrays of a batch, where they can be gathered."""
        return {} if self._flat is None else picked(self._flat, rows)

    def _batch_of(self, rows: NDArray[np.int64], columns: Mapping[str, NDArray[np.float32]]) -> TransitionMiniBatch:
        transitions = self._transitions_at(rows)
        if not columns:
            return TransitionMiniBatch.from_transitions(list(transitions))
        return TransitionMiniBatch(**columns, transitions=transitions)

    def sample_trajectory(self, length: int) -> PartialTrajectory:
        return self._slices_to(1, length)[0]

    def sample_trajectory_batch(self, batch_size: int, length: int) -> TrajectoryMiniBatch:
        return TrajectoryMiniBatch.from_partial_trajectories(self._slices_to(batch_size, length))

    def state_dict(self) -> dict[str, Any]:
        """Weights and the state of the generator, as arrays, whole numbers and names."""
        return self._draws.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the draws from where :meth:`state_dict` was called on a buffer of the same episodes."""
        self._draws.load_state_dict(state)

    def append(self, observation: Any, action: Any, reward: Any) -> None:
        raise _refusal()

    def append_episode(self, episode: EpisodeBase) -> None:
        raise _refusal()

    def clip_episode(self, terminated: bool) -> None:
        raise _refusal()

    @classmethod
    def from_episode_generator(cls, *_: Any, **__: Any) -> "WeightedReplayBuffer":
        raise AdapterError("make a ReplayBuffer of the episodes first, then WeightedReplayBuffer(buffer, weighting)")

    @classmethod
    def load(cls, *_: Any, **__: Any) -> "WeightedReplayBuffer":
        raise AdapterError("load with ReplayBuffer.load first, then WeightedReplayBuffer(buffer, weighting)")

    def _transitions_at(self, rows: NDArray[np.int64]) -> "_PickedTransitions":
        return _PickedTransitions(self._fixed, self.transition_picker, rows)

    def _slices_to(self, count: int, length: int) -> list[PartialTrajectory]:
        """The ``length`` steps up to and including each of ``count`` rows."""
        rows = self._draws.rows(count)
        if rows.ndim != 1:
            raise AdapterError(
                "expected an algorithm that learns from transitions, found one that learns from slices: make the buffer without "
                "actor_weighting"
            )
        return [self.trajectory_slicer(*self._fixed.at_row(row), length) for row in rows.tolist()]


class _Log(NamedTuple):
    """The same N episodes twice: as a flat log of M steps to weight and draw, and as d3rlpy's objects."""

    dataset: Dataset
    episodes: Sequence[EpisodeBase]  # as in d3rlpy's own buffers, without those that have no transition
    is_flat: bool  # the dataset's observations are d3rlpy's, row by row [M, ...]


class _FixedBuffer(BufferProtocol):
    """The episodes that were weighted."""

    def __init__(self, log: _Log) -> None:
        kept = np.flatnonzero(log.dataset.num_transitions)
        self._episodes = log.episodes
        self._starts = log.dataset.starts[kept]  # rows of the log
        self._ends = np.cumsum(log.dataset.num_transitions[kept])  # transitions, counted through

    def append(self, episode: EpisodeBase, index: int) -> None:
        raise _refusal()

    @property
    def episodes(self) -> Sequence[EpisodeBase]:
        return self._episodes

    @property
    def transition_count(self) -> int:
        return int(self._ends[-1])

    def __len__(self) -> int:
        return self.transition_count

    def __getitem__(self, index: int) -> tuple[EpisodeBase, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"expected a transition from 0 to {len(self) - 1}, found {index}")
        number = int(np.searchsorted(self._ends, index, side="right"))
        before = int(self._ends[number - 1]) if number else 0
        return self._episodes[number], index - before

    def at_row(self, row: int) -> tuple[EpisodeBase, int]:
        """The episode that a row of the log lies in, and the row's place in it."""
        number = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._episodes[number], row - int(self._starts[number])


class _PickedTransitions(Sequence[Transition]):
    """d3rlpy's transitions at some rows, each made when somebody looks: most algorithms need the batched arrays only."""

    def __init__(self, buffer: _FixedBuffer, picker: TransitionPickerProtocol, rows: NDArray[np.int64]) -> None:
        self._buffer, self._picker, self._rows = buffer, picker, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        return self._picker(*self._buffer.at_row(int(self._rows[index])))


def _refusal() -> AdapterError:
    return AdapterError(
        "expected the episodes that were weighted, and found an attempt to change them: add to a ReplayBuffer, then "
        "make a new WeightedReplayBuffer of it (for online fine-tuning, mix the two with d3rlpy's MixedReplayBuffer)"
    )


# ---- from our datasets ------------------------------------------------------------------------------------------------
def _log_of_dataset(dataset: Dataset) -> _Log:
    """Episodes are slices of the dataset's own arrays; what d3rlpy cannot know is left out of the dataset too."""
    if not dataset.next_observations_follow:
        warnings.warn(
            f"{dataset.source}: some next observations differ from the observation of the following step; "
            "d3rlpy will use the latter",
            DataLossWarning,
            stacklevel=3,
        )
    ends = dataset.episodes
    seen_by_d3rlpy = Dataset.assemble(
        episodes=ending_in_the_unknown(ends.lengths, ends.terminated, ends.truncated, ends.complete),
        observations=_at_least_2d(dataset.columns["observations"]),
        actions=_at_least_2d(dataset.columns["actions"]),
        rewards=dataset.columns.get("rewards"),
        returns=dataset.returns,
        labels=dataset.labels,
        metadata=dataset.metadata,
        source=dataset.source,
    )
    return _Log(seen_by_d3rlpy, _SlicedEpisodes(seen_by_d3rlpy), is_flat=True)


def _at_least_2d(column: Column) -> Column:
    """d3rlpy wants vectors: a number per step [M] becomes [M, 1]."""
    return column if len(column.shape) > 1 else ArrayColumn(column.read()[:, None])


class _SlicedEpisodes(Sequence[EpisodeBase]):
    """The episodes of a dataset as d3rlpy's, each made when somebody looks: views of its arrays, or rows gathered from maps."""

    def __init__(self, dataset: Dataset) -> None:
        kept = np.flatnonzero(dataset.num_transitions)
        self._starts, self._lengths, self._terminated = (
            part[kept] for part in (dataset.starts, dataset.lengths, dataset.episodes.terminated)
        )
        self._columns = [_array_or_column(dataset, name) for name in ("observations", "actions", "rewards")]

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        first = int(self._starts[index])
        last = first + int(self._lengths[index])
        observations, actions, rewards = (
            column[first:last] if isinstance(column, np.ndarray) else read_only(column.rows(np.arange(first, last)))
            for column in self._columns
        )
        return Episode(observations, actions, rewards[:, None], bool(self._terminated[index]))


def _array_or_column(dataset: Dataset, name: str) -> NDArray[Any] | Column:
    """The array of a field, checked, or its map; the column itself where its rows must be gathered from maps."""
    column = dataset.columns[name]
    return column if column.is_mapped and not isinstance(column, MappedColumn) else getattr(dataset, name)


# ---- from d3rlpy's buffers ----------------------------------------------------------------------------------------------
def _log_of_buffer(source: Any, gathers: bool) -> _Log:
    """Small observations are copied side by side if batches will be gathered from them; others stay where they are."""
    dataset, episodes = read_log(source)
    observations = dataset.columns["observations"]
    are_arrays = all(isinstance(episode.observations, np.ndarray) for episode in episodes)
    bytes_per_row = observations.dtype.itemsize * math.prod(observations.shape[1:])
    if gathers and are_arrays and bytes_per_row <= _LARGEST_COPIED_ROW:
        return _Log(dataset, _SlicedEpisodes(dataset), is_flat=True)
    return _Log(dataset, [episodes[number] for number in np.flatnonzero(dataset.num_transitions)], is_flat=False)
