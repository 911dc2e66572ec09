"""Figures about the datasets: what they are like, and where weighting helps."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from upweight.report.collect import DatasetFacts, Results
from upweight.report.drawing import SMALL, add_legend, as_svg, finish, new_figure, plain, style_of
from upweight.report.names import UNIFORM

_COLUMNS = 4
_PANEL = (1.75, 1.35)  # inches


def draw_gains(results: Results, method: str) -> Any:
    """Gain over Uniform against mean return and against RPSV; None where nothing compares."""
    facts = [each for each in results.datasets if each.normalized]
    samplers = [each for each in results.samplers(method) if not each.is_variant and each.name != UNIFORM]
    points: dict[str, list[tuple[float, float, float]]] = {}  # sampler -> mean, RPSV, gain
    for each in facts:
        uniform = results.scores(method, UNIFORM, [each.dataset])
        for sampler in samplers:
            scores = results.scores(method, sampler.name, results.comparable(method, [sampler.name], [each.dataset]))
            if scores and uniform:
                gain = float(np.mean(scores[each.dataset.name]) - np.mean(uniform[each.dataset.name]))
                points.setdefault(sampler.name, []).append((each.mean, each.rpsv, gain))
    if not points:
        return None
    figure = new_figure(5.7, 3.1)
    handles: dict[str, Any] = {}
    labels = ("mean return of the dataset", "RPSV of the dataset")
    for place, axis in enumerate(figure.subplots(1, 2, sharey=True)):
        for sampler in samplers:
            if sampler.name in points:
                style = style_of(sampler)
                values = np.array(points[sampler.name])
                (handles[sampler.name],) = axis.plot(
                    values[:, place],
                    values[:, 2],
                    color=style.color,
                    marker=style.marker,
                    linestyle="",
                    markersize=5,
                    alpha=0.75,
                )
        axis.axhline(0, color="#808080", linewidth=1)
        axis.locator_params(axis="x", nbins=4)
        finish(axis, title=method, x=labels[place], y="" if place else "gain over Uniform")
    add_legend(figure, list(handles.values()), list(handles))
    return figure


def draw_returns(datasets: Sequence[DatasetFacts]) -> dict[str, str]:
    """Histograms of returns, a picture for each task."""
    pictures: dict[str, str] = {}
    for task, group in groupby(datasets, key=lambda facts: facts.dataset.task):
        pictures[task] = as_svg(_task_returns(list(group)), f"returns-{len(pictures)}", f"returns of {task} datasets")
    return pictures


def _task_returns(datasets: Sequence[DatasetFacts]) -> Any:
    columns = min(_COLUMNS, len(datasets))
    rows = -(-len(datasets) // columns)
    figure = new_figure(max(_PANEL[0] * columns, 2.6) + 0.4, _PANEL[1] * rows + 0.3)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axis, facts in zip(axes, datasets, strict=False):
        counts = np.array(facts.counts, np.float64)
        axis.stairs(100 * counts / counts.sum(), facts.edges, fill=True, color="#56b4e9")
        axis.axvline(facts.mean, color="#d55e00", linestyle="--", linewidth=1)
        axis.set_yscale("log")
        axis.set_ylim(0.005, 150)
        axis.set_yticks([0.01, 1, 100], ["0.01", "1", "100"])
        axis.minorticks_off()
        name = facts.dataset.name.removeprefix(f"{facts.dataset.task}-")
        finish(axis, title=name if len(datasets) > 1 else facts.dataset.name)
        axis.title.set_fontsize(SMALL)
    for axis in axes[len(datasets) :]:
        axis.set_visible(False)
    normalized = all(facts.normalized for facts in datasets)
    unit = "normalised return" if normalized else "return"
    ink = axes[0].title.get_color()
    figure.supxlabel(plain(f"{datasets[0].dataset.task}: {unit} of an episode"), fontsize=SMALL, color=ink)
    figure.supylabel("episodes (%)", fontsize=SMALL, color=ink)
    return figure
