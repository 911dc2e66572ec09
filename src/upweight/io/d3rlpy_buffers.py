"""d3rlpy's replay buffers in memory, as datasets; a buffer in a file is read by ``d3rlpy_hdf5``.

d3rlpy counts the transitions of an episode of n steps as n if it terminated and n - 1 if it was cut off, because an
episode holds no observation after its last step. These counts are the :math:`T_i` of the dataset.
"""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import AdapterError, UpweightWarning
from upweight.base.optional import require
from upweight.data.columns import ArrayColumn, EpisodesColumn
from upweight.data.dataset import Dataset
from upweight.data.segment import Episodes
from upweight.io.format import Format, comes_from

_NEEDED = {"extra": "d3rlpy", "purpose": "reading a replay buffer of d3rlpy"}


def read(source: Any) -> Dataset:
    """The episodes of a replay buffer; its actions are discrete if d3rlpy says so."""
    dataset, _ = read_log(source)
    space, size = actions_of(source, dataset)
    return dataset.with_num_actions(size) if space.name == "DISCRETE" else dataset


def read_log(source: Any) -> tuple[Dataset, list[Any]]:
    """The episodes of a replay buffer twice: as a flat log [M, ...] and as d3rlpy's objects [N]."""
    episodes = _episodes_of(source)
    is_buffer = isinstance(source, require("d3rlpy.dataset", **_NEEDED).ReplayBuffer)
    being_written: Any = episode_being_written(source) if is_buffer else None
    complete = np.array([episode is not being_written for episode in episodes])
    episodes = [episode.to_episode(terminated=False) if episode is being_written else episode for episode in episodes]
    for number, episode in enumerate(episodes):
        _check_episode(episode, number, episodes[0])
    terminated = np.array([bool(episode.terminated) for episode in episodes])
    lengths = np.array([episode.size() for episode in episodes], np.int64)
    name = f"the {type(source).__name__}"
    opened: Any = partial(nullcontext, partial(_rows_of, episodes))  # nothing to open
    dataset = Dataset.assemble(
        episodes=ending_in_the_unknown(lengths, terminated, complete & ~terminated, complete),
        observations=EpisodesColumn(lengths, opened, key="observations", source=name),
        actions=ArrayColumn(np.concatenate([episode.actions for episode in episodes])),
        rewards=ArrayColumn(np.concatenate([episode.rewards[:, 0] for episode in episodes])),
        source=name,
    )
    _warn_of_other_counts(source, dataset)
    return dataset, episodes


def ending_in_the_unknown(
    lengths: NDArray[np.int64], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], complete: NDArray[np.bool_]
) -> Episodes:
    """Episodes whose last observation is unknown, so that T_i is d3rlpy's count of transitions."""
    return Episodes(lengths, terminated, truncated, complete, final_known=np.zeros(len(lengths), bool))


def episode_being_written(buffer: Any) -> Any:
    """The episode that a ``ReplayBuffer`` would still add to; it is listed among the others from its first transition on."""
    try:
        return buffer._writer._active_episode
    except AttributeError as error:
        raise AdapterError(
            f"expected a {type(buffer).__name__} that knows which episode it is still writing, as in d3rlpy 2.8 ({error}): "
            "pass an object with the finished ones as its `episodes`"
        ) from None


def _episodes_of(source: Any) -> list[Any]:
    episodes = getattr(source, "episodes", None)
    needed = ("observations", "actions", "rewards", "terminated", "size")
    if not isinstance(episodes, Sequence) or not all(hasattr(each, name) for each in episodes for name in needed):
        raise AdapterError(
            "expected a d3rlpy replay buffer, an object with d3rlpy's `episodes`, or an upweight Dataset, "
            f"found {type(source).__name__}"
        )
    if not episodes:
        raise AdapterError("expected a replay buffer with at least one episode, found none")
    return list(episodes)


def _check_episode(episode: Any, number: int, first: Any) -> None:
    """Refuse episodes that d3rlpy would accept and then fail on, or read wrongly without an error."""
    size, parts = episode.size(), _parts(episode)
    fits = episode.actions.ndim == 2 and episode.rewards.shape == (size, 1)
    if size < 1 or not fits or not all(part.ndim > 1 and len(part) >= size for part in parts):
        raise AdapterError(
            f"episode {number}: expected n >= 1 steps with observations [n, ...], actions [n, A] and rewards [n, 1], "
            f"found {', '.join(str(part.shape) for part in parts)}, {episode.actions.shape} and {episode.rewards.shape}"
        )
    shapes, expected = ([part.shape[1:] for part in _parts(each)] for each in (episode, first))
    if shapes != expected or episode.actions.shape[1] != first.actions.shape[1]:
        raise AdapterError(
            f"episode {number}: expected observations {expected} and actions {first.actions.shape[1:]} as in episode 0, "
            f"found {shapes} and {episode.actions.shape[1:]}"
        )


def _parts(episode: Any) -> Sequence[NDArray[Any]]:
    """The arrays [n, ...] of an episode's observations: one, or those of a tuple."""
    observations = episode.observations
    return [observations] if isinstance(observations, np.ndarray) else observations


def _rows_of(episodes: Sequence[Any], number: int, rows: NDArray[np.int64]) -> NDArray[Any]:
    """[K, ...] observations of one episode; the parts of a tuple lie flat, side by side."""
    parts = [part[rows] for part in _parts(episodes[number])]
    return parts[0] if len(parts) == 1 else np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


def _warn_of_other_counts(source: Any, dataset: Dataset) -> None:
    """A full FIFO buffer counts only part of its oldest episode; one made of the same episode twice lists it once."""
    counted, listed = getattr(source, "transition_count", None), int(dataset.num_transitions.sum())
    if counted is not None and counted != listed:
        warnings.warn(
            f"{dataset.source} counts {counted} transitions, but its episodes have {listed}: "
            "draws come from all steps of each listed episode",
            UpweightWarning,
            stacklevel=4,
        )


# ---- actions ------------------------------------------------------------------------------------------------------------
def actions_of(source: Any, dataset: Dataset, space: Any = None, size: int | None = None) -> tuple[Any, int]:
    """The kind and number of actions: as given, else what ``source`` says, else what those of ``dataset`` [M, A] look like."""
    spaces = require("d3rlpy.constants", **_NEEDED).ActionSpace
    known = getattr(source, "dataset_info", None)
    if space is None:
        space = known.action_space if known else spaces[_apparent_space(source, dataset)]
    if size is None and known and known.action_space == space:
        size = known.action_size
    if size is None and isinstance(source, Dataset):
        size = source.num_actions
    if space == spaces.DISCRETE:
        return space, _number_of_choices(dataset.actions, size)
    if space != spaces.CONTINUOUS:
        raise AdapterError(f"expected ActionSpace.CONTINUOUS or ActionSpace.DISCRETE as action_space, found {space!r}")
    (width,) = dataset.action_shape
    if size not in (None, width):
        raise AdapterError(f"expected continuous actions of size {size}, found {width} numbers per action")
    return space, width


def _apparent_space(source: Any, dataset: Dataset) -> str:
    """Our datasets tell by the dtype; d3rlpy's episodes may hold choices as floats."""
    discrete = source.discrete_actions if isinstance(source, Dataset) else _are_whole(dataset.actions)
    return "DISCRETE" if discrete else "CONTINUOUS"


def _are_whole(actions: NDArray[Any]) -> bool:
    return actions.dtype.kind in "biu" or bool((actions == np.floor(actions)).all())


def _number_of_choices(actions: NDArray[Any], size: int | None) -> int:
    if actions.shape[1] != 1 or not _are_whole(actions) or actions.min() < 0:
        raise AdapterError(
            f"expected discrete actions as whole numbers from 0 [n, 1], found {actions.dtype} with {actions.shape[1]} "
            f"numbers per action, the lowest {actions.min()}; if they are continuous (d3rlpy judges by the first "
            "episode alone), pass action_space=ActionSpace.CONTINUOUS"
        )
    seen = int(actions.max()) + 1
    if size is not None and size < seen:
        raise AdapterError(f"expected {size} discrete actions (action_size), found action {seen - 1} in the data")
    return seen if size is None else size


IN_MEMORY = Format(
    name="d3rlpy",
    description="a replay buffer of d3rlpy",
    recognises=partial(comes_from, library="d3rlpy"),
    read=read,
)
