"""From stores of results to tidy rows: one per run, under the names that a report uses."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from upweight.errors import DatasetError, UpweightError
from upweight.experiments.run_spec import run_spec_from_dict
from upweight.experiments.store import Record, StoreReader
from upweight.report.names import (
    DatasetName,
    Sampler,
    name_algorithm,
    name_dataset,
    name_sampler,
    sort_datasets,
    sort_methods,
    sort_samplers,
)

DIVERGED_SCORE = 0.0  # what a run that diverged counts as: a random policy


@dataclass(frozen=True)
class ReportRun:
    """One run of a store."""

    run_id: str
    dataset: DatasetName
    method: str  # algorithm, settings and precision
    algorithm: str  # without the precision
    sampler: Sampler
    seed: int
    updates: int
    episodes: int
    score: float  # that counts: 0 for a diverged run; the mean return where there is no normalised score
    normalized: bool
    status: str
    left_out: str = ""  # why it is not in tables and figures

    @property
    def diverged(self) -> bool:
        return self.status == "diverged"


@dataclass(frozen=True)
class DatasetFacts:
    """What a store says about a dataset."""

    dataset: DatasetName
    episodes: int
    steps: int
    mean: float
    rpsv: float
    normalized: bool
    counts: tuple[int, ...]  # histogram of returns
    edges: tuple[float, ...]


@dataclass(frozen=True)
class Results:
    """All runs of some stores; ``scores`` looks at those that a report shows."""

    sources: tuple[str, ...]
    runs: tuple[ReportRun, ...]
    datasets: tuple[DatasetFacts, ...]
    updates: Mapping[str, int]  # shown, by method
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def shown(self) -> list[ReportRun]:
        return [run for run in self.runs if not run.left_out]

    @cached_property
    def _cells(self) -> dict[tuple[str, str], dict[str, list[float]]]:
        """(method, sampler) -> dataset -> score of each seed, in the order of seeds."""
        cells: dict[tuple[str, str], dict[str, list[float]]] = {}
        for run in sorted(self.shown, key=lambda run: run.seed):
            cells.setdefault((run.method, run.sampler.name), {}).setdefault(run.dataset.name, []).append(run.score)
        return cells

    @cached_property
    def _raw(self) -> set[str]:
        """Datasets whose scores are returns, on a scale of their own."""
        return {run.dataset.name for run in self.shown if not run.normalized}

    @cached_property
    def methods(self) -> list[str]:
        return sort_methods(run.method for run in self.shown)

    def samplers(self, method: str) -> list[Sampler]:
        return sort_samplers(run.sampler for run in self.shown if run.method == method)

    def datasets_of(self, method: str, **properties: Any) -> list[DatasetName]:
        """Datasets with runs of a method; ``family``, ``good``, ``sigma``, ``task`` keep some."""
        found = (run.dataset for run in self.shown if run.method == method)
        wanted = properties.items()
        return sort_datasets(each for each in found if all(getattr(each, key) == value for key, value in wanted))

    def scores(self, method: str, sampler: str, datasets: Sequence[DatasetName]) -> dict[str, list[float]]:
        """Scores by seed of each of the datasets that has runs."""
        cells = self._cells.get((method, sampler), {})
        return {dataset.name: cells[dataset.name] for dataset in datasets if dataset.name in cells}

    def comparable(self, method: str, samplers: Sequence[str], datasets: Sequence[DatasetName]) -> list[DatasetName]:
        """Datasets with normalised scores where all of the samplers have runs: others would tilt a comparison."""
        have = [self._cells.get((method, sampler), {}) for sampler in samplers]
        return [each for each in datasets if each.name not in self._raw and all(each.name in names for names in have)]

    def is_normalized(self, dataset: DatasetName) -> bool:
        return dataset.name not in self._raw

    def fewest_seeds(self) -> int:
        """Seeds of the cell of the tables that has fewest."""
        return min(len(scores) for cells in self._cells.values() for scores in cells.values())


def collect(stores: StoreReader | Sequence[StoreReader], *, updates: int | None = None) -> Results:
    """Everything in the stores; of each method the runs with most updates are shown, or those with ``updates``."""
    chosen = [stores] if isinstance(stores, StoreReader) else list(stores)
    records = {record["run_id"]: record for store in chosen for record in store.runs()}
    where = ", ".join(str(store.path) for store in chosen)
    if not records:
        raise DatasetError(f"{where}: expected finished runs, found none; make some with upweight sweep")
    names, known = _dataset_names(list(records.values())), _known_settings(list(records.values()))
    runs = [_run(record, names, known) for record in records.values()]
    available = sorted({run.updates for run in runs})
    if updates is not None and updates not in available:
        found = ", ".join(f"{each:,}" for each in available)
        raise DatasetError(f"{where}: expected runs of {updates:,} updates, found runs of {found}")
    most = {run.method: max(other.updates for other in runs if other.method == run.method) for run in runs}
    wanted = most if updates is None else dict.fromkeys(most, updates)
    facts = {fact.dataset: fact for store in chosen for record in store.datasets() if (fact := _facts(record, names))}
    shown = tuple(_leave_out(sorted(runs, key=lambda run: run.run_id), wanted))
    methods = {run.method for run in shown if not run.left_out}
    return Results(
        sources=tuple(str(store.path) for store in chosen),
        runs=shown,
        datasets=tuple(facts[dataset] for dataset in sort_datasets(facts)),
        updates={method: wanted[method] for method in sort_methods(methods)},
        versions=_versions(list(records.values())),
    )


def _run(record: Record, names: Mapping[str, DatasetName], known: Mapping[str, Any]) -> ReportRun:
    spec, score = record["spec"], record["score"]
    algorithm = name_algorithm(spec["algorithm"], spec["config"], known.get(spec["algorithm"], {}))
    value = record.get("mean_return") if score is None else score
    counted = float(value) if isinstance(value, int | float) and math.isfinite(value) else None
    status = "diverged" if counted is None else record["status"]
    return ReportRun(
        run_id=record["run_id"],
        dataset=names[_data_key(spec["data"])],
        method=algorithm if spec["precision"] == "float32" else f"{algorithm}, {spec['precision']}",
        algorithm=algorithm,
        sampler=name_sampler(spec["weighting"], spec["algorithm"]),
        seed=spec["seed"],
        updates=spec["updates"],
        episodes=spec["episodes"],
        score=DIVERGED_SCORE if counted is None or status == "diverged" else counted,
        normalized=score is not None,
        status=status,
    )


def _leave_out(runs: Sequence[ReportRun], updates: Mapping[str, int]) -> list[ReportRun]:
    """Mark runs of other updates, and those that repeat a seed with fewer evaluation episodes."""
    best: dict[Any, ReportRun] = {}
    for run in runs:
        key = (run.method, run.dataset, run.sampler, run.seed, run.updates)
        if key not in best or run.episodes > best[key].episodes:
            best[key] = run
    kept, marked = {run.run_id for run in best.values()}, []
    for run in runs:
        reason = ""
        if run.updates != updates[run.method]:
            reason = f"{run.updates:,} updates"
        elif run.run_id not in kept:
            reason = f"only {run.episodes} episodes"
        marked.append(replace(run, left_out=reason))
    return marked


def _dataset_names(records: Sequence[Record]) -> dict[str, DatasetName]:
    """A name for each dataset: steps and seed are part of it only where it would be ambiguous."""
    found: dict[str, Mapping[str, Any]] = {}
    for record in records:
        try:
            spec = run_spec_from_dict(record["spec"])
            found[_data_key(record["spec"]["data"])] = vars(spec.data)
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
        name = name_dataset(plain[key], str(data["env_id"]))
        if taken.count(plain[key]) > 1:
            what = f"{data['steps']:,} steps, seed {data['seed']}" if data["steps"] else str(data["content"])[:8]
            name = replace(name, name=f"{plain[key]} ({what})")
        names[key] = name
    return names


def _data_key(data: Mapping[str, Any]) -> str:
    return json.dumps([data["name"], data["steps"], data["seed"], data.get("content")])


def _known_settings(records: Sequence[Record]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Settings with a name, by algorithm: the presets or, where they cannot be had, the most frequent settings."""
    known: dict[str, dict[str, Mapping[str, Any]]] = {}
    for algorithm in {record["spec"]["algorithm"] for record in records}:
        mine = [record["spec"] for record in records if record["spec"]["algorithm"] == algorithm]
        texts = [json.dumps(spec["config"], sort_keys=True) for spec in mine]
        known[algorithm] = _presets(mine[0]) or {"": json.loads(max(sorted(texts), key=texts.count))}
    return known


def _presets(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    try:
        from upweight.experiments.packing import config_of

        kind = type(config_of(run_spec_from_dict(spec)))
        return {name: kind.preset(name).to_dict() for name in kind.presets}
    except (ImportError, UpweightError):  # no JAX here, or settings of another version
        return {}


def _facts(record: Record, names: Mapping[str, DatasetName]) -> DatasetFacts | None:
    """What is known of a dataset that has runs."""
    dataset = next((names[key] for key in names if json.loads(key)[:3] == [record[k] for k in _FACT_KEY]), None)
    if dataset is None:
        return None
    return DatasetFacts(
        dataset=dataset,
        episodes=record["episodes"],
        steps=record["total_steps"],
        mean=record["mean"],
        rpsv=record["rpsv"],
        normalized=record["normalized"],
        counts=tuple(record["histogram"]["counts"]),
        edges=tuple(record["histogram"]["edges"]),
    )


_FACT_KEY = ("name", "steps", "seed")


def _versions(records: Sequence[Record]) -> dict[str, tuple[str, ...]]:
    """Every version of every package that runs were made with, and the devices."""
    found: dict[str, set[str]] = {}
    for record in records:
        for package, version in {**record.get("versions", {}), "device": record.get("device")}.items():
            if version is not None:
                found.setdefault(str(package), set()).add(str(version))
    return {package: tuple(sorted(versions)) for package, versions in found.items()}
