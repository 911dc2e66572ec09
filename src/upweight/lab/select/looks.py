r"""Cheap looks at policies where there is no simulator. None says how good a policy is; each may say not to trust it.

They take a dataset, the episodes to look at (held-out ones, if there are any) and policies, and look at the same steps of those
for all policies: a few thousand, drawn by ``seed``, however large the dataset. Policies act as they are evaluated, without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.errors import DatasetError
from upweight.data.dataset import Dataset
from upweight.data.validate import as_episode_index
from upweight.lab.train.agreement import Agreement, agreement, logged_rows, weighted_steps
from upweight.policies.policy import Policy

STEPS = 10_000  # at which actions are compared
STATES = 2_000  # at which support is looked for
LOGGED = 100_000  # steps of other episodes among which it is
NEIGHBOURS = 20
LEVEL = 0.95  # of held-out logged actions count as supported
_BLOCK = 4096  # logged steps whose distances are computed at a time
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Support:
    r"""Whether the log shows what a policy does. With states standardised, and the k logged steps :math:`(s_j, a_j)` of other
    episodes nearest to a state s, an action a is as far off as

    :math:`D(s, a) = \min_j \|a - a_j\|` in standard deviations of the logged actions,
    :math:`D(s, a) = 1 - \#\{j : a_j = a\} / k` of discrete actions.

    The limit is what 95% of the logged actions at the states looked at keep to: :math:`D(s, a)` of the log, 95th percentile.
    """

    outside: float  # share of states s in which D(s, pi(s)) is beyond the limit
    logged: float  # the same of the logged actions: 0.05, or less where distances are equal
    distance: float  # mean of D(s, pi(s))
    limit: float
    states: int


def action_errors(
    dataset: Dataset,
    episodes: ArrayLike,
    policies: Sequence[Policy],
    *,
    weights: ArrayLike | None = None,
    seed: int = 0,
) -> list[Agreement]:
    """How well policies do what the episodes show; BC on all data among them is what others can be compared with.

    Steps are drawn uniformly, or by the ``weights`` [K] of the K episodes: of discrete actions, ``1 - error`` is then the
    agreement with the log by weight.
    """
    chosen = as_episode_index(episodes, num_episodes=dataset.num_episodes, source=dataset.source)
    if weights is None:
        steps = _some_steps(dataset, chosen, STEPS, np.random.default_rng(seed))
    else:
        steps = weighted_steps(dataset, weights, chosen, STEPS, seed=seed)
    rows = logged_rows(dataset, steps)
    return [agreement(policy, *rows, held_out=True) for policy in policies]


def supports(
    dataset: Dataset,
    episodes: ArrayLike,
    policies: Sequence[Policy],
    *,
    neighbours: int = NEIGHBOURS,
    level: float = LEVEL,
    seed: int = 0,
) -> list[Support]:
    """Whether policies do, in states of the episodes, what the other episodes (or, if these are all, others of them) show."""
    rng = np.random.default_rng(seed)
    chosen = as_episode_index(episodes, num_episodes=dataset.num_episodes, source=dataset.source)
    rest = np.setdiff1d(np.arange(dataset.num_episodes), chosen)
    states = _some_steps(dataset, chosen, STATES, rng)
    logged = _some_steps(dataset, rest if len(rest) else chosen, LOGGED, rng)
    near = logged[_nearest(dataset, states, logged, neighbours)]  # [n, k]
    measure = _Distances(dataset, near, logged)
    seen, taken = logged_rows(dataset, states)
    of_log = measure(taken)
    limit = float(np.quantile(of_log, level, method="higher"))
    found = []
    for policy in policies:
        distances = measure(policy.act(seen))
        outside, as_logged = (float(np.mean(each > limit + _ROUNDING)) for each in (distances, of_log))
        found.append(Support(outside, as_logged, float(distances.mean()), limit, len(states)))
    return found


class _Distances:
    """D(s, a) of actions [n, ...] at n states, by the actions of the ``near`` [n, k] logged steps."""

    def __init__(self, dataset: Dataset, near: NDArray[np.int64], logged: NDArray[np.int64]) -> None:
        self._is_discrete = dataset.discrete_actions
        rows = dataset.rows("actions", logged).reshape(len(logged), -1)
        self._scale = 1.0 if self._is_discrete else _spread(rows)
        self._near = dataset.rows("actions", near.ravel()).reshape(*near.shape, -1)  # [n, k, a]

    def __call__(self, actions: NDArray[Any]) -> NDArray[np.float64]:
        offsets = np.subtract(self._near, actions.reshape(len(actions), 1, -1), dtype=np.float64)
        if self._is_discrete:
            return np.mean(offsets[..., 0] != 0, axis=1)
        return np.sqrt(((offsets / self._scale) ** 2).sum(axis=2)).min(axis=1)


def _spread(rows: NDArray[Any]) -> NDArray[np.float64]:
    """[d] standard deviations; 1 where nothing changes."""
    spread = np.std(rows, axis=0, dtype=np.float64)
    return np.where(spread > 0, spread, 1.0)


def _nearest(dataset: Dataset, states: NDArray[np.int64], logged: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """[n, k] places in ``logged`` of the steps whose states are nearest, of other episodes than the state's own; exact."""
    rows = dataset.rows("observations", logged).reshape(len(logged), -1).astype(np.float64)
    middle, scale = rows.mean(axis=0), _spread(rows)
    rows = (rows - middle) / scale
    wanted = (dataset.rows("observations", states).reshape(len(states), -1) - middle) / scale
    own, of_row = (np.searchsorted(dataset.starts, steps, side="right") - 1 for steps in (states, logged))
    others = len(logged) - np.bincount(of_row, minlength=dataset.num_episodes)[own]  # [n] that each may choose from
    if (count := min(count, int(others.min()))) < 1:
        raise DatasetError(
            f"{dataset.source}: policies are judged by what other episodes did: expected at least two episodes with a "
            "transition, found one; give more of the log"
        )
    nearest = np.full((len(states), count), np.inf)
    places = np.zeros((len(states), count), np.int64)
    for first in range(0, len(rows), _BLOCK):
        part, episodes = rows[first : first + _BLOCK], of_row[first : first + _BLOCK]
        distances = (part**2).sum(axis=1) - 2 * wanted @ part.T  # [n, b], but for the state's own square
        distances[own[:, None] == episodes] = np.inf
        distances = np.concatenate([nearest, distances], axis=1)
        kept = np.argpartition(distances, count - 1, axis=1)[:, :count]
        nearest = np.take_along_axis(distances, kept, axis=1)
        known = np.take_along_axis(places, np.minimum(kept, count - 1), axis=1)
        places = np.where(kept < count, known, first + kept - count)
    return places


def _some_steps(
    dataset: Dataset, episodes: NDArray[np.int64], most: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The steps of episodes that can be learned from, or ``most`` of them without repetition, in order."""
    steps = dataset.episodes.steps_of(episodes)
    steps = steps[dataset.trainable[steps]]
    if len(steps) == 0:
        raise DatasetError(f"{dataset.source}: the episodes to look at have no transition; look at others")
    return steps if len(steps) <= most else np.sort(rng.choice(steps, most, replace=False))
