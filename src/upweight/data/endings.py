"""What the ends of episodes may hide: outcomes that nothing is learned from, time limits that were taken for ends."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from upweight.data.dataset import Dataset

_MUCH = 0.5  # of all rewards
_LOOKED_AT = 1000  # episodes, evenly spaced: each may be a page of a file
_TINY = float(np.finfo(np.float64).tiny)


def _share_of_last(dataset: "Dataset", episodes: NDArray[np.bool_]) -> float:
    """How much of all rewards is of the last steps of these ``episodes`` [N], by absolute values, as some of them show."""
    sizes = np.abs(dataset.returns)
    chosen = np.flatnonzero(episodes)
    some = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), _LOOKED_AT)).astype(np.int64)]
    last = float(np.abs(dataset.rows("rewards", dataset.episodes.last_steps[some]).astype(np.float64)).sum())
    of_theirs = last / max(last, float(sizes[some].sum()), _TINY)
    return of_theirs * float(sizes[chosen].sum()) / max(float(sizes.sum()), _TINY)


def lost_rewards_note(dataset: "Dataset") -> str | None:
    """What to say where most rewards are of last steps that no sampler draws."""
    cut = dataset.num_transitions < dataset.lengths
    if not dataset.has_rewards or not cut.any() or (share := _share_of_last(dataset, cut)) <= _MUCH:
        return None
    return (
        f"{dataset.source}: {share:.0%} of the rewards are of the last steps of {int(cut.sum()):,} episodes that were truncated "
        "there. The observation after those is not known, so that nothing is learned from them. If such an episode is over, it "
        "terminated (ends='terminated', --ends terminated); if it went on unseen, move its reward to the row before"
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
        f"{dataset.source}: {count:,} episodes were truncated before the environment's time limit of {limit:,} steps. If their "
        f"recording stopped there, their returns are not whole: load the data with horizon={limit} (--horizon {limit}). If "
        "they were over, all is well"
    )


def time_limit_note(dataset: "Dataset") -> str | None:
    """What to say where all episodes that terminated are of one length; not where their outcome comes last."""
    terminated = dataset.episodes.terminated
    ended = dataset.lengths[terminated]
    if len(ended) < 2 or not ended.min() == ended.max() == dataset.lengths.max() > 1:
        return None
    if _share_of_last(dataset, terminated) > _MUCH:
        return None
    return (
        f"{dataset.source}: {len(ended):,} episodes end in a terminal state after exactly {ended[0]:,} steps, the longest that "
        "there are: a time limit? What comes after a terminal state is worth nothing. If the recording only stopped there, say "
        "ends='truncated' (--ends truncated)"
    )
