"""The tables of a report, as the paper lays them out: datasets by task, weightings side by side, its numbers next to ours."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from upweight.lab.report.names import UNIFORM, DatasetName, WeightingName
from upweight.lab.report.paper.tables import paper_rpsv, paper_scores
from upweight.lab.report.results import DatasetFacts, Results, SeedScores
from upweight.lab.report.statistics.aggregate import iqm, mean, median, optimality_gap
from upweight.lab.report.statistics.bootstrap import FEW_RUNS, Estimate
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.report.statistics.ranks import adjust, rank_test
from upweight.lab.report.table import Cell, Row, Table, without_empty_columns

DECIMALS = 2  # of a normalised score, as in the paper
WINS = "better than Uniform"  # heads the last row
GAP = "optimality gap"  # to an expert, so only of normalised scores
AGGREGATES: dict[str, Callable[..., Any]] = {
    "mean": mean,
    "median": median,
    "IQM": iqm,
    GAP: optimality_gap,
}
_KIND_TITLES = {"rw": "RW (its temperature)", "aw": "AW (its temperature)", "top": "Top-x% (its x)"}
FALSE_DISCOVERIES = 0.05  # the share expected among the marks of a table
_BETTER = (
    "Bold: better than Uniform by the exact two-sided Mann-Whitney test of the seeds on this dataset, corrected for all the "
    "comparisons of this table: of what is called better or worse in it, at most 5% are expected to be false "
    "(Benjamini-Hochberg). The paper's bold is any higher mean. *: the row's maximum, ties as shown included."
)
_CAUTION = f"Neither is given to results of fewer than {FEW_RUNS} seeds."
_LAST_ROW = "The last row counts the datasets where a sampler is better than Uniform, of those that can be judged."
_PAPER = (
    "The paper's numbers, where it has a dataset of that name, come from a million updates, five seeds and D4RL's data; "
    "datasets made by name are collected again, with the policies that come with upweight."
)
_AGGREGATE_NOTE = (
    "With 95% intervals of the stratified bootstrap over seeds, over the datasets that all samplers of a block have runs on "
    "(their number in brackets). Mean and median are over datasets, of means over seeds; the IQM is the mean of the middle "
    "half of all runs"
)
_GAP_NOTE = "; the optimality gap is how far runs stay below 1, so lower is better"


@dataclass(frozen=True)
class Score:
    """The runs of one weighting on one dataset."""

    mean: float
    std: float | None  # over seeds, with N - 1; None for one seed
    seeds: int
    paper: float | None
    improvement: Estimate | None  # over Uniform on this dataset
    is_maximum: bool  # highest mean of the row, as shown; never marked from few seeds
    normalized: bool
    p_value: float | None = None  # that runs and those of Uniform come from one distribution
    adjusted: float = 1.0  # the same for the whole table; of too few seeds to judge, it stays 1

    @property
    def is_better(self) -> bool:
        """Significantly so, over the whole table."""
        return self.adjusted <= FALSE_DISCOVERIES and self.improvement is not None and self.improvement.point > 0.5

    @property
    def is_judged(self) -> bool:
        """Whether there are enough seeds, of it and of Uniform, to say better or worse."""
        return self.improvement is not None and self.improvement.runs >= FEW_RUNS

    @property
    def is_worse(self) -> bool:
        """Significantly so, over the whole table."""
        return self.adjusted <= FALSE_DISCOVERIES and self.improvement is not None and self.improvement.point < 0.5

    @property
    def text(self) -> str:
        return score_text(self.mean, normalized=self.normalized)

    def shown(self) -> Cell:
        spread = "" if self.std is None else score_text(self.std, normalized=self.normalized)
        paper = "" if self.paper is None else score_text(self.paper, normalized=True)
        return Cell(self.text, spread, paper, bold=self.is_better, star=self.is_maximum)

    def record(self) -> dict[str, object]:
        """For programs: full precision."""
        better = self.improvement
        chance = ("", "", "") if better is None else (better.point, better.low, better.high)
        return {
            "mean": self.mean,
            "std": self.std,
            "seeds": self.seeds,
            "normalized": self.normalized,
            "paper": self.paper,
            **dict(zip(("improvement", "improvement_low", "improvement_high"), chance, strict=True)),
            "p_value": self.p_value,
            "p_adjusted": self.adjusted if self.is_judged else None,
            "better_than_uniform": self.is_better,
            "maximum": self.is_maximum,
        }


ScoreRow = tuple[DatasetName, tuple[Score | None, ...]]


@dataclass(frozen=True)
class ScoreTable:
    """Scores of one method."""

    name: str  # of files: "scores-bc"
    method: str
    title: str
    weightings: tuple[str, ...]
    rows: tuple[ScoreRow, ...]
    data_notes: tuple[str, ...] = ()  # about some of the datasets

    @property
    def scores(self) -> list[Score]:
        """All there are."""
        return [score for _, scores in self.rows for score in scores if score is not None]

    @property
    def wins(self) -> tuple[str, ...]:
        """For each weighting, on how many of the datasets that can be judged it is better than Uniform: "7 of 8"."""
        found = []
        for place in range(len(self.weightings)):
            judged = [each for each in self.column(place) if each.is_judged]
            found.append(f"{sum(each.is_better for each in judged)} of {len(judged)}" if judged else "-")
        return tuple(found)

    def column(self, place: int) -> list[Score]:
        """Scores of a weighting on the datasets where it has runs."""
        return [score for _, scores in self.rows if (score := scores[place]) is not None]

    def shown(self) -> Table:
        """For people a row for each dataset and a column for each weighting; for programs a line for each of both."""
        rows, records = [], []
        for dataset, scores in self.rows:
            rows.append(Row((dataset.name, *(score.shown() if score else "" for score in scores)), dataset.task))
            about = {"method": self.method, "task": dataset.task, "dataset": dataset.name}
            for weighting, score in zip(self.weightings, scores, strict=True):
                if score is not None:
                    records.append({**about, "sampler": weighting, **score.record()})
        return Table(
            name=self.name,
            caption=f"Scores of {self.title}: a row for each dataset, a column for each sampler",
            columns=("dataset", *self.weightings),
            rows=tuple(rows),
            records=tuple(records),
            notes=(*legend([self]), *self.data_notes),
            footer=(WINS, *self.wins) if any(score.is_judged for score in self.scores) else (),
        )


def legend(tables: Sequence[ScoreTable]) -> tuple[str, ...]:
    """What the marks and numbers of score tables mean, in sentences."""
    scores = [score for table in tables for score in table.scores]
    found = ["Mean over seeds ± standard deviation.", _BETTER, _CAUTION]
    found += [_LAST_ROW] if any(score.is_judged for score in scores) else []
    if any(score.seeds < FEW_RUNS for score in scores):
        found.append(f"Here some results have fewer than {FEW_RUNS} seeds, and so no marks.")
    if any(score.paper is not None for score in scores):
        found.append(_PAPER)
    return tuple(found)


def score_tables(results: Results, intervals: Intervals) -> list[ScoreTable]:
    """For each method one table of weightings, and one for each kind of them that has other settings, default included."""
    tables = []
    for method in results.methods:
        weightings = results.weightings(method)
        usual = [weighting for weighting in weightings if not weighting.is_variant]
        name = f"scores-{file_stem(method)}"
        if usual:
            tables.append(_score_table(results, intervals, method, usual, name, method))
        for kind in sorted({weighting.kind for weighting in weightings if weighting.is_variant}, reverse=True):
            shown = sorted((each for each in weightings if each.kind == kind), key=lambda each: each.setting or 0)
            title = f"{method}: settings of {_KIND_TITLES.get(kind, kind)}"
            tables.append(_score_table(results, intervals, method, shown, f"{name}-settings-{kind}", title))
    return tables


def aggregate_table(results: Results, intervals: Intervals) -> Table:
    """Each weighting in one number, over the datasets that all weightings of its group have runs on."""
    groups = [group for method in results.methods for group in results.groups(method)]
    rows, records = [], []
    for group in groups:
        for weighting in group.weightings:
            scores = results.scores(group.method, weighting.name, group.datasets)
            estimates = {
                name: None if name == GAP and group.scale else intervals.of(statistic, scores)
                for name, statistic in AGGREGATES.items()
            }
            numbers = [estimate_text(each, normalized=not group.scale) for each in estimates.values()]
            rows.append(Row((group.method, group.title, weighting.name, *numbers), f"{group.method}: {group.title}"))
            record: dict[str, object] = {
                "method": group.method,
                "family": group.family,
                "datasets": len(group.datasets),
                "sampler": weighting.name,
                "fewest_seeds": min(map(len, scores.values())),
            }
            for name, each in estimates.items():
                field = name.replace(" ", "_").lower()
                three = ("", "", "") if each is None else (each.point, each.low, each.high)
                record |= dict(zip((field, f"{field}_low", f"{field}_high"), three, strict=True))
            record["normalized"] = not group.scale
            records.append(record)
    note = f"{_AGGREGATE_NOTE}{'' if all(group.scale for group in groups) else _GAP_NOTE}."
    found = Table(
        name="aggregates",
        caption="Aggregate scores of each sampler, by algorithm and family of datasets",
        columns=("algorithm", "datasets", "sampler", *AGGREGATES),
        rows=tuple(rows),
        records=tuple(records),
        notes=(note, *_data_notes(results, (dataset for group in groups for dataset in group.datasets))),
        words=3,
        said_by_group=2,
    )
    return without_empty_columns(found)


def dataset_table(results: Results) -> Table:
    """What the datasets are like, with the paper's RPSV of their namesakes."""
    theirs = paper_rpsv()
    rows, records = [], []
    for facts in results.datasets:
        paper = theirs.get(facts.dataset.base)
        rows.append(Row(_dataset_cells(facts, paper)))
        records.append(
            {
                "task": facts.dataset.task,
                "dataset": facts.dataset.name,
                "episodes": facts.episodes,
                "steps": facts.steps,
                "mean": facts.mean,
                "rpsv": facts.rpsv,
                "paper_rpsv": paper,
                "normalized": facts.normalized,
            }
        )
    found = Table(
        name="datasets",
        caption="Datasets: their size, mean return and return positive-sided variance",
        columns=("dataset", "episodes", "steps", "mean", "RPSV", "RPSV in the paper"),
        rows=tuple(rows),
        records=tuple(records),
        notes=_data_notes(results, (facts.dataset for facts in results.datasets)),
    )
    return without_empty_columns(found)


def score_text(value: float, *, normalized: bool) -> str:
    """Two decimals as in the paper; returns, which have any scale, with four digits."""
    text = f"{value:.{DECIMALS}f}" if normalized else f"{value:.4g}"
    return text.removeprefix("-") if float(text) == 0 else text


def estimate_text(estimate: Estimate | None, *, normalized: bool) -> str:
    if estimate is None:
        return ""
    ends = (estimate.point, estimate.low, estimate.high)
    point, low, high = (score_text(value, normalized=normalized) for value in ends)
    return f"{point} [{low}, {high}]"


def _score_table(
    results: Results, intervals: Intervals, method: str, weightings: Sequence[WeightingName], name: str, title: str
) -> ScoreTable:
    algorithm, paper = results.algorithm(method), paper_scores()
    names = [weighting.name for weighting in weightings]
    wanted = [weighting.name for weighting in weightings if weighting.is_variant] or names  # what the table is for
    rows: list[ScoreRow] = []
    for dataset in results.datasets_of(method):
        found = {weighting: results.scores(method, weighting, [dataset]) for weighting in names}
        if any(found[weighting] for weighting in wanted):
            uniform = results.scores(method, UNIFORM, [dataset])
            theirs, normalized = paper.get((algorithm, dataset.base), {}), results.is_normalized(dataset)
            scores = [
                _score(found[each], {} if each == UNIFORM else uniform, theirs.get(each), intervals, normalized)
                for each in names
            ]
            rows.append((dataset, _with_maximum(scores)))
    notes = _data_notes(results, (dataset for dataset, _ in rows))
    return ScoreTable(name, method, title, tuple(names), _corrected(rows), notes)


def _score(
    scores: SeedScores, uniform: SeedScores, paper: float | None, intervals: Intervals, normalized: bool
) -> Score | None:
    """Of one dataset."""
    if not scores:
        return None
    (values,) = scores.values()
    (others,) = uniform.values() or [None]
    return Score(
        mean=float(np.mean(values)),
        std=float(np.std(values, ddof=1)) * bool(np.ptp(values))
        if len(values) > 1
        else None,  # no rounding of equal ones
        seeds=len(values),
        paper=paper,
        improvement=intervals.improvement(scores, uniform) if uniform else None,
        is_maximum=False,
        normalized=normalized,
        p_value=rank_test(values, others) if others else None,
    )


def _corrected(rows: Sequence[ScoreRow]) -> tuple[ScoreRow, ...]:
    """With p-values adjusted for the number of comparisons with Uniform in all rows."""
    tested = [score.p_value for _, scores in rows for score in scores if score and score.is_judged]
    found = iter(adjust(np.array(tested, np.float64)).tolist())
    return tuple(
        (
            dataset,
            tuple(replace(score, adjusted=next(found)) if score and score.is_judged else score for score in scores),
        )
        for dataset, scores in rows
    )


def _with_maximum(scores: Sequence[Score | None]) -> tuple[Score | None, ...]:
    """Mark the highest mean, and those that look the same; there is no maximum of one."""
    known = [score for score in scores if score is not None]
    top = max(known, key=lambda score: score.mean).text

    def marked(score: Score) -> Score:
        return replace(score, is_maximum=len(known) > 1 and score.text == top and score.seeds >= FEW_RUNS)

    return tuple(score and marked(score) for score in scores)


def _data_notes(results: Results, datasets: Iterable[DatasetName]) -> tuple[str, ...]:
    """What has to be said about some of the datasets, once."""
    names = dict.fromkeys(dataset.name for dataset in datasets)
    return tuple(note for name, note in results.data_notes.items() if name in names)


def _dataset_cells(facts: DatasetFacts, paper: float | None) -> tuple[str, ...]:
    mean_digits, rpsv_digits = (".4f", ".6f") if facts.normalized else (".4g", ".4g")
    return (
        facts.dataset.name,
        f"{facts.episodes:,}",
        f"{facts.steps:,}",
        f"{facts.mean:{mean_digits}}",
        f"{facts.rpsv:{rpsv_digits}}",
        "" if paper is None else f"{paper:.6f}",
    )


def file_stem(method: str) -> str:
    """TD3+BC -> td3-bc, for names of files."""
    words = "".join(sign if sign.isalnum() or sign == "." else " " for sign in method.lower())
    return "-".join(words.split())
