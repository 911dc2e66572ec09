r"""What a log says of a policy if it says how likely its own choices were: weighted importance sampling.

With the probability :math:`\mu(a|s)` that whoever acted took the logged action (its propensity), step t of episode i has the
ratio :math:`\rho_{i,t} = \prod_{u \le t} \pi(a_{i,u}|s_{i,u}) / \mu(a_{i,u}|s_{i,u})`. An episode that has ended keeps its last
ratio, and has rewards of 0. The estimate is self-normalised at every step:

.. math:: \hat J = \sum_t \gamma^t \sum_i \frac{\rho_{i,t}}{\sum_j \rho_{j,t}} r_{i,t}

It needs no model and is right for many episodes, but few long episodes do as another policy would: see the effective number.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.errors import DatasetError
from upweight.data.dataset import Dataset
from upweight.data.validate import as_episode_index
from upweight.io.loading import load_beside
from upweight.policies.policy import Policy

STEPS = 100_000  # of whole episodes, at which policies are asked
_SUM_SLACK = 1e-3  # by which propensities of one step may miss 1: they are often logged rounded
_BLOCK = 8192  # steps that a policy is asked at a time


@dataclass(frozen=True)
class ImportanceEstimate:
    """Of the return of one policy."""

    value: float | None  # None where no episode does as the policy would, to its end
    effective_episodes: float  # (sum rho)^2 / sum rho^2 of whole episodes' ratios: how many the estimate rests on
    episodes: int  # that were looked at


def as_propensities(values: ArrayLike, dataset: Dataset) -> NDArray[np.float64]:
    """[M] the probability of each logged action, from that, or from those [M, A] of all actions at each step."""
    if not dataset.discrete_actions:
        raise DatasetError(f"{dataset.source}: propensities are for discrete actions, and these are continuous")
    given = np.asarray(values, np.float64)
    actions = dataset.actions.reshape(-1)
    lists_all = given.ndim == 2 and given.shape[1] > 1
    if len(given) != dataset.num_steps or (given.size != dataset.num_steps and not lists_all):
        raise DatasetError(
            f"{dataset.source}: propensities: expected one for each of {dataset.num_steps} steps, or one for each step and "
            f"action, found shape {given.shape}"
        )
    if lists_all:
        if int(actions.max()) >= given.shape[1]:
            raise DatasetError(
                f"{dataset.source}: propensities: expected a column for each of {int(actions.max()) + 1} actions, "
                f"found {given.shape[1]}"
            )
        _refuse(np.abs(given.sum(axis=1) - 1) > _SUM_SLACK, given.sum(axis=1), "that sum to 1", dataset)
        given = np.take_along_axis(given, actions[:, None], axis=1)
    taken = given.reshape(-1)
    _refuse(~(taken > 0), taken, "above 0, as every action that was taken has", dataset)
    _refuse(taken > 1 + _SUM_SLACK, taken, "of at most 1 (probabilities, not their logarithms or inverses)", dataset)
    return np.minimum(taken, 1.0)


def read_propensities(where: str, data: str | os.PathLike[str], **options: Any) -> NDArray[Any]:
    """From a file that ``numpy.save`` wrote (.npy), or from columns of the table that ``data`` are read from with ``options``.

    ``where`` is a column, or what several begin with ("p" for p_0, p_1, ...), one for each action in turn.
    """
    if not where.endswith(".npy"):
        try:
            return load_beside(data, "propensities", where, **options)
        except DatasetError as error:
            expected = "expected columns of the table that the data are read from, or a file (.npy)"
            raise DatasetError(f"propensities {where!r}: {expected}: {error}") from None
    try:
        array = np.load(where, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DatasetError(f"{where}: expected an array that numpy.save wrote (.npy), found none ({error})") from None
    if not isinstance(array, np.ndarray):
        raise DatasetError(f"{where}: expected one array (.npy), found several (.npz)")
    return array


def _refuse(wrong: NDArray[np.bool_], values: NDArray[np.float64], expected: str, dataset: Dataset) -> None:
    if wrong.any():
        first = int(np.argmax(wrong))
        raise DatasetError(
            f"{dataset.source}: propensities: expected numbers {expected}, found {values[first]:g} at step {first} "
            f"({int(wrong.sum()):,} of {len(wrong):,} steps are wrong); correct the log, or leave them out"
        )


def importance_estimates(
    dataset: Dataset,
    episodes: ArrayLike,
    policies: Sequence[Policy],
    propensities: ArrayLike,
    *,
    discount: float = 1.0,
    stochastic: bool = False,
    seed: int = 0,
) -> list[ImportanceEstimate]:
    """Returns of policies over discrete actions, by what the episodes returned; of :func:`as_propensities`.

    ``stochastic`` policies sample their actions; else they take the likeliest, as in an evaluation. Incomplete episodes, whose
    return means nothing, are left out; of very many steps, whole episodes drawn by ``seed`` are looked at.
    """
    behaviour = as_propensities(propensities, dataset)
    chosen = _some_episodes(dataset, episodes, np.random.default_rng(seed))
    chosen = chosen[np.argsort(-dataset.lengths[chosen], kind="stable")]  # the longest first
    steps, lengths = dataset.episodes.steps_of(chosen), dataset.lengths[chosen]
    with np.errstate(divide="ignore"):  # a probability of 0 is one
        ratios = np.stack([np.log(_probabilities(policy, dataset, steps, stochastic)) for policy in policies])
    ratios -= np.log(behaviour[steps])
    values, weights = _weigh(ratios, dataset.rewards[steps].astype(np.float64), lengths, discount)
    found = []
    for value, weight in zip(values, weights, strict=True):
        relative = np.exp(weight - weight.max()) if weight.max() > -np.inf else np.zeros(1)
        effective = relative.sum() ** 2 / max((relative**2).sum(), 1.0)
        found.append(ImportanceEstimate(None if np.isnan(value) else float(value), float(effective), len(chosen)))
    return found


def _some_episodes(dataset: Dataset, episodes: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
    """Those that are complete, as many as have ``STEPS`` steps in all, at least one."""
    chosen = as_episode_index(episodes, num_episodes=dataset.num_episodes, source=dataset.source)
    chosen = chosen[dataset.complete[chosen]]
    if len(chosen) == 0:
        raise DatasetError(
            f"{dataset.source}: importance sampling needs complete episodes, found none among those given"
        )
    if dataset.lengths[chosen].sum() <= STEPS:
        return chosen
    chosen = rng.permutation(chosen)
    return chosen[: max(1, int(np.searchsorted(np.cumsum(dataset.lengths[chosen]), STEPS, side="right")))]


def _probabilities(policy: Policy, dataset: Dataset, steps: NDArray[np.int64], stochastic: bool) -> NDArray[np.float64]:
    """[m] that the policy gives to the logged actions."""
    parts = []
    for first in range(0, len(steps), _BLOCK):
        some = steps[first : first + _BLOCK]
        observations, actions = dataset.observations[some].reshape(len(some), -1), dataset.actions[some].reshape(-1)
        if stochastic:
            parts.append(policy.probabilities(observations)[np.arange(len(some)), actions])
        else:
            parts.append((policy.act(observations) == actions).astype(np.float64))
    return np.concatenate(parts)


def _weigh(
    ratios: NDArray[np.float64], rewards: NDArray[np.float64], lengths: NDArray[np.int64], discount: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Estimates [P] (NaN where all ratios are 0) and log ratios [P, N] of whole episodes, of which the longest comes first.

    ``ratios`` [P, m] are logarithms, of single steps. At each t the episodes that go on are the first ones; the others enter the
    sum of ratios as one number, so that the work grows with the steps.
    """
    starts = np.cumsum(lengths) - lengths
    weights, ended = np.zeros((len(ratios), len(lengths))), np.full(len(ratios), -np.inf)
    values = np.zeros(len(ratios))
    active = len(lengths)
    for step in range(int(lengths[0])):
        going = int(np.searchsorted(-lengths, -step, side="left"))
        ended = np.logaddexp(ended, np.logaddexp.reduce(weights[:, going:active], axis=1, initial=-np.inf))
        active = going
        now = starts[:active] + step
        weights[:, :active] += ratios[:, now]
        total = np.logaddexp(ended, np.logaddexp.reduce(weights[:, :active], axis=1, initial=-np.inf))
        with np.errstate(invalid="ignore"):  # no ratio above 0: nothing is known from here on
            shares = np.exp(weights[:, :active] - total[:, None])
        values += discount**step * shares @ rewards[now]
    return values, weights
