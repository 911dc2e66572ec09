"""From stores to tidy results: one row per run under the names of a report, and the questions that can be asked of them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from upweight.base.errors import DatasetError
from upweight.base.text import settings_text
from upweight.lab.report.names import (
    FAMILIES,
    DataKey,
    DatasetName,
    WeightingName,
    data_key,
    known_settings,
    name_algorithm,
    name_datasets,
    name_weighting,
    sort_datasets,
    sort_methods,
    sort_weightings,
)
from upweight.lab.report.run_scores import RunScore, count_scores, score_of
from upweight.lab.study.store import Record, StoreReader

SeedScores = dict[str, list[float]]  # dataset -> score of each seed


@dataclass(frozen=True)
class ReportRun:
    """One run of a store."""

    run_id: str
    dataset: DatasetName
    method: str  # algorithm, settings and precision
    algorithm: str  # without the precision
    weighting: WeightingName
    seed: int
    updates: int
    episodes: int
    score: float  # that counts, see count_scores
    normalized: bool  # else the score is a mean return
    status: str
    env_id: str = ""  # where it was evaluated; returns of one environment have one scale
    data_sha256: str | None = None  # of the data that it saw; old records do not say
    left_out: str = ""  # why it is not in tables and figures
    points: tuple[tuple[int, float], ...] = ()  # (updates, score), the last included, if it was evaluated on the way
    losses: tuple[Mapping[str, float], ...] = field(default=(), compare=False)  # over the training, where known
    settings: str = ""  # of the algorithm, all of them

    @property
    def diverged(self) -> bool:
        return self.status == "diverged"

    def score_at(self, updates: int) -> float | None:
        """What it had after so many updates; None if it was not evaluated then. One that had diverged counts as at its end."""
        return dict(self.points).get(updates, self.score if self.diverged else None)


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
class Group:
    """Weightings of one method that can be compared: they all have runs on all of the datasets, with scores of one scale."""

    method: str
    family: str
    weightings: tuple[WeightingName, ...]
    datasets: tuple[DatasetName, ...]
    scale: str = ""  # the environment whose returns the scores are; normalised scores have none

    @property
    def title(self) -> str:
        """What the datasets are, and how many."""
        title = f"{FAMILIES[self.family]} ({len(self.datasets)})"
        return f"{title}, returns in {self.scale}" if self.scale else title

    @property
    def where(self) -> str:
        """The dataset, if it is one, or how many."""
        return self.datasets[0].name if len(self.datasets) == 1 else f"{len(self.datasets)} datasets"


@dataclass(frozen=True)
class Results:
    """All runs of some stores; every question is about those that a report shows."""

    sources: tuple[str, ...]
    runs: tuple[ReportRun, ...] = field(repr=False)
    datasets: tuple[DatasetFacts, ...] = field(repr=False)
    updates: Mapping[str, int]  # shown, by method
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def shown(self) -> list[ReportRun]:
        return [run for run in self.runs if not run.left_out]

    @cached_property
    def _of_method(self) -> dict[str, list[ReportRun]]:
        found: dict[str, list[ReportRun]] = {}
        for run in self.shown:
            found.setdefault(run.method, []).append(run)
        return found

    @cached_property
    def _cells(self) -> dict[tuple[str, str], SeedScores]:
        """(method, weighting) -> dataset -> score of each seed, in the order of seeds."""
        cells: dict[tuple[str, str], SeedScores] = {}
        for run in sorted(self.shown, key=lambda run: run.seed):
            cells.setdefault((run.method, run.weighting.name), {}).setdefault(run.dataset.name, []).append(run.score)
        return cells

    @cached_property
    def _raw(self) -> dict[str, str]:
        """Datasets whose scores are returns, and the environment that gives these their scale."""
        return {run.dataset.name: run.env_id for run in self.shown if not run.normalized}

    @cached_property
    def methods(self) -> list[str]:
        return sort_methods(self._of_method)

    def algorithm(self, method: str) -> str:
        """A method's algorithm with its settings, without the precision."""
        return self._of_method[method][0].algorithm

    def precision(self, method: str) -> str:
        """That it was trained in."""
        return method.removeprefix(self.algorithm(method)).removeprefix(", ") or "float32"

    def weightings(self, method: str) -> list[WeightingName]:
        return sort_weightings(run.weighting for run in self._of_method.get(method, []))

    def usual_weightings(self, method: str, datasets: Sequence[DatasetName]) -> list[WeightingName]:
        """Weightings that have runs on the datasets, without their other temperatures and fractions."""
        found = [weighting for weighting in self.weightings(method) if not weighting.is_variant]
        return [weighting for weighting in found if self.scores(method, weighting.name, datasets)]

    def datasets_of(self, method: str, **properties: Any) -> list[DatasetName]:
        """Datasets with runs of a method; ``family``, ``good``, ``sigma``, ``task`` keep some."""
        found = {run.dataset for run in self._of_method.get(method, [])}
        wanted = properties.items()
        return sort_datasets(each for each in found if all(getattr(each, key) == value for key, value in wanted))

    def scores(self, method: str, weighting: str, datasets: Iterable[DatasetName]) -> SeedScores:
        """Scores by seed of each of the datasets that has runs."""
        cells = self._cells.get((method, weighting), {})
        return {dataset.name: cells[dataset.name] for dataset in datasets if dataset.name in cells}

    def shared(self, method: str, weightings: Iterable[str], datasets: Iterable[DatasetName]) -> list[DatasetName]:
        """Datasets where all of the weightings have runs: others would tilt a comparison."""
        have = [self._cells.get((method, weighting), {}) for weighting in weightings]
        return [each for each in datasets if all(each.name in names for names in have)]

    def comparable(self, method: str, weightings: Iterable[str], datasets: Iterable[DatasetName]) -> list[DatasetName]:
        """The shared datasets, if their scores can be pooled: those with normalised ones, else returns of one environment."""
        scales = self.scales(self.shared(method, weightings, datasets))
        return scales.get("") or (next(iter(scales.values())) if len(scales) == 1 else [])

    def scales(self, datasets: Iterable[DatasetName]) -> dict[str, list[DatasetName]]:
        """Datasets whose scores have one scale: normalised ones under "", others under their environment."""
        found: dict[str, list[DatasetName]] = {}
        for dataset in datasets:
            found.setdefault(self._raw.get(dataset.name, ""), []).append(dataset)
        return found

    def groups(self, method: str) -> list[Group]:
        """For each family of datasets, and scale, the usual weightings, on the datasets that all of them have runs on.

        A family with one weighting compares nothing, and is left out if others compare something.
        """
        found = []
        for family in FAMILIES:
            for scale, datasets in self.scales(self.datasets_of(method, family=family)).items():
                weightings = self.usual_weightings(method, datasets)
                common = self.shared(method, [weighting.name for weighting in weightings], datasets)
                if weightings and common:
                    found.append(Group(method, family, tuple(weightings), tuple(common), scale))
        return [group for group in found if len(group.weightings) > 1] or found

    def panels(self, method: str) -> Iterator[Group]:
        """All datasets at once: those with normalised scores or, where there are none, those of each environment.

        Of weightings, the usual ones; at other settings those that were not run at the usual.
        """
        scales = self.scales(self.datasets_of(method))
        for scale, datasets in {"": scales[""]}.items() if "" in scales else scales.items():
            found = [each for each in self.weightings(method) if self.scores(method, each.name, datasets)]
            usual = {each.kind for each in found if not each.is_variant}
            weightings = [each for each in found if not (each.is_variant and each.kind in usual)]
            while not (common := self.shared(method, [each.name for each in weightings], datasets)):
                weightings.remove(min(weightings, key=lambda each: len(self.scores(method, each.name, datasets))))
            yield Group(method, "", tuple(weightings), tuple(common), scale)

    @cached_property
    def not_shown(self) -> str:
        """Which runs are left out of tables and figures, and how to see those of another length; empty where none is."""
        counts = Counter((run.method, run.left_out) for run in self.runs if run.left_out)
        if not counts or not self.shown:
            return ""
        what = [f"{count:,} run{'s' * (count > 1)} of {method} ({why})" for (method, why), count in counts.items()]
        lengths = sorted({run.updates for run in self.runs})
        how = " Of each algorithm the longest training counts, unless --updates (updates=) asks for another: "
        how = f"{how}{', '.join(f'{each:,}' for each in lengths)}." if len(lengths) > 1 else ""
        return f"Left out: {'; '.join(what)}.{how}"

    @cached_property
    def data_notes(self) -> dict[str, str]:
        """A sentence for each dataset whose runs saw different data: made by one name, yet not to the last digit alike."""
        seen: dict[str, set[str]] = {}
        for run in self.shown:
            if run.data_sha256 is not None:
                seen.setdefault(run.dataset.name, set()).add(run.data_sha256)
        return {
            name: f"{name}: its runs saw {len(hashes)} different versions of the data (other machines or versions)."
            for name, hashes in sorted(seen.items())
            if len(hashes) > 1
        }

    def is_normalized(self, dataset: DatasetName) -> bool:
        return dataset.name not in self._raw

    def unit(self, dataset: DatasetName) -> str:
        """What a score on it is."""
        return "normalised return" if self.is_normalized(dataset) else "return"

    @property
    def updates_text(self) -> str:
        """250,000; or of each method, where they differ: BC 250,000; IQL 1,000,000."""
        found = sorted(set(self.updates.values()))
        by_method = "; ".join(f"{method} {count:,}" for method, count in self.updates.items())
        return f"{found[0]:,}" if len(found) == 1 else by_method

    def fewest_seeds(self) -> int:
        """Seeds of the cell of the tables that has fewest."""
        return min(len(scores) for cells in self._cells.values() for scores in cells.values())


def collect(stores: StoreReader | Sequence[StoreReader], *, updates: int | None = None) -> Results:
    """Everything in the stores; of each method the runs with most updates are shown, or those with ``updates``.

    Among the latter are longer ones that were evaluated then, on their way, with what they scored.

    Examples:
        >>> found = uw.collect(uw.open_store("results"))
        >>> len(found.runs)
        10
    """
    chosen = [stores] if isinstance(stores, StoreReader) else list(stores)
    records = list({record["run_id"]: record for store in chosen for record in store.runs()}.values())
    where = ", ".join(str(store.path) for store in chosen)
    if not records:
        raise DatasetError(f"{where}: expected finished runs, found none; make some with upweight sweep")
    names = name_datasets(records)
    runs = sorted(_runs(records, names), key=lambda run: run.run_id)
    runs = runs if updates is None else list(_as_they_were(runs, updates))
    longest: dict[str, int] = {}
    for run in runs:
        longest[run.method] = max(run.updates, longest.get(run.method, 0))
    available = sorted({run.updates for run in runs})
    if updates is not None and updates not in available:
        found = ", ".join(f"{each:,}" for each in available)
        raise DatasetError(f"{where}: expected runs of {updates:,} updates, found runs of {found}")
    wanted = longest if updates is None else dict.fromkeys(longest, updates)
    described = [record for store in chosen for record in store.datasets()]
    facts = {name: _facts(record, name) for record, name in _find_datasets(described, names)}
    marked = tuple(_leave_out(runs, wanted))
    shown = [run for run in marked if not run.left_out]
    return Results(
        sources=tuple(str(store.path) for store in chosen),
        runs=marked,
        datasets=tuple(facts[dataset] for dataset in sort_datasets(facts)),
        updates={method: wanted[method] for method in sort_methods(run.method for run in shown or marked)},
        versions=_versions(records),
    )


def _runs(records: Sequence[Record], names: Mapping[DataKey, DatasetName]) -> Iterator[ReportRun]:
    datasets = [names[data_key(record["spec"]["data"])] for record in records]
    known = known_settings(records)
    for record, dataset, score in zip(records, datasets, count_scores(records, datasets), strict=True):
        spec = record["spec"]
        algorithm = name_algorithm(spec["algorithm"], spec["config"], known[spec["algorithm"]])
        algorithm += ", updates auto" if spec.get("auto") else ""
        yield ReportRun(
            run_id=record["run_id"],
            dataset=dataset,
            method=algorithm if spec["precision"] == "float32" else f"{algorithm}, {spec['precision']}",
            algorithm=algorithm,
            weighting=name_weighting(spec["weighting"], spec["algorithm"]),
            seed=spec["seed"],
            updates=spec["updates"],
            episodes=spec["episodes"],
            score=score.value,
            normalized=score.normalized,
            status="diverged" if score.diverged else record["status"],
            env_id=str(spec["data"]["env_id"]),
            data_sha256=record.get("data_sha256"),
            left_out=score.left_out,
            points=tuple(_points(record, score)),
            losses=tuple(record.get("losses", ())),
            settings=settings_text(spec["config"]),
        )


def _points(record: Record, final: RunScore) -> Iterator[tuple[int, float]]:
    """Scores on the way, of the kind that the run's own is, and that; nothing if it was evaluated at its end alone."""
    for point in record.get("points", []):
        value = score_of({**record, **point, "status": "finished"}, normalized=final.normalized)
        if value is not None:
            yield point["updates"], value
    if record.get("points"):
        yield record["spec"]["updates"], final.value


def _as_they_were(runs: Sequence[ReportRun], updates: int) -> Iterator[ReportRun]:
    """Longer trainings cut after so many updates, where they were evaluated; not those that were also run just so long."""
    ended = {_training(run) for run in runs}
    for run in runs:
        score, points = run.score_at(updates), tuple(point for point in run.points if point[0] <= updates)
        cut = replace(run, updates=updates, points=points)
        if run.updates < updates or not run.points or score is None or _training(cut) in ended:
            yield run
        else:
            yield replace(cut, score=score, status="finished" if updates in dict(points) else run.status)


def _training(run: ReportRun) -> Any:
    """What two runs have in common that differ in their evaluation alone."""
    return (run.method, run.dataset, run.weighting, run.seed, run.updates)


def _leave_out(runs: Sequence[ReportRun], updates: Mapping[str, int]) -> Iterator[ReportRun]:
    """Mark runs of other updates, and those that repeat a seed with fewer evaluation episodes."""
    best: dict[Any, ReportRun] = {}
    for run in runs:
        key = _training(run)
        if key not in best or run.episodes > best[key].episodes:
            best[key] = run
    kept = {run.run_id for run in best.values()}
    for run in runs:
        reason = run.left_out
        if run.updates != updates[run.method]:
            reason = f"{run.updates:,} updates"
        elif run.run_id not in kept:
            reason = f"only {run.episodes} episodes"
        yield replace(run, left_out=reason)


def _find_datasets(
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
