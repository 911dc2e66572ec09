"""What the ends of episodes may hide: outcomes that nothing is learned from, time limits that were taken for ends."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.segment import Episodes

if TYPE_CHECKING:
    from upweight.data.dataset import Dataset

_MUCH = 0.5  # of all rewards
_LOOKED_AT = 1000  # episodes, evenly spaced: each may be a page of a file
_NEARLY_ALL = 0.9  # of the episodes that terminated
_NEAR, _LONG = 0.9, 50  # of the longest length; steps of it
_FEWEST = 20  # episodes at a limit: fewer may be chance
_PILE = 10  # times as many as end shortly before
_TINY = float(np.finfo(np.float64).tiny)


def _share_of_last(dataset: "Dataset", episodes: NDArray[np.bool_]) -> float:
    """How much of the rewards of these ``episodes`` [N] is of their last steps, by absolute values, as some of them show."""
    chosen = np.flatnonzero(episodes)
    some = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), _LOOKED_AT)).astype(np.int64)]
    last = float(np.abs(dataset.rows("rewards", dataset.episodes.last_steps[some]).astype(np.float64)).sum())
    return last / max(last, float(np.abs(dataset.returns[some]).sum()), _TINY)


def lost_rewards_note(dataset: "Dataset") -> str | None:
    """What to say where most rewards are of last steps that no sampler draws."""
    cut = dataset.num_transitions < dataset.lengths
    if not dataset.has_rewards or not cut.any():
        return None
    sizes = np.abs(dataset.returns)
    share = _share_of_last(dataset, cut) * float(sizes[cut].sum()) / max(float(sizes.sum()), _TINY)
    if share <= _MUCH:
        return None
    return (
        f"{share:.0%} of the rewards are of the last steps of {int(cut.sum()):,} episodes that were truncated there. The "
        "observation after those is not known, so that nothing is learned from them. If such an episode is over, it terminated: "
        "flag it so (where a log has no flags, ends='terminated', --ends terminated). If it went on unseen, move its reward to "
        "the row before"
    )


def cut_short_note(dataset: "Dataset") -> str | None:
    """What to say where complete episodes were truncated before the time limit that the metadata name."""
    limit = dataset.metadata.get("time_limit")
    if not isinstance(limit, int):
        return None
    count = int((dataset.episodes.truncated & dataset.complete & (dataset.lengths < limit)).sum())
    if count == 0:
        return None
    return (
        f"{count:,} episodes were truncated before the environment's time limit of {limit:,} steps. If their "
        f"recording stopped there, their returns are not whole: load the data with horizon={limit} (--horizon {limit}). If "
        "they were over, all is well"
    )


def time_limit_note(dataset: "Dataset") -> str | None:
    """What to say where terminal states pile up at the longest length; not where an episode's outcome comes last."""
    episodes, longest = dataset.episodes, int(dataset.lengths.max())
    at_limit = episodes.lengths == longest
    stopped, ended = episodes.terminated & at_limit, dataset.lengths[episodes.terminated]
    if not dataset.has_rewards or longest == 1 or (episodes.truncated & at_limit).any() or not _is_pile(ended, longest):
        return None
    if _share_of_last(dataset, stopped) > _MUCH:
        return None
    return (
        f"{int(stopped.sum()):,} of {len(ended):,} terminal states come after exactly {longest:,} steps, the longest that there "
        "are: a time limit? What comes after a terminal state is worth nothing, so algorithms with critics learn wrong values. "
        "If the episodes were only stopped there, read the data with ends='truncated' (--ends truncated)"
    )


def _is_pile(ended: NDArray[np.int64], longest: int) -> bool:
    """Whether of the lengths [K] of episodes that terminated nearly all are the longest, or far more than are nearly so."""
    count = int((ended == longest).sum())
    nearly = int(((ended > _NEAR * longest) & (ended < longest)).sum())
    return count >= max(_FEWEST, _NEARLY_ALL * len(ended)) or (
        longest >= _LONG and count >= max(_FEWEST, _PILE * nearly)
    )


def as_time_limits(episodes: Episodes, *, source: str) -> Episodes:
    """The episodes that terminated after the longest length, as truncated there; refused where others terminated only."""
    longest = int(episodes.lengths.max())
    stopped = episodes.terminated & (episodes.lengths == longest)
    if episodes.terminated.any() and not stopped.any():
        raise DatasetError(
            f"{source}: ends='truncated' (--ends truncated) takes terminal states after the longest length for time limits, but "
            f"all {int(episodes.terminated.sum()):,} of these data come before {longest:,} steps; leave it out"
        )
    return replace(episodes, terminated=episodes.terminated & ~stopped, truncated=episodes.truncated | stopped)
