"""What the ends of episodes may hide: outcomes that nothing is learned from, time limits that were taken for ends."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from upweight.data.dataset import Dataset

_MUCH = 0.5  # of all rewards


def _share_of_last(dataset: "Dataset", episodes: NDArray[np.bool_]) -> float:
    """How much of the rewards' sum the last steps of these ``episodes`` [N] have, by absolute values; between 0 and 1."""
    last = np.abs(dataset._rows("rewards", dataset.episodes.last_steps[episodes]).astype(np.float64)).sum()
    return float(last / max(last, np.abs(dataset.returns).sum(), np.finfo(np.float64).tiny))


def lost_rewards_note(dataset: "Dataset") -> str | None:
    """What to say where most rewards are of last steps that no sampler draws."""
    cut = dataset.num_transitions < dataset.lengths
    if not dataset.has_rewards or (share := _share_of_last(dataset, cut)) <= _MUCH:
        return None
    return (
        f"{dataset.source}: {share:.0%} of the rewards are of the last steps of {int(cut.sum()):,} episodes that were truncated "
        "there. The observation after those is not known, so that nothing is learned from them. If such an episode is over, it "
        "terminated (ends='terminated', --ends terminated); if it went on unseen, move its reward to the row before"
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
