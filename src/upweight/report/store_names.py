"""Names for what stores hold: which of several datasets of one name, and which settings of an algorithm."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    taken = Counter(plain.values())
    names = {}
    for key, data in found.items():
        what = f"{data['steps']:,} steps, seed {data['seed']}" if data["steps"] else str(data["content"])[:8]
        name = name_dataset(plain[key], str(data["env_id"]))
        names[key] = replace(name, variant=what, is_ambiguous=taken[plain[key]] > 1)
    return names


def find_datasets(
    records: Sequence[Record], names: Mapping[DataKey, DatasetName]
) -> Iterator[tuple[Record, DatasetName]]:
    """Stores' descriptions with the dataset that each is of: without those that no run used, or that cannot be told apart."""
    by_recipe: dict[tuple[Any, ...], list[DatasetName]] = {}
    for key, name in names.items():
        by_recipe.setdefault(key[:3], []).append(name)
    for record in records:
        key = data_key(record)
        found = [names.get(key)] if "content" in record else by_recipe.get(key[:3], [])
        if len(found) == 1 and found[0] is not None:
            yield record, found[0]


def known_settings(records: Sequence[Record]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Settings with a name, by algorithm: the presets or, where they cannot be had, the most frequent settings."""
    specs: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        specs.setdefault(record["spec"]["algorithm"], []).append(record["spec"])
    known: dict[str, dict[str, Mapping[str, Any]]] = {}
    for algorithm, mine in specs.items():
        texts = Counter(json.dumps(spec["config"], sort_keys=True) for spec in mine)
        known[algorithm] = _presets(mine[0]) or {"": json.loads(max(sorted(texts), key=texts.__getitem__))}
    return known


def _presets(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    try:
        from upweight.studies.run_spec import config_of

        kind = type(config_of(run_spec_from_dict(spec)))
        return {name: kind.preset(name).to_dict() for name in kind.presets}
    except (ImportError, UpweightError):  # no JAX here, or settings of another version
        return {}
