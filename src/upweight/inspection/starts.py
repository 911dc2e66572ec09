"""How much of the differences in return the initial state explains, and groups of episodes by what their starts predicts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.data.baseline import LinearBaseline, RidgeBaseline, centred_features, triangle
from upweight.data.dataset import Dataset

GROUPS = ("poorest starts", "poorer", "better", "best starts")  # quarters, by expected return
_MAX_FEATURES = 1000  # beyond that (images) a linear value of the initial state means little
_MIN_EPISODES, _MAX_CHECKED = 20, 10_000  # of more, evenly spaced ones are enough to tell
_MUCH = 0.1  # of the variance of returns, from which on AW pays; more where few episodes could show it by chance
_EPISODES_PER_COEFFICIENT = 5  # with fewer, least squares follows too much noise


@dataclass(frozen=True)
class Starts:
    """What the initial states of the K usable episodes say about their returns."""

    explained_share: float | None  # cross-validated R squared; None: could not be checked
    text: str  # the same in words
    baseline: str | None = None  # of the advantage-weighting that pays here, or None if the share is small
    expected: NDArray[np.float64] | None = None  # [K] return that the start lets expect, where it explains much
    groups: NDArray[np.str_] | None = None  # [N] which of GROUPS an episode is in, "" where it has no return


def look_at_starts(dataset: Dataset, usable: NDArray[np.bool_]) -> Starts:
    """Explained share by ridge regression with every episode left out once, which neither noise nor many features raise."""
    count, features = int(usable.sum()), int(np.prod(dataset.observation_shape, dtype=object))
    if features > _MAX_FEATURES:
        return _unchecked(f"initial observations have {features:,} numbers")
    if count < _MIN_EPISODES:
        return _unchecked(f"{count} complete episodes are too few")
    states, returns = dataset.initial_observations[usable], dataset.returns[usable]
    some = slice(None, None, -(-count // _MAX_CHECKED))
    rank = _rank(states[some])
    if rank == 0:
        return Starts(0.0, "All episodes start alike, so their returns can be compared as they are.")
    share = RidgeBaseline().explained_share(states[some], returns[some])
    text = f"Where an episode starts explains {share:.0%} of the differences in return (cross-validated)"
    if share < max(_MUCH, _EPISODES_PER_COEFFICIENT / count):
        return Starts(share, f"{text}: little, so returns can be compared as they are.")
    linear = count >= max(LinearBaseline().needs(dataset.observation_shape), _EPISODES_PER_COEFFICIENT * (rank + 1))
    expected = (LinearBaseline() if linear else RidgeBaseline())(states, returns)
    text += ", so compare each episode with what its start predicts (advantage-weighting)."
    if not linear:
        text += f" {count} episodes are few for {rank} features: by ridge regression."
    return Starts(share, text, "linear" if linear else "ridge", expected, _quarters(usable, expected))


def varying_starts(dataset: Dataset) -> int | None:
    """In how many directions the initial observations differ; None if there are too many features to look."""
    if np.prod(dataset.observation_shape, dtype=object) > _MAX_FEATURES:
        return None
    return _rank(dataset.initial_observations[:: -(-dataset.num_episodes // _MAX_CHECKED)])


def _rank(states: NDArray[Any]) -> int:
    centred, rounding = centred_features(states)
    return int((np.linalg.svd(triangle(centred), compute_uv=False) > rounding).sum())


def _unchecked(why: str) -> Starts:
    text = f"How much the start of an episode explains could not be checked: {why}."
    return Starts(None, f"{text} If starts differ much, return-weighting may pick the easy ones.")


def _quarters(usable: NDArray[np.bool_], expected: NDArray[np.float64]) -> NDArray[np.str_]:
    """[N] name of the quarter of expected returns each episode's start is in."""
    names: NDArray[Any] = np.full(len(usable), "", "U16")
    names[usable] = np.array(GROUPS)[np.searchsorted(np.quantile(expected, [0.25, 0.5, 0.75]), expected)]
    return names
