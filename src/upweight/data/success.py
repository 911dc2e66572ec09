r"""Rewards for logs that have none but say which episodes succeeded.

The last step of a successful episode gets 1 and every other step 0, so that :math:`G_i` is 1 or 0. Success is a terminal
state: what comes after is worth nothing, and the last step can be learned from even if the observation after it is unknown.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from upweight.base.errors import DatasetError
from upweight.data.columns import ArrayColumn, Column
from upweight.data.segment import Episodes
from upweight.data.validate import as_array, as_flags

NO_REWARDS = (
    "the dataset has no rewards, so there are no returns to weight by. If flags tell which episodes succeeded, load it with "
    "success=NAME (--success NAME), or use Dataset.with_success. If a number tells how good an episode was, load it with "
    "score=NAME (--score NAME), or use Dataset.with_score"
)


def success_rewards(flags: Any, episodes: Episodes, *, source: str) -> tuple[Episodes, Column]:
    """The episodes with success as their end, and rewards [M].

    ``flags`` are of episodes [N] or of steps [M]; an episode succeeded if one of its steps is flagged.
    """
    shape = as_array(flags, key="success", source=source).shape
    count, steps = len(episodes), episodes.num_steps
    if not shape or shape[0] not in {count, steps}:
        raise DatasetError(
            f"{source}: success: expected a flag for each of {count} episodes or of {steps} steps, found shape {shape}"
        )
    succeeded = as_flags(flags, key="success", source=source)
    if len(succeeded) == steps:  # with one step each, the same
        succeeded = np.logical_or.reduceat(succeeded, episodes.starts)
    rewards = np.zeros(steps, np.float32)
    rewards[episodes.last_steps[succeeded]] = 1.0
    ended = replace(
        episodes,
        terminated=episodes.terminated | succeeded,
        truncated=episodes.truncated & ~succeeded,
        complete=episodes.complete | succeeded,
    )
    return ended, ArrayColumn(rewards)
