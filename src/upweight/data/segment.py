"""From flags to episodes: the one rule by which a flat log is cut.

::

    step            0  1  2 | 3  4 | 5  6  7 | 8  9
    terminated      .  .  X | .  . | .  .  . | .  .
    truncated       .  .  . | .  X | .  .  X | .  .
                    episode 0  1      2         3: a trailing fragment, incomplete
    can be learned  *  *  * | *  ? | *  *  ? | *  ?

An episode ends at the first step that is terminated or truncated; if both are set, terminated wins.
``*`` has everything a learner needs. ``?`` ends an episode that would have gone on, so it can be learned
from only if the observation after it is known (``final_known``). A fragment without an end flag is kept and
marked incomplete: its steps are real, its return is not.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.columns import read_only

LAST, TERMINATED, TRAINABLE = 1, 2, 4  # bits of a step's flags


@dataclass(frozen=True, eq=False)
class Episodes:
    """Where the N episodes of a flat log lie and how each one ended."""

    lengths: NDArray[np.int64]  # [N] steps, at least 1
    terminated: NDArray[np.bool_]  # [N] ended in a terminal state
    truncated: NDArray[np.bool_]  # [N] ended by a limit; never together with terminated
    complete: NDArray[np.bool_]  # [N] ran from its start to its own end: the return means something
    final_known: NDArray[np.bool_]  # [N] the observation after the last step is known

    def __post_init__(self) -> None:
        for field in fields(self):  # copies: what a caller does with the arrays afterwards changes nothing
            object.__setattr__(self, field.name, read_only(np.array(getattr(self, field.name))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and unpickle through the constructor; NumPy would forget that the arrays are read-only."""
        return Episodes, tuple(getattr(self, field.name) for field in fields(self))

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """[N] index of each episode's first step."""
        return read_only(np.cumsum(self.lengths) - self.lengths)

    @cached_property
    def last_steps(self) -> NDArray[np.int64]:
        """[N] index of each episode's last step."""
        return read_only(np.cumsum(self.lengths) - 1)

    @cached_property
    def num_transitions(self) -> NDArray[np.int64]:
        """[N] steps that can be learned from: all, or all but a last one that leads to an unknown state."""
        return read_only(self.lengths - ~(self.terminated | self.final_known))

    @property
    def num_steps(self) -> int:
        return int(self.lengths.sum())

    def flags(self, first: int, last: int) -> NDArray[np.uint8]:
        """The bits LAST, TERMINATED and TRAINABLE (can be learned from) of each step of episodes ``first`` to ``last``."""
        span = slice(first, last)
        ends = np.cumsum(self.lengths[span])
        flags = np.full(ends[-1], TRAINABLE, np.uint8)
        flags[ends - 1] = (
            LAST + TERMINATED * self.terminated[span] + TRAINABLE * (self.num_transitions[span] == self.lengths[span])
        )
        return flags

    def spans(self, steps: int) -> list[tuple[int, int]]:
        """Ranges of episodes, each closed by the first episode that brings it to so many ``steps``."""
        ends, spans, first = np.cumsum(self.lengths), [], 0
        while first < len(ends):
            before = ends[first] - self.lengths[first]
            last = int(np.searchsorted(ends, min(before + steps, ends[-1]))) + 1
            spans.append((first, last))
            first = last
        return spans

    def take(self, index: NDArray[np.int64]) -> "Episodes":
        """The episodes at ``index``, in that order."""
        return Episodes(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    def steps_of(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Flat step indices of the episodes at ``index``, episode after episode."""
        lengths = self.lengths[index]
        shift = self.starts[index] - (np.cumsum(lengths) - lengths)
        return np.repeat(shift, lengths) + np.arange(lengths.sum())


def join(parts: "list[Episodes]") -> Episodes:
    """The episodes of several logs laid one after the other."""
    names = [field.name for field in fields(Episodes)]
    return Episodes(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def segment(
    terminated: NDArray[np.bool_], truncated: NDArray[np.bool_] | None, *, next_known: bool, source: str
) -> Episodes:
    """Cut a log of M steps at its flags (see the picture above).

    ``next_known``: whether the log holds the observation after every step. ``source`` names the log in errors.
    """
    num_steps = len(terminated)
    if num_steps == 0:
        raise DatasetError(f"{source}: expected at least one step, found none")
    ends = terminated if truncated is None else terminated | truncated
    last_steps = np.flatnonzero(ends)
    if len(last_steps) == 0:
        missing = "no 'truncated' flags ('timeouts') were given" if truncated is None else "no step is truncated"
        raise DatasetError(
            f"{source}: expected at least one episode end, but no step is terminated and {missing}; "
            "mark where episodes end, or the returns mean nothing"
        )
    has_fragment = last_steps[-1] != num_steps - 1
    if has_fragment:
        last_steps = np.append(last_steps, num_steps - 1)
    return Episodes(
        lengths=np.diff(last_steps, prepend=-1),
        terminated=terminated[last_steps],
        truncated=ends[last_steps] & ~terminated[last_steps],
        complete=ends[last_steps],
        final_known=np.full(len(last_steps), next_known),
    )


def segment_by_id(
    episode_ids: NDArray[np.generic],
    terminated: NDArray[np.bool_],
    truncated: NDArray[np.bool_] | None,
    *,
    next_known: bool,
    source: str,
) -> Episodes:
    """Cut a log of M steps where the episode id changes; the flags then say how each episode ended.

    Without ``truncated`` flags an episode that did not terminate is taken as truncated: its id says that it
    ended. With them, an episode whose last step has neither flag is incomplete.
    """
    if len(episode_ids) == 0:
        raise DatasetError(f"{source}: expected at least one step, found none")
    last_steps = np.append(np.flatnonzero(episode_ids[1:] != episode_ids[:-1]), len(episode_ids) - 1)
    if len(np.unique(episode_ids[last_steps])) != len(last_steps):
        raise DatasetError(
            f"{source}: expected the steps of an episode to stand together, "
            "but an episode id comes back after another one; sort by episode and time"
        )
    inside = np.ones(len(episode_ids), bool)
    inside[last_steps] = False
    ends = terminated if truncated is None else terminated | truncated
    if (ends & inside).any():
        step = int(np.flatnonzero(ends & inside)[0])
        raise DatasetError(
            f"{source}: step {step} is flagged as an end, but episode {episode_ids[step]!r} goes on after it; "
            "give the steps after an end a new episode id"
        )
    at_end = terminated[last_steps]
    cut = ~at_end if truncated is None else truncated[last_steps] & ~at_end
    return Episodes(
        lengths=np.diff(last_steps, prepend=-1),
        terminated=at_end,
        truncated=cut,
        complete=at_end | cut,
        final_known=np.full(len(last_steps), next_known),
    )
