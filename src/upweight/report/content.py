"""Everything that a report shows, and its tables and figures as files."""

from dataclasses import dataclass

from upweight.report.aggregate_rows import AggregateRow, aggregate_rows
from upweight.report.fact_formats import (
    aggregates_csv,
    aggregates_latex,
    aggregates_markdown,
    datasets_csv,
    datasets_latex,
    datasets_markdown,
)
from upweight.report.figures import ReportFigure, all_figures
from upweight.report.legend import legend
from upweight.report.results import Results
from upweight.report.statistics.intervals import Intervals
from upweight.report.svg import as_file
from upweight.report.table_formats import scores_csv, scores_latex, scores_markdown
from upweight.report.tables import DatasetRow, ScoreTable, dataset_table, score_tables


@dataclass(frozen=True)
class Report:
    """Tables and figures of some results."""

    results: Results
    intervals: Intervals
    tables: list[ScoreTable]
    aggregates: list[AggregateRow]
    datasets: list[DatasetRow]
    figures: list[ReportFigure]

    def files(self) -> dict[str, str]:
        """Tables and figures as files: name -> content."""
        found = {}
        for table in self.tables:
            found[f"{table.name}.csv"] = scores_csv(table)
            found[f"{table.name}.tex"] = scores_latex(table)
            found[f"{table.name}.md"] = scores_markdown(table) + "\n" + " ".join(legend([table])) + "\n"
        if self.aggregates:
            found["aggregates.csv"] = aggregates_csv(self.aggregates)
            found["aggregates.tex"] = aggregates_latex(self.aggregates)
            found["aggregates.md"] = aggregates_markdown(self.aggregates)
        if self.datasets:
            found["datasets.csv"] = datasets_csv(self.datasets)
            found["datasets.tex"] = datasets_latex(self.datasets)
            found["datasets.md"] = datasets_markdown(self.datasets)
        for figure in self.figures:
            for place, picture in enumerate(figure.pictures.values(), start=1):
                found[f"{figure.name}-{place}.svg"] = as_file(picture)
        return found


def make_report(results: Results, intervals: Intervals) -> Report:
    """Compute all tables and draw all figures."""
    return Report(
        results,
        intervals,
        score_tables(results, intervals),
        aggregate_rows(results, intervals),
        dataset_table(results),
        all_figures(results, intervals),
    )
