"""Pieces of episodes: found by what they share with the next one, and joined.

A piece ends without a terminal state, and the episode after it begins where it stopped. That is the observation after its last
step or, where that is not stored, the one of its last row, which then stands there twice. Pieces that share no observation cannot
be told from episodes.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.columns import GatheredColumn
from upweight.data.segment import Episodes

if TYPE_CHECKING:
    from upweight.data.dataset import Dataset

_LOOKED_AT = 1000  # episodes, evenly spaced
_MOST_NUMBERS = 10_000_000  # read at a time
_FEWEST, _TIMES = 2, 10  # episodes that go on; times as many as stop where they began themselves

Index = NDArray[np.int64]


def pieces_note(dataset: "Dataset") -> str | None:
    """What to say where episodes go on in the next one."""
    candidates = _candidates(dataset)
    some = candidates[np.linspace(0, len(candidates) - 1, min(len(candidates), _LOOKED_AT)).astype(np.int64)]
    if (going_on := _going_on(dataset, some)) is None:
        return None
    return (
        f"{len(going_on):,} of {len(some):,} truncated episodes go on in the next one, which begins where they stopped. They are "
        "pieces, and the return of a piece says little of how good its episode was. Join them: join=True (--join)"
    )


def join_pieces(dataset: "Dataset") -> "Dataset":
    """The same steps in whole episodes; of an observation that stands there twice, the first row is left out."""
    going_on = _going_on(dataset, _candidates(dataset))
    if going_on is None:
        raise DatasetError(
            f"{dataset.source}: join: expected truncated episodes that stop at the observation with which the next one begins, "
            "found none; leave join out"
        )
    episodes = dataset.episodes
    repeats = going_on[~_is_after(dataset)[going_on]]
    lengths = episodes.lengths.copy()
    lengths[repeats] -= 1
    last = np.setdiff1d(np.arange(len(episodes)), going_on)  # [K] the last piece of each episode
    first = np.append(0, last[:-1] + 1)
    whole = Episodes(
        np.add.reduceat(lengths, first),
        episodes.terminated[last],
        episodes.truncated[last],
        episodes.complete[last],
        episodes.final_known[last],
    )
    columns = {name: column for name, column in dataset.columns.items() if name != "flags"}
    if len(repeats):
        kept = np.setdiff1d(np.arange(dataset.num_steps), episodes.last_steps[repeats])
        columns = {name: GatheredColumn(column, kept) for name, column in columns.items()}
    labels = None if dataset.labels is None else dataset.labels[first]
    return replace(dataset, episodes=whole, columns=columns, labels=labels, _returns=None, _initial_observations=None)


def _candidates(dataset: "Dataset") -> Index:
    """Episodes that did not terminate, and have one after them of the same label."""
    open_ended = ~dataset.episodes.terminated[:-1]
    if dataset.labels is not None:
        open_ended &= dataset.labels[:-1] == dataset.labels[1:]
    return np.flatnonzero(open_ended)


def _is_after(dataset: "Dataset") -> NDArray[np.bool_]:
    """[N] whether the observation after an episode's last step is known."""
    return dataset.episodes.final_known & ("next_observations" in dataset.columns)


def _going_on(dataset: "Dataset", candidates: Index) -> Index | None:
    """Those of ``candidates`` that stop where the next one begins; None if they are few, or it shows that this means nothing.

    It means nothing where as many come back to where they began, or where episodes go on after terminal states: then the next
    observations were moved up by one row.
    """
    ended = np.flatnonzero(dataset.episodes.terminated[:-1] & _is_after(dataset)[:-1])[:_LOOKED_AT]
    if 2 * len(_matches(dataset, ended)[0]) > len(ended):
        return None
    size = max(1, int(np.prod(dataset.observation_shape)))
    pieces = np.array_split(candidates, max(1, -(-len(candidates) * size // _MOST_NUMBERS)))
    found, returned = [], 0
    for some in pieces:
        matches, back = _matches(dataset, some)
        found.append(matches)
        returned += back
    going_on = np.concatenate(found)
    return going_on if len(going_on) >= max(_FEWEST, _TIMES * returned) else None


def _matches(dataset: "Dataset", episodes: Index) -> tuple[Index, int]:
    """Those of the ``episodes`` that stop where the next one begins, and how many stop where they began themselves."""
    observations, stops = dataset.columns["observations"], _stops(dataset, episodes)
    begun, begins = (observations.rows(dataset.starts[each]) for each in (episodes, episodes + 1))
    back = _equal(stops, begun)
    return episodes[_equal(stops, begins) & ~back], int(back.sum())


def _stops(dataset: "Dataset", episodes: Index) -> NDArray[np.generic]:
    """[k, ...] the last observation that is known of each of the ``episodes`` [k]."""
    last, after = dataset.episodes.last_steps[episodes], _is_after(dataset)[episodes]
    rows = dataset.columns["observations"].rows(last)
    if after.any():
        rows = rows.copy()
        rows[after] = dataset.columns["next_observations"].rows(last[after])
    return rows


def _equal(one: NDArray[np.generic], other: NDArray[np.generic]) -> NDArray[np.bool_]:
    """[k] of rows [k, ...]."""
    same: NDArray[np.bool_] = (one == other).all(axis=tuple(range(1, one.ndim)))
    return same
