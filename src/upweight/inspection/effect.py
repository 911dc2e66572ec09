"""What one weighting does to one dataset, as numbers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.text import settings_text
from upweight.data.dataset import Dataset
from upweight.data.statistics import (
    effective_episodes,
    effective_steps,
    hoeffding_radius,
    mass_per_label,
    step_weighted_return,
    weighted_return,
)


@dataclass(frozen=True)
class Effect:
    """The sampling distribution a weighting makes of a dataset."""

    name: str
    weighted_return: float  # sum_i w_i G_i, the paper's J(mu_W)
    step_weighted_return: float  # mean return of the episode a drawn step belongs to
    effective_episodes: float
    effective_steps: float
    hoeffding_radius: float  # half-width around weighted_return at the given confidence
    mass_per_label: dict[str, float] | None  # share of drawn steps


def measure_effect(name: str, weights: NDArray[np.float64], dataset: Dataset, *, confidence: float) -> Effect:
    """Everything in :class:`Effect` for ``weights`` [N]."""
    whole = dataset.complete  # the return of the others means nothing
    returns, sizes, kept = dataset.returns[whole], dataset.num_transitions, weights[whole]
    spread = float(np.ptp(returns))
    return Effect(
        name=name,
        weighted_return=weighted_return(kept, returns),
        step_weighted_return=step_weighted_return(kept, returns, sizes[whole]),
        effective_episodes=effective_episodes(weights),
        effective_steps=effective_steps(weights, sizes),
        hoeffding_radius=hoeffding_radius(weights, return_range=spread, confidence=confidence),
        mass_per_label=None if dataset.labels is None else mass_per_label(weights, sizes, dataset.labels),
    )


def describe_weighting(description: dict[str, Any]) -> str:
    """A weighting's settings on one line, e.g. ``rw temperature=0.1``."""
    settings = {key: value for key, value in description.items() if key != "name" and value is not None}
    return f"{description['name']} {settings_text(settings)}".strip()
