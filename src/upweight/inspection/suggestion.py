"""Propose a weighting, and say why in words.

The rule, in short. Take advantage-weighting where the initial state explains a real share of the returns, else return-weighting.
Start from the temperature 0.1; move only where another is clearly safer and keeps most of the gain, or draws the first steps from
good episodes where 0.1 does not (``choice.py``). Then ask whether the gain is worth it, on the random-to-expert scale if that is
known, else in standard deviations, and whether enough episodes are left to tell. All of it is the same whatever constant is added
to the returns.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.text import Shown, as_html, number, paragraph
from upweight.data.dataset import Dataset
from upweight.data.reference_scores import ReferenceScores, misfit, normalize_returns, reference_scores
from upweight.data.repetition import FEWEST_STEPS, KEPT, LOST, USUAL_BATCH, updates_text, updates_until
from upweight.data.statistics import (
    effective_steps,
    mass_per_label,
    mean_ranks,
    positive_sided_variance,
    weighted_label_return,
)
from upweight.inspection.choice import (
    GOOD_BEGINNINGS,
    PAPER_TEMPERATURE,
    TEMPERATURES,
    Choice,
    choices,
    choose,
    colder,
    safe,
)
from upweight.inspection.effect import Good, describe_weighting, good_episodes, mass_per_start
from upweight.inspection.starts import Starts, look_at_starts
from upweight.io.loading import AnyDataset, as_dataset
from upweight.weightings.advantage_weighting import NOISE
from upweight.weightings.uniform import Uniform
from upweight.weightings.weighting import Weighting

_SMALL_GAIN = 0.05  # of the random-to-expert range
_SMALL_GAIN_STD = 0.25  # standard deviations, where that range is not known
_GOOD_MEAN = 0.9  # normalised mean return that counts as about expert level
_NOTHING = 0.0005  # of the steps drawn
_BY_LENGTH, _MIN_EPISODES = 0.5, 20  # rank correlation of lengths and returns worth a word, and of how many episodes
_BETWEEN_LABELS = 0.5  # of the gain: the least that labels' means should explain
_SMALL_DIFFERENCES = 0.1  # range of returns, of their mean, below which the mean is worth a word
_USUAL_UPDATES = 1_000_000


@dataclass(frozen=True, repr=False)
class Suggestion(Shown):
    """A weighting to take, the reasons, and ``helps``: whether the data show that it draws clearly better episodes."""

    weighting: Weighting
    helps: bool
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"weighting": self.weighting.to_dict(), "helps": self.helps, "reasons": list(self.reasons)}

    def __str__(self) -> str:
        return "\n".join([self._head, *(paragraph(reason, mark="  - ") for reason in self.reasons)])

    def _repr_html_(self) -> str:
        return as_html(self._head, "\n".join(f"- {reason}" for reason in self.reasons))

    @property
    def _head(self) -> str:
        return f"Suggestion: {describe_weighting(self.weighting.to_dict())}"

    def _facts(self) -> dict[str, Any]:
        return {"weighting": describe_weighting(self.weighting.to_dict()), "helps": self.helps}


def suggest(dataset: AnyDataset, *, env: str | None = None) -> Suggestion:
    """Propose weighting and temperature; ``env`` (e.g. "hopper") lets returns be judged on D4RL's scale.

    ``dataset`` may also be a path, the name of one, a frame, or a dataset of d3rlpy or Minari.

    Examples:
        >>> found = uw.suggest(ds)  # print(found) for the reasons
        >>> found.weighting, found.helps
        (ReturnWeighting(temperature=0.3), False)
    """
    return suggest_from(as_dataset(dataset), env=env, starts=None)


def suggest_from(dataset: Dataset, *, env: str | None, starts: Starts | None) -> Suggestion:
    """:func:`suggest`, with what is known of the starts already."""
    scores = None if env is None else reference_scores(env)
    usable = dataset.complete & (dataset.num_transitions > 0)
    returns = dataset.returns[usable]
    strange = None if env is None or len(returns) == 0 else misfit(env, returns)
    if len(returns) < 2:
        return Suggestion(Uniform(), False, (f"Only {len(returns)} complete episode(s): there is nothing to compare.",))
    good = good_episodes(dataset)
    if good is None:
        why = (
            f"All {len(returns)} complete episodes have the same return ({returns[0]:g}): none is better. If flags tell which "
            "of them succeeded, load the data with success=NAME (--success NAME)."
        )
        return Suggestion(Uniform(), False, (why,))
    starts = look_at_starts(dataset, usable) if starts is None else starts
    found = choices(dataset, usable, starts, good)
    values = returns if starts.expected is None else returns - starts.expected
    value_range = float(np.ptp(values))
    if value_range <= NOISE * np.ptp(returns):
        why = "The start decides the return of every episode: none did better than its start let expect."
        return Suggestion(Uniform(), False, (why,))
    chosen = choose(found, value_range)
    reasons = [starts.text, _drawn(chosen, returns, advantages=starts.expected is not None)]
    worth, why = _judge_gain(returns, chosen, scores if strange is None else None)
    reasons += [why] if strange is None else [strange, why]
    if not worth:
        return Suggestion(Uniform(), False, tuple(reasons))
    reasons += _by_length(chosen, values, dataset.lengths[usable])
    reasons.append(_temperature_reason(chosen, found[PAPER_TEMPERATURE], returns, good))
    reasons += _how_long(chosen, dataset.num_transitions[usable])
    if not chosen.is_firm:
        reasons.append(_cannot_tell(chosen, safe(found)))
    reasons += _left_out(chosen, dataset, usable, starts)
    reasons += _within_labels(chosen, values, dataset, usable)
    if not chosen.begins_well:
        reasons.append(_poor_beginnings(chosen, found, good))
    if (better := colder(found, chosen, value_range)) is not None:
        reasons.append(
            f"Returns rise gradually, as in replay data with many levels: {chosen.temperature:g} may be too warm. "
            f"At {better.temperature:g} the mean return drawn is {number(better.weighted_return)}, from about "
            f"{_episodes(better)}."
        )
    reasons.append(
        "How much it helps depends on the algorithm: train with uniform draws too, and compare. Where weights for actor and "
        "critics lose, weights for the actor alone may not (actor_weighting)."
    )
    reasons.append(
        "Where the outcome depends much on luck, high returns are partly luck and the gain above is too rosy."
    )
    take: Weighting = Uniform() if chosen.rests_on_one else chosen.weighting
    return Suggestion(take, chosen.is_firm, tuple(reasons))


def _drawn(chosen: Choice, returns: NDArray[np.float64], *, advantages: bool) -> str:
    name, mean = describe_weighting(chosen.weighting.to_dict()), number(float(returns.mean()))
    start = f" They do {number(chosen.gain)} better than their starts let expect." if advantages else ""
    return (
        f"Drawn by {name}, episodes have a mean return of {number(chosen.weighted_return)} instead of {mean}.{start} "
        "That is the return of the data drawn, not of a policy trained on it."
    )


def _judge_gain(returns: NDArray[np.float64], chosen: Choice, scores: ReferenceScores | None) -> tuple[bool, str]:
    """Whether there is a gain worth having, and the words for it."""
    if scores is None:
        gain = chosen.gain / chosen.spread if chosen.spread > 0 else 0.0
        of = " of what episodes have above their starts" if chosen.weighting.name == "aw" else ""
        text = f"That is a gain of {gain:.2f} standard deviations{of}"
        if gain < _SMALL_GAIN_STD:
            return False, f"{text}: most episodes are about as good as the best. Weighting has little to add."
        close = np.ptp(returns) < _SMALL_DIFFERENCES * abs(returns.mean())
        note = " All returns are within 10% of each other: whether that matters only you can say." if close else ""
        return True, f"{text}.{note}"
    normalised = normalize_returns(returns, scores)
    gain = chosen.gain / (scores.expert - scores.random)
    rpsv = positive_sided_variance(normalised)
    text = f"On the random-to-expert scale that is a gain of {gain:.3f} (RPSV {rpsv:.2g})"
    if gain >= _SMALL_GAIN:
        return True, f"{text}."
    if normalised.mean() >= _GOOD_MEAN:
        return False, f"{text}: the average episode is already at {normalised.mean():.2f} of expert level."
    return False, f"{text}: hardly any episode is better than the average one. Data with better episodes would help."


def _by_length(chosen: Choice, values: NDArray[np.float64], lengths: NDArray[np.int64]) -> list[str]:
    """Whether weighting by ``values`` [K] is much the same as weighting by length: in a log, that may be chance."""
    if len(values) < _MIN_EPISODES or np.ptp(lengths) == 0:
        return []
    rho = np.corrcoef(mean_ranks(values), mean_ranks(lengths))[0, 1]
    if abs(rho) < _BY_LENGTH:
        return []
    drawn, usual = number(float(chosen.weights @ lengths)), number(float(lengths.mean()))
    which = "Longer" if rho > 0 else "Shorter"
    return [
        f"{which} episodes have higher returns (rank correlation with length {rho:.2f}): those drawn have {drawn} steps on "
        f"average instead of {usual}. Good where that is part of doing well (not falling, being quick). Where lengths only tell "
        "how long was recorded, weights follow that: reward the outcome alone, or load the data with the mean reward as score "
        "(score=ds.returns / ds.lengths)."
    ]


def _temperature_reason(chosen: Choice, usual: Choice, returns: NDArray[np.float64], good: Good) -> str:
    text = (
        f"At temperature {chosen.temperature:g} the batch draws on the worth of about {_episodes(chosen)}; "
        f"the weighted return is known to within {number(chosen.radius)} (95%)"
        + (", wider than the range of returns." if 2 * chosen.radius > np.ptp(returns) else ".")
    )
    if chosen.temperature > PAPER_TEMPERATURE:
        return text + " A lower temperature would lean on too few episodes."
    if chosen.begins_well and not usual.begins_well:
        return (
            f"{text} At {usual.temperature:g} only {usual.early_share:.0%} of the first 30 steps of episodes would be drawn from "
            f"good ones ({good.text}); here it is {chosen.early_share:.0%}."
        )
    if chosen.temperature < PAPER_TEMPERATURE:
        return text + " A higher one would let the many poor episodes back in."
    return f"{text} {PAPER_TEMPERATURE:g} is the paper's value for IQL and TD3+BC (0.2 for CQL; for BC the paper states none)."


def _how_long(chosen: Choice, sizes: NDArray[np.int64]) -> list[str]:
    """After how many updates few steps are known by heart, where that is sooner than the usual training ends."""
    steps = effective_steps(chosen.weights, sizes)
    updates = updates_until(KEPT, steps)
    if steps < FEWEST_STEPS or updates >= _USUAL_UPDATES:
        return []
    return [
        f"In effect {number(round(steps))} steps are drawn. Networks of the usual size (256, 256) that copy actions (BC) come to "
        f"know few by heart: on the paper's mixes they kept their gain while they had seen them up to {KEPT:,} times, here for "
        f"about {updates_text(updates)} updates of {USUAL_BATCH} steps, and after {LOST:,} times most of it was lost. "
        "Smaller networks lasted longer."
    ]


def _cannot_tell(chosen: Choice, safe_choice: Choice | None) -> str:
    """What to say where the gain rests on one episode, or fewer than about ten are left."""
    name = describe_weighting(chosen.weighting.to_dict())
    if chosen.rests_on_one:
        return (
            f"Most of the gain is one episode's, good or lucky: the data cannot tell whether {name} helps. Uniform sampling "
            f"is safe; take {name} only if you know that episode to be good."
        )
    text = f"Only about {_episodes(chosen)} in effect: the data cannot tell whether {name} helps. "
    warm = (
        ""
        if safe_choice is None
        else f", and so is temperature {safe_choice.temperature:g}, which keeps less of the gain"
    )
    return f"{text}Uniform sampling is safe{warm}; compare both, or collect more good episodes."


def _left_out(chosen: Choice, dataset: Dataset, usable: NDArray[np.bool_], starts: Starts) -> list[str]:
    """What next to nothing is drawn from."""
    weights = np.zeros(dataset.num_episodes)
    weights[usable] = chosen.weights
    sizes = dataset.num_transitions
    shares = dict(mass_per_start(weights, sizes, starts) or {})
    shares |= {} if dataset.labels is None else mass_per_label(weights, sizes, dataset.labels)
    nothing = [name for name, share in shares.items() if share < _NOTHING]
    return [f"Next to nothing (under 0.05%) is drawn from: {', '.join(nothing)}."] if nothing else []


def _within_labels(
    chosen: Choice, values: NDArray[np.float64], dataset: Dataset, usable: NDArray[np.bool_]
) -> list[str]:
    """Whether most of the gain is by what episodes of one label differ: luck, it may be, if labels name policies."""
    if dataset.labels is None or len(set(labels := dataset.labels[usable])) == 1:
        return []
    left = (weighted_label_return(chosen.weights, values, labels) - float(values.mean())) / chosen.gain
    if left >= _BETWEEN_LABELS:
        return []
    shares = mass_per_label(chosen.weights, dataset.num_transitions[usable], labels)
    most = max(shares, key=shares.__getitem__)
    own = dataset.returns[usable][labels == most]
    return [
        f"Of the gain {max(0.0, left):.0%} would be left if every episode had the mean of its label: {shares[most]:.0%} of the "
        f"steps are drawn from {most}, whose {len(own):,} episodes have a mean return of {number(float(own.mean()))}, the best "
        f"of them {number(float(own.max()))}. If labels name policies, the rest is luck, or chances that a policy takes now and "
        "then. Whether one that copies such episodes does as well, only playing it tells: compare with uniform draws."
    ]


def _poor_beginnings(chosen: Choice, found: dict[float, Choice], good: Good) -> str:
    """Poor episodes take the first steps, and a temperature that changes that is not to be had, or not for free."""
    text = (
        f"Of the first 30 steps of episodes only {chosen.early_share:.0%} are drawn from good ones ({good.text}): a policy that "
        "copies actions (BC) may follow the poor ones there."
    )
    better = next((choice for choice in reversed(found.values()) if choice.begins_well), None)
    if better is None:
        return f"{text} None of the temperatures down to {TEMPERATURES[0]:g} reaches {GOOD_BEGINNINGS:.0%}."
    share, left = f"{better.early_share:.0%}", _episodes(better)
    return f"{text} At temperature {better.temperature:g} it would be {share}, but from about {left}."


def _episodes(choice: Choice) -> str:
    """1 episode, 2 episodes."""
    left = round(choice.effective_episodes)
    return f"{left:,} episode{'' if left == 1 else 's'}"
