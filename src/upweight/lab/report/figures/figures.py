"""The figures of a report, in its order: each with a picture per algorithm (or task), or the reason why there is none."""

from collections.abc import Callable, Container
from dataclasses import dataclass
from itertools import groupby

from upweight.lab.report.figures.datasets import NO_DESCRIPTION, draw_gains, draw_performance, draw_returns
from upweight.lab.report.figures.drawing import Drawing, NothingToDraw, as_svg
from upweight.lab.report.figures.points import draw_losses, draw_points
from upweight.lab.report.figures.settings import draw_percentage, draw_temperature
from upweight.lab.report.figures.weightings import draw_improvement, draw_overview, draw_profiles, draw_sigma
from upweight.lab.report.names import sort_methods
from upweight.lab.report.results import ReportRun, Results
from upweight.lab.report.statistics.intervals import Intervals

_BY_METHOD: dict[str, tuple[str, Callable[[Results, Intervals, str], Drawing]]] = {  # name -> title, and who draws it
    "sigma": ("Return by share of good data", draw_sigma),
    "improvement": ("Probability of improvement over Uniform", draw_improvement),
    "points": ("Score over the training", draw_points),
    "profile": ("Performance profiles", draw_profiles),
    "gain": ("Gain over Uniform by kind of dataset", draw_gains),
    "performance": ("Performance of Uniform by mean return of the dataset", draw_performance),
    "temperature": ("Temperature", draw_temperature),
    "percentage": ("Percentage filtering", draw_percentage),
}
FIGURE_NAMES = (*_BY_METHOD, "overview", "losses")
_RETURNS = "returns"
_NAMES = frozenset({*_BY_METHOD, _RETURNS})


@dataclass(frozen=True)
class ReportFigure:
    """A figure: pictures (for algorithms or tasks) under one caption; none where there is nothing to draw."""

    name: str
    title: str
    caption: str
    pictures: dict[str, str]  # what it is of -> SVG
    missing: str  # why there are none


def overview_figure(results: Results, intervals: Intervals) -> ReportFigure:
    """The one that a report begins with."""
    return _figure("overview", "Every sampler in one number", {"": draw_overview(results, intervals)}, "")


def losses_figure(results: Results) -> ReportFigure:
    """How the losses went, of runs that they are known of."""
    known: dict[str, list[ReportRun]] = {}
    for run in results.runs:
        if run.losses:
            known.setdefault(run.method, []).append(run)
    drawn = {method: draw_losses(method, known[method]) for method in sort_methods(known)}
    return _figure("losses", "Losses over the training", drawn, "stores keep no losses")


def all_figures(results: Results, intervals: Intervals, only: Container[str] = _NAMES) -> list[ReportFigure]:
    """Every other figure, in the order of a report, or those of some names only."""
    found = []
    for name, (title, draw) in _BY_METHOD.items():
        if name in only:
            drawn, reasons = {}, {}
            for method in results.methods:
                try:
                    drawn[method] = draw(results, intervals, method)
                except NothingToDraw as why:
                    reasons[method] = str(why)
            found.append(_figure(name, title, drawn, _together(reasons)))
    if _RETURNS in only:
        by_task = groupby(results.datasets, key=lambda facts: facts.dataset.task)
        returns = {task: draw_returns(list(group)) for task, group in by_task}
        found.append(_figure(_RETURNS, "Returns of the datasets", returns, NO_DESCRIPTION))
    return found


def _figure(name: str, title: str, drawn: dict[str, Drawing], missing: str) -> ReportFigure:
    pictures = {
        what: as_svg(drawing.figure, f"{name}-{place}", drawing.label)
        for place, (what, drawing) in enumerate(drawn.items())
    }
    notes = dict.fromkeys(note for drawing in drawn.values() for note in drawing.notes)  # each sentence once
    return ReportFigure(name, title, " ".join(notes), pictures, missing)


def _together(reasons: dict[str, str]) -> str:
    """One reason if it is the same for all methods."""
    if len(set(reasons.values())) <= 1:
        return next(iter(reasons.values()), "")
    return "; ".join(f"{method}: {reason}" for method, reason in reasons.items())
