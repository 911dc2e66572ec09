"""The figure that a report begins with: every sampler in one number, with its interval."""

from upweight.report.figures.drawing import BAND, Drawing, draw_interval, finish, new_figure, plain
from upweight.report.figures.weightings import SHARED
from upweight.report.results import Results
from upweight.report.statistics.intervals import Intervals
from upweight.report.tables import score_text

_WIDTH = 3.9  # inches: narrower than the others, so that its text is large on a phone too


def draw_overview(results: Results, intervals: Intervals) -> Drawing:
    """IQM of each sampler, a panel for each method (and environment, where scores are returns)."""
    panels = [panel for method in results.methods for panel in results.panels(method)]
    line = max(0.2, min(0.4, 2 / sum(len(panel.weightings) for panel in panels)))  # inches: few lines take more room
    heights = [line * len(panel.weightings) + 0.35 for panel in panels]
    figure = new_figure(0.45 + sum(heights), "", width=_WIDTH)
    shared = len({panel.scale for panel in panels}) == 1
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=shared, height_ratios=heights)[:, 0]
    words = []
    for axis, panel in zip(axes, panels, strict=True):
        datasets, normalized = panel.datasets, not panel.scale
        names = []
        for place, weighting in enumerate(panel.weightings):
            level = intervals.level(results.scores(panel.method, weighting.name, datasets))
            draw_interval(axis, weighting, level, place)
            names.append(f"{weighting.name}: {score_text(level.point, normalized=normalized)}")
        axis.set_yticks(range(len(names)), [plain(name) for name in names])
        axis.set_ylim(len(names) - 0.4, -0.6)
        where = datasets[0].name if len(datasets) == 1 else f"{len(datasets)} datasets"
        unit = results.unit(datasets[0])
        last = axis is axes[-1] or not shared
        finish(axis, title=f"{panel.method}: {where}", x=f"{unit} (IQM)" if last else "", width=_WIDTH - 0.6)
        words.append(f"{panel.method}, {where}, {unit} of {', '.join(names)}")
    label = f"Interquartile mean of each sampler. {'. '.join(words)}."
    return Drawing(figure, label, (SHARED, BAND))
