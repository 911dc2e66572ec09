"""Returns that are no outcomes: one that stands in every row, and one that only tells how long was recorded."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from upweight.data.statistics import mean_ranks

if TYPE_CHECKING:
    from upweight.data.dataset import Dataset

_LOOKED_AT, _LONGEST = 1000, 1000  # episodes, evenly spaced, and steps of each
_FEWEST = 20  # episodes that tell
_ALIKE = 0.95  # rank correlation
_CONSTANT = 0.1  # spread of the mean rewards, of their size
_MOST = 0.9  # of the shorter episodes


def repeated_outcome_note(dataset: "Dataset") -> str | None:
    """What to say where each episode has one reward in all its rows, and not all the same; only where lengths differ."""
    long = np.flatnonzero(dataset.lengths > 1)
    if not dataset.has_rewards or len(long) < _FEWEST or len(np.unique(dataset.lengths[long])) == 1:
        return None
    chosen = long[np.linspace(0, len(long) - 1, min(len(long), _LOOKED_AT)).astype(np.int64)]
    lengths = np.minimum(dataset.lengths[chosen], _LONGEST)
    firsts = np.cumsum(lengths) - lengths
    rewards = dataset.rows("rewards", np.repeat(dataset.starts[chosen] - firsts, lengths) + np.arange(lengths.sum()))
    outcomes = rewards[firsts]
    if len(np.unique(outcomes)) == 1 or (rewards != np.repeat(outcomes, lengths)).any():
        return None
    return (
        "All rows of an episode have the same reward, and episodes differ in it: an outcome that is repeated in every row? Added "
        "up, it counts as often as the episode has rows. To count it once, read the data with score='last_reward' "
        "(--score last_reward)"
    )


def length_note(dataset: "Dataset") -> str | None:
    """What to say where returns follow nothing but how long was recorded; not where terminal states end episodes."""
    if not dataset.has_rewards:
        return None
    whole = dataset.complete
    lengths, returns = dataset.lengths[whole], dataset.returns[whole]
    shorter = lengths < lengths.max(initial=0)
    if shorter.sum() < max(_FEWEST, len(lengths) / 2) or dataset.episodes.truncated[whole][shorter].mean() < _MOST:
        return None
    means: NDArray[np.float64] = returns / lengths
    if means.std() > _CONSTANT * abs(means.mean()) or np.ptp(returns) == 0:
        return None
    if abs(float(np.corrcoef(mean_ranks(returns), mean_ranks(lengths))[0, 1])) < _ALIKE:
        return None
    return (
        "Returns only tell how long was recorded: episodes were truncated after different numbers of steps, and all have a mean "
        f"reward per step of about {means.mean():.3g}. Weights by return would follow the length. To compare mean rewards, read "
        "the data with score='mean_reward' (--score mean_reward)"
    )


def one_step_note(dataset: "Dataset") -> str | None:
    """What to say of episodes of a single step."""
    share = float(np.mean(dataset.lengths == 1))
    if dataset.num_episodes < _FEWEST or share < _MOST:
        return None
    return (
        f"{share:.0%} of the episodes have one step: these are single decisions, as of a contextual bandit. RW and AW weigh each "
        "decision by its own outcome, and AW compares it with others in like situations. Critics have nothing to look ahead to: "
        "they only predict the reward. If steps belong together, say which do, with one id per episode"
    )
