r"""Does a policy do what the log shows, better than one that looks at nothing?

With actions scaled to their bounds, -1 and 1, and steps drawn as the policy's training drew them: the error
:math:`E\,\|\pi(s) - a\|^2 / |A|` (|A| dimensions) next to :math:`\min_c E\,\|c - a\|^2 / |A|` of the best constant action; of
discrete actions :math:`P(\pi(s) \ne a)` next to :math:`\min_c P(c \ne a)`. Cloning has failed where the first is not below the
second. Other algorithms may well leave the log, but one whose action is the same everywhere has seen nothing.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import UpweightWarning
from upweight.base.text import number
from upweight.data.dataset import Dataset
from upweight.lab.train.run import Run, weighting_key
from upweight.policies.policy import Policy
from upweight.samplers.episode import EpisodeSampler
from upweight.weightings.weighting import Weighting, resolve_weights

_STEPS = 2_000  # compared, per policy
_NO_BETTER = 0.98  # of the constant's error: sampled errors scatter
_NOTHING = 1e-6  # error of a constant below which the log has one action only
_SAME = 0.01  # standard deviation of a policy's actions, of that of logged ones, that counts as none
_BOUND = 0.99
_SHOWN = 10  # runs in a warning


@dataclass(frozen=True)
class Agreement:
    """How far a policy's actions are from logged ones, next to the best constant action's distance."""

    error: float  # mean squared difference with bounds at -1 and 1, or the share of other actions than the logged
    constant: float  # the same of the best constant action
    same: bool  # whether the policy's action is (almost) the same on all steps
    at_bounds: bool  # whether all of its actions are at the bounds
    held_out: bool  # whether the steps are of episodes that were not learned from
    steps: int

    def summary(self) -> dict[str, Any]:
        """What a record of a point on the way keeps."""
        return {"error": self.error}

    def objection(self, *, clones: bool) -> str | None:
        """What is wrong with the policy, if anything; ``clones`` if its algorithm does nothing but copy the log."""
        if self.constant <= _NOTHING:
            return None
        if self.same:
            return f"takes the same action everywhere{', at the bounds' if self.at_bounds else ''}"
        if clones and self.error >= _NO_BETTER * self.constant:
            return (
                f"copies {'held-out episodes' if self.held_out else 'the log'} no better than the best constant action, or by "
                f"less than {1 - _NO_BETTER:.0%}"
            )
        return None


class HeldOut(NamedTuple):
    """Episodes that a run does not learn from."""

    episodes: NDArray[np.int64]  # [K] in order
    weights: NDArray[np.float64]  # [K] up to a factor


class Comparison:
    """Compares policies with the log that they learn from, or with the episodes that are held out from them.

    Steps are drawn when it is made, before the training, so that a weighting that does not fit shows in time.
    """

    def __init__(self, dataset: Dataset, runs: Sequence[Run], held: Sequence[HeldOut | None] | None = None) -> None:
        self._data, self._runs = dataset, runs
        self._held = [None] * len(runs) if held is None else held
        drawn: dict[Any, NDArray[np.int64]] = {}  # by what decides how
        self._steps = []
        for run, kept_back in zip(runs, self._held, strict=True):
            weighting = run.weighting if run.actor_weighting is None else run.actor_weighting
            own = run.index(dataset)
            episodes, weights = (own, weighting) if kept_back is None else kept_back
            key = (weighting_key(weights), None if episodes is None else episodes.tobytes())
            if key not in drawn:
                drawn[key] = weighted_steps(dataset, weights, episodes, _STEPS)
            self._steps.append(drawn[key])

    def play(self, runs: Sequence[int], policies: Sequence[Policy]) -> list[Agreement]:
        """Of a policy of each of some runs, which are named by their numbers."""
        distinct = {id(self._steps[run]): self._steps[run] for run in runs}  # some share them
        rows = {key: logged_rows(self._data, steps) for key, steps in distinct.items()}
        return [
            agreement(policy, *rows[id(self._steps[run])], held_out=self._held[run] is not None)
            for run, policy in zip(runs, policies, strict=True)
        ]

    def agreements(self, policies: Sequence[Policy]) -> list[Agreement]:
        """One for each run; warns of policies that learned nothing."""
        found = self.play(range(len(policies)), policies)
        _warn(self._data.source, self._runs, found)
        return found


def held_out(dataset: Dataset, runs: Sequence[Run], episodes: NDArray[np.int64]) -> list[HeldOut]:
    """The same episodes held out from all runs, with the weights that they have among themselves and those of each run.

    They are equal where none has any, and where weights were given: those are of the others.
    """
    found: dict[Any, HeldOut] = {}
    made = []
    for run in runs:
        weighting, own = run.weighting if run.actor_weighting is None else run.actor_weighting, run.index(dataset)
        key = (weighting_key(weighting), None if own is None else own.tobytes())
        if key not in found:
            found[key] = HeldOut(episodes, _weights_among_all(dataset, weighting, own, episodes))
        made.append(found[key])
    return made


def _weights_among_all(
    dataset: Dataset, weighting: Any, own: NDArray[np.int64] | None, episodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    if isinstance(weighting, Weighting):
        every = np.union1d(np.arange(dataset.num_episodes) if own is None else own, episodes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UpweightWarning)  # said when the training began
            weights = weighting(dataset.subset(every))[np.searchsorted(every, episodes)]
        if (weights * dataset.num_transitions[episodes]).any():
            return weights
    return np.ones(len(episodes))


def weighted_steps(
    data: Dataset, weighting: Any, episodes: NDArray[np.int64] | None, count: int, *, seed: int = 0
) -> NDArray[np.int64]:
    """Steps of the whole dataset, drawn as the weighting draws from the given episodes."""
    part, steps = data, None
    if episodes is not None:
        part, steps = data.subset(episodes), data.episodes.steps_of(episodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpweightWarning)  # said when the training began
        weights = resolve_weights(weighting, part)
    drawn = EpisodeSampler(part, weights).sample(np.random.default_rng(seed), count)
    return drawn if steps is None else steps[drawn]


def logged_rows(data: Dataset, steps: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Observations [n, d] and actions [n, a] of steps."""
    observations, actions = (data.rows(name, steps).reshape(len(steps), -1) for name in ("observations", "actions"))
    return observations, actions


def agreement(policy: Policy, observations: NDArray[Any], logged: NDArray[Any], *, held_out: bool) -> Agreement:
    """Of a policy with the log, whose actions these are at these observations."""
    steps = len(logged)
    actions = policy.act(observations).reshape(steps, -1)
    if policy.is_discrete:
        most = np.unique(logged, return_counts=True)[1].max() / steps
        error, same = float(np.mean(actions != logged)), bool(np.ptp(actions) == 0)
        return Agreement(error, float(1 - most), same, at_bounds=False, held_out=held_out, steps=steps)
    assert policy.action_low is not None and policy.action_high is not None
    middle, half = (policy.action_high + policy.action_low) / 2, (policy.action_high - policy.action_low) / 2
    logged, actions = ((np.asarray(part, np.float64) - middle) / half for part in (logged, actions))
    varies = logged.std(axis=0) > 0
    return Agreement(
        error=float(np.mean((actions - logged) ** 2)),
        constant=float(logged.var(axis=0).mean()),
        same=bool((actions.std(axis=0) <= _SAME * logged.std(axis=0))[varies].all()),
        at_bounds=bool((np.abs(actions) > _BOUND).all()),
        held_out=held_out,
        steps=steps,
    )


def _warn(source: str, runs: Sequence[Run], found: Sequence[Agreement]) -> None:
    """One warning for all policies that learned nothing."""
    failed: dict[str, list[int]] = {}
    for place, (run, each) in enumerate(zip(runs, found, strict=True)):
        if (why := each.objection(clones=not run.method.uses_rewards)) is not None:
            failed.setdefault(f"{run.method.name} {why}", []).append(place)
    if not failed:
        return
    first = found[next(iter(failed.values()))[0]]
    source += " (held-out episodes)" if first.held_out else ""
    parts = [f"{what} (run{'s' if len(places) > 1 else ''} {_some(places)})" for what, places in failed.items()]
    lesson = (
        "learned nothing that holds in other episodes" if first.held_out else "learned nothing from the observations"
    )
    by_heart = " (or too many for so few episodes, which are known by heart then)" if first.held_out else ""
    warnings.warn(
        f"{source}: trained policies {lesson}: {'; '.join(parts)}. The first has an error of {number(first.error)}, the best "
        f"constant action {number(first.constant)}. Usual reasons: observations far from unit scale (normalize_observations), "
        f"too few updates{by_heart}, or a log whose actions do not depend on what was observed",
        UpweightWarning,
        stacklevel=5,
    )


def _some(places: Sequence[int]) -> str:
    return ", ".join(map(str, places[:_SHOWN])) + (f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else "")
