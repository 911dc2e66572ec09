"""Write tables and figures of README, docs/results.md, docs/scores.md, docs/selection.md and the adapters'
pages anew from the stored results.

    python benchmarks/results_page.py

Adapters' speeds and trainings are those of benchmarks/adapters.py, the scores those of the suites, packed into one file each with
``uw.Store("mixed").pack("mixed.jsonl")`` (scores_page.py says which; any algorithms may be in them). Precisions were compared on
Hopper, on the first edition of its medium data, with BC and TD3+BC and ``--set precision=bfloat16``, and later with the fused
kernels on today's data; other temperatures and
percentages, on the same data, by

    upweight sweep paper/temperature --only "hopper-*" --algorithm bc --set updates=100_000 -o settings
    upweight sweep paper/percentage --only "hopper-*" --algorithm bc --set updates=100_000 -o settings

with the shares of good steps that benchmarks/early_steps.py counts.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import selection_page as selection
from causes_page import apart_rows, cql_rows, level_rows, size_rows
from draws_page import Draws, draw_claim_rows, draw_rows
from measure import RESULTS
from scores_page import (
    SETTINGS as OF_SETTINGS,
    Rows,
    Study,
    antmaze_rows,
    beside_the_paper,
    far_counts,
    markdown,
    mean_rows,
    pass_rows,
    physics,
    regular_rows,
    run_rows,
    scores_page,
    studies,
    way_rows,
)
from upweight.report.names import sort_methods
from upweight.report.replicate import NO_DATA
from upweight.report.results import Results, collect
from upweight.report.statistics.intervals import Intervals
from upweight.report.tables import ScoreTable, aggregate_table, score_tables
from upweight.studies.experiment_file import read_experiment
from upweight.studies.readers import open_store

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PRECISIONS = [RESULTS / f"hopper_mixed_{name}.jsonl" for name in ("float32", "bfloat16")]
FUSED = [RESULTS / "mixed.jsonl", RESULTS / "hopper_fused.jsonl"]
SETTINGS = RESULTS / "hopper_settings.jsonl"
DEMOS = {str(seed): RESULTS / f"demo_seed{seed}.jsonl" for seed in range(3)}
DEMOS["0, SSE4.2"] = RESULTS / "demo_seed0_sse4.jsonl"  # as CONTRIBUTING.md says: the arithmetic of another processor
ALGORITHMS = {"bc": "BC", "td3_bc": "TD3+BC", "iql": "IQL", "cql": "CQL"}
PAPER_SUITES = ("mixed", "regular", "temperature", "percentage")  # its grid, but for classic control
PAPER_UPDATES = 1_000_000
ASKED_OF = {"offline RL": "regular", "stochastic top": "stochastic"}  # by another study than the mixed one
ASKED_OF |= {name: name for name in ("regular", "stochastic", "temperature", "percentage")}


def pages(found: dict[str, Study]) -> dict[str, dict[str, str]]:
    """Page -> marker -> the Markdown that stands there."""
    mixed = found["mixed"]
    means = markdown(mean_rows(mixed))
    results = {
        "physics": physics("../benchmarks/results"),
        "runs": markdown(run_rows(found)),
        "means": means,
        "claims": markdown(claim_rows(found, ["mixed"])),
        "other claims": markdown(claim_rows(found, ["regular", "stochastic", *OF_SETTINGS])),
        "updates": markdown(way_rows(mixed)),
        "passes": markdown(pass_rows(mixed)),
        "sizes": markdown(size_rows()),
        "regular": markdown(regular_rows(found["regular"])),
        "replays": markdown(replay_rows(found["regular"])),
        "apart": markdown(apart_rows(found["regular"])),
        "cql": markdown(cql_rows()),
        "antmaze": markdown(antmaze_rows(found)),
        "aggregates": markdown(aggregate_lines(found)),
        "cost": markdown(cost_rows(mixed)),
        "far": markdown(far_counts(beside_the_paper(found))),
        "precision": markdown(precision_rows(collect([open_store(path) for path in PRECISIONS]))),
        "fused": markdown(precision_rows(fused_results())),
        "temperature": markdown(setting_rows("rw", "temperature")),
        "percentage": markdown(setting_rows("top", "fraction")),
    }
    results |= {f"levels {name}": markdown(level_rows(found[name])) for name in OF_SETTINGS}
    draws = Draws(mixed)
    results["draws"] = markdown(draw_rows(draws))
    results["claims by draw"] = markdown(draw_claim_rows(draws, lambda claim: claim.name not in ASKED_OF))
    results |= {f"figures {name}": mixed.images(name) for name in ("sigma", "improvement", "gain")}
    results["figures regular"] = found["regular"].images("improvement")
    readme = {
        "means": means,
        "demo": markdown(demo_rows()),
        "physics": physics("benchmarks/results"),
        "figures sigma": mixed.images("sigma", "docs/images"),
    }
    return {
        "docs/results.md": results,
        "README.md": readme,
        "docs/selection.md": selection.parts(),
        **adapter_sections(),
    }


def adapter_sections() -> dict[str, dict[str, str]]:
    """Page of an adapter -> marker -> Markdown."""
    pages: dict[str, dict[str, str]] = {}
    for library, rows in _by_library("adapters").items():
        lines = [(f"batch of 256 from {rows[0]['steps']:,} steps", "time", "of uniform")]
        lines += [(row["sampler"], f"{row['microseconds']:,.0f} us", f"{row['of_uniform']:.2f}") for row in rows]
        pages[f"docs/adapters/{library}.md"] = {"speed": markdown(lines)}
    for library, rows in _by_library("adapters_training").items():
        lines = [("BC on `hopper-expert-random-10`", "score, 95% interval", "seeds")]
        for row in rows:
            low, high = row["interval"]
            score = f"{row['mean']:.2f} [{low:.2f}, {high:.2f}]"
            lines.append((row["weighting"], score, " ".join(f"{score:.2f}" for score in row["scores"])))
        pages[f"docs/adapters/{library}.md"]["training"] = markdown(lines)
    lines = [("", "uniform", "by the weights", "RW", "by the weights")]
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


def claim_rows(found: dict[str, Study], names: list[str]) -> Rows:
    """How many checks support the claims that some studies were made for, by algorithm."""
    methods = sort_methods(method for name in names if name in found for method in found[name].results.methods)
    rows: Rows = [("claim", *methods)]
    for place, claim in enumerate(found["mixed"].claims):
        if (asked := ASKED_OF.get(claim.name, "mixed")) not in names:
            continue
        support = found[asked].claims[place].support() if asked in found else {}
        cells = [str(support[method]) if method in support and support[method].decided else "" for method in methods]
        rows.append((claim.text, *(cells if any(cells) else [NO_DATA] * len(methods))))
    return rows


def aggregate_lines(found: dict[str, Study]) -> Rows:
    """Weightings in one number, by study."""
    rows: Rows = [("", "updates", "datasets", "mean", "median", "IQM", "optimality gap")]
    for study in found.values():
        if study.name not in OF_SETTINGS:
            for row in aggregate_table(study.results, Intervals()).rows:
                method, datasets, weighting, *numbers = map(str, row.cells)
                updates = f"{study.results.updates[method]:,}"
                rows.append((f"{method}, {weighting}", updates, datasets, *numbers))
    return rows


def cost_rows(study: Study) -> Rows:
    """GPU time of the stored runs as they went; and by measured rates, ours and d3rlpy's, of a thousand and of the paper's grid.

    Runs train together: each has its share, train_seconds / agents. Those that were evaluated on the way are left out: the
    seconds of the stored ones count the wait for simulators at their end.
    """
    rows: Rows = [("", "updates", "runs", "GPU time", "1,000 such runs", "the paper's grid", "the same with d3rlpy")]
    grid, found = _paper_grid(), dict[tuple[str, str, int], list[float]]()
    for record in open_store(study.paths[0]).runs():
        spec = record["spec"]
        if "points" not in record:
            mine = found.setdefault((spec["algorithm"], spec["precision"], spec["updates"]), [])
            mine.append(record["train_seconds"] / record["agents"])
    for (algorithm, precision, updates), seconds in sorted(
        found.items(), key=lambda each: [*ALGORITHMS].index(each[0][0])
    ):
        runs, name = len(grid[algorithm]), ALGORITHMS[algorithm]
        each, peer = (PAPER_UPDATES / rate(algorithm, who) for who in (precision, "d3rlpy"))  # seconds of a run
        cells = [f"{updates:,}", f"{len(seconds):,}", _time(sum(seconds)), _time(1000 * each * updates / PAPER_UPDATES)]
        cells += [f"{runs:,} runs: {_time(runs * each)}", _time(runs * peer)]
        rows.append((name if precision == "float32" else f"{name}, {precision}", *cells))
    return rows


@cache
def _paper_grid() -> dict[str, set[str]]:
    """Algorithm -> names of the runs of the paper's grid; what two suites share counts once."""
    grid: dict[str, set[str]] = {}
    for suite in PAPER_SUITES:
        for run in read_experiment(f"paper/{suite}").runs:
            grid.setdefault(run.algorithm, set()).add(run.run_id)
    return grid


def rate(algorithm: str, who: str) -> float:
    """Updates a second on an H200 alone: of 256 agents together (CQL: 64), float32 or bfloat16 with the kernels; or d3rlpy's."""
    if who == "bfloat16":
        wanted: dict[str, Any] = {"kernels": "fused"}
    elif who == "float32":
        wanted = {"who": "upweight", "dtype": "float32", "agents": 256}
    else:
        wanted = {"who": "d3rlpy, compile_graph", "dtype": "float32", "agents": 1}
    file = "kernels_time" if who == "bfloat16" else "train_throughput_h200"
    rows = json.loads((RESULTS / f"{file}.json").read_text())["results"]
    wanted |= {"algorithm": algorithm}
    (found,) = [row["agent_updates_per_s"] for row in rows if wanted.items() <= {k: row[k] for k in wanted}.items()]
    return float(found)


def _time(seconds: float) -> str:
    """9 min, 2.4 h, 144 days."""
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def fused_results() -> Results:
    """With the kernels, and without: BC in bfloat16 as it was after as many updates as it had in float32."""
    return collect([open_store(path) for path in FUSED], updates=250_000)


def precision_rows(results: Results) -> Rows:
    """IQM over the mixes in both precisions and their difference, by weighting, of methods that have both."""
    rows: Rows = [("", "float32", "bfloat16", "difference, 95% interval")]
    for method in (method for method in results.methods if f"{method}, bfloat16" in results.methods):
        mixes = results.datasets_of(f"{method}, bfloat16", family="mixed")
        pooled: list[dict[str, list[float]]] = [{}, {}]
        for weighting in results.usual_weightings(method, mixes):
            pair = [results.scores(name, weighting.name, mixes) for name in (method, f"{method}, bfloat16")]
            rows.append((f"{method}, {weighting.name}", *_difference(*pair)))
            for one, of_all in zip(pair, pooled, strict=True):
                of_all |= {f"{weighting.name}, {dataset}": scores for dataset, scores in one.items()}
        rows.append((f"{method}, all five", *_difference(*pooled)))
    return rows


def replay_rows(study: Study) -> Rows:
    """What RW draws in each replay, by episodes and by the policies that played them, and what it gains; most luck first."""
    methods = (table.method.removesuffix(", bfloat16") for table in study.tables)
    rows: Rows = [("replay", "return drawn", "of its policies", "left", "falls drawn", *methods)]
    found = json.loads((RESULTS / "who_is_drawn.json").read_text())["results"]
    for row in sorted(found, key=lambda row: float(row["weightings"]["rw"]["left"])):
        rw, uniform, name = row["weightings"]["rw"], row["weightings"]["uniform"], row["dataset"]
        returns = [f"{rw[key]:,.0f}" for key in ("return", "return_by_policy")]
        falls = "" if uniform["falls"] == 0 else f"{rw['falls'] / uniform['falls']:.3f}"
        rows.append((name, *returns, f"{rw['left']:.0%}", falls, *(_gain(table, name) for table in study.tables)))
    return rows


def _gain(table: ScoreTable, name: str) -> str:
    """Of RW over Uniform; nothing where it was not run."""
    for scores in (
        dict(zip(table.weightings, row, strict=True)) for dataset, row in table.rows if dataset.base == name
    ):
        uniform, rw = scores["Uniform"], scores["RW"]
        if uniform is not None and rw is not None:
            return f"{rw.mean - uniform.mean:+.2f}"
    return ""


def demo_rows() -> Rows:
    """Mean scores of the demo, time by time, and how far they spread."""
    rows: Rows = []
    for name, path in DEMOS.items():
        (table,) = score_tables(collect(open_store(path)), Intervals())
        ((_, scores),) = table.rows
        rows.append((name, *(score.text for score in scores if score is not None)))
    spread = [f"{min(column)} to {max(column)}" for column in list(zip(*rows, strict=True))[1:]]
    return [("`--seed`", *table.weightings), *rows, ("all", *spread)]


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


def setting_rows(kind: str, setting: str) -> Rows:
    """Mean scores at each setting, and the share of the first steps that is drawn from the good policy."""
    shares, scores = early_shares(), setting_scores(kind, setting)
    names = sorted(next(iter(scores.values())), key=lambda name: float(name.split()[1]))
    titles = [f"Top-{100 * float(name.split()[1]):g}%" if kind == "top" else f"RW {name.split()[1]}" for name in names]
    rows: Rows = [("dataset", *titles)]
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


def rewrite(page: Path, found: dict[str, str]) -> None:
    """Replace the table, pictures or quotation that stand after each ``<!-- NAME -->``."""
    text = page.read_text()
    for name, part in found.items():
        text, count = re.subn(
            rf"(<!-- {re.escape(name)} -->\n)(?:(?:[|>]|<img).*\n)*", lambda m, p=part: m[1] + p, text
        )
        if count != 1:
            raise ValueError(f"{page}: expected <!-- {name} --> once, found it {count} times")
    page.write_text(text)


def write_pictures(found: Sequence[Study]) -> None:
    """Those of the studies that a page shows, in the place of all there were."""
    shown = "".join((ROOT / page).read_text() for page in ("docs/results.md", "docs/scores.md"))
    for study in found:
        for old in IMAGES.glob(f"{study.name}_*.svg"):
            old.unlink()
        for name, picture in study.pictures():
            if name in shown:
                (IMAGES / name).write_text(picture)


def main() -> None:
    found = studies()
    for page, parts in pages(found).items():
        rewrite(ROOT / page, parts)
    (ROOT / "docs" / "scores.md").write_text(scores_page(found))
    write_pictures([*found.values(), Study("hopper", (SETTINGS,))])
    (IMAGES / selection.PICTURE).write_text(selection.picture())


if __name__ == "__main__":
    main()
