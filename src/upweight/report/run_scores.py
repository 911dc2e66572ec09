"""What a run counts as: its normalised score, or its mean return where an environment has no reference scores.

A run that diverged counts as a random policy (0) or as the worst run on its dataset that did not diverge, whichever is lower:
divergence must never win. Returns have no 0 that means anything, so there it is the worst run alone.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from upweight.data.reference_scores import find_reference_scores, normalize_returns
from upweight.studies.store import Record

RANDOM_POLICY = 0.0  # as a normalised score


@dataclass(frozen=True)
class RunScore:
    """The score of one run; ``left_out`` says why it has none that could stand beside the others."""

    value: float
    normalized: bool
    diverged: bool
    left_out: str = ""


def count_scores(records: Sequence[Record], datasets: Sequence[Hashable]) -> list[RunScore]:
    """A score for each record; ``datasets`` says which records share a dataset."""
    normalized: dict[Hashable, bool] = {}
    for record, dataset in zip(records, datasets, strict=True):
        has_scale = record["score"] is not None or find_reference_scores(_env_id(record)) is not None
        normalized[dataset] = normalized.get(dataset, False) or has_scale
    values = [_value(record, normalized[dataset]) for record, dataset in zip(records, datasets, strict=True)]
    worst: dict[Hashable, float] = {}
    for value, dataset in zip(values, datasets, strict=True):
        if value is not None:
            worst[dataset] = min(value, worst.get(dataset, math.inf))
    return [
        _count(record, value, dataset, normalized, worst)
        for record, value, dataset in zip(records, values, datasets, strict=True)
    ]


def _value(record: Record, normalized: bool) -> float | None:
    """The finite score of a run that did not diverge; None for others."""
    if record["status"] == "diverged":
        return None
    returned = _finite(record.get("mean_return"))
    if not normalized:
        return returned
    score = _finite(record["score"])
    reference = find_reference_scores(_env_id(record))
    if score is None and returned is not None and reference is not None:
        return float(normalize_returns(returned, reference))
    return score


def _count(
    record: Record,
    value: float | None,
    dataset: Hashable,
    normalized: Mapping[Hashable, bool],
    worst: Mapping[Hashable, float],
) -> RunScore:
    scale = normalized[dataset]
    if value is not None:
        return RunScore(value, scale, diverged=False)
    if record["status"] != "diverged" and _finite(record.get("mean_return")) is not None:
        return RunScore(
            RANDOM_POLICY, scale, diverged=False, left_out="no normalised score, unlike others on its dataset"
        )
    lowest = worst.get(dataset, RANDOM_POLICY)
    return RunScore(min(RANDOM_POLICY, lowest) if scale else lowest, scale, diverged=True)


def _finite(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _env_id(record: Record) -> str:
    return str(record["spec"]["data"]["env_id"])
