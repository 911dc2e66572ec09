"""Tables of docs/results.md about smaller studies, made to find out why scores are what they are. Written by results_page.py.

The studies are the files beside this one, packed into benchmarks/results under their names: cql_settings.toml, replays.toml and
repetition.toml.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from measure import RESULTS
from scores_page import Rows, Study
from upweight.paper.tables import paper_scores
from upweight.recipes.tasks import TASKS
from upweight.report.names import BESIDE, name_weighting
from upweight.report.results import Results
from upweight.report.statistics.intervals import Intervals
from upweight.studies.readers import open_store
from upweight.studies.store import Record

IQL = "IQL, bfloat16"
CQL_SETTINGS = {  # (conservative weight, hidden layers) -> whose they are
    (5.0, 3): "The paper's (d3rlpy's)",
    (20.0, 3): "The same with a weight of 20",
    (10.0, 2): "JaxCQL's, 5 for each critic",
    (20.0, 2): "JaxCQL's, 10 for each critic",
}


def runs_of(study: str) -> list[Record]:
    return list(open_store(RESULTS / f"{study}.jsonl").runs())


def on_the_way(run: Record) -> dict[int, float]:
    """Score by number of updates, the end included."""
    points = {point["updates"]: point["score"] for point in run.get("points", ())}
    return points | {run["spec"]["updates"]: run["score"]}


def mean_on_the_way(runs: Iterable[Record], key: Callable[[Record], Hashable]) -> dict[Any, dict[int, float]]:
    """Mean over the runs of a key, by number of updates."""
    found: dict[Any, list[dict[int, float]]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(on_the_way(run))
    return {key: {at: fmean(each[at] for each in group) for at in group[0]} for key, group in found.items()}


def sampler(run: Record) -> str:
    """As a report names it."""
    return name_weighting(run["spec"]["weighting"], run["spec"]["algorithm"]).name


def cell(run: Record) -> tuple[str, str]:
    return run["spec"]["data"]["name"], sampler(run)


def _paper(algorithm: str, dataset: str, weighting: str) -> str:
    score = paper_scores().get((algorithm, dataset), {}).get(weighting)
    return "" if score is None else f"{score:.2f}"


def _head(title: str, found: Mapping[Any, dict[int, float]], *more: str) -> tuple[str, ...]:
    return (title, *(f"{updates:,}" for updates in next(iter(found.values()))), *more)


def size_rows() -> Rows:
    """BC with RW at the points of repetition.toml, by size of the network."""
    found = mean_on_the_way(runs_of("repetition"), lambda run: tuple(run["spec"]["config"]["hidden_units"]))
    rows: Rows = [_head("hidden units", found)]
    return rows + [
        (str(size), *(f"{score:.2f}" for score in scores.values())) for size, scores in sorted(found.items())
    ]


def cql_rows() -> Rows:
    """CQL at the points of cql_settings.toml, by settings, dataset and sampler."""
    runs = runs_of("cql_settings")
    found = mean_on_the_way(runs, lambda run: (cql_setting(run), *cell(run)))
    rows: Rows = [_head("", found, "paper")]
    for title in dict.fromkeys(title for title in CQL_SETTINGS.values() if title in {key[0] for key in found}):
        rows.append((f"**{title}**", *[""] * (len(rows[0]) - 1)))
        for (setting, dataset, weighting), scores in sorted(found.items()):
            if setting == title:
                cells = (f"{round(score, 2) + 0.0:.2f}" for score in scores.values())  # not -0.00
                rows.append((f"{dataset}, {weighting}", *cells, _paper("CQL", dataset, weighting)))
    return rows


def cql_setting(run: Record) -> str:
    config = run["spec"]["config"]
    return CQL_SETTINGS[config["conservative_weight"], len(config["hidden_units"])]


def apart_scores(regular: Study) -> dict[tuple[str, str, str], list[float]]:
    """IQL on replays: (dataset, weights of the critics, weights of the actor) -> score of each seed."""
    found: dict[tuple[str, str, str], list[float]] = {}
    apart = {run["spec"]["data"]["name"] for run in runs_of("replays")}
    for run in regular.results.shown:
        if run.method == IQL and run.dataset.base in apart:
            found.setdefault((run.dataset.base, run.weighting.name, run.weighting.name), []).append(run.score)
    for run in runs_of("replays"):
        found.setdefault((run["spec"]["data"]["name"], *sampler(run).split(BESIDE)), []).append(run["score"])
    return found


def apart_rows(regular: Study) -> Rows:
    """IQL on replays, where critics and actor draw by the same weights and by different ones; RW, then AW."""
    found = apart_scores(regular)
    rows: Rows = [("replay", "Uniform", "critics RW", "actor RW", "both RW", "critics AW", "actor AW", "both AW")]
    for dataset in dict.fromkeys(dataset for dataset, *_ in found):
        whose = [("Uniform", "Uniform")]
        whose += [draws for name in ("RW", "AW") for draws in ((name, "Uniform"), ("Uniform", name), (name, name))]
        rows.append((dataset, *(f"{fmean(found[dataset, *draws]):.2f}" for draws in whose)))
    return rows


def of_task(results: Results, task: str) -> Results:
    return replace(results, runs=tuple(run for run in results.runs if run.dataset.task == task))


def level_rows(study: Study) -> Rows:
    """IQM over the mixes of a task at every temperature, or percentage, with IQL."""
    rows: Rows = []
    for task in dict.fromkeys(dataset.task for dataset in study.results.datasets_of(IQL)):
        results = of_task(study.results, task)
        mixes, samplers = results.datasets_of(IQL), results.weightings(IQL)
        uniform = _level(results, "Uniform", mixes)
        for kind in dict.fromkeys(each.kind for each in samplers if each.setting is not None):
            settings = sorted((each for each in samplers if each.kind == kind), key=lambda each: each.setting or 0)
            titles = [each.name if kind == "top" else f"{each.setting:g}" for each in settings]
            rows = rows or [("", "Uniform", *titles)]
            name = TASKS[task].env_id.split("-")[0] + ("" if kind == "top" else f", {kind.upper()}")
            rows.append((name, uniform, *(_level(results, each.name, mixes) for each in settings)))
    return rows


def _level(results: Results, weighting: str, mixes: Iterable[Any]) -> str:
    return f"{Intervals().level(results.scores(IQL, weighting, mixes)).point:.2f}"
