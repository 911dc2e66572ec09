"""What one weighting does to one dataset, as numbers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError, WeightingError
from upweight.base.text import number, settings_text
from upweight.data.dataset import Dataset
from upweight.data.statistics import (
    early_share,
    effective_episodes,
    effective_steps,
    episode_mass,
    hoeffding_radius,
    mass_per_label,
    step_weighted_return,
    weighted_label_return,
    weighted_return,
)
from upweight.inspection.starts import GROUPS, Starts
from upweight.weightings.weighting import Weighting

_DROPPED = 0.01  # of the steps drawn, which the episodes that count as left out share
_LARGEST = 1e140  # of returns: sums of squares overflow beyond
_OF_THEIR_OWN = 0.1  # of what they would get uniformly: they get less than that too, so that uniform draws drop nothing


@dataclass(frozen=True)
class Effect:
    """The sampling distribution a weighting makes of a dataset."""

    name: str
    weighted_return: float  # sum_i w_i G_i, the paper's J(mu_W)
    weighted_label_return: float | None  # the same with its label's mean for each G_i, where there are several labels
    step_weighted_return: float  # mean return of the episode a drawn step belongs to
    effective_episodes: float
    effective_steps: float
    hoeffding_radius: float  # half-width around weighted_return at the given confidence
    mass_per_label: dict[str, float] | None  # share of drawn steps
    mass_per_start: dict[str, float] | None  # the same by groups of starts, where they explain much of the returns
    dropped_episodes: float  # share of the complete ones that are left out
    early_share: float | None  # of the first 30 steps of episodes that are drawn, those of good episodes


class Good(NamedTuple):
    """The episodes that count as good, and in words why."""

    episodes: NDArray[np.bool_]  # [N]
    text: str


def good_episodes(dataset: Dataset) -> Good | None:
    """Those of the better of two labels, by mean return; without two labels, those above the middle of the returns' range."""
    whole = dataset.complete & (dataset.num_transitions > 0)
    returns = dataset.returns
    if not whole.any() or np.ptp(returns[whole]) == 0:
        return None
    if abs(returns[odd := int(np.argmax(np.where(whole, abs(returns), 0)))]) > _LARGEST:
        raise DatasetError(
            f"{dataset.source}: returns: expected numbers that can be squared, up to {_LARGEST:g}, found {returns[odd]:g} of "
            f"episode {odd}; correct its rewards, or leave it out"
        )
    if dataset.labels is not None and len(names := np.unique(dataset.labels[whole])) == 2:
        best = max(names, key=lambda name: float(returns[whole & (dataset.labels == name)].mean()))
        return Good(whole & (dataset.labels == best), f"label {best}")
    middle = (float(returns[whole].min()) + float(returns[whole].max())) / 2
    return Good(whole & (returns > middle), f"return above {number(middle)}")


def measure_effect(
    name: str, weights: NDArray[np.float64], dataset: Dataset, starts: Starts, good: Good | None, *, confidence: float
) -> Effect:
    """Everything in :class:`Effect` for ``weights`` [N]."""
    whole = dataset.complete  # the return of the others means nothing
    returns, sizes, kept = dataset.returns[whole], dataset.num_transitions, weights[whole]
    usable, mass = whole & (sizes > 0), episode_mass(weights, sizes)
    spread = float(np.ptp(returns))
    labels = None if dataset.labels is None else dataset.labels[whole]
    return Effect(
        name=name,
        weighted_return=weighted_return(kept, returns),
        weighted_label_return=None
        if labels is None or len(set(labels)) == 1
        else weighted_label_return(kept, returns, labels),
        step_weighted_return=step_weighted_return(kept, returns, sizes[whole]),
        effective_episodes=effective_episodes(weights),
        effective_steps=effective_steps(weights, sizes),
        hoeffding_radius=hoeffding_radius(weights, return_range=spread, confidence=confidence),
        mass_per_label=None if dataset.labels is None else mass_per_label(weights, sizes, dataset.labels),
        mass_per_start=mass_per_start(weights, sizes, starts),
        dropped_episodes=_dropped(mass[usable], sizes[usable] / sizes.sum()),
        early_share=None if good is None else early_share(weights, sizes, good.episodes),
    )


def _dropped(drawn: NDArray[np.float64], uniformly: NDArray[np.float64]) -> float:
    """Share of the episodes, those of least weight, that together get under 1% of the steps, and a tenth of that uniformly."""
    order = np.argsort(drawn / uniformly)
    least, own = np.cumsum(drawn[order]), np.cumsum(uniformly[order])
    return float(np.mean(least < np.minimum(_DROPPED, _OF_THEIR_OWN * own)))


def mass_per_start(weights: NDArray[np.float64], sizes: NDArray[np.int64], starts: Starts) -> dict[str, float] | None:
    """Share of drawn steps by groups of starts; None where the starts explain little."""
    if starts.groups is None:
        return None
    known = np.where(starts.groups != "", weights, 0.0)
    shares = mass_per_label(known, sizes, starts.groups)
    return {name: shares[name] for name in GROUPS if name in shares}


def weighting_name(weighting: object) -> str:
    """What a report calls a weighting or an array of weights."""
    if not isinstance(weighting, Weighting):
        return "given weights"
    try:
        return describe_weighting(weighting.to_dict())
    except WeightingError:  # something of the user's own in it
        return f"{weighting.name} (own settings)"


def describe_draws(run: Mapping[str, Any]) -> str:
    """How a run draws, from its description: its weighting and, where that is not all, the actor's, or reweighted losses."""
    drawn, actor = (
        describe_weighting({"name": "?", **each}) if isinstance(each := run.get(key), dict) else ""
        for key in ("weighting", "actor_weighting")
    )
    return (
        (drawn or "-")
        + (f", actor {actor}" if actor else "")
        + (", reweighting" if run.get("reweight") is True else "")
    )


def describe_weighting(description: dict[str, Any]) -> str:
    """A weighting's settings on one line, e.g. ``rw temperature=0.1``."""
    settings = {key: value for key, value in description.items() if key != "name" and value is not None}
    return f"{description['name']} {settings_text(settings)}".strip()
