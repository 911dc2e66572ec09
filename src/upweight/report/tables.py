"""Tables as the paper lays them out: datasets by task, samplers side by side, the paper's numbers beside ours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from upweight.paper.tables import paper_rpsv, paper_scores
from upweight.report.names import UNIFORM, DatasetName, Sampler
from upweight.report.results import DatasetFacts, Results
from upweight.report.statistics.bootstrap import FEW_RUNS, Estimate
from upweight.report.statistics.intervals import Intervals, deserves_a_mark

DECIMALS = 2  # of a normalised score, as in the paper


@dataclass(frozen=True)
class Cell:
    """The runs of one sampler on one dataset."""

    mean: float
    std: float | None  # over seeds, with N - 1; None for one seed
    seeds: int
    paper: float | None
    improvement: Estimate | None  # over Uniform on this dataset
    is_maximum: bool  # highest mean of the row, as shown; never marked from few seeds
    normalized: bool

    @property
    def is_better(self) -> bool:
        """The interval of the probability of improvement over Uniform lies above one half, and rests on enough seeds."""
        return self.improvement is not None and deserves_a_mark(self.improvement)

    @property
    def text(self) -> str:
        return score_text(self.mean, normalized=self.normalized)

    @property
    def spread(self) -> str:
        return "" if self.std is None else score_text(self.std, normalized=self.normalized)


@dataclass(frozen=True)
class ScoreTable:
    """Scores of one method."""

    name: str  # of files: "scores-bc"
    method: str
    title: str
    samplers: tuple[str, ...]
    rows: tuple[tuple[DatasetName, tuple[Cell | None, ...]], ...]

    def has_paper_values(self, place: int) -> bool:
        """Whether the paper has a number for any row of a sampler."""
        return any(cell.paper is not None for cell in self.column(place))

    @property
    def fewest_seeds(self) -> int:
        return min(cell.seeds for place in range(len(self.samplers)) for cell in self.column(place))

    @property
    def wins(self) -> tuple[str, ...]:
        """For each sampler, on how many of the datasets that can be judged it is better than Uniform: "7 of 8"."""
        found = []
        for place in range(len(self.samplers)):
            judged = [cell for cell in self.column(place) if cell.improvement and cell.improvement.runs >= FEW_RUNS]
            found.append(f"{sum(cell.is_better for cell in judged)} of {len(judged)}" if judged else "-")
        return tuple(found)

    def column(self, place: int) -> list[Cell]:
        """Cells of a sampler that has runs."""
        return [cell for _, cells in self.rows if (cell := cells[place]) is not None]


@dataclass(frozen=True)
class DatasetRow:
    """A dataset, with the paper's RPSV of its namesake."""

    facts: DatasetFacts
    paper_rpsv: float | None


def score_tables(results: Results, intervals: Intervals) -> list[ScoreTable]:
    """For each method one table of samplers, and one for each kind of sampler that has other settings, default included."""
    tables = []
    for method in results.methods:
        samplers = results.samplers(method)
        usual = [sampler for sampler in samplers if not sampler.is_variant]
        stem = _file_stem(method)
        if usual:
            tables.append(_score_table(results, intervals, method, usual, f"scores-{stem}", method))
        for kind in sorted({sampler.kind for sampler in samplers if sampler.is_variant}, reverse=True):
            shown = sorted((each for each in samplers if each.kind == kind), key=lambda each: each.setting or 0)
            title = f"{method}: settings of {_KIND_TITLES.get(kind, kind)}"
            tables.append(_score_table(results, intervals, method, shown, f"scores-{stem}-settings-{kind}", title))
    return tables


def dataset_table(results: Results) -> list[DatasetRow]:
    """What the datasets are like."""
    theirs = paper_rpsv()
    return [DatasetRow(facts, theirs.get(facts.dataset.base)) for facts in results.datasets]


def score_text(value: float, *, normalized: bool) -> str:
    """Two decimals as in the paper; returns, which have any scale, with four digits."""
    text = f"{value:.{DECIMALS}f}" if normalized else f"{value:.4g}"
    return text.removeprefix("-") if float(text) == 0 else text


_KIND_TITLES = {"rw": "RW (its temperature)", "aw": "AW (its temperature)", "top": "Top-x% (its x)"}


def _score_table(
    results: Results, intervals: Intervals, method: str, samplers: Sequence[Sampler], name: str, title: str
) -> ScoreTable:
    algorithm = next(run.algorithm for run in results.shown if run.method == method)
    paper, names = paper_scores(), [sampler.name for sampler in samplers]
    wanted = [sampler.name for sampler in samplers if sampler.is_variant] or names  # rows that the table is for
    rows = []
    for dataset in results.datasets_of(method):
        found = {sampler: results.scores(method, sampler, [dataset]) for sampler in names}
        if any(found[sampler] for sampler in wanted):
            uniform = results.scores(method, UNIFORM, [dataset])
            theirs = paper.get((algorithm, dataset.base), {})
            cells = [
                _cell(found[each], {} if each == UNIFORM else uniform, theirs.get(each), intervals, results, dataset)
                for each in names
            ]
            rows.append((dataset, _with_maximum(cells)))
    return ScoreTable(name, method, title, tuple(names), tuple(rows))


def _cell(
    scores: dict[str, list[float]],
    uniform: dict[str, list[float]],
    paper: float | None,
    intervals: Intervals,
    results: Results,
    dataset: DatasetName,
) -> Cell | None:
    if not scores:
        return None
    values = scores[dataset.name]
    return Cell(
        mean=float(np.mean(values)),
        std=float(np.std(values, ddof=1)) if len(values) > 1 else None,
        seeds=len(values),
        paper=paper,
        improvement=intervals.improvement(scores, uniform) if uniform else None,
        is_maximum=False,
        normalized=results.is_normalized(dataset),
    )


def _with_maximum(cells: Sequence[Cell | None]) -> tuple[Cell | None, ...]:
    """Mark the highest mean, and those that look the same; there is no maximum of one."""
    known = [cell for cell in cells if cell is not None]
    top = max(known, key=lambda cell: cell.mean).text

    def marked(cell: Cell) -> Cell:
        return replace(cell, is_maximum=len(known) > 1 and cell.text == top and cell.seeds >= FEW_RUNS)

    return tuple(cell and marked(cell) for cell in cells)


def _file_stem(method: str) -> str:
    """TD3+BC -> td3-bc, for names of files."""
    words = "".join(sign if sign.isalnum() or sign == "." else " " for sign in method.lower())
    return "-".join(words.split())
