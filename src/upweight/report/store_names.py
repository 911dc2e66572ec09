"""Names for what stores hold: which of several datasets of one name, and which settings of an algorithm."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from upweight.base.errors import DatasetError, UpweightError
from upweight.report.names import DatasetName, name_dataset, name_sampler
from upweight.studies.run_spec import run_spec_from_dict
from upweight.studies.store import Record

DataKey = tuple[str, int | None, int | None, str | None]  # what tells datasets apart: name, steps, seed, content


def data_key(data: Mapping[str, Any]) -> DataKey:
    """The key of a dataset in the description of a run."""
    return (data["name"], data["steps"], data["seed"], data.get("content"))


def dataset_names(records: Sequence[Record]) -> dict[DataKey, DatasetName]:
    """A name for each dataset: steps and seed, or content, are said only where the name would be ambiguous."""
    found: dict[DataKey, Mapping[str, Any]] = {}
    for record in records:
        try:
            spec = run_spec_from_dict(record["spec"])
            found[data_key(record["spec"]["data"])] = vars(spec.data)
            name_sampler(spec.weighting, spec.algorithm)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DatasetError(
                f"run {record['run_id']}: expected the description of a run, found something else ({error}); "
                "remove the file and start the sweep again to repeat that run"
            ) from None
    plain = {key: str(data["name"]).replace("\\", "/").rsplit("/", 1)[-1] for key, data in found.items()}
    taken = list(plain.values())
    names = {}
    for key, data in found.items():
        what = f"{data['steps']:,} steps, seed {data['seed']}" if data["steps"] else str(data["content"])[:8]
        name = name_dataset(plain[key], str(data["env_id"]))
        names[key] = replace(name, variant=what, is_ambiguous=taken.count(plain[key]) > 1)
    return names


def find_dataset(record: Record, names: Mapping[DataKey, DatasetName]) -> DatasetName | None:
    """The dataset that a store's description is of; None where no run used it, or where it cannot be told which."""
    wanted = data_key(record)
    if "content" in record:
        return names.get(wanted)
    found = [name for key, name in names.items() if key[:3] == wanted[:3]]
    return found[0] if len(found) == 1 else None


def known_settings(records: Sequence[Record]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Settings with a name, by algorithm: the presets or, where they cannot be had, the most frequent settings."""
    known: dict[str, dict[str, Mapping[str, Any]]] = {}
    for algorithm in {record["spec"]["algorithm"] for record in records}:
        mine = [record["spec"] for record in records if record["spec"]["algorithm"] == algorithm]
        texts = [json.dumps(spec["config"], sort_keys=True) for spec in mine]
        known[algorithm] = _presets(mine[0]) or {"": json.loads(max(sorted(texts), key=texts.count))}
    return known


def _presets(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    try:
        from upweight.studies.run_spec import config_of

        kind = type(config_of(run_spec_from_dict(spec)))
        return {name: kind.preset(name).to_dict() for name in kind.presets}
    except (ImportError, UpweightError):  # no JAX here, or settings of another version
        return {}
