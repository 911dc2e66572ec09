r"""Whether good episodes act otherwise than poor ones at like observations, or were only lucky.

Good episodes see other observations than poor ones, even by luck, so the question is about actions where both are seen. With
actions :math:`a_t`, their mean :math:`m(s)`, the episode's return :math:`y_i` and its mean :math:`p(s)`, the sum

.. math:: S_j = \sum_i X_{ij}, \qquad X_{ij} = \sum_t (a_t - m(s_t)) \, \varphi_j(s_t) \, (y_i - p(s_t))

has mean 0 if actions depend on the observation alone, even where one of m and p is only roughly known (the generalised
covariance measure of Shah and Peters). The test adds up :math:`S_j^2 / \sum_i X_{ij}^2` over features j. It compares the sum with
those when the signs of whole episodes are drawn at random.

m is a ridge regression on squares and products, fitted to other episodes. p is one as well, and then the mean of the nearest
neighbours in other episodes. Steps whose neighbours are all of their own kind count nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from upweight.base.text import number
from upweight.data.dataset import Dataset

_SURE, _UNSURE = 0.05, 0.2  # p up to which actions differ, and up to which they may
FEWEST = 8  # good episodes, and poor ones, that are compared
_FEWEST_SHARED = 6  # episodes of which observations are like the other kind's: with fewer, no p is below 5%
_STEPS = 8000  # looked at
_BEGINNING = 30  # steps of an episode, which every episode passes: half of those looked at
_MAX_FEATURES = 1000  # of an observation; more are an image
_MAX_DIRECTIONS, _MAX_SQUARED = 60, 14  # of observations that are used, and up to which products are
_PRODUCTS = 6  # directions of observations that actions are multiplied by
_MAX_CODES = 16  # discrete actions, the most frequent ones
_FOLDS, _PENALTY = 5, 0.01  # of the number of steps
_NEIGHBOURS = 20
_CLIP = 5.0  # standard deviations
_DRAWS = 999  # of signs
_ROUNDING = 1e-9

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True)
class Luck:
    """What the actions of good and of poor episodes say."""

    p_value: float | None  # of no difference; None: could not be checked
    text: str  # the same in words

    @property
    def actions_differ(self) -> bool | None:
        """Whether good episodes act otherwise; None: the data cannot tell."""
        if self.p_value is None or _SURE < self.p_value <= _UNSURE:
            return None
        return self.p_value <= _SURE


def look_at_luck(dataset: Dataset, values: Floats | None = None, *, seed: int = 0) -> Luck:
    """Compare the actions of episodes above the middle of the returns' range with the others' (eight episodes or more each).

    ``values`` [K] of the complete episodes stand for their returns, as advantages do.

    Reads at most 8,000 steps. Observations must say all that the policies went by: a policy with a memory, or one that is told
    more, may look as if it acted otherwise.
    """
    usable = np.flatnonzero(dataset.complete & (dataset.num_transitions > 0))
    features = int(np.prod(dataset.observation_shape, dtype=object))
    if features > _MAX_FEATURES:
        return _unchecked(f"observations have {features:,} numbers")
    values = dataset.returns[usable] if values is None else values
    least = _least_good_return(values)
    if least is None:
        return _unchecked(f"it takes {FEWEST} episodes that are better than {FEWEST} others")
    rng = np.random.default_rng(seed)
    good = values >= least
    episodes, steps = (
        np.concatenate(both)
        for both in zip(*(_some_steps(dataset, group, rng) for group in (usable[good], usable[~good])), strict=True)
    )
    order = np.argsort(steps)
    episodes, steps = episodes[order], steps[order]
    every = np.full(dataset.num_episodes, np.nan)
    every[usable] = values
    own = every[episodes]
    observed, acted = _observations(dataset, steps), _actions(dataset, steps)
    if not (np.isfinite(observed).all() and np.isfinite(acted).all()):
        return _unchecked("observations or actions are missing or infinite in some steps")
    per_episode = _sums(observed, acted, own, own >= least, episodes, rng)
    if len(per_episode) < _FEWEST_SHARED:
        return _unchecked("good and poor episodes are hardly ever seen at like observations")
    p_value = _random_signs(per_episode, rng)
    which = f"the {int(good.sum()):,} episodes with returns from {number(least)} up"
    if p_value <= _SURE:
        return Luck(p_value, f"At like observations, {which} act otherwise than the rest (p = {p_value:.2g}).")
    if p_value <= _UNSURE:
        return Luck(
            p_value, f"At like observations, {which} may act otherwise than the rest, or not (p = {p_value:.2g})."
        )
    return Luck(
        p_value,
        f"At like observations, {which} act like the rest, as far as these data show (p = {p_value:.2g}). Their returns may be "
        "luck, which cannot be copied.",
    )


def _unchecked(why: str) -> Luck:
    return Luck(None, f"Whether returns are luck could not be checked: {why}.")


def _least_good_return(returns: Floats) -> float | None:
    """The lowest return [N] above the middle of the range, moved until enough episodes are on both sides."""
    values = np.sort(returns)
    if len(values) < 2 * FEWEST:
        return None
    above = values[values > (values[0] / 2 + values[-1] / 2)]
    least = min(above[0], values[-FEWEST]) if len(above) else values[-1]
    if least <= values[FEWEST - 1]:
        higher = values[values > values[FEWEST - 1]]
        least = higher[0] if len(higher) else values[-1]
    enough = FEWEST <= (values >= least).sum() <= len(values) - FEWEST
    return float(least) if enough else None


def _some_steps(dataset: Dataset, chosen: Index, rng: np.random.Generator) -> tuple[Index, Index]:
    """Episodes and steps [n] of ``chosen`` episodes, half of them from beginnings; at most half of all that are looked at."""
    sizes = dataset.num_transitions[chosen]
    begun = np.minimum(sizes, _BEGINNING)
    later, most = int((sizes - begun).sum()), _STEPS // 2
    early = min(int(begun.sum()), max(most // 2, most - later))
    found = []
    for counts, offsets, take in ((begun, 0, early), (sizes - begun, begun, min(later, most - early))):
        ends = np.cumsum(counts)
        drawn = rng.choice(int(ends[-1]), take, replace=False)
        place = np.searchsorted(ends, drawn, side="right")
        first = dataset.starts[chosen] + offsets - (ends - counts)
        found.append((chosen[place], first[place] + drawn))
    episodes, steps = (np.concatenate(each) for each in zip(*found, strict=True))
    return episodes, steps


def _observations(dataset: Dataset, steps: Index) -> Floats:
    """[n, d] standardised, and clipped; of many numbers, the main directions."""
    rows = dataset.columns["observations"].rows(steps).reshape(len(steps), -1).astype(np.float64)
    values = np.clip(_standardised(rows), -_CLIP, _CLIP)
    if values.shape[1] <= _MAX_DIRECTIONS:
        return values
    return _standardised(values @ _directions(values, _MAX_DIRECTIONS))


def _actions(dataset: Dataset, steps: Index) -> Floats:
    """[n, k] standardised; discrete ones as columns of 0 and 1, but for the most frequent one."""
    rows = dataset.columns["actions"].rows(steps).reshape(len(steps), -1)
    if not dataset.discrete_actions:
        return _standardised(rows.astype(np.float64))
    columns = []
    for column in rows.T:
        codes, counts = np.unique(column, return_counts=True)
        columns += [column == code for code in codes[np.argsort(-counts)][1:_MAX_CODES]]
    return _standardised(np.array(columns, np.float64).reshape(len(columns), len(rows)).T)


def _standardised(rows: Floats) -> Floats:
    """Without the columns that are constant."""
    scale = np.abs(rows).max(axis=0)
    moving = rows.std(axis=0) > _ROUNDING * np.where(scale > 0, scale, 1.0)
    kept = rows[:, moving]
    standard: Floats = (kept - kept.mean(axis=0)) / kept.std(axis=0)
    return standard


def _directions(values: Floats, count: int) -> Floats:
    """[d, count] in which ``values`` [n, d] vary most."""
    vectors: Floats = np.linalg.eigh(values.T @ values)[1][:, ::-1][:, :count]
    return vectors


def _sums(
    observed: Floats, actions: Floats, values: Floats, is_good: Bools, episodes: Index, rng: np.random.Generator
) -> Floats:
    """[K, features] the sums of each episode, scaled to squares that add up to 1; without episodes that say nothing."""
    ids, place = np.unique(episodes, return_inverse=True)
    features = np.ones((len(observed), 1))
    both = np.column_stack([actions, _clipped(values)])
    residuals = both - both.mean(axis=0)
    unlike = residuals[:, -1]
    if observed.shape[1]:
        main = _standardised(observed @ _directions(observed, _PRODUCTS))
        features = np.column_stack([features, np.clip(main, -_CLIP, _CLIP)])
        fold = rng.permutation(len(ids))[place] % _FOLDS
        residuals = both - _regressed(_squares(observed), both, fold)
        unlike = _unlike_neighbours(observed, residuals[:, -1], is_good, place)
    products = residuals[:, :-1, None] * features[:, None, :] * unlike[:, None, None]  # [n, k, j]
    sums = np.zeros((len(ids), products.shape[1] * products.shape[2]))
    np.add.at(sums, place, products.reshape(len(products), -1))
    scale = np.sqrt((sums**2).sum(axis=0))
    sums = sums[:, scale > _ROUNDING] / scale[scale > _ROUNDING]
    return sums[sums.any(axis=1)]


def _clipped(values: Floats) -> Floats:
    """[n] standardised: one outlier should not speak for all."""
    return np.clip((values - values.mean()) / max(float(values.std()), _ROUNDING), -_CLIP, _CLIP)


def _squares(rows: Floats) -> Floats:
    """[n, .] 1, the columns, their squares, and their products if they are few."""
    if rows.shape[1] > _MAX_SQUARED:
        return np.column_stack([np.ones(len(rows)), rows, rows**2])
    one, other = np.triu_indices(rows.shape[1])
    return np.column_stack([np.ones(len(rows)), rows, rows[:, one] * rows[:, other]])


def _regressed(features: Floats, targets: Floats, fold: Index) -> Floats:
    """[n, k] ridge regression of ``targets``, each fold by the others."""
    values = np.empty_like(targets)
    squares, along = features.T @ features, features.T @ targets
    penalty = _PENALTY * len(features) * np.eye(features.shape[1])
    for mine in (fold == each for each in range(_FOLDS)):
        own = features[mine]
        solved = np.linalg.solve(squares - own.T @ own + penalty, along - own.T @ targets[mine])
        values[mine] = own @ solved
    return values


def _unlike_neighbours(observed: Floats, residual: Floats, is_good: Bools, place: Index) -> Floats:
    """[n] ``residual`` less the mean of its nearest neighbours in other episodes; 0 where all of them are of its kind."""
    count = len(observed)
    nearest = max(1, min(_NEIGHBOURS, count // 10, count - int(np.bincount(place).max())))
    found, block = np.zeros(count), 1000
    points = observed.astype(np.float32)
    squares = (points**2).sum(axis=1)
    for first in range(0, count, block):
        mine = slice(first, first + block)
        distances = squares - 2 * points[mine] @ points.T  # but for what is the same along a row
        distances[place[mine, None] == place] = np.inf
        neighbours = np.argpartition(distances, nearest - 1, axis=1)[:, :nearest]
        alike = (is_good[neighbours] == is_good[mine, None]).all(axis=1)
        found[mine] = np.where(alike, 0.0, residual[mine] - residual[neighbours].mean(axis=1))
    return found


def _random_signs(sums: Floats, rng: np.random.Generator) -> float:
    """p of the sums [K, features], by turning round whole episodes."""
    signs = rng.integers(0, 2, (_DRAWS, len(sums))) * 2.0 - 1.0
    drawn, seen = ((signs @ sums) ** 2).sum(axis=1), float((sums.sum(axis=0) ** 2).sum())
    return float((1 + (drawn >= seen * (1 - _ROUNDING)).sum()) / (1 + _DRAWS))
