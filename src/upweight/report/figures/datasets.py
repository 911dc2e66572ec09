"""Figures about the datasets: what they are like, and where weighting helps."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from upweight.report.figures.drawing import (
    INK,
    SMALL,
    WIDTH,
    Drawing,
    NothingToDraw,
    add_legend,
    draw_zero,
    finish,
    new_figure,
    plain,
    style_of,
)
from upweight.report.figures.weightings import why_nothing_beside_uniform
from upweight.report.names import UNIFORM
from upweight.report.results import DatasetFacts, Results

NO_DESCRIPTION = "the store does not describe the datasets"
_COLUMNS = 3
_PANEL = 1.25  # inches high
_TOP = 200  # percent: where a panel ends, on a logarithmic scale


def draw_gains(results: Results, method: str) -> Drawing:
    """Gain over Uniform against mean return and against RPSV."""
    if not results.datasets:
        raise NothingToDraw(NO_DESCRIPTION)
    if not any(each.normalized for each in results.datasets):
        raise NothingToDraw("without reference scores, datasets have no scale in common")
    weightings = [each for each in results.weightings(method) if not each.is_variant and each.name != UNIFORM]
    points: dict[str, list[tuple[float, float, float]]] = {}  # weighting -> mean, RPSV, gain
    for each in results.datasets:
        for weighting in weightings:
            normalized = each.normalized and results.is_normalized(each.dataset)
            if normalized and results.shared(method, [weighting.name, UNIFORM], [each.dataset]):
                scores, uniform = (results.scores(method, name, [each.dataset]) for name in (weighting.name, UNIFORM))
                gain = float(np.mean(scores[each.dataset.name]) - np.mean(uniform[each.dataset.name]))
                points.setdefault(weighting.name, []).append((each.mean, each.rpsv, gain))
    if not points:
        raise NothingToDraw(why_nothing_beside_uniform(results, method))
    figure = new_figure(2.6, method)
    handles: dict[str, Any] = {}
    labels = ("mean normalised return", "RPSV")
    for place, axis in enumerate(figure.subplots(1, 2, sharey=True)):
        for weighting in weightings:
            if weighting.name in points:
                style, values = style_of(weighting), np.array(points[weighting.name])
                (handles[weighting.name],) = axis.plot(
                    *(values[:, place], values[:, 2]),
                    color=style.color,
                    marker=style.marker,
                    linestyle="",
                    markersize=5,
                    alpha=0.75,
                )
        draw_zero(axis)
        axis.locator_params(axis="x", nbins=3)
        finish(axis, x=labels[place], y="" if place else "gain over Uniform", width=WIDTH / 2)
    add_legend(figure, handles)
    notes = (
        "Mean score less that of Uniform, one point per dataset and sampler, against the dataset's mean normalised return "
        "and its return positive-sided variance (RPSV).",
        "The paper's claim is that weighting gains more where the RPSV is high, and less where the mean is high already.",
    )
    words = [
        f"{name} from {min(gains):.2f} to {max(gains):.2f} on {len(gains)} datasets"
        for name, found in points.items()
        if (gains := [gain for *_, gain in found])
    ]
    label = f"{method}: gain over Uniform against the dataset's mean and against its RPSV. {', '.join(words)}."
    return Drawing(figure, label, notes)


def draw_returns(datasets: Sequence[DatasetFacts]) -> Drawing:
    """Histograms of returns of the datasets of one task."""
    columns = min(_COLUMNS, len(datasets))
    rows = -(-len(datasets) // columns)
    task = datasets[0].dataset.task
    figure = new_figure(_PANEL * rows + 0.4, task)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axis, facts in zip(axes, datasets, strict=False):
        counts = np.array(facts.counts, np.float64)
        axis.stairs(100 * counts / counts.sum(), facts.edges, fill=True, color="#56b4e9")
        axis.set_yscale("log")
        axis.set_ylim(0.005, _TOP)
        axis.set_yticks([0.01, 1, 100], ["0.01", "1", "100"])
        axis.minorticks_off()
        axis.plot(facts.mean, _TOP, color=INK, marker="v", markersize=5, clip_on=False)
        name = facts.dataset.name.removeprefix(f"{task}-")
        finish(axis, title=name if len(datasets) > 1 else facts.dataset.name, width=WIDTH / columns - 0.15)
    for axis in axes[len(datasets) :]:
        axis.set_visible(False)
    unit = "normalised return" if all(facts.normalized for facts in datasets) else "return"
    figure.supxlabel(plain(f"{unit} of an episode"), fontsize=SMALL, color=INK)
    figure.supylabel("episodes (%)", fontsize=SMALL, color=INK)
    means = ", ".join(f"{facts.dataset.name} {facts.mean:.3g}" for facts in datasets)
    label = f"{task}: share of episodes, on a logarithmic scale, by {unit}. Means: {means}."
    return Drawing(
        figure, label, ("Share of episodes by return, on a logarithmic scale; triangle at the top: the mean.",)
    )
