"""Propose a weighting, and say why in words.

The rule, in short. Start from return-weighting at the paper's temperature 0.1. Move to another temperature only if the
lower end of the Hoeffding interval around the weighted return is clearly higher there: too cold leaves too few
episodes, too warm keeps the poor ones. Take advantage-weighting where the initial state explains a real share of the
returns. Then ask whether the gain is worth it at all; if not, propose uniform sampling.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import UpweightWarning
from upweight.base.text import number
from upweight.data.baseline import LinearBaseline
from upweight.data.dataset import Dataset
from upweight.data.reference_scores import ReferenceScores, normalize_returns, reference_scores
from upweight.data.statistics import effective_episodes, hoeffding_radius, positive_sided_variance, weighted_return
from upweight.inspection.effect import describe_weighting
from upweight.weightings.advantage_weighting import AdvantageWeighting
from upweight.weightings.return_weighting import ReturnWeighting
from upweight.weightings.uniform import Uniform
from upweight.weightings.weighting import Weighting

PAPER_TEMPERATURE = 0.1
_TEMPERATURES = (0.05, 0.1, 0.2, 0.5, 1.0)
_CLEARLY_BETTER = 0.05  # of the range of returns
_EXPLAINED_SHARE = 0.1  # of the variance of returns, by the initial state, from which on AW pays
_MAX_FEATURES = 1000  # beyond that (images) a linear value of the initial state means little
_SMALL_GAIN = 0.05  # of the random-to-expert range if known, else of the mean return
_TINY_RPSV = 1.5e-4  # normalised; the paper's sets below it (random, most expert ones) gained nothing
_GOOD_MEAN = 0.9  # normalised mean return from which on uniform sampling is nearly as good
_FEW_EPISODES = 10.0


@dataclass(frozen=True, repr=False)
class Suggestion:
    """A weighting to take, whether it is likely to help, and the reasons."""

    weighting: Weighting
    helps: bool
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"weighting": self.weighting.to_dict(), "helps": self.helps, "reasons": list(self.reasons)}

    def __str__(self) -> str:
        head = f"Suggestion: {describe_weighting(self.weighting.to_dict())}"
        return "\n".join([head, *(f"  - {reason}" for reason in self.reasons)])

    __repr__ = __str__


def suggest(dataset: Dataset, *, env: str | None = None) -> Suggestion:
    """Propose weighting and temperature; ``env`` (e.g. "hopper") lets returns be judged on D4RL's scale."""
    scores = None if env is None else reference_scores(env)
    usable = dataset.complete & (dataset.num_transitions > 0)
    returns = dataset.returns[usable]
    if len(returns) < 2:
        return Suggestion(Uniform(), False, (f"Only {len(returns)} complete episode(s): there is nothing to compare.",))
    if np.ptp(returns) == 0:
        why = f"All {len(returns)} complete episodes have the same return ({returns[0]:g}): none is better."
        return Suggestion(Uniform(), False, (why,))
    temperature, weights = _choose_temperature(dataset, returns)
    gain_reasons, helps = _judge_gain(returns, weights[usable], scores)
    if not helps:
        return Suggestion(Uniform(), False, tuple(gain_reasons))
    reasons = [*gain_reasons, _temperature_reason(temperature, weights, returns)]
    weighting: Weighting = ReturnWeighting(temperature)
    share = _explained_share(dataset, usable)
    if share is not None and share >= _EXPLAINED_SHARE:
        weighting = AdvantageWeighting(temperature)
        reasons.append(
            f"Where an episode starts explains {share:.0%} of the differences in return, so compare each episode with "
            "what its start let expect (advantage-weighting)."
        )
    if effective_episodes(weights) < _FEW_EPISODES:
        reasons.append(
            f"Careful: only about {_episodes(weights)} in effect; results will depend on "
            "which they are. More good episodes would help more than any setting."
        )
    reasons.append(
        "Where the outcome depends much on luck, high returns are partly luck and the gain above is too rosy."
    )
    return Suggestion(weighting, True, tuple(reasons))


def _choose_temperature(dataset: Dataset, returns: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """The paper's temperature unless another has a clearly higher lower bound on the weighted return."""
    spread = float(np.ptp(returns))
    lower, weights = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpweightWarning)  # incomplete episodes: the report counts them
        for temperature in _TEMPERATURES:
            w = weights[temperature] = ReturnWeighting(temperature)(dataset)
            lower[temperature] = weighted_return(w, dataset.returns) - hoeffding_radius(w, return_range=spread)
    best = max(_TEMPERATURES, key=lambda temperature: lower[temperature])
    if lower[best] <= lower[PAPER_TEMPERATURE] + _CLEARLY_BETTER * spread:
        best = PAPER_TEMPERATURE
    return best, weights[best]


def _judge_gain(
    returns: NDArray[np.float64], weights: NDArray[np.float64], scores: ReferenceScores | None
) -> tuple[list[str], bool]:
    mean, weighted = float(returns.mean()), weighted_return(weights, returns)
    gain = weighted - mean
    above = positive_sided_variance(returns) ** 0.5
    reasons = [
        f"Drawn by weight, the mean return of an episode rises from {mean:.4g} to {weighted:.4g} "
        f"(better episodes stand {above:.3g} above the mean, root mean square over all)."
    ]
    if scores is None:
        helps = gain > _SMALL_GAIN * abs(mean)
        if not helps:
            reasons.append(
                "That is less than 5% of the mean: the episodes are all about as good. Weighting will not help."
            )
        return reasons, helps
    normalised = normalize_returns(returns, scores)
    rpsv, gain = positive_sided_variance(normalised), gain / (scores.expert - scores.random)
    if normalised.mean() >= _GOOD_MEAN:
        reasons.append(
            f"The average episode is already at {normalised.mean():.2f} of expert level: uniform sampling is enough. "
            "Weighting will not help much."
        )
        return reasons, False
    if rpsv < _TINY_RPSV or gain < _SMALL_GAIN:
        reasons.append(
            f"On the random-to-expert scale that is a gain of {gain:.3f} with RPSV {rpsv:.2g}: hardly any episode is "
            "better than the average one. Weighting will not help; data with better episodes would."
        )
        return reasons, False
    reasons.append(f"On the random-to-expert scale that is a gain of {gain:.2f} with RPSV {rpsv:.2g}.")
    return reasons, True


def _temperature_reason(temperature: float, weights: NDArray[np.float64], returns: NDArray[np.float64]) -> str:
    radius = hoeffding_radius(weights, return_range=float(np.ptp(returns)))
    text = (
        f"At temperature {temperature:g} the batch draws on the worth of about {_episodes(weights)}; "
        f"the weighted return is known to within {number(radius)} (95%)."
    )
    if temperature > PAPER_TEMPERATURE:
        return text + " A lower temperature would lean on too few episodes."
    if temperature < PAPER_TEMPERATURE:
        return text + " A higher one would let the many poor episodes back in."
    return text + " It is the paper's value (0.2 for CQL)."


def _episodes(weights: NDArray[np.float64]) -> str:
    """1 episode, 2 episodes."""
    left = round(effective_episodes(weights))
    return f"{left:,} episode{'' if left == 1 else 's'}"


def _explained_share(dataset: Dataset, usable: NDArray[np.bool_]) -> float | None:
    """Adjusted R squared of the linear value of the initial state; None if there is too little to fit it."""
    features = int(np.prod(dataset.observation_shape))
    count = int(usable.sum())
    if features > _MAX_FEATURES or count < 10 * (features + 1):
        return None
    returns = dataset.returns[usable]
    residual = returns - LinearBaseline()(dataset.initial_observations[usable], returns)
    return float(1.0 - (residual.var() / returns.var()) * (count - 1) / (count - features - 1))
