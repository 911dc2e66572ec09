"""The losses of a training."""

from collections.abc import Sequence
from typing import Any

from upweight.report.figures.drawing import Drawing, add_legend, finish, new_figure, style_of
from upweight.report.results import ReportRun

_LOG_RANGE = 100  # losses that fall further than this, all of them positive, get a logarithmic axis


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
