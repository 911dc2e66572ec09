"""Returns that count as 0 and as 1 on D4RL's tasks: random and expert policy.

normalised score = (G - random) / (expert - random). Most papers multiply by 100; this package does not.
"""

import difflib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.errors import DatasetError


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


def reference_scores(env: str) -> ReferenceScores:
    """Reference scores of ``env``: a task ("hopper"), a D4RL dataset ("hopper-medium-v2") or an id ("Hopper-v5").

    They are D4RL's, measured on its environments; for newer versions of a task they are a common yardstick,
    not that version's own random and expert returns.
    """
    name = env.lower().replace("_", "-")
    for task in sorted(D4RL_REFERENCE_SCORES, key=len, reverse=True):
        if name == task or name.startswith(f"{task}-"):
            return D4RL_REFERENCE_SCORES[task]
    near = difflib.get_close_matches(name.split("-")[0], D4RL_REFERENCE_SCORES, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(D4RL_REFERENCE_SCORES)}"
    raise DatasetError(f"no reference scores for {env!r}; {hint}")


def normalize_returns(returns: NDArray[Any] | float, scores: ReferenceScores) -> NDArray[np.float64]:
    """Returns on the scale where a random policy has 0 and an expert 1."""
    return (np.asarray(returns, np.float64) - scores.random) / (scores.expert - scores.random)
