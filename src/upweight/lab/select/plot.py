"""Estimates with their intervals, and the baseline that a choice has to beat."""

from pathlib import Path

import numpy as np

from upweight.inspection.plot import save_figure
from upweight.lab.report.figures.drawing import INK, finish, new_figure, plain, style_of
from upweight.lab.report.names import WeightingName
from upweight.lab.select.outcome import Selection, Standing

_ROW, _MARGIN, _WIDTH, _PANEL = 0.32, 1.1, 6.5, 3.6  # inches
_VETOED = 0.35  # how faint candidates are that could not be chosen


def plot_selection(selection: Selection, path: Path) -> None:
    """Write a picture to ``path``: a row per candidate with all of its estimates, their mean and standard deviation."""
    rows = selection.ranked[::-1]  # the highest on top
    chosen = selection.choice
    title = "Abstained" if chosen is None else f"Chosen: {chosen.name}"
    figure = new_figure(_MARGIN + _ROW * len(rows), title, width=_WIDTH)
    axis = figure.subplots()
    base = selection.baseline
    axis.axvline(base.mean, color=INK, linewidth=1, linestyle="--", zorder=1)
    if np.isfinite(base.spread):
        axis.axvspan(
            base.mean - base.spread, base.mean + base.spread, color="#808080", alpha=0.15, linewidth=0, zorder=0
        )
    for place, each in enumerate(rows):
        style, evidence = style_of(_weighting(each)), each.evidence
        alpha = 1.0 if each.verdict in {"chosen", "not above the chosen", "to be beaten", "not shown"} else _VETOED
        if not evidence.found.size:
            continue
        spread = evidence.spread if np.isfinite(evidence.spread) else 0.0
        axis.plot(
            evidence.found, [place] * evidence.found.size, "|", color=style.color, alpha=0.6 * alpha, markersize=9
        )
        ends = [evidence.mean - spread, evidence.mean + spread]
        axis.plot(ends, [place] * 2, color=style.color, alpha=0.5 * alpha, linewidth=4, solid_capstyle="butt")
        axis.plot(evidence.mean, place, style.marker, color=style.color, alpha=alpha, markersize=7)
    names = [f"{plain(each.name)}  ({100 * each.look.outside:.0f}% outside)" for each in rows]
    axis.set_yticks(range(len(rows)), names)
    for label, each in zip(axis.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if each is chosen else "normal")
    axis.set_ylim(-0.6, len(rows) - 0.4)
    bars = "bars: standard deviation over seeds, ticks: single estimates"
    finish(axis, x=f"estimated value; dashed: {base.name}; {bars}", width=_PANEL)
    save_figure(figure, path)


def _weighting(each: Standing) -> WeightingName:
    """For its colour and marker."""
    about = each.candidate.about.get("weighting")
    kind = str(about.get("name")) if isinstance(about, dict) else ""
    return WeightingName(each.name, kind)
