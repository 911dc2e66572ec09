"""Write tables and figures of README, docs/results.md and the adapters' pages anew from the stored results.

    python benchmarks/results_page.py

Adapters' speeds and trainings are those of benchmarks/adapters.py, the scores of mixed datasets those of

    upweight sweep paper/mixed --algorithm bc --algorithm td3_bc --set updates=250_000 -o mixed

packed into one file with ``uw.Store("mixed").pack("mixed.jsonl")``. Precisions were compared on Hopper, on the first edition of
its medium data, with BC and TD3+BC and ``--set precision=bfloat16``; other temperatures and percentages, on the same data, by

    upweight sweep paper/temperature --only "hopper-*" --algorithm bc --set updates=100_000 -o settings
    upweight sweep paper/percentage --only "hopper-*" --algorithm bc --set updates=100_000 -o settings
    upweight sweep paper/percentage --only "hopper-*" --algorithm bc --set updates=100_000 -o settings \\
        --set 'weightings=["uniform"]'

with the shares of good steps that benchmarks/early_steps.py counts.
"""

import json
import re
import shutil
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from measure import RESULTS
from upweight.report.page import write_report
from upweight.report.replicate import NO_DATA, replicate
from upweight.report.results import Results, collect
from upweight.report.statistics.intervals import Intervals
from upweight.report.table import as_markdown
from upweight.report.tables import ScoreTable, aggregate_table, score_tables
from upweight.studies.readers import open_store

ROOT = Path(__file__).parents[1]
MIXED = RESULTS / "mixed.jsonl"
PRECISIONS = {name: RESULTS / f"hopper_mixed_{name}.jsonl" for name in ("float32", "bfloat16")}
SETTINGS = RESULTS / "hopper_settings.jsonl"
DEMOS = {str(seed): RESULTS / f"demo_seed{seed}.jsonl" for seed in range(3)}
DEMOS["0, SSE4.2"] = RESULTS / "demo_seed0_sse4.jsonl"  # as CONTRIBUTING.md says: the arithmetic of another processor
METHODS, SIGMAS = ("BC", "TD3+BC"), (1, 5, 10, 50)
FIGURES = {
    MIXED: {
        "sigma-1": "mixed_bc",
        "sigma-2": "mixed_td3_bc",
        "improvement-1": "mixed_improvement_bc",
        "improvement-2": "mixed_improvement_td3_bc",
        "gain-1": "mixed_gain_bc",
        "gain-2": "mixed_gain_td3_bc",
    },
    SETTINGS: {"temperature-1": "hopper_temperature_bc", "percentage-1": "hopper_percentage_bc"},
}


def sections() -> dict[str, str]:
    """Marker -> the Markdown that stands there."""
    results = collect(open_store(MIXED))
    tables = {table.method: table for table in score_tables(results, Intervals())}
    found = {f"scores {method}": as_markdown(tables[method].shown(), notes=False) for method in METHODS}
    found |= {f"means {method}": markdown(mean_rows(tables[method])) for method in METHODS}
    found["claims"] = markdown(claim_rows(results))
    found["aggregates"] = markdown(aggregate_lines(results))
    found["precision"] = markdown(precision_rows(collect([open_store(path) for path in PRECISIONS.values()])))
    found["demo"] = markdown(demo_rows())
    found["temperature"] = markdown(setting_rows("rw", "temperature"))
    found["percentage"] = markdown(setting_rows("top", "fraction"))
    return found


def adapter_sections() -> dict[str, dict[str, str]]:
    """Page of an adapter -> marker -> Markdown."""
    pages: dict[str, dict[str, str]] = {}
    for library, rows in _by_library("adapters").items():
        lines = [(f"batch of 256 from {rows[0]['steps']:,} steps", "time", "of uniform"), ("---",) * 3]
        lines += [(row["sampler"], f"{row['microseconds']:,.0f} us", f"{row['of_uniform']:.2f}") for row in rows]
        pages[f"docs/adapters/{library}.md"] = {"speed": markdown(lines)}
    for library, rows in _by_library("adapters_training").items():
        lines = [("BC on `hopper-expert-random-10`", "score, 95% interval", "seeds"), ("---",) * 3]
        for row in rows:
            low, high = row["interval"]
            score = f"{row['mean']:.2f} [{low:.2f}, {high:.2f}]"
            lines.append((row["weighting"], score, " ".join(f"{score:.2f}" for score in row["scores"])))
        pages[f"docs/adapters/{library}.md"]["training"] = markdown(lines)
    lines = [("", "uniform", "by the weights", "RW", "by the weights"), ("---",) * 5]
    for library, rows in _by_library("adapters_returns").items():
        cells = [f"{row[key]:,.0f}" for row in rows for key in ("mean", "by_the_weights")]
        lines.append((library.replace("_", " "), *cells))
    pages["docs/adapters/index.md"] = {"returns": markdown(lines)}
    return pages


def _by_library(name: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads((RESULTS / f"{name}.json").read_text())["results"]:
        found.setdefault(row["library"], []).append(row)
    return found


def mean_rows(table: ScoreTable) -> list[tuple[str, ...]]:
    """Mean score over all mixes of a share of good steps, by weighting, with the paper's in brackets."""
    rows = [("", *(f"{sigma}% good steps" for sigma in SIGMAS)), ("---",) * (len(SIGMAS) + 1)]
    for place, weighting in enumerate(table.weightings):
        cells = []
        for sigma in SIGMAS:
            scores = [cells[place] for dataset, cells in table.rows if dataset.sigma == sigma]
            found = [score for score in scores if score is not None]
            paper = [score.paper for score in found if score.paper is not None]
            cells.append(f"{fmean(score.mean for score in found):.2f}" + (f" ({fmean(paper):.2f})" if paper else ""))
        rows.append((weighting, *cells))
    return rows


def claim_rows(results: Results) -> list[tuple[str, ...]]:
    """How many checks support each claim, by algorithm."""
    rows = [("claim", *METHODS), ("---",) * (len(METHODS) + 1)]
    for claim in replicate(results, Intervals()).claims:
        support = claim.support()
        cells = [str(support[method]) if method in support and support[method].decided else "" for method in METHODS]
        rows.append((claim.text, *(cells if any(cells) else [NO_DATA] * len(METHODS))))
    return rows


def aggregate_lines(results: Results) -> list[tuple[str, ...]]:
    """Weightings in one number, over the mixes."""
    rows = [("", "mean", "median", "IQM", "optimality gap"), ("---",) * 5]
    for row in aggregate_table(results, Intervals()).rows:
        method, _, weighting, *numbers = map(str, row.cells)
        if method in METHODS:
            rows.append((f"{method}, {weighting}", *numbers))
    return rows


def precision_rows(results: Results) -> list[tuple[str, ...]]:
    """IQM over the mixes in both precisions and their difference, by weighting."""
    rows = [("", "float32", "bfloat16", "difference, 95% interval"), ("---",) * 4]
    for method in METHODS:
        mixes = results.datasets_of(method, family="mixed")
        for weighting in results.usual_weightings(method, mixes):
            pair = [results.scores(name, weighting.name, mixes) for name in (method, f"{method}, bfloat16")]
            rows.append((f"{method}, {weighting.name}", *_difference(*pair)))
    return rows


def demo_rows() -> list[tuple[str, ...]]:
    """Mean scores of the demo, time by time, and how far they spread."""
    rows: list[tuple[str, ...]] = []
    for name, path in DEMOS.items():
        (table,) = score_tables(collect(open_store(path)), Intervals())
        ((_, scores),) = table.rows
        rows.append((name, *(score.text for score in scores if score is not None)))
    spread = [f"{min(column)} to {max(column)}" for column in list(zip(*rows, strict=True))[1:]]
    return [("`--seed`", *table.weightings), ("---",) * len(rows[0]), *rows, ("all", *spread)]


def early_shares() -> dict[tuple[str, str], dict[str, Any]]:
    """(dataset, weighting) -> whose steps are drawn."""
    rows = json.loads((RESULTS / "early_steps.json").read_text())["results"]
    return {(row["dataset"], row["weighting"]): row for row in rows}


def setting_scores(kind: str, setting: str) -> dict[str, dict[str, list[float]]]:
    """Dataset -> weighting, as benchmarks/early_steps.py names it -> score of each seed."""
    found: dict[str, dict[str, list[float]]] = {}
    for run in open_store(SETTINGS).runs():
        weighting = run["spec"]["weighting"]
        if weighting["name"] == kind:
            cells = found.setdefault(run["spec"]["data"]["name"], {})
            cells.setdefault(f"{kind} {weighting[setting]:g}", []).append(run["score"])
    return found


def setting_rows(kind: str, setting: str) -> list[tuple[str, ...]]:
    """Mean scores at each setting, and the share of the first steps that is drawn from the good policy."""
    shares, scores = early_shares(), setting_scores(kind, setting)
    names = sorted(next(iter(scores.values())), key=lambda name: float(name.split()[1]))
    titles = [f"Top-{100 * float(name.split()[1]):g}%" if kind == "top" else f"RW {name.split()[1]}" for name in names]
    rows = [("dataset", *titles), ("---",) * (len(titles) + 1)]
    for dataset in dict.fromkeys(dataset for dataset, _ in shares):
        cells = []
        for name in names:
            mean = sum(scores[dataset][name]) / len(scores[dataset][name])
            cells.append(f"{mean:.2f} ({shares[dataset, name]['share_of_first_30_steps']:.0%})")
        rows.append((dataset.removeprefix("hopper-"), *cells))
    return rows


def _difference(plain: dict[str, list[float]], rounded: dict[str, list[float]]) -> tuple[str, str, str]:
    intervals = Intervals()
    gain = intervals.gain(rounded, plain)
    levels = [f"{intervals.level(scores).point:.3f}" for scores in (plain, rounded)]
    return (*levels, f"{gain.point:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}]")


def markdown(rows: list[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def rewrite(page: Path, found: dict[str, str]) -> None:
    """Replace the table that stands after each ``<!-- NAME -->``."""
    text = page.read_text()
    for name, table in found.items():
        text = re.sub(rf"(<!-- {re.escape(name)} -->\n)(?:\|.*\n)*", lambda m, t=table: m[1] + t, text)
    page.write_text(text)


def main() -> None:
    for page in ("docs/results.md", "README.md"):
        rewrite(ROOT / page, sections())
    for page, found in adapter_sections().items():
        rewrite(ROOT / page, found)
    for store, figures in FIGURES.items():
        with tempfile.TemporaryDirectory() as folder:
            drawn = write_report(store, Path(folder) / "report.html")
            for figure, name in figures.items():
                shutil.copy(drawn / f"{figure}.svg", ROOT / "docs" / "images" / f"{name}.svg")


if __name__ == "__main__":
    main()
