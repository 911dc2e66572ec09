"""Figures over the training: scores of evaluation on the way, and losses."""

from collections.abc import Sequence
from typing import Any

from upweight.lab.report.figures.drawing import (
    BAND,
    Drawing,
    NothingToDraw,
    add_legend,
    draw_curve,
    finish,
    new_figure,
    style_of,
)
from upweight.lab.report.figures.weightings import SHARED
from upweight.lab.report.points import at_point, shared_points, with_points
from upweight.lab.report.results import ReportRun, Results
from upweight.lab.report.statistics.intervals import Intervals, level_name
from upweight.lab.report.tables import score_text

_LOG_RANGE = 100  # losses that fall further than this, all of them positive, get a logarithmic axis


def draw_points(results: Results, intervals: Intervals, method: str) -> Drawing:
    """The level against updates, a curve for each weighting; a panel for each scale."""
    known = with_points(results)
    if method not in known.methods:
        raise NothingToDraw("no run was evaluated on the way (evaluate_every)")
    panels = {group: at for group in known.panels(method) if len(at := shared_points(known, group)) > 1}
    if not panels:
        raise NothingToDraw("its runs were evaluated at different points of their trainings")
    figure = new_figure(0.5 + 2.2 * len(panels), method)
    axes = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    handles: dict[str, Any] = {}
    words = []
    for axis, (group, points) in zip(axes, panels.items(), strict=True):
        moments = [at_point(known, updates) for updates in points]
        for weighting in group.weightings:
            scores = [moment.scores(method, weighting.name, group.datasets) for moment in moments]
            levels = [intervals.level(each) for each in scores]
            handles[weighting.name] = draw_curve(axis, weighting, points, levels)
            first, last = (score_text(level.point, normalized=not group.scale) for level in (levels[0], levels[-1]))
            words.append(f"{weighting.name} from {first} at {points[0]:,} to {last} at {points[-1]:,}")
        axis.set_xlim(left=0)
        axis.locator_params(axis="x", nbins=5)
        axis.xaxis.set_major_formatter("{x:,.0f}")
        unit = known.unit(group.datasets[0])
        finish(axis, title=group.where, x="updates", y=f"{unit} ({level_name(len(group.datasets))})")
    add_legend(figure, handles)
    notes = ("Score over the training: policies on the way play the same episodes as the last one.", SHARED, BAND)
    return Drawing(figure, f"{method}: score against updates. {', '.join(words)}.", notes)


def draw_losses(method: str, runs: Sequence[ReportRun]) -> Drawing:
    """A panel for each loss, in it a line for each run, in the colour of its weighting."""
    names = list(dict.fromkeys(name for run in runs for record in run.losses for name in record if "loss" in name))
    figure = new_figure(0.5 + 1.9 * len(names), method)
    handles: dict[str, Any] = {}
    for axis, name in zip(figure.subplots(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        for run in runs:
            style = style_of(run.weighting)
            known = [(record["updates"], record[name]) for record in run.losses if name in record]
            (handles[run.weighting.name],) = axis.plot(
                *zip(*known, strict=True), color=style.color, linestyle=style.line, linewidth=1.2, alpha=0.8
            )
        low, high = axis.dataLim.ymin, axis.dataLim.ymax
        axis.set_yscale("log" if low > 0 and high > _LOG_RANGE * low else "linear")
        axis.locator_params(axis="x", nbins=5)
        axis.xaxis.set_major_formatter("{x:,.0f}")
        finish(axis, title=name.replace("_", " "), x="updates")
    add_legend(figure, handles)
    notes = ("A line for each run: the mean loss of the updates since the point before.",)
    return Drawing(figure, f"{method}: {', '.join(names)} against updates, {len(runs)} runs.", notes)
