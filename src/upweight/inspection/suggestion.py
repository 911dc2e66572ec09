"""Propose what to draw by and for whom, and say how strong the evidence is and why.

The rule, in short. Follow advantages where the initial state explains a real share of the returns, else returns. Draw from as
many episodes as are good (``choice.py``). Do so if the gain is worth having, good episodes act otherwise than poor ones at like
observations (``luck.py``) or are a few far from all others, and more than one episode makes the gain. Else draw uniformly. What
clones draws by the weights. In actor-critics the actor alone does, and the critics too where good episodes stand apart from all
others. All of it is the same whatever constant is added to the returns.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from upweight.base.text import Shown, as_html, paragraph
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.pieces import pieces_note
from upweight.data.reference_scores import misfit, reference_scores
from upweight.inspection import reasons as why
from upweight.inspection.choice import Choice, choose
from upweight.inspection.effect import describe_weighting, good_episodes
from upweight.inspection.learners import Learner, learners_of
from upweight.inspection.luck import FEWEST, Luck, look_at_luck
from upweight.inspection.reasons import Reason
from upweight.inspection.starts import Starts, look_at_starts
from upweight.weightings.advantage_weighting import NOISE
from upweight.weightings.uniform import Uniform
from upweight.weightings.weighting import Weighting

Strength = Literal["strong", "fair", "weak", "none"]
_MOST_CHECKS = 3  # on the first screen, after the evidence


@dataclass(frozen=True)
class Draws:
    """What one kind of algorithm should draw by: ``actor_weighting`` is the actor's own, where critics draw otherwise."""

    learner: Learner
    weighting: Weighting
    actor_weighting: Weighting | None = None
    most_updates: float | None = None  # of 256 steps, after which what clones memorises; None: more than anybody trains

    @property
    def whom(self) -> str:
        """Who draws by weights: "both", "actor" (alone) or "nobody"."""
        if self.actor_weighting is not None:
            return "actor"
        return "nobody" if isinstance(self.weighting, Uniform) else "both"

    def to_dict(self) -> dict[str, Any]:
        actor = None if self.actor_weighting is None else self.actor_weighting.to_dict()
        own = {"learner": self.learner.name, "whom": self.whom, "most_updates": self.most_updates}
        return {**own, "weighting": self.weighting.to_dict(), "actor_weighting": actor}


@dataclass(frozen=True, repr=False)
class Suggestion(Shown):
    """What to draw by, for whom, how strong the evidence is, and the reasons.

    ``draws`` has one entry for the algorithm that was asked for, or one for cloning and one for actor-critics; ``weighting`` and
    ``actor_weighting`` are the first one's. ``candidate`` is the weighting that was judged. ``strength`` is "strong" (enough
    episodes are better, and act otherwise), "fair" (they are few, or their actions could not be compared), "weak" (one episode
    makes most of the gain) or "none" (nothing to gain, or luck).
    """

    draws: tuple[Draws, ...]
    candidate: Weighting
    strength: Strength
    reasons: tuple[Reason, ...]

    @property
    def weighting(self) -> Weighting:
        return self.draws[0].weighting

    @property
    def actor_weighting(self) -> Weighting | None:
        return self.draws[0].actor_weighting

    @property
    def headline(self) -> str:
        """The answer in one line."""
        if self.strength == "none":
            return "Suggestion: uniform, weighting has little to add"
        judged = describe_weighting(self.candidate.to_dict())
        if self.strength == "weak":
            return f"Suggestion: uniform, the evidence for {judged} is weak"
        return f"Suggestion: {judged}{self._for_whom} ({self.strength} evidence)"

    @property
    def _for_whom(self) -> str:
        of_all = "in actor-critics " if len(self.draws) > 1 else ""
        actors = [each.whom for each in self.draws if each.learner.has_actor and each.learner.has_critics]
        return "".join(
            {"actor": f", {of_all}for the actor alone", "both": f", {of_all}for critics too"}.get(each, "")
            for each in actors
        )

    @property
    def checks(self) -> tuple[Reason, ...]:
        """The evidence, and at most three reasons that matter most for these data."""
        return tuple(reason for reason in self.reasons if reason.shown)[: 1 + _MOST_CHECKS]

    def to_dict(self) -> dict[str, Any]:
        first = self.draws[0].to_dict()
        return {
            "weighting": first["weighting"],
            "actor_weighting": first["actor_weighting"],
            "draws": [each.to_dict() for each in self.draws],
            "candidate": self.candidate.to_dict(),
            "strength": self.strength,
            "headline": self.headline,
            "reasons": [
                {"topic": reason.topic, "text": reason.text, "shown": reason in self.checks} for reason in self.reasons
            ],
        }

    def __str__(self) -> str:
        return "\n".join([paragraph(self.headline), *(paragraph(reason.text, mark="  - ") for reason in self.checks)])

    def explain(self) -> str:
        """The headline and every reason."""
        return "\n".join([paragraph(self.headline), *(paragraph(reason.text, mark="  - ") for reason in self.reasons)])

    def _repr_html_(self) -> str:
        return as_html(self.headline, "\n".join(f"- {reason.text}" for reason in self.checks))

    def _facts(self) -> dict[str, Any]:
        whom = {each.learner.name: each.whom for each in self.draws}
        return {"weighting": describe_weighting(self.weighting.to_dict()), "strength": self.strength, "whom": whom}


def suggest(dataset: AnyDataset, *, algorithm: str | None = None, env: str | None = None) -> Suggestion:
    """Propose what to draw by, and for whom.

    ``dataset`` may also be a path, the name of one, a frame, or a dataset of d3rlpy or Minari. ``algorithm``: what will learn
    ("bc", "td3_bc", "iql", "cql", "discrete_..."; "cloning", "actor_critic", "critic" for others of a kind). Without it there is
    an answer for cloning and one for actor-critics. ``env`` (e.g. "hopper") lets returns be judged on D4RL's scale.

    Examples:
        >>> found = uw.suggest(ds, algorithm="td3_bc")  # print(found) for the reasons that matter, found.explain() for all
        >>> run = uw.Run("td3_bc", found.weighting, actor_weighting=found.actor_weighting)
        >>> found.weighting, found.actor_weighting, found.strength
        (Uniform(), ReturnWeighting(temperature=0.1), 'fair')
    """
    return suggest_from(as_dataset(dataset), learners_of(algorithm), env=env, starts=None)


def suggest_from(
    dataset: Dataset, learners: tuple[Learner, ...], *, env: str | None, starts: Starts | None
) -> Suggestion:
    """:func:`suggest`, with what is known of the starts already."""
    scores = None if env is None else reference_scores(env)
    usable = dataset.complete & (dataset.num_transitions > 0)
    returns = dataset.returns[usable]
    misfitting = None if env is None or len(returns) == 0 else misfit(env, returns)
    if len(returns) < 2:
        text = f"Only {len(returns)} complete episode(s): there is nothing to compare."
        return _nothing(learners, "one episode", text)
    good = good_episodes(dataset)
    if good is None:
        text = f"All {len(returns)} complete episodes have the same return ({returns[0]:g}): none is better. If flags tell which "
        text += "of them succeeded, load the data with success=NAME (--success NAME)."
        return _nothing(learners, "equal returns", text)
    starts = look_at_starts(dataset, usable) if starts is None else starts
    if pieces_note(dataset) is not None:  # the start of a piece is the middle of an episode: it knows what came before
        starts = replace(starts, expected=None, baseline=None)
    values = returns if starts.expected is None else returns - starts.expected
    value_range = float(np.ptp(values))
    if value_range <= NOISE * np.ptp(returns):
        text = "The start decides the return of every episode: none did better than its start predicts."
        return _nothing(learners, "start", text)
    chosen = choose(dataset, usable, starts, good)
    worth, gain = why.gain_reason(returns, chosen, scores if misfitting is None else None)
    start = Reason("start", starts.text, shown=starts.expected is not None or starts.explained_share is None)
    first = [gain] if misfitting is None else [gain, Reason("reference scores", misfitting)]
    if not worth:
        draws = tuple(Draws(learner, Uniform()) for learner in learners)
        return Suggestion(draws, chosen.weighting, "none", (*first, start, why.MEANING))
    luck = look_at_luck(dataset, values)
    strength = _strength(chosen, luck)
    sizes = dataset.num_transitions[usable]
    draws = tuple(_draws(learner, chosen, strength, sizes) for learner in learners)
    is_drawn = strength in {"strong", "fair"}
    reasons = [
        *first,
        why.luck_reason(luck),
        *([] if chosen.is_firm else [why.unclear_reason(chosen)]),
        *(why.audience_reasons(learners, chosen.gap) if is_drawn else []),
        *why.label_reasons(chosen, values, dataset, usable),
        *why.left_out_reasons(chosen, dataset, usable, starts),
        *why.length_reasons(chosen, values, dataset.lengths[usable]),
        *why.beginning_reasons(chosen, good),
        start,
        *(why.repetition_reasons(chosen, sizes) if any(learner.clones for learner in learners) else []),
        why.temperature_reason(chosen, returns),
        why.MEANING,
    ]
    return Suggestion(draws, chosen.weighting, strength, tuple(reasons))


def _strength(chosen: Choice, luck: Luck) -> Strength:
    """A few episodes that are far from all others are not luck; the look had to compare others with them."""
    is_sure = chosen.gap.is_far and chosen.gap.better < FEWEST
    if luck.actions_differ is False and not is_sure:
        return "none"
    if chosen.rests_on_one:
        return "fair" if chosen.gap.is_far else "weak"
    return "strong" if chosen.is_firm and luck.actions_differ else "fair"


def _draws(learner: Learner, chosen: Choice, strength: Strength, sizes: NDArray[np.int64]) -> Draws:
    """Of one kind of algorithm."""
    if strength in {"weak", "none"}:
        return Draws(learner, Uniform())
    if learner.clones:
        return Draws(learner, chosen.weighting, most_updates=why.most_updates(chosen, sizes))
    if chosen.gap.is_wide:
        return Draws(learner, chosen.weighting)
    return Draws(learner, Uniform(), chosen.weighting) if learner.has_actor else Draws(learner, Uniform())


def _nothing(learners: tuple[Learner, ...], topic: str, text: str) -> Suggestion:
    draws = tuple(Draws(learner, Uniform()) for learner in learners)
    return Suggestion(draws, Uniform(), "none", (Reason(topic, text),))
