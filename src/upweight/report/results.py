"""The runs of some stores as tidy rows, and the questions that tables, figures and claims ask of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from upweight.report.names import DatasetName, Sampler, sort_datasets, sort_methods, sort_samplers


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
    score: float  # that counts, see run_scores.py
    normalized: bool  # else the score is a mean return
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

    def usual_samplers(self, method: str, datasets: Sequence[DatasetName]) -> list[Sampler]:
        """Samplers that have runs on the datasets, without their other temperatures and fractions."""
        found = [sampler for sampler in self.samplers(method) if not sampler.is_variant]
        return [sampler for sampler in found if self.scores(method, sampler.name, datasets)]

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
