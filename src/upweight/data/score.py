"""Rewards from one number per episode: a rating, or how far it got.

The last step gets the whole score as its reward, so that :math:`G_i` is the score, and weightings by return follow it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.columns import ArrayColumn, Column
from upweight.data.segment import Episodes
from upweight.data.validate import as_array

OF_REWARDS = ("mean_reward", "last_reward")  # scores that are made of the rewards


def reward_score(name: str, rewards: NDArray[Any], episodes: Episodes) -> NDArray[Any]:
    """[N] the mean of each episode's rewards [M], or its last."""
    if name == "last_reward":
        return rewards[episodes.last_steps]
    return np.add.reduceat(rewards.astype(np.float64), episodes.starts) / episodes.lengths


def score_rewards(score: Any, episodes: Episodes, *, source: str) -> Column:
    """Rewards [M] from ``score``: numbers of the episodes [N], or of the steps [M], where an episode's last one counts."""
    if isinstance(score, str):
        raise DatasetError(
            f"{source}: score: expected a number per episode, or {' or '.join(map(repr, OF_REWARDS))}, found the name {score!r}; "
            f"a column of that name is read by upweight.load(..., score={score!r}) (--score {score})"
        )
    scores = as_array(score, key="score", source=source)
    count, steps = len(episodes), episodes.num_steps
    if scores.shape == (steps,):
        scores = scores[episodes.last_steps]
    if scores.shape != (count,) or scores.dtype.kind not in "biuf" or not np.isfinite(scores).all():
        raise DatasetError(
            f"{source}: score: expected a finite number for each of {count} episodes or of {steps} steps, "
            f"found {scores.dtype} {scores.shape}{_gaps(scores)}"
        )
    rewards = np.zeros(steps)
    rewards[episodes.last_steps] = scores
    return ArrayColumn(rewards)


def _gaps(scores: NDArray[Any]) -> str:
    missing = int((~np.isfinite(scores)).sum()) if scores.dtype.kind == "f" else 0
    return f" of which {missing} are not finite" if missing else ""
