"""Propose a weighting, and say how sure the data are and why.

The rule, in short. Take advantage-weighting where the initial state explains a real share of the returns, else return-weighting.
Start from the temperature 0.1; move only where another is clearly safer and keeps most of the gain, or draws the first steps from
good episodes where 0.1 does not (``choice.py``). Then ask whether the gain is worth it, on the random-to-expert scale if that is
known, else in standard deviations, and whether enough episodes are left to tell. All of it is the same whatever constant is added
to the returns.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from upweight.base.text import Shown, as_html, paragraph
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.reference_scores import misfit, reference_scores
from upweight.inspection import reasons as why
from upweight.inspection.choice import PAPER_TEMPERATURE, choices, choose, colder, safe
from upweight.inspection.effect import describe_weighting, good_episodes
from upweight.inspection.reasons import Reason
from upweight.inspection.starts import Starts, look_at_starts
from upweight.weightings.advantage_weighting import NOISE
from upweight.weightings.uniform import Uniform
from upweight.weightings.weighting import Weighting

Strength = Literal["likely", "unclear", "no"]
_MOST_CHECKS = 3  # on the first screen, after the evidence


@dataclass(frozen=True, repr=False)
class Suggestion(Shown):
    """A weighting to take, how surely it helps, and the reasons.

    ``strength``: "likely" (the data show that clearly better episodes are drawn), "unclear" (too few episodes show it) or "no"
    (weighting has little to add). ``candidate`` is the weighting that was judged; ``weighting`` is what to take.
    """

    weighting: Weighting
    candidate: Weighting
    strength: Strength
    reasons: tuple[Reason, ...]

    @property
    def headline(self) -> str:
        """The answer in one line."""
        taken, judged = (describe_weighting(each.to_dict()) for each in (self.weighting, self.candidate))
        if self.strength == "likely":
            return f"Suggestion: {taken}, likely better than uniform sampling"
        if self.strength == "no":
            return f"Suggestion: {taken}, weighting has little to add"
        if taken == judged:
            return f"Suggestion: {taken}, but the data cannot tell whether it helps"
        return f"Suggestion: {taken}, the data cannot tell whether {judged} helps"

    @property
    def checks(self) -> tuple[Reason, ...]:
        """The evidence, and at most three reasons that matter most for these data."""
        return tuple(reason for reason in self.reasons if reason.shown)[: 1 + _MOST_CHECKS]

    def to_dict(self) -> dict[str, Any]:
        return {
            "weighting": self.weighting.to_dict(),
            "strength": self.strength,
            "headline": self.headline,
            "reasons": [
                {"topic": reason.topic, "text": reason.text, "shown": reason in self.checks} for reason in self.reasons
            ],
        }

    def __str__(self) -> str:
        return "\n".join([self.headline, *(paragraph(reason.text, mark="  - ") for reason in self.checks)])

    def explain(self) -> str:
        """The headline and every reason."""
        return "\n".join([self.headline, *(paragraph(reason.text, mark="  - ") for reason in self.reasons)])

    def _repr_html_(self) -> str:
        return as_html(self.headline, "\n".join(f"- {reason.text}" for reason in self.checks))

    def _facts(self) -> dict[str, Any]:
        return {"weighting": describe_weighting(self.weighting.to_dict()), "strength": self.strength}


def suggest(dataset: AnyDataset, *, env: str | None = None) -> Suggestion:
    """Propose weighting and temperature; ``env`` (e.g. "hopper") lets returns be judged on D4RL's scale.

    ``dataset`` may also be a path, the name of one, a frame, or a dataset of d3rlpy or Minari.

    Examples:
        >>> found = uw.suggest(ds)  # print(found) for the reasons that matter, found.explain() for all
        >>> found.weighting, found.strength
        (ReturnWeighting(temperature=0.3), 'unclear')
    """
    return suggest_from(as_dataset(dataset), env=env, starts=None)


def suggest_from(dataset: Dataset, *, env: str | None, starts: Starts | None) -> Suggestion:
    """:func:`suggest`, with what is known of the starts already."""
    scores = None if env is None else reference_scores(env)
    usable = dataset.complete & (dataset.num_transitions > 0)
    returns = dataset.returns[usable]
    misfitting = None if env is None or len(returns) == 0 else misfit(env, returns)
    if len(returns) < 2:
        return _nothing("one episode", f"Only {len(returns)} complete episode(s): there is nothing to compare.")
    good = good_episodes(dataset)
    if good is None:
        text = f"All {len(returns)} complete episodes have the same return ({returns[0]:g}): none is better. If flags tell which "
        return _nothing("equal returns", f"{text}of them succeeded, load the data with success=NAME (--success NAME).")
    starts = look_at_starts(dataset, usable) if starts is None else starts
    values = returns if starts.expected is None else returns - starts.expected
    value_range = float(np.ptp(values))
    if value_range <= NOISE * np.ptp(returns):
        return _nothing(
            "start", "The start decides the return of every episode: none did better than its start predicts."
        )
    found = choices(dataset, usable, starts, good)
    chosen = choose(found, value_range)
    worth, gain = why.gain_reason(returns, chosen, scores if misfitting is None else None)
    start = Reason("start", starts.text, shown=starts.expected is not None or starts.explained_share is None)
    first = [gain] if misfitting is None else [gain, Reason("reference scores", misfitting)]
    if not worth:
        return Suggestion(Uniform(), chosen.weighting, "no", (*first, start, why.MEANING))
    reasons = [
        *first,
        *([] if chosen.is_firm else [why.unclear_reason(chosen, safe(found))]),
        *why.label_reasons(chosen, values, dataset, usable),
        *why.left_out_reasons(chosen, dataset, usable, starts),
        *why.length_reasons(chosen, values, dataset.lengths[usable]),
        *why.beginning_reasons(chosen, found, good),
        *why.colder_reasons(colder(found, chosen, value_range), returns),
        start,
        *why.repetition_reasons(chosen, dataset.num_transitions[usable]),
        why.temperature_reason(chosen, found[PAPER_TEMPERATURE], returns, good),
        why.ALGORITHM,
        why.MEANING,
    ]
    taken: Weighting = Uniform() if chosen.rests_on_one else chosen.weighting
    return Suggestion(taken, chosen.weighting, "likely" if chosen.is_firm else "unclear", tuple(reasons))


def _nothing(topic: str, text: str) -> Suggestion:
    return Suggestion(Uniform(), Uniform(), "no", (Reason(topic, text),))
