"""What the store keeps about a finished run, and whether a file of it can be trusted."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from upweight.base.errors import DatasetError
from upweight.studies.run_spec import FORMAT_VERSION, run_spec_from_dict

_RUN_KEYS = {"run_id", "spec", "status", "score", "returns"}
_DATASET_KEYS = {"name", "steps", "seed", "normalized", "episodes", "total_steps", "mean", "rpsv", "histogram"}
_AGAIN = "remove it and start the sweep again to repeat that run"


def check_run(record: Any, where: str) -> dict[str, Any]:
    """The record of a run, if it is whole and this version can read it."""
    if not isinstance(record, dict) or not record.keys() >= _RUN_KEYS:
        raise DatasetError(f"{where}: damaged; {_AGAIN}")
    try:
        run_spec_from_dict(record["spec"])
    except (KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{where}: run {record['run_id']}: expected the description of a run, found something else ({error}); {_AGAIN}"
        ) from None
    found = record["spec"].get("format")
    if found != FORMAT_VERSION:
        raise DatasetError(
            f"{where}: expected a run of format {FORMAT_VERSION}, found {found!r}; use the version that wrote it, or {_AGAIN}"
        )
    return record


def check_dataset(record: Any, where: str) -> dict[str, Any]:
    """The description of a dataset, if it is whole."""
    if not isinstance(record, dict) or not record.keys() >= _DATASET_KEYS:
        raise DatasetError(f"{where}: damaged, or not a dataset's description; remove it, a report can do without")
    return record


def as_table(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """One row per run, as columns."""
    rows = [_row(record) for record in records]
    names = list(rows[0]) if rows else []
    return {name: [row[name] for row in rows] for name in names}


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    spec = record["spec"]
    data, weighting = spec["data"], dict(spec["weighting"])
    return {
        "run_id": record["run_id"],
        "dataset": data["name"],
        "dataset_steps": data["steps"],
        "dataset_seed": data["seed"],
        "dataset_content": data["content"],
        "env_id": data["env_id"],
        "algorithm": spec["algorithm"],
        "algorithm_settings": json.dumps(spec["config"], sort_keys=True),
        "weighting": weighting.pop("name"),
        "weighting_settings": json.dumps(weighting, sort_keys=True),
        "seed": spec["seed"],
        "updates": spec["updates"],
        "precision": spec["precision"],
        "episodes": spec["episodes"],
        "status": record["status"],
        "score": record["score"],
        "mean_return": record.get("mean_return"),
    }
