"""A report: one self-contained page of HTML (``page.html`` filled in), and a folder with its tables and figures as files."""

import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from string import Template

from upweight.base.errors import DatasetError, UpweightWarning
from upweight.base.files import atomic_target
from upweight.data.reference_scores import D4RL_REFERENCE_SCORES
from upweight.lab.report.figures.drawing import as_file
from upweight.lab.report.figures.figures import FIGURE_NAMES, ReportFigure, all_figures, losses_figure, overview_figure
from upweight.lab.report.points import CHOSEN, best_point, best_table
from upweight.lab.report.results import ReportRun, Results, collect
from upweight.lab.report.statistics.bootstrap import FEW_RUNS
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.report.table import Table, as_csv, as_html, as_latex, as_markdown, html_table
from upweight.lab.report.tables import ScoreTable, aggregate_table, dataset_table, legend, score_tables, score_text
from upweight.lab.report.verdict import verdict
from upweight.lab.study.readers import open_store

_USUAL_STORE = "results"  # says nothing
_OURS = re.compile(  # names of a report's files
    rf"(scores-.*|aggregates|best-points|datasets)\.(csv|tex|md)|({'|'.join(FIGURE_NAMES)})-\d+\.svg"
)


def write_report(
    store_path: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    seed: int = 0,
    resamples: int = 2000,
    updates: int | None = None,
    title: str | None = None,
    created: datetime | None = None,
) -> Path:
    """Write the page to ``output`` (``report.html``) and tables and figures into the folder of that name (``report/``).

    Returns the folder.

    Args:
        store_path: a store of results or the folder of a training, or several.
        output: the page, a path that ends in .html.
        seed: a whole number from 0, which the bootstrap of the intervals draws from.
        resamples: how many resamples each interval is made from.
        updates: show the runs as they were after so many updates; if None, the longest runs of each method.
        title: what the page is called; by default as the stores are.
        created: the date on the page; by default now.

    Examples:
        >>> folder = uw.write_report("results", "page.html", resamples=100)
        >>> (folder / "aggregates.csv").exists()
        True
    """
    page = Path(output)
    if page.suffix not in {".html", ".htm"}:
        raise DatasetError(f"{page}: expected a page that ends in .html")
    folder = page.with_suffix("")
    if any((folder / name).exists() for name in ("store.json", "plan.json")):
        raise DatasetError(f"{page}: its tables would go into {folder}, which holds results; choose another name")
    paths = [store_path] if isinstance(store_path, str | Path) else list(store_path)
    results = collect([open_store(path) for path in paths], updates=updates)
    if results.not_shown:
        warnings.warn(results.not_shown, UpweightWarning, stacklevel=2)
    report = make_report(results, Intervals(seed, resamples))
    text = render_page(report, created or datetime.now(UTC), title)
    folder.mkdir(parents=True, exist_ok=True)
    files = dict(report.files())
    for name, content in files.items():
        with atomic_target(folder / name) as target:
            target.write_text(content, encoding="utf-8")
    for path in folder.iterdir():
        if _OURS.fullmatch(path.name) and path.name not in files:  # of the report that was there before
            path.unlink()
    with atomic_target(page) as target:
        target.write_text(text, encoding="utf-8")
    return folder


@dataclass(frozen=True)
class Report:
    """Tables and figures of some results."""

    results: Results
    intervals: Intervals
    verdict: str  # one sentence
    overview: ReportFigure
    scores: list[ScoreTable]
    aggregates: Table
    best: Table  # of points on the way: never mixed with the tables above
    datasets: Table
    figures: list[ReportFigure]

    def files(self) -> Iterator[tuple[str, str]]:
        """Tables and figures as files: name and content."""
        for table in (*(table.shown() for table in self.scores), self.aggregates, self.best, self.datasets):
            if table.rows:
                yield f"{table.name}.csv", as_csv(table)
                yield f"{table.name}.tex", as_latex(table)
                yield f"{table.name}.md", as_markdown(table)
        for figure in (self.overview, *self.figures):
            for place, picture in enumerate(figure.pictures.values(), start=1):
                yield f"{figure.name}-{place}.svg", as_file(picture)


def make_report(results: Results, intervals: Intervals) -> Report:
    """Compute all tables and draw all figures; runs that were never evaluated have losses to show."""
    scores, losses = score_tables(results, intervals), losses_figure(results)
    return Report(
        results,
        intervals,
        verdict(results, intervals, scores),
        overview_figure(results, intervals) if results.shown else losses,
        scores,
        aggregate_table(results, intervals),
        best_table(results, intervals),
        dataset_table(results),
        [*all_figures(results, intervals), *([losses] if losses.pictures else [])] if results.shown else [],
    )


def render_page(report: Report, created: datetime, title: str | None = None) -> str:
    """The page; everything it needs is in it: the answer, tables, figures, every run, and how it was made."""
    results = report.results
    drawn = [figure for figure in report.figures if figure.pictures]
    main = [
        *(["<h2>Scores</h2>", _note(*legend(report.scores))] if report.scores else []),
        *(part for table in report.scores for part in (f"<h3>{escape(table.title)}</h3>", as_html(table.shown()))),
        *_section("Over all datasets", report.aggregates),
        *_section(f"Policies on the way, last and best (best: {CHOSEN})", report.best),
        *_section("Datasets", report.datasets),
        *(["<h2>Figures</h2>"] if drawn else []),
        *(f"<h3>{escape(figure.title)}</h3>{_pictures(figure)}" for figure in drawn),
        "<h2>Runs</h2>",
        *_diverged(results),
        _runs(results.runs),
        "<h2>How it was made</h2>",
        _facts(report, created),
    ]
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=escape(title or _subject(results)),
        verdict=escape(report.verdict),
        overview=_pictures(report.overview),
        warnings="\n".join(_warnings(results)),
        main="\n".join(main),
    )


def _subject(results: Results) -> str:
    """What the results are called: by their stores, or by what is in them where all stores have the usual name."""
    names = [name for source in results.sources if (name := Path(source).name.removesuffix(".jsonl")) != _USUAL_STORE]
    if names:
        return ", ".join(names)
    datasets = list(dict.fromkeys(run.dataset.base for run in results.shown or results.runs))
    return f"{', '.join(results.updates)} on {datasets[0] if len(datasets) == 1 else f'{len(datasets)} datasets'}"


def _facts(report: Report, created: datetime) -> str:
    results, intervals = report.results, report.intervals
    seeds = sorted({run.seed for run in results.shown or results.runs})
    left_out = len(results.runs) - len(results.shown)
    diverged, versions = sum(run.diverged for run in results.shown), list(results.versions.items())
    rows = {
        "store": ", ".join(results.sources),
        "runs": f"{len(results.runs):,}" + (f", of which {left_out:,} are listed but not shown" if left_out else ""),
        "diverged": f"{diverged:,}" + (f", counted as {_diverged_score(results)}; listed above" if diverged else ""),
        "updates": results.updates_text,
        "seeds": f"{len(seeds)} ({', '.join(map(str, seeds))})",
        **(_how_scored(results, intervals) if results.shown else {}),
        **{f"settings of {run.method}": run.settings for run in results.runs if run.settings},
        **({"made with": "; ".join(f"{name} {' and '.join(found)}" for name, found in versions)} if versions else {}),
        "date": f"{created:%Y-%m-%d %H:%M} {created.tzname() or ''}".strip(),
    }
    missing = [f"{each.title} ({each.missing})" for each in report.figures if not each.pictures]
    rows |= {"not drawn": "; ".join(missing)} if missing else {}
    return "<dl>" + "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in rows.items()) + "</dl>"


def _how_scored(results: Results, intervals: Intervals) -> dict[str, str]:
    return {
        "score": f"{_scale(results)}; mean over {_numbers(run.episodes for run in results.shown)} of the final policy",
        "intervals": f"95%, {intervals.resamples:,} bootstrap resamples, seed {intervals.seed}",
    }


def _warnings(results: Results) -> list[str]:
    if not results.shown:
        return []
    found = []
    fewest = results.fewest_seeds()
    if fewest < FEW_RUNS:
        what = "1 seed" if fewest == 1 else f"{fewest} seeds"
        found.append(
            f"Some results rest on {what}. Intervals are then narrower than what new seeds would show, and one seed has "
            f"none at all: train at least {FEW_RUNS} before drawing conclusions."
        )
    if results.not_shown:
        found.append(f"{results.not_shown} The list at the end has every run.")
    if any(not run.normalized for run in results.shown):
        found.append(
            "Some environments have no reference scores: their numbers are mean returns, pooled only with those of the same "
            "environment."
        )
    found += results.data_notes.values()
    return [f'<p class="warning" role="note">{escape(text)}</p>' for text in found]


def _numbers(episodes: Iterable[int]) -> str:
    """20 episodes, 10 or 20 episodes, 1 episode."""
    found = sorted(set(episodes))
    return f"{' or '.join(map(str, found))} episode{'' if found == [1] else 's'}"


def _scale(results: Results) -> str:
    found = {run.normalized for run in results.shown}
    normalized, returns = f"0 is a random policy, 1 {_expert(results)}", "the return itself"
    if found == {True, False}:
        return f"{normalized}; {returns} where an environment has no reference scores"
    return normalized if found == {True} else returns


def _expert(results: Results) -> str:
    """Whose return counts as 1."""
    tasks = {run.dataset.task for run in results.shown if run.normalized}
    if all(task in D4RL_REFERENCE_SCORES or task.startswith("antmaze-") for task in tasks):
        return "D4RL's expert"
    return "the expert of the reference scores (D4RL's; for classic control our own)"


def _diverged_score(results: Results) -> str:
    """What diverged runs count as, in words."""
    found = {run.normalized for run in results.runs if run.diverged}
    normalized = "0, a random policy, or as the worst other run on the dataset where that is lower"
    returns = "the worst other run on the dataset (a return of 0 means nothing)"
    if found == {True, False}:
        return f"{normalized}; without reference scores, as {returns}"
    return normalized if found == {True} else returns


def _section(title: str, table: Table) -> list[str]:
    """A heading, the notes and the table, if it has rows."""
    if not table.rows:
        return []
    return [f"<h2>{title}</h2>", *([_note(*table.notes)] if table.notes else []), as_html(table)]


def _pictures(figure: ReportFigure) -> str:
    pictures = "\n".join(figure.pictures.values())
    caption = f"<figcaption>{escape(figure.caption)}</figcaption>"
    return f'<figure><div class="pictures">{pictures}</div>{caption}</figure>'


def _diverged(results: Results) -> list[str]:
    lines = [
        f"<li><code>{escape(run.run_id)}</code> {escape(f'{run.method}, {run.weighting.name}, {run.dataset.name}')}, "
        f"seed {run.seed}</li>"
        for run in results.runs
        if run.diverged
    ]
    if not lines:
        return []
    return [f"<p>Diverged, and counted as {_diverged_score(results)}:</p>", f"<ul>{chr(10).join(lines)}</ul>"]


def _runs(runs: Sequence[ReportRun]) -> str:
    chosen = any(run.points for run in runs)
    names = ["run", "dataset", "algorithm", "sampler", "seed", "updates", "score", "status"]
    names += [f"best point ({CHOSEN})"] if chosen else []
    lines = []
    for run in runs:
        status = f"{run.status}; not shown: {run.left_out}" if run.left_out else run.status
        words = (run.dataset.name, run.method, run.weighting.name)
        score = "-" if math.isnan(run.score) else score_text(run.score, normalized=run.normalized)
        numbers = (str(run.seed), f"{run.updates:,}", score)
        cells = [f"<td><code>{escape(run.run_id)}</code></td>", *(f"<td>{escape(word)}</td>" for word in words)]
        cells += [*(f'<td class="number">{escape(number)}</td>' for number in numbers), f"<td>{escape(status)}</td>"]
        cells += [f"<td>{_best(run)}</td>"] if chosen else []
        lines.append(f"<tr>{''.join(cells)}</tr>")
    table = html_table("Every run", names, f"<tbody>{chr(10).join(lines)}</tbody>")
    summary = "The run" if len(runs) == 1 else f"All {len(runs):,} runs"
    return f'<details class="runs"><summary>{summary}</summary>{table}</details>'


def _best(run: ReportRun) -> str:
    """0.91 at 150,000."""
    if not run.points:
        return ""
    updates, score = best_point(run)
    return f"{score_text(score, normalized=run.normalized)} at {updates:,}"


def _note(*sentences: str) -> str:
    return f'<p class="note">{escape(" ".join(sentences))}</p>'
