"""The figure that a report begins with: every sampler in one number, with its interval."""

from upweight.report.figures.drawing import BAND, Drawing, NothingToDraw, draw_interval, finish, new_figure, plain
from upweight.report.figures.weightings import NO_SCALE, SHARED
from upweight.report.names import DatasetName, WeightingName
from upweight.report.results import Results
from upweight.report.statistics.intervals import Intervals
from upweight.report.tables import score_text

_WIDTH = 3.9  # inches: narrower than the others, so that its text is large on a phone too


def draw_overview(results: Results, intervals: Intervals) -> Drawing:
    """IQM of each sampler, a panel for each method."""
    panels = {method: _compared(results, method) for method in results.methods}
    panels = {method: compared for method, compared in panels.items() if compared[1]}
    if not panels:
        raise NothingToDraw(NO_SCALE)
    heights = [0.2 * len(weightings) + 0.35 for weightings, _ in panels.values()]
    figure = new_figure(0.45 + sum(heights), "", width=_WIDTH)
    units = {results.is_normalized(datasets[0]) for _, datasets in panels.values()}
    shared = len(units) == 1
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=shared, height_ratios=heights)[:, 0]
    words = []
    for axis, (method, (weightings, datasets)) in zip(axes, panels.items(), strict=True):
        normalized = results.is_normalized(datasets[0])
        names = []
        for place, weighting in enumerate(weightings):
            level = intervals.level(results.scores(method, weighting.name, datasets))
            draw_interval(axis, weighting, level, place)
            names.append(f"{weighting.name}  {score_text(level.point, normalized=normalized)}")
        axis.set_yticks(range(len(names)), [plain(name) for name in names])
        axis.set_ylim(len(names) - 0.4, -0.6)
        where = datasets[0].name if len(datasets) == 1 else f"{len(datasets)} datasets"
        unit = "normalised return (IQM)" if normalized else "return (IQM)"
        last = axis is axes[-1] or not shared
        finish(axis, title=f"{method}: {where}", x=unit if last else "", width=_WIDTH - 0.6)
        words.append(f"{method}, {where}: {', '.join(' '.join(name.split()) for name in names)}")
    label = f"Interquartile mean of the {'normalised ' if units == {True} else ''}return of each sampler. {'. '.join(words)}."
    return Drawing(figure, label, (SHARED, BAND))


def _compared(results: Results, method: str) -> tuple[list[WeightingName], list[DatasetName]]:
    """Samplers, and the datasets that all of them have runs on; those with fewest runs go until there are some."""
    datasets = results.datasets_of(method)
    weightings = results.usual_weightings(method, datasets) or results.weightings(method)
    while weightings:
        common = results.comparable(method, [weighting.name for weighting in weightings], datasets)
        if common:
            return weightings, common
        weightings.remove(min(weightings, key=lambda each: len(results.scores(method, each.name, datasets))))
    return [], []
