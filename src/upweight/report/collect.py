"""From stores of results to tidy rows: one per run, under the names that a report uses."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from upweight.base.errors import DatasetError
from upweight.report.names import DatasetName, name_algorithm, name_sampler, sort_datasets, sort_methods
from upweight.report.results import DatasetFacts, ReportRun, Results
from upweight.report.run_scores import RunScore, count_scores
from upweight.report.store_names import DataKey, data_key, dataset_names, find_datasets, known_settings
from upweight.studies.store import Record, StoreReader


def collect(stores: StoreReader | Sequence[StoreReader], *, updates: int | None = None) -> Results:
    """Everything in the stores; of each method the runs with most updates are shown, or those with ``updates``."""
    chosen = [stores] if isinstance(stores, StoreReader) else list(stores)
    records = list({record["run_id"]: record for store in chosen for record in store.runs()}.values())
    where = ", ".join(str(store.path) for store in chosen)
    if not records:
        raise DatasetError(f"{where}: expected finished runs, found none; make some with upweight sweep")
    names = dataset_names(records)
    runs = _runs(records, names)
    available = sorted({run.updates for run in runs})
    if updates is not None and updates not in available:
        found = ", ".join(f"{each:,}" for each in available)
        raise DatasetError(f"{where}: expected runs of {updates:,} updates, found runs of {found}")
    most: dict[str, int] = {}
    for run in runs:
        most[run.method] = max(run.updates, most.get(run.method, 0))
    wanted = most if updates is None else dict.fromkeys(most, updates)
    described = [record for store in chosen for record in store.datasets()]
    facts = {name: _facts(record, name) for record, name in find_datasets(described, names)}
    marked = tuple(_leave_out(sorted(runs, key=lambda run: run.run_id), wanted))
    methods = {run.method for run in marked if not run.left_out}
    return Results(
        sources=tuple(str(store.path) for store in chosen),
        runs=marked,
        datasets=tuple(facts[dataset] for dataset in sort_datasets(facts)),
        updates={method: wanted[method] for method in sort_methods(methods)},
        versions=_versions(records),
    )


def _runs(records: Sequence[Record], names: Mapping[DataKey, DatasetName]) -> list[ReportRun]:
    datasets = [names[data_key(record["spec"]["data"])] for record in records]
    scores, known = count_scores(records, datasets), known_settings(records)
    return [_run(*parts, known) for parts in zip(records, datasets, scores, strict=True)]


def _run(record: Record, dataset: DatasetName, score: RunScore, known: Mapping[str, Any]) -> ReportRun:
    spec = record["spec"]
    algorithm = name_algorithm(spec["algorithm"], spec["config"], known.get(spec["algorithm"], {}))
    return ReportRun(
        run_id=record["run_id"],
        dataset=dataset,
        method=algorithm if spec["precision"] == "float32" else f"{algorithm}, {spec['precision']}",
        algorithm=algorithm,
        sampler=name_sampler(spec["weighting"], spec["algorithm"]),
        seed=spec["seed"],
        updates=spec["updates"],
        episodes=spec["episodes"],
        score=score.value,
        normalized=score.normalized,
        status="diverged" if score.diverged else record["status"],
        left_out=score.left_out,
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
        reason = run.left_out
        if run.updates != updates[run.method]:
            reason = f"{run.updates:,} updates"
        elif run.run_id not in kept:
            reason = f"only {run.episodes} episodes"
        marked.append(replace(run, left_out=reason))
    return marked


def _facts(record: Record, dataset: DatasetName) -> DatasetFacts:
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


def _versions(records: Sequence[Record]) -> dict[str, tuple[str, ...]]:
    """Every version of every package that runs were made with, and the devices."""
    found: dict[str, set[str]] = {}
    for record in records:
        for package, version in {**record.get("versions", {}), "device": record.get("device")}.items():
            if version is not None:
                found.setdefault(str(package), set()).add(str(version))
    return {package: tuple(sorted(versions)) for package, versions in found.items()}
