"""The reasons of a suggestion: each has a topic, computed numbers and a sentence or two.

``shown`` reasons matter for these data and stand on the first screen; the others wait under ``--explain``.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from upweight.base.text import number
from upweight.data.dataset import Dataset
from upweight.data.reference_scores import ReferenceScores, normalize_returns
from upweight.data.repetition import FEWEST_STEPS, KEPT, LOST, USUAL_BATCH, updates_text, updates_until
from upweight.data.statistics import (
    effective_steps,
    mass_per_label,
    mean_ranks,
    positive_sided_variance,
    weighted_label_return,
)
from upweight.inspection.choice import PAPER_TEMPERATURE, Choice, Gap
from upweight.inspection.effect import Good, describe_weighting, mass_per_start
from upweight.inspection.learners import Learner
from upweight.inspection.luck import Luck
from upweight.inspection.starts import Starts

_SMALL_GAIN = 0.05  # of the random-to-expert range
_SMALL_GAIN_STD = 0.25  # standard deviations, where that range is not known
_GOOD_MEAN = 0.9  # normalised mean return that counts as about expert level
_NOTHING = 0.0005  # of the steps drawn
_BY_LENGTH, _MIN_EPISODES = 0.5, 20  # rank correlation of lengths and returns worth a word, and of how many episodes
_BETWEEN_LABELS = 0.5  # of the gain: the least that labels' means should explain
_SMALL_DIFFERENCES = 0.1  # range of returns, of their mean, below which the mean is worth a word
_USUAL_UPDATES = 1_000_000


@dataclass(frozen=True)
class Reason:
    """One reason, and whether it belongs on the first screen."""

    topic: str
    text: str
    shown: bool = True


def gain_reason(returns: NDArray[np.float64], chosen: Choice, scores: ReferenceScores | None) -> tuple[bool, Reason]:
    """Whether the gain is worth having, and the evidence."""
    name, mean, drawn = _name(chosen), float(returns.mean()), chosen.weighted_return
    low, high = float(returns.min()), float(returns.max())
    if len(np.unique(returns)) == 2:
        shares = ((value - low) / (high - low) for value in (drawn, mean))
        first, then = (f"{share:.0%}" for share in shares)
        text = f"{first} of the episodes drawn by {name} end at {number(high)}, against {then} of all episodes."
    else:
        text = f"Episodes drawn by {name} return {number(drawn)} on average, against {number(mean)} of all episodes."
    if chosen.weighting.name == "aw":
        text += f" They return {number(chosen.gain)} more than their starts predict."
    worth, judgement = (_in_deviations if scores is None else _on_the_scale)(returns, chosen, scores)
    return worth, Reason("gain", f"{text} {judgement}".strip())


def _in_deviations(returns: NDArray[np.float64], chosen: Choice, _: ReferenceScores | None) -> tuple[bool, str]:
    gain = chosen.gain / chosen.spread if chosen.spread > 0 else 0.0
    if gain < _SMALL_GAIN_STD:
        return False, f"The gain is {gain:.2f} standard deviations: most episodes are about as good as the best."
    if np.ptp(returns) < _SMALL_DIFFERENCES * abs(returns.mean()):
        return True, "All returns are within 10% of each other: only you can say whether that difference matters."
    return True, ""


def _on_the_scale(returns: NDArray[np.float64], chosen: Choice, scores: ReferenceScores | None) -> tuple[bool, str]:
    assert scores is not None
    normalised, gain = normalize_returns(returns, scores), chosen.gain / (scores.expert - scores.random)
    text = f"On the random-to-expert scale the gain is {gain:.3f} (RPSV {positive_sided_variance(normalised):.2g})"
    if gain >= _SMALL_GAIN:
        return True, f"{text}."
    if normalised.mean() >= _GOOD_MEAN:
        return False, f"{text}: the average episode is at {normalised.mean():.2f} of expert level already."
    return False, f"{text}: hardly any episode is better than the average one. Data with better episodes would help."


def unclear_reason(chosen: Choice) -> Reason:
    """Few episodes, or one, make the gain."""
    name = _name(chosen)
    if chosen.rests_on_one and not chosen.gap.is_far:
        return Reason(
            "one episode",
            f"Most of the gain comes from one episode, good or lucky. Take {name} only if you know that episode to be good.",
        )
    text = f"{name} draws from about {_episodes(chosen)} only. The policy depends on how good and how varied these are."
    return Reason("few episodes", text)


def luck_reason(luck: Luck) -> Reason:
    """Whether good episodes act otherwise than poor ones; on the first screen where they do not."""
    return Reason("luck", luck.text, shown=luck.actions_differ is False)


def audience_reasons(learners: tuple[Learner, ...], gap: Gap) -> list[Reason]:
    """Who should draw by weights, where there are an actor and critics."""
    if not any(learner.has_actor and learner.has_critics for learner in learners):
        return []
    if gap.is_wide:
        text = "Good episodes stand apart from all others, so critics gain from weights too."
        return [Reason("for whom", text, shown=False)]
    return [
        Reason(
            "for whom",
            "Returns rise gradually from poor to good, and critics learn from poor episodes what is bad. So only the actor draws "
            "by weights.",
        )
    ]


def label_reasons(
    chosen: Choice, values: NDArray[np.float64], dataset: Dataset, usable: NDArray[np.bool_]
) -> list[Reason]:
    """Whether episodes of one label differ more than labels do: if labels name policies, that may be luck."""
    if dataset.labels is None or len(set(labels := dataset.labels[usable])) == 1:
        return []
    left = (weighted_label_return(chosen.weights, values, labels) - float(values.mean())) / chosen.gain
    if left >= _BETWEEN_LABELS:
        return []
    shares = mass_per_label(chosen.weights, dataset.num_transitions[usable], labels)
    most = max(shares, key=shares.__getitem__)
    own = dataset.returns[usable][labels == most]
    return [
        Reason(
            "luck within labels",
            f"{shares[most]:.0%} of the steps drawn are from {most}, whose {len(own):,} episodes return "
            f"{number(float(own.mean()))} on average and {number(float(own.max()))} at best. With each label's mean for each "
            f"episode's return, {max(0.0, left):.0%} of the gain is left. If labels name policies, the rest may be luck.",
        )
    ]


def left_out_reasons(chosen: Choice, dataset: Dataset, usable: NDArray[np.bool_], starts: Starts) -> list[Reason]:
    """Labels and groups of starts of which next to nothing is drawn."""
    weights = np.zeros(dataset.num_episodes)
    weights[usable] = chosen.weights
    shares = dict(mass_per_start(weights, dataset.num_transitions, starts) or {})
    shares |= {} if dataset.labels is None else mass_per_label(weights, dataset.num_transitions, dataset.labels)
    nothing = [name for name, share in shares.items() if share < _NOTHING]
    return [Reason("left out", f"Next to no steps are drawn from: {', '.join(nothing)}.")] if nothing else []


def length_reasons(chosen: Choice, values: NDArray[np.float64], lengths: NDArray[np.int64]) -> list[Reason]:
    """Whether weighting by ``values`` [K] is much the same as weighting by length: in a log, that may be chance."""
    if len(values) < _MIN_EPISODES or np.ptp(lengths) == 0:
        return []
    rho = np.corrcoef(mean_ranks(values), mean_ranks(lengths))[0, 1]
    if abs(rho) < _BY_LENGTH:
        return []
    drawn, usual = number(float(chosen.weights @ lengths)), number(float(lengths.mean()))
    return [
        Reason(
            "length",
            f"{'Longer' if rho > 0 else 'Shorter'} episodes have higher returns (rank correlation {rho:.2f}): those drawn have "
            f"{drawn} steps on average instead of {usual}. That is right where length is part of doing well. If length only "
            "tells how long was recorded, use the mean reward as score (score=ds.returns / ds.lengths).",
        )
    ]


def beginning_reasons(chosen: Choice, good: Good) -> list[Reason]:
    """Whether poor episodes take the first steps."""
    if chosen.begins_well:
        return []
    text = f"Only {chosen.early_share:.0%} of the first 30 steps of episodes are drawn from good ones ({good.text})."
    return [Reason("first steps", f"{text} A policy that copies actions (BC) may follow the poor ones there.")]


def most_updates(chosen: Choice, sizes: NDArray[np.int64]) -> float | None:
    """After how many updates BC memorises the few steps drawn; None: too few to tell, or later than a usual training ends."""
    steps = effective_steps(chosen.weights, sizes)
    updates = updates_until(KEPT, steps)
    return None if steps < FEWEST_STEPS or updates >= _USUAL_UPDATES else updates


def repetition_reasons(chosen: Choice, sizes: NDArray[np.int64]) -> list[Reason]:
    """How long BC may train on what is drawn, if that is shorter than usual."""
    if (updates := most_updates(chosen, sizes)) is None:
        return []
    steps = effective_steps(chosen.weights, sizes)
    return [
        Reason(
            "updates",
            f"Train BC for at most about {updates_text(updates)} updates of {USUAL_BATCH} steps with networks of 256 x 256. In "
            f"effect {number(round(steps))} steps are drawn. Such networks kept their gain up to {KEPT:,} passes and lost most "
            f"of it after {LOST:,}.",
        )
    ]


def temperature_reason(chosen: Choice, returns: NDArray[np.float64]) -> Reason:
    """Why this temperature."""
    if chosen.gap.is_wide:
        text = f"{chosen.gap.better:,} episodes stand apart as the better ones"
    else:
        text = "Returns rise gradually, so the best episodes with a tenth of the steps should count, and not too few of them"
    changed = chosen.temperature != PAPER_TEMPERATURE
    text += f". At temperature {chosen.temperature:g}"
    text += "" if changed else ", the paper's for IQL and TD3+BC,"
    low = max(chosen.weighted_return - chosen.radius, float(returns.min()))
    high = min(chosen.weighted_return + chosen.radius, float(returns.max()))
    text += f" about {_episodes(chosen)} count, and the mean return drawn is between {number(low)} and {number(high)} (95%)."
    return Reason("temperature", text, shown=changed)


MEANING = Reason(
    "meaning",
    "These are returns of the data drawn, not of a trained policy. Where outcomes depend on luck, high returns are partly luck "
    "and the gain is smaller.",
    shown=False,
)


def _name(choice: Choice) -> str:
    return describe_weighting(choice.weighting.to_dict())


def _episodes(choice: Choice) -> str:
    """1 episode, 2 episodes."""
    left = round(choice.effective_episodes)
    return f"{left:,} episode{'' if left == 1 else 's'}"
