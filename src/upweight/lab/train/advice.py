"""What ``weighting="auto"`` stands for: the suggestion for a run's algorithm and its own episodes."""

import logging
from collections.abc import Hashable, Sequence
from dataclasses import replace

from upweight.data.dataset import Dataset
from upweight.inspection.effect import describe_draws
from upweight.inspection.learners import LEARNERS, learners_of
from upweight.inspection.suggestion import Suggestion, suggest_from
from upweight.lab.train.algorithm import Algorithm
from upweight.lab.train.run import Run

_log = logging.getLogger("upweight")


def with_advice(dataset: Dataset, runs: Sequence[Run]) -> list[Run]:
    """The runs with what is suggested instead of "auto". A suggestion is made once for runs that share it."""
    found: dict[Hashable, Suggestion] = {}

    def advised(run: Run) -> Run:
        if not run.wants_advice:
            return run
        index = run.index(dataset)
        kind, episodes = _kind(run.method), None if index is None else index.tobytes()
        if (kind, episodes) not in found:
            own = dataset if index is None else dataset.subset(index)
            found[kind, episodes] = suggest_from(own, learners_of(kind), env=None, starts=None)
        suggestion = found[kind, episodes]
        chosen = replace(run, weighting=suggestion.weighting, actor_weighting=suggestion.actor_weighting)
        _log.info("auto: %s draws by %s", run.method.name, describe_draws(chosen.to_dict()))
        return chosen

    return [advised(run) for run in runs]


def _kind(method: Algorithm) -> str:
    """The algorithm's name, or that of its kind where nobody has advice for it by name."""
    if method.name in LEARNERS:
        return method.name
    if not method.has_critic:
        return "cloning"
    return "actor_critic" if method.has_actor else "critic"
