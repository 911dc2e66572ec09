"""docs/scores.md: everything that the stored studies say, whatever algorithms are in them. Written by results_page.py.

Studies are files of ``Store.pack`` in benchmarks/results, named as the suites are; those that are not there are left out:

    upweight sweep paper/mixed --algorithm iql --set updates=250_000 -o mixed
    upweight sweep paper/regular --algorithm bc --algorithm td3_bc --algorithm iql --set updates=250_000 -o regular
    upweight sweep paper/official_antmaze --algorithm iql --set updates=250_000 --set precision=bfloat16 -o official_antmaze
    upweight sweep paper/stochastic --scale quick --set seeds=5 -o stochastic
    upweight sweep paper/temperature --algorithm iql --set updates=250_000 -o temperature
    upweight sweep paper/percentage --algorithm iql --set updates=250_000 -o percentage

and ``mixed_seed1.jsonl`` is ``paper/mixed --set dataset_seed=1``, a second draw of the data.
"""

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from textwrap import fill
from typing import Any

from measure import RESULTS
from upweight.engine.run import algorithm_config
from upweight.paper.tables import paper_scores
from upweight.recipes.tasks import MAZE_TASKS, MUJOCO_TASKS, TASKS
from upweight.report.figures.drawing import as_file
from upweight.report.figures.figures import ReportFigure, all_figures
from upweight.report.names import DatasetName
from upweight.report.points import at_point, best_table, shared_points, with_points
from upweight.report.replicate import Claim, replicate
from upweight.report.results import Results, collect
from upweight.report.statistics.aggregate import mean
from upweight.report.statistics.bootstrap import Estimate
from upweight.report.statistics.intervals import Intervals
from upweight.report.table import as_markdown
from upweight.report.tables import Score, ScoreTable, estimate_text, file_stem, score_tables
from upweight.studies.readers import open_store

SUITES = {  # title, and the figures of a report that are shown
    "mixed": ("Mixed datasets", ("sigma", "improvement", "points", "gain", "performance")),
    "regular": ("Regular datasets", ("improvement", "points", "performance")),
    "official_antmaze": ("Antmaze with the settings of the original codes", ("improvement",)),
    "stochastic": ("Stochastic control", ("sigma", "improvement", "points")),
    "temperature": ("Temperature", ("temperature",)),
    "percentage": ("Percentage", ("percentage",)),
    "hopper": ("Temperature and percentage in Hopper", ("temperature", "percentage")),  # on docs/results.md only
}
SETTINGS = ("temperature", "percentage")  # studies that share samplers and runs with the mixed one
SIGMAS = (1, 5, 10, 50)
REGULAR_KINDS = ("random", "medium", "expert", "medium-expert", "medium-replay", "full-replay")
MAZE_KINDS = {"umaze": ("", "-diverse"), "medium": ("-play", "-diverse"), "large": ("-play", "-diverse")}
PASSES = (0, 125, 250, 500, 1000, 2000, 4000, 8000, 16000, math.inf)  # through the steps that weights draw on
FAR = 0.15  # of normalised return: further from the paper, a cause is looked for
Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class Study:
    """A stored suite."""

    name: str
    paths: tuple[Path, ...]  # its file, then other draws of its data

    @cached_property
    def results(self) -> Results:
        return collect(open_store(self.paths[0]))

    @cached_property
    def tables(self) -> list[ScoreTable]:
        return score_tables(self.results, Intervals())

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """On the first draw of the data; of others says draws_page.py."""
        return replicate(self.results, Intervals()).claims

    @cached_property
    def figures(self) -> list[ReportFigure]:
        return [each for each in all_figures(self.results, Intervals(), SUITES[self.name][1]) if each.pictures]

    def pictures(self) -> Iterator[tuple[str, str]]:
        """Names of files, and what they hold."""
        for figure in self.figures:
            for method, picture in figure.pictures.items():
                yield picture_name(self.name, figure.name, method), as_file(picture)

    def images(self, figure: str, folder: str = "images") -> str:
        """Lines that show a figure, two algorithms side by side; nothing, where it was not drawn."""
        lines = []
        for each in self.figures:
            for method in each.pictures if each.name == figure else ():
                name = picture_name(self.name, figure, method)
                lines.append(f'<img src="{folder}/{name}" alt="{each.title}, {method}" width="49%">\n')
        return "".join(lines)


def studies() -> dict[str, Study]:
    """Those that are stored."""
    found = {}
    for name in SUITES:
        paths = (RESULTS / f"{name}.jsonl", *sorted(RESULTS.glob(f"{name}_seed*.jsonl")))
        if paths[0].exists():
            found[name] = Study(name, paths)
    return found


def picture_name(study: str, figure: str, method: str) -> str:
    return f"{study}_{figure}_{file_stem(method).replace('-', '_')}.svg"


def markdown(rows: Rows) -> str:
    """Rows as a table; the first is the head."""
    lines = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


def physics(folder: str) -> str:
    """What stands beside every comparison with the paper, as a quotation."""
    (row,) = json.loads((RESULTS / "d4rl_policy.json").read_text())["results"]
    text = (
        "**Other physics.** Data and scores are from today's MuJoCo, the paper's from D4RL's. In today's, D4RL's own medium "
        f"policy for Hopper, whose network is stored in D4RL's file, has a mean return of {row['mean_return']:,.0f} (episodes "
        f"of {row['mean_length']:.0f} steps; [{row['episodes']} episodes]({folder}/d4rl_policy.json), `python "
        "benchmarks/d4rl_policy.py`), where D4RL's data have about 1,420 (457 steps, second-hand): numbers beside each other "
        "come from different simulators."
    )
    return fill(text, 128, initial_indent="> ", subsequent_indent="> ", break_long_words=False) + "\n"


def run_rows(found: dict[str, Study]) -> Rows:
    """What was run; on the first draw of the data and on others."""
    rows: Rows = [("study", "algorithm", "updates", "seeds", "datasets", "runs")]
    for study in found.values():
        draws = [(f"`paper/{study.name}`", study.results)]
        draws += [(f"`paper/{study.name}`, another draw", collect(open_store(path))) for path in study.paths[1:]]
        for name, results in draws:
            for method in results.methods:
                runs = [run for run in results.shown if run.method == method]
                cells = Counter((run.dataset, run.weighting) for run in runs).values()
                seeds = " to ".join(dict.fromkeys(map(str, (min(cells), max(cells)))))
                datasets = str(len({run.dataset for run in runs}))
                rows.append((name, method, f"{results.updates[method]:,}", seeds, datasets, f"{len(runs):,}"))
    return rows


@dataclass(frozen=True)
class Beside:
    """A score that the paper has too."""

    study: str
    method: str
    dataset: DatasetName
    weighting: str
    score: Score
    ours: Estimate  # mean, with its interval over seeds
    paper: float

    @property
    def apart(self) -> float:
        """How far the paper's number lies outside our interval; with a sign: + where ours is higher."""
        return max(0.0, self.ours.low - self.paper) - max(0.0, self.paper - self.ours.high)


def beside_the_paper(found: dict[str, Study]) -> list[Beside]:
    """Every score that the paper has too; those of the studies of settings are the mixed study's."""
    cells = []
    for study in (study for name, study in found.items() if name not in SETTINGS):
        for table in study.tables:
            for dataset, scores in table.rows:
                for weighting, score in zip(table.weightings, scores, strict=True):
                    if score is not None and score.paper is not None:
                        values = study.results.scores(table.method, weighting, [dataset])
                        ours = Intervals().of(mean, values)
                        cells.append(Beside(study.name, table.method, dataset, weighting, score, ours, score.paper))
    return cells


def far_counts(cells: list[Beside]) -> Rows:
    """How many scores are how far from the paper's, by study and algorithm."""
    rows: Rows = [
        (
            "study",
            "algorithm",
            "scores",
            f"more than {FAR} from the paper's",
            "interval excludes that",
            "ours higher",
            "ours lower",
        )
    ]
    for study, method in dict.fromkeys((cell.study, cell.method) for cell in cells):
        mine = [cell for cell in cells if (cell.study, cell.method) == (study, method)]
        apart = [cell.apart for cell in mine if abs(cell.apart) > FAR]
        near = sum(abs(cell.ours.point - cell.paper) > FAR for cell in mine)
        numbers = (len(mine), near, len(apart), sum(each > 0 for each in apart), sum(each < 0 for each in apart))
        rows.append((f"`paper/{study}`", method, *map(str, numbers)))
    return rows


def far_rows(cells: list[Beside]) -> Rows:
    """Scores whose interval excludes the paper's number by more than :data:`FAR`, the furthest of each algorithm first."""
    rows: Rows = [("study", "algorithm", "dataset", "sampler", "ours, 95% interval", "paper", "apart")]
    groups = list(dict.fromkeys((cell.study, cell.method) for cell in cells))
    far = [cell for cell in cells if abs(cell.apart) > FAR]
    for cell in sorted(far, key=lambda cell: (groups.index((cell.study, cell.method)), -abs(cell.apart))):
        who, ours = (f"`paper/{cell.study}`", cell.method), estimate_text(cell.ours, normalized=True)
        rows.append((*who, cell.dataset.name, cell.weighting, ours, f"{cell.paper:.2f}", f"{cell.apart:+.2f}"))
    return rows


def mean_rows(study: Study) -> Rows:
    """Mean score over all mixes of a share of good steps, by algorithm and weighting, with the paper's in brackets."""
    rows: Rows = [("", *(f"{sigma}% good steps" for sigma in SIGMAS))]
    tables = [table for table in study.tables if table.title == table.method]
    all_tasks = {task for table in tables for task in _tasks(table)}
    for table in tables:
        rows.append((_head(study, table, all_tasks), *[""] * len(SIGMAS)))
        for place, name in enumerate(table.weightings):
            rows.append((name, *(_mean(table, place, lambda d, sigma=sigma: d.sigma == sigma) for sigma in SIGMAS)))
    return rows


def regular_rows(study: Study) -> Rows:
    """Mean score over all tasks of a kind of dataset, by algorithm and weighting, with the paper's in brackets."""
    rows: Rows = [("", *REGULAR_KINDS, "antmaze", "all")]
    all_tasks = {task for table in study.tables for task in _tasks(table)}
    for table in study.tables:
        rows.append((_head(study, table, all_tasks), *[""] * (len(rows[0]) - 1)))
        for place, name in enumerate(table.weightings):
            cells = [_mean(table, place, lambda d, kind=kind: _kind(d) == kind) for kind in rows[0][1:-1]]
            rows.append((name, *cells, _mean(table, place, lambda _: True)))
    return rows


def _kind(dataset: DatasetName) -> str:
    """What a regular dataset is called without its task: "medium-replay", and "antmaze" for all of those."""
    return "antmaze" if dataset.base.startswith("antmaze") else dataset.base.removeprefix(f"{dataset.task}-")


def way_rows(study: Study) -> Rows:
    """Mean score over all mixes of a share of good steps, at the points where trainings were evaluated on their way."""
    known, theirs = with_points(study.results), paper_scores()
    rows: Rows = []
    for group in (group for method in known.methods for group in known.groups(method) if group.family == "mixed"):
        points = shared_points(known, group)
        rows = rows or [("", *(f"{updates:,}" for updates in points), "paper")]
        for sigma in sorted({dataset.sigma for dataset in group.datasets if dataset.sigma is not None}):
            mixes = [dataset for dataset in group.datasets if dataset.sigma == sigma]
            rows.append((f"**{group.method}**, {sigma}% good steps", *[""] * (len(points) + 1)))
            for weighting in (each.name for each in group.weightings):
                scores = [at_point(known, updates).scores(group.method, weighting, mixes) for updates in points]
                paper = [theirs[known.algorithm(group.method), mix.base].get(weighting) for mix in mixes]
                printed = "" if None in paper else f"{fmean(each for each in paper if each is not None):.2f}"
                rows.append((weighting, *(f"{mean(each):.2f}" for each in scores), printed))
    return rows


def kept_gains(results: Results, method: str = "BC, bfloat16") -> list[tuple[float, float]]:
    """How often batches have passed through the steps that RW or AW draws on in effect, and the share of the gain left then.

    One pair for each point of the trainings on each mix. The gain is over Uniform at its end, in units of the highest of all
    points; where that is under 0.1, nothing can be kept.
    """
    steps = {(row["dataset"], row["weighting"]): row["effective_steps"] for row in _early_steps()}
    known = with_points(results)
    pairs = []
    for mix in known.datasets_of(method, family="mixed"):
        level = mean(known.scores(method, "Uniform", [mix]))
        for weighting in ("RW", "AW"):
            points = sorted({at for run in known.shown if run.method == method for at, _ in run.points})
            gains = [mean(at_point(known, at).scores(method, weighting, [mix])) - level for at in points]
            drawn = steps[mix.base, f"{weighting.lower()} 0.1"]
            if max(gains) >= 0.1:
                passes = [at * algorithm_config("bc").batch_size / drawn for at in points]
                pairs += list(zip(passes, (gain / max(gains) for gain in gains), strict=True))
    return pairs


def pass_rows(study: Study) -> Rows:
    """What is left of the gain, by number of passes."""
    rows: Rows = [("passes", "points", "share of the gain left: median", "lowest")]
    pairs = kept_gains(study.results)
    for low, high in itertools.pairwise(PASSES):
        left = [share for passes, share in pairs if low <= passes < high]
        name = f"under {high:,}" if low == 0 else f"{low:,} or more" if math.isinf(high) else f"{low:,} to {high:,}"
        rows.append((name, str(len(left)), f"{median(left):.2f}", f"{round(min(left), 2) + 0.0:.2f}"))  # not -0.00
    return rows


def _early_steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((RESULTS / "early_steps_mixed.json").read_text())["results"]
    return found


def antmaze_rows(found: dict[str, Study]) -> Rows:
    """Rates of success, by algorithm and weighting, with the paper's in brackets."""
    mazes = [f"{maze}{kind}" for maze, kinds in MAZE_KINDS.items() for kind in kinds]
    rows: Rows = [("", *mazes)]
    for table in (table for name in ("regular", "official_antmaze") if name in found for table in found[name].tables):
        scores = {dataset.name: cells for dataset, cells in table.rows}
        if f"antmaze-{mazes[0]}" not in scores:
            continue
        chosen = [scores[f"antmaze-{maze}"] for maze in mazes]
        rows.append((f"**{table.method}**", *[""] * len(mazes)))
        for place, weighting in enumerate(table.weightings):
            cells = [cell for each in chosen if (cell := each[place]) is not None]
            papers = ["" if cell.paper is None else f" ({cell.paper:.2f})" for cell in cells]
            rows.append((weighting, *(f"{cell.mean:.2f}{paper}" for cell, paper in zip(cells, papers, strict=True))))
    return rows


def _tasks(table: ScoreTable) -> set[str]:
    return {dataset.task for dataset, _ in table.rows if dataset.task is not None}


def _head(study: Study, table: ScoreTable, all_tasks: set[str]) -> str:
    """An algorithm and what is known of its runs; the tasks it was trained in, where others have more."""
    seeds = min(score.seeds for score in table.scores)
    head = f"**{table.method}**, {study.results.updates[table.method]:,} updates, {seeds} seeds"
    if (tasks := _tasks(table)) == all_tasks:
        return head
    if all_tasks - tasks == set(MAZE_TASKS):
        return f"{head}, without antmaze"
    *others, last = (TASKS[task].env_id.split("-")[0] for task in MUJOCO_TASKS if task in tasks)
    return f"{head}, {' and '.join([', '.join(others), last] if others else [last])} only"


def _mean(table: ScoreTable, place: int, wanted: Callable[[DatasetName], bool]) -> str:
    """Of one weighting over some datasets, with the paper's in brackets."""
    scores = [scores[place] for dataset, scores in table.rows if wanted(dataset)]
    found = [score for score in scores if score is not None]
    paper = [score.paper for score in found if score.paper is not None]
    shown = f"{fmean(score.mean for score in found):.2f}" if found else ""
    return shown + (f" ({fmean(paper):.2f})" if paper else "")


def scores_page(found: dict[str, Study]) -> str:
    """The whole page."""
    parts = [_INTRODUCTION, physics("../benchmarks/results"), markdown(run_rows(found))]
    for study in found.values():
        parts += [f"## {SUITES[study.name][0]}\n", *_of_study(study)]
    cells = beside_the_paper(found)
    parts += [f"## Further than {FAR} from the paper\n", _FAR_TEXT, physics("../benchmarks/results")]
    return "\n".join([*parts, markdown(far_counts(cells)), markdown(far_rows(cells))])


def _of_study(study: Study) -> Iterator[str]:
    for table in study.tables:
        yield f"{table.title}, {study.results.updates[table.method]:,} updates:\n"
        yield as_markdown(table.shown(), notes=False)
    if (points := best_table(study.results, Intervals())).rows:
        yield "Score by number of updates:\n"
        yield as_markdown(points)
    for path in study.paths[1:]:
        yield f"Means over the mixes on another draw of the data ([{path.stem}](../benchmarks/results/{path.name})):\n"
        yield markdown(mean_rows(Study(study.name, (path,))))
    for figure in study.figures:
        yield study.images(figure.name)
        yield f"*{figure.title}. {figure.caption}*\n"


_INTRODUCTION = """# Every score

What the stored studies give, cell by cell, written by `python benchmarks/results_page.py`; [results](results.md) says what is to
be made of it. 1 is D4RL's expert, 0 a random policy; mean ± standard deviation over seeds, the paper's number in brackets (a
million updates, five seeds, D4RL's data; ours were collected anew with the policies that come with the package). The marks are
the paper's, with a stricter bold: ours says significantly better than Uniform, corrected for all comparisons of a table
([how](reports.md#marks)), the paper's that the mean is higher. \\* is the maximum of a row, ties included. The last row counts
the bold. Without brackets, the paper prints no number: for Half, stochastic control, temperatures and percentages it has figures
only.
"""
_FAR_TEXT = f"""Scores of the paper that lie more than {FAR} outside the 95% interval of ours, the furthest first. The interval
is a bootstrap of the mean over training seeds on one draw of the data: with five seeds it is rather too narrow, and the paper's
numbers, means of five seeds too, have a spread of their own. So some of these are chance; which are not, and why, as far as
known, is in [results](results.md#where-we-differ-from-the-paper).
"""
