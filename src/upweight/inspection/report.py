"""``inspect``: a dataset's report, to print or to keep."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import WeightingError, collecting_warnings, naming_memory
from upweight.base.text import Shown, number
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.notes import data_notes
from upweight.data.reference_scores import misfit, normalize_returns, reference_scores
from upweight.data.statistics import positive_sided_variance
from upweight.data.success import NO_REWARDS
from upweight.inspection.effect import Effect, Good, good_episodes, measure_effect, weighting_name
from upweight.inspection.learners import learners_of
from upweight.inspection.starts import Starts, look_at_starts, varying_starts
from upweight.inspection.suggestion import Suggestion, suggest_from
from upweight.inspection.text import explanation, html, screen
from upweight.weightings.advantage_weighting import AdvantageWeighting
from upweight.weightings.half import Half
from upweight.weightings.return_weighting import ReturnWeighting
from upweight.weightings.top_fraction import TopFraction
from upweight.weightings.uniform import Uniform
from upweight.weightings.weighting import Weighting, resolve_weights

QUANTILES = {"min": 0.0, "5%": 0.05, "25%": 0.25, "50%": 0.5, "75%": 0.75, "95%": 0.95, "max": 1.0}
_MAX_CHECKED_FEATURES = 4096  # first observations larger than this (images) are not read to be checked


@dataclass(frozen=True)
class ReturnSummary:
    """The returns of the complete episodes."""

    mean: float
    std: float
    quantiles: dict[str, float]  # of QUANTILES, by their name
    rpsv: float


@dataclass(frozen=True, repr=False)
class Inspection(Shown):
    """What :func:`inspect` found. ``print`` it for one screen, or take :meth:`explain` or :meth:`to_dict` for everything."""

    source: str
    num_episodes: int
    num_steps: int
    num_transitions: int
    num_incomplete: int
    num_without_transitions: int
    num_terminated: int
    num_truncated: int
    lengths: dict[str, float]  # min, mean, max
    observation_shape: tuple[int, ...]
    action_shape: tuple[int, ...]
    discrete_actions: bool
    episodes_per_label: dict[str, int] | None
    returns: ReturnSummary | None  # None: there are no rewards, and so no effects and no suggestion
    env: str | None
    normalized_returns: ReturnSummary | None  # random (0) to expert (1) in ``env``, if that is for this data
    confidence: float
    effects: tuple[Effect, ...]
    asked: bool  # whether the weightings of the effects were asked for
    varying_starts: int | None  # without rewards: directions in which starts differ, if few enough to look
    explained_by_start: float | None  # cross-validated share of the variance of returns; None: could not be checked
    good: str | None  # which episodes the effects' ``early_share`` counts
    suggestion: Suggestion | None
    notes: tuple[str, ...]
    other_notes: tuple[str, ...]  # on weightings that nobody asked for
    metadata: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Everything, JSON-able."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {
            **plain,
            "observation_shape": list(self.observation_shape),
            "action_shape": list(self.action_shape),
            "returns": None if self.returns is None else asdict(self.returns),
            "normalized_returns": None if self.normalized_returns is None else asdict(self.normalized_returns),
            "effects": [asdict(effect) for effect in self.effects],
            "suggestion": None if self.suggestion is None else self.suggestion.to_dict(),
            "notes": list(self.notes),
            "other_notes": list(self.other_notes),
            "metadata": dict(self.metadata),
        }

    def __str__(self) -> str:
        suggestion = "" if self.suggestion is None else str(self.suggestion)
        return screen(self.to_dict(), suggestion, every_weighting=self.asked)

    def explain(self) -> str:
        """The whole report: quantiles, bounds, what each weighting leaves out, and every reason."""
        return explanation(self.to_dict(), "" if self.suggestion is None else self.suggestion.explain())

    def _repr_html_(self) -> str:
        suggestion = "" if self.suggestion is None else self.suggestion._repr_html_()
        return html(self.to_dict(), every_weighting=self.asked) + suggestion

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"source": self.source, "episodes": self.num_episodes, "steps": self.num_steps}
        if self.returns is not None and self.suggestion is not None:
            ends = (number(self.returns.quantiles[end]) for end in ("min", "max"))
            facts |= {"returns": " to ".join(ends), "suggestion": self.suggestion.headline.removeprefix("Suggestion: ")}
        return facts


def inspect(
    dataset: AnyDataset,
    *,
    weightings: Sequence[Weighting | NDArray[np.float64]] | None = None,
    algorithm: str | None = None,
    env: str | None = None,
    confidence: float = 0.95,
) -> Inspection:
    """Measure a dataset and what weightings would make of it; reads rewards, flags, first observations and some actions.

    Data without rewards are described, and nothing is suggested.

    Args:
        dataset: a dataset, or anything that :func:`upweight.load` makes one of.
        weightings: those to compare with uniform sampling, by default the paper's and the one suggested.
        algorithm: what will learn, as in :func:`suggest`.
        env: the task whose reference scores normalise the returns.
        confidence: of the Hoeffding bound.

    Examples:
        >>> found = uw.inspect(ds)  # print(found) for one screen, found.explain() for all of it
        >>> found.num_episodes, found.returns.mean, found.suggestion.weighting
        (8, 3.5, ReturnWeighting(temperature=0.1))
    """
    dataset = as_dataset(dataset)
    if np.prod(dataset.observation_shape, dtype=object) <= _MAX_CHECKED_FEATURES:
        dataset.initial_observations  # noqa: B018  (a NaN there is worth knowing, whatever is compared)
    with naming_memory("inspecting"):
        judged = (
            _judge(dataset, weightings, algorithm, env, confidence)
            if dataset.has_rewards or weightings
            else _NOT_JUDGED
        )
    labels = None
    if dataset.labels is not None:
        names, counts = np.unique(dataset.labels, return_counts=True)
        labels = {str(name): int(count) for name, count in zip(names, counts, strict=True)}
    lengths = dataset.lengths
    return Inspection(
        source=dataset.source,
        num_episodes=dataset.num_episodes,
        num_steps=dataset.num_steps,
        num_transitions=int(dataset.num_transitions.sum()),
        num_incomplete=int((~dataset.complete).sum()),
        num_without_transitions=int((dataset.num_transitions == 0).sum()),
        num_terminated=int(dataset.episodes.terminated.sum()),
        num_truncated=int(dataset.episodes.truncated.sum()),
        lengths={"min": int(lengths.min()), "mean": float(lengths.mean()), "max": int(lengths.max())},
        observation_shape=dataset.observation_shape,
        action_shape=dataset.action_shape,
        discrete_actions=dataset.discrete_actions,
        episodes_per_label=labels,
        env=env,
        confidence=confidence,
        asked=weightings is not None,
        varying_starts=None if dataset.has_rewards else varying_starts(dataset),
        metadata=dataset.metadata,
        **{**judged, "notes": (*judged["notes"], *data_notes(dataset).values())},
    )


_NOT_JUDGED: dict[str, Any] = {
    "returns": None,
    "normalized_returns": None,
    "effects": (),
    "explained_by_start": None,
    "good": None,
    "suggestion": None,
    "notes": (f"{NO_REWARDS[0].upper()}{NO_REWARDS[1:]}.",),
    "other_notes": (),
}


def _judge(
    dataset: Dataset,
    weightings: Sequence[Weighting | NDArray[np.float64]] | None,
    algorithm: str | None,
    env: str | None,
    confidence: float,
) -> dict[str, Any]:
    """All that follows from returns, as fields of an inspection."""
    scores = None if env is None else reference_scores(env)
    returns = dataset.returns[dataset.complete]
    if len(returns) == 0:
        raise WeightingError(f"{dataset.source}: expected at least one complete episode, found none")
    good = good_episodes(dataset)
    starts = look_at_starts(dataset, dataset.complete & (dataset.num_transitions > 0))
    strange = None if env is None else misfit(env, returns)
    scores = scores if strange is None else None
    learners = learners_of(algorithm)
    suggestion = suggest_from(dataset, learners, env=None if scores is None else env, starts=starts)
    compared = _usual(dataset, suggestion) if weightings is None else weightings
    with collecting_warnings() as found:
        effects = _effects(dataset, compared, starts, good, confidence)
    # Which weighting met the incomplete episodes does not matter here: they are counted above.
    notes = tuple(dict.fromkeys(note for note in found if "are incomplete" not in note))
    return {
        "returns": _summarise(returns),
        "normalized_returns": None if scores is None else _summarise(normalize_returns(returns, scores)),
        "effects": effects,
        "explained_by_start": starts.explained_share,
        "good": None if good is None else good.text,
        "suggestion": suggestion,
        "notes": (*([] if strange is None else [strange]), *([] if weightings is None else notes)),
        "other_notes": notes if weightings is None else (),
    }


def _summarise(returns: NDArray[np.float64]) -> ReturnSummary:
    values = np.quantile(returns, list(QUANTILES.values()))
    return ReturnSummary(
        mean=float(returns.mean()),
        std=float(returns.std()),
        quantiles={name: float(value) for name, value in zip(QUANTILES, values, strict=True)},
        rpsv=positive_sided_variance(returns),
    )


def _usual(dataset: Dataset, suggestion: Suggestion) -> list[Weighting]:
    """The paper's weightings, and the one that is suggested."""
    chosen: list[Weighting] = [TopFraction(0.1), ReturnWeighting(0.1), AdvantageWeighting(0.1)]
    if dataset.labels is not None and len(np.unique(dataset.labels)) == 2:
        chosen.insert(1, Half())
    return chosen if suggestion.candidate in chosen else [*chosen, suggestion.candidate]


def _effects(
    dataset: Dataset,
    weightings: Sequence[Weighting | NDArray[np.float64]],
    starts: Starts,
    good: Good | None,
    confidence: float,
) -> tuple[Effect, ...]:
    """The effect of uniform sampling and of each weighting."""
    chosen = [weighting for weighting in weightings if not isinstance(weighting, Uniform)]
    effects = []
    for weighting in [Uniform(), *chosen]:
        weights = resolve_weights(weighting, dataset)
        effects.append(measure_effect(weighting_name(weighting), weights, dataset, starts, good, confidence=confidence))
    return tuple(effects)
