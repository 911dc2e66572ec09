"""The tables of datasets and of aggregates as CSV, LaTeX, Markdown and HTML."""

from collections.abc import Sequence
from itertools import groupby

from upweight.report.aggregate_rows import AGGREGATES, AggregateRow
from upweight.report.comparison import FAMILIES, Group
from upweight.report.markup import as_csv, as_markdown, html_group, html_rows, html_table, plain_latex
from upweight.report.statistics.bootstrap import Estimate
from upweight.report.tables import DatasetRow

_DATASET_FIELDS = ("task", "dataset", "episodes", "steps", "mean", "rpsv", "paper_rpsv", "normalized")
_DATASET_HEADS = ("dataset", "episodes", "steps", "mean", "RPSV", "RPSV in the paper")
_AGGREGATE_WORDS = ("algorithm", "datasets", "sampler")
_AGGREGATE_HEADS = (*_AGGREGATE_WORDS, *AGGREGATES)
AGGREGATE_NOTE = (
    "With 95% intervals of the stratified bootstrap over seeds, over the datasets that all samplers of a block have runs on "
    "(their number in brackets). Mean and median are over datasets, of means over seeds; the IQM is the mean of the middle "
    "half of all runs; the optimality gap is how far runs stay below 1, so lower is better."
)


def datasets_csv(rows: Sequence[DatasetRow]) -> str:
    """Full precision."""
    lines = []
    for row in rows:
        facts = row.facts
        first = (facts.dataset.task, facts.dataset.name, facts.episodes, facts.steps, facts.mean, facts.rpsv)
        lines.append((*first, row.paper_rpsv, facts.normalized))
    return as_csv(_DATASET_FIELDS, lines)


def datasets_latex(rows: Sequence[DatasetRow]) -> str:
    return plain_latex(_DATASET_HEADS, map(_dataset_cells, rows), [])


def datasets_markdown(rows: Sequence[DatasetRow]) -> str:
    return as_markdown(_DATASET_HEADS, map(_dataset_cells, rows))


def datasets_html(rows: Sequence[DatasetRow]) -> str:
    caption = "Datasets: their size, mean return and return positive-sided variance"
    return html_table(caption, _DATASET_HEADS, f"<tbody>{html_rows(map(_dataset_cells, rows))}</tbody>")


def aggregates_csv(rows: Sequence[AggregateRow]) -> str:
    """One line per method, family and sampler; full precision."""
    names = [f"{name}{end}".replace(" ", "_").lower() for name in AGGREGATES for end in ("", "_low", "_high")]
    lines = []
    for row in rows:
        numbers = [value for each in row.estimates for value in (each.point, each.low, each.high)]
        group = row.group
        lines.append((group.method, group.family, len(group.datasets), row.sampler, row.estimates[0].runs, *numbers))
    return as_csv(("method", "family", "datasets", "sampler", "fewest_seeds", *names), lines)


def aggregates_latex(rows: Sequence[AggregateRow]) -> str:
    return plain_latex(_AGGREGATE_HEADS, map(aggregate_cells, rows), [AGGREGATE_NOTE], words=len(_AGGREGATE_WORDS))


def aggregates_markdown(rows: Sequence[AggregateRow]) -> str:
    return as_markdown(_AGGREGATE_HEADS, map(aggregate_cells, rows)) + f"\n{AGGREGATE_NOTE}\n"


def aggregates_html(rows: Sequence[AggregateRow]) -> str:
    """A block of samplers for each algorithm and family of datasets."""
    heads = ("sampler", *AGGREGATES)
    blocks = []
    for group, members in groupby(rows, key=lambda row: row.group):
        lines = html_rows([(row.sampler, *map(_shown, row.estimates)) for row in members])
        blocks.append(html_group(f"{group.method}: {_datasets(group)}", len(heads), lines))
    return html_table("Aggregate scores of each sampler, by algorithm and family of datasets", heads, "\n".join(blocks))


def _dataset_cells(row: DatasetRow) -> list[str]:
    facts = row.facts
    digits = (".4f", ".6f") if facts.normalized else (".4g", ".4g")
    mean, rpsv = (f"{value:{digit}}" for value, digit in zip((facts.mean, facts.rpsv), digits, strict=True))
    paper = "" if row.paper_rpsv is None else f"{row.paper_rpsv:.6f}"
    return [facts.dataset.name, f"{facts.episodes:,}", f"{facts.steps:,}", mean, rpsv, paper]


def aggregate_cells(row: AggregateRow) -> list[str]:
    """Method, datasets, sampler and the four aggregates."""
    return [row.group.method, _datasets(row.group), row.sampler, *map(_shown, row.estimates)]


def _datasets(group: Group) -> str:
    return f"{FAMILIES[group.family]} ({len(group.datasets)})"


def _shown(estimate: Estimate) -> str:
    return f"{estimate.point:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
