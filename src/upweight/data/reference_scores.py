"""Returns that count as 0 and as 1, of a random and an expert policy: D4RL's for its tasks, our own for classic control.

normalised score = (G - random) / (expert - random). Most papers multiply by 100; this package does not.
"""

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.names import hint


class ReferenceScores(NamedTuple):
    """Mean return of a random and of an expert policy."""

    random: float
    expert: float


_ANTMAZE, _KITCHEN = ReferenceScores(0.0, 1.0), ReferenceScores(0.0, 4.0)

D4RL_REFERENCE_SCORES: dict[str, ReferenceScores] = {
    "hopper": ReferenceScores(-20.272305, 3234.3),
    "halfcheetah": ReferenceScores(-280.178953, 12135.0),
    "walker2d": ReferenceScores(1.629008, 4592.3),
    "ant": ReferenceScores(-325.6, 3879.7),
    "antmaze": _ANTMAZE,
    "kitchen": _KITCHEN,
    "pen": ReferenceScores(96.262799, 3076.8331),
    "hammer": ReferenceScores(-274.856578, 12794.1348),
    "door": ReferenceScores(-56.512833, 2880.5693),
    "relocate": ReferenceScores(-6.425911, 4233.8778),
    "maze2d-umaze": ReferenceScores(23.85, 161.86),
    "maze2d-medium": ReferenceScores(13.13, 277.39),
    "maze2d-large": ReferenceScores(6.7, 273.99),
}

# Our own, measured in the stochastic environments (``upweight/StochasticCartPole-v1`` and so on): means of 1,000 episodes of
# uniformly random actions and of 300 episodes of our best policy (the ladder's expert) with sampled actions, both with seed 0.
CLASSIC_REFERENCE_SCORES: dict[str, ReferenceScores] = {
    "cartpole": ReferenceScores(22.5, 499.4),
    "acrobot": ReferenceScores(-499.1, -93.5),
    "mountaincar": ReferenceScores(-200.0, -121.7),
}
_PLAUSIBLE_MEAN, _PLAUSIBLE_BEST = (-1.0, 2.5), 4.0  # normalised returns beyond these are of another task or reward
REFERENCE_SCORES = D4RL_REFERENCE_SCORES | CLASSIC_REFERENCE_SCORES


def reference_scores(env: str) -> ReferenceScores:
    """Reference scores of ``env``: a task ("hopper"), a D4RL dataset ("hopper-medium-v2") or an id ("Hopper-v5").

    They are D4RL's, measured on its environments; for newer versions of a task they are a common yardstick,
    not that version's own random and expert returns. Those of "cartpole", "acrobot" and "mountaincar" are our own, measured
    where one action in ten is random ("upweight/StochasticCartPole-v1"), and the yardstick of "CartPole-v1" too.

    Examples:
        >>> uw.reference_scores("hopper")
        ReferenceScores(random=-20.272305, expert=3234.3)
    """
    found = find_reference_scores(env)
    if found is not None:
        return found
    meant = hint(_plain_name(env).split("-")[0], REFERENCE_SCORES, most=2)
    raise DatasetError(f"no reference scores for {env!r}; {meant}")


def find_reference_scores(env: str) -> ReferenceScores | None:
    """Reference scores of ``env``, or None where there are none."""
    name = _plain_name(env)
    for task in sorted(REFERENCE_SCORES, key=len, reverse=True):
        if name == task or name.startswith(f"{task}-"):
            return REFERENCE_SCORES[task]
    return None


def _plain_name(env: str) -> str:
    """Small letters and hyphens, without what our own ids begin with, and without the module that registers an id."""
    if re.search(r"-v\d+$", env):  # module:function is no id
        env = env.rpartition(":")[2]
    return env.lower().replace("_", "-").removeprefix("upweight/").removeprefix("stochastic")


def normalize_returns(returns: NDArray[Any] | float, scores: ReferenceScores) -> NDArray[np.float64]:
    """Returns on the scale where a random policy has 0 and an expert 1.

    Examples:
        >>> uw.normalize_returns([1607.0, 3234.3], uw.reference_scores("hopper")).round(2)
        array([0.5, 1. ])
    """
    return (np.asarray(returns, np.float64) - scores.random) / (scores.expert - scores.random)


def misfit(env: str, returns: NDArray[np.float64]) -> str | None:
    """Why the reference scores of ``env`` do not seem to be for data with these returns; None where they may be."""
    scores = reference_scores(env)
    normalised = normalize_returns(returns, scores)
    mean, best = float(normalised.mean()), float(normalised.max())
    if _PLAUSIBLE_MEAN[0] <= mean <= _PLAUSIBLE_MEAN[1] and best <= _PLAUSIBLE_BEST:
        return None
    return (
        f"The reference scores of {env} (random {scores.random:g}, expert {scores.expert:g}) do not seem to be for this data: "
        f"the mean episode would be at {mean:.3g} times expert level, the best at {best:.3g}. Returns are taken as they are."
    )
