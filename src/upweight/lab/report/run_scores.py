"""What a run counts as: its score, or what stands in its place where it diverged or was never evaluated."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from upweight.data.reference_scores import find_reference_scores, normalize_returns
from upweight.lab.study.store import Record

RANDOM_POLICY = 0.0  # as a normalised score
NOT_EVALUATED = "not evaluated"


@dataclass(frozen=True)
class RunScore:
    """The score that a run counts with; ``left_out`` says why it has no score to compare."""

    value: float  # NaN if it is left out
    normalized: bool
    diverged: bool
    left_out: str = ""


def count_scores(records: Sequence[Record], datasets: Sequence[Hashable]) -> list[RunScore]:
    """A score for each record: normalised, or the mean return where an environment has no reference scores.

    ``datasets`` says which records share a dataset. A run that diverged counts as a random policy (0) or as the worst run on
    its dataset that did not diverge, whichever is lower: divergence must never win. Returns have no 0 that means anything, so
    there it is the worst run alone.
    """
    pairs = list(zip(records, datasets, strict=True))
    normalized = {dataset for record, dataset in pairs if record["score"] is not None or _reference(record) is not None}
    values = [score_of(record, normalized=dataset in normalized) for record, dataset in pairs]
    worst: dict[Hashable, float] = {}
    for value, dataset in zip(values, datasets, strict=True):
        if value is not None:
            worst[dataset] = min(value, worst.get(dataset, math.inf))
    return [
        _count(record, value, worst.get(dataset, RANDOM_POLICY), normalized=dataset in normalized)
        for (record, dataset), value in zip(pairs, values, strict=True)
    ]


def score_of(record: Record, *, normalized: bool) -> float | None:
    """The finite score of a run that did not diverge; None for others."""
    if record["status"] == "diverged":
        return None
    returned, score = _finite(record.get("mean_return")), _finite(record["score"])
    if not normalized:
        return returned
    reference = _reference(record)
    if score is None and returned is not None and reference is not None:
        return float(normalize_returns(returned, reference))
    return score


def _count(record: Record, value: float | None, worst: float, *, normalized: bool) -> RunScore:
    if value is not None:
        return RunScore(value, normalized, diverged=False)
    if not record["returns"]:
        return RunScore(math.nan, normalized, record["status"] == "diverged", left_out=NOT_EVALUATED)
    if record["status"] != "diverged" and _finite(record.get("mean_return")) is not None:
        reason = "no normalised score, unlike others on its dataset"
        return RunScore(math.nan, normalized, diverged=False, left_out=reason)
    return RunScore(min(RANDOM_POLICY, worst) if normalized else worst, normalized, diverged=True)


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _reference(record: Record) -> Any:
    """Reference scores of the environment that a run was evaluated in."""
    return find_reference_scores(str(record["spec"]["data"]["env_id"]))
