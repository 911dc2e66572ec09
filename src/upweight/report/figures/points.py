"""Figures of evaluation on the way: score over updates."""

from typing import Any

from upweight.report.figures.drawing import BAND, Drawing, NothingToDraw, add_legend, draw_curve, finish, new_figure
from upweight.report.figures.weightings import SHARED
from upweight.report.points import at_point, shared_points, with_points
from upweight.report.results import Results
from upweight.report.statistics.intervals import Intervals
from upweight.report.tables import score_text


def draw_points(results: Results, intervals: Intervals, method: str) -> Drawing:
    """IQM against updates, a curve for each weighting; a panel for each scale."""
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
        where = group.datasets[0].name if len(group.datasets) == 1 else f"{len(group.datasets)} datasets"
        unit = known.unit(group.datasets[0])
        finish(axis, title=where, x="updates", y=f"{unit} (IQM)")
    add_legend(figure, handles)
    notes = ("Score over the training: policies on the way play the same episodes as the last one.", SHARED, BAND)
    return Drawing(figure, f"{method}: score, interquartile mean, against updates. {', '.join(words)}.", notes)
