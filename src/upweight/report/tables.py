"""Tables as the paper lays them out: datasets by task, samplers side by side, the paper's numbers beside ours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from upweight.paper.tables import paper_rpsv, paper_scores
from upweight.report.bootstrap import Estimate
from upweight.report.collect import DatasetFacts, Results
from upweight.report.comparison import Intervals, is_better
from upweight.report.names import UNIFORM, DatasetName

DECIMALS = 2  # of a normalised score, as in the paper


@dataclass(frozen=True)
class Cell:
    """The runs of one sampler on one dataset."""

    mean: float
    std: float | None  # over seeds, with N - 1; None for one seed
    seeds: int
    paper: float | None
    improvement: Estimate | None  # over Uniform on this dataset
    best: bool  # highest mean of the row, as shown
    normalized: bool

    @property
    def star(self) -> bool:
        """The interval of the probability of improvement over Uniform lies above one half."""
        return self.improvement is not None and is_better(self.improvement)

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
        return any(cell is not None and cell.paper is not None for cell in (cells[place] for _, cells in self.rows))


@dataclass(frozen=True)
class DatasetRow:
    """A dataset, with the paper's RPSV of its namesake."""

    facts: DatasetFacts
    paper_rpsv: float | None


def score_tables(results: Results, intervals: Intervals) -> list[ScoreTable]:
    """For each method one table of samplers, and one of their other temperatures and fractions if there are any."""
    tables = []
    for method in results.methods:
        samplers = results.samplers(method)
        usual = [sampler.name for sampler in samplers if not sampler.is_variant]
        others = [sampler.name for sampler in samplers if sampler.is_variant]
        stem = _file_stem(method)
        if usual:
            tables.append(_score_table(results, intervals, method, usual, f"scores-{stem}", method))
        if others:
            title = f"{method}: other settings of the samplers"
            tables.append(_score_table(results, intervals, method, others, f"scores-{stem}-settings", title))
    return tables


def dataset_table(results: Results) -> list[DatasetRow]:
    """What the datasets are like."""
    theirs = paper_rpsv()
    return [DatasetRow(facts, theirs.get(facts.dataset.name)) for facts in results.datasets]


def score_text(value: float, *, normalized: bool) -> str:
    """Two decimals as in the paper; returns, which have any scale, with four digits."""
    text = f"{value:.{DECIMALS}f}" if normalized else f"{value:.4g}"
    return text.removeprefix("-") if float(text) == 0 else text


def _score_table(
    results: Results, intervals: Intervals, method: str, samplers: Sequence[str], name: str, title: str
) -> ScoreTable:
    algorithm = next(run.algorithm for run in results.shown if run.method == method)
    paper = paper_scores()
    rows = []
    for dataset in results.datasets_of(method):
        found = {name: results.scores(method, name, [dataset]) for name in samplers}
        if any(found.values()):
            uniform = results.scores(method, UNIFORM, [dataset])
            theirs = paper.get((algorithm, dataset.name), {})
            cells = [
                _cell(found[name], {} if name == UNIFORM else uniform, theirs.get(name), intervals, results, dataset)
                for name in samplers
            ]
            rows.append((dataset, _with_best(cells)))
    return ScoreTable(name, method, title, tuple(samplers), tuple(rows))


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
        best=False,
        normalized=results.is_normalized(dataset),
    )


def _with_best(cells: Sequence[Cell | None]) -> tuple[Cell | None, ...]:
    """Mark the highest mean, and those that look the same; there is no best of one."""
    known = [cell for cell in cells if cell is not None]
    top = max(known, key=lambda cell: cell.mean).text
    return tuple(cell and replace(cell, best=len(known) > 1 and cell.text == top) for cell in cells)


def _file_stem(method: str) -> str:
    """TD3+BC -> td3-bc, for names of files."""
    words = "".join(sign if sign.isalnum() or sign == "." else " " for sign in method.lower())
    return "-".join(words.split())
