"""Figures about the datasets: what they are like, and where weighting helps."""

from collections.abc import Iterator, Sequence

import numpy as np

from upweight.lab.report.figures.drawing import (
    INK,
    SMALL,
    WIDTH,
    Drawing,
    NothingToDraw,
    add_legend,
    finish,
    new_figure,
    plain,
)
from upweight.lab.report.figures.weightings import why_nothing_beside_uniform
from upweight.lab.report.gains import FEW_DATASETS, Gains, gains_of
from upweight.lab.report.names import UNIFORM
from upweight.lab.report.results import DatasetFacts, Results
from upweight.lab.report.statistics.intervals import UNDEFINED, Intervals
from upweight.lab.report.tables import estimate_text, score_text

NO_DESCRIPTION = "the store does not describe the datasets"
_COLUMNS = 3
_BLUE = "#56b4e9"
_SHADES = 11  # of gain; the middle one is none
_PANEL = 1.25  # inches high
_TOP = 200  # percent: where a panel ends, on a logarithmic scale


def draw_gains(results: Results, intervals: Intervals, method: str) -> Drawing:
    """The paper's Figure 3: datasets in the plane of mean return and RPSV, coloured by what RW and AW gain over Uniform."""
    if not results.datasets:
        raise NothingToDraw(NO_DESCRIPTION)
    if not any(each.normalized for each in results.datasets):
        raise NothingToDraw("without reference scores, datasets have no scale in common")
    found = _gains(results, method)
    if not found:
        raise NothingToDraw(why_nothing_beside_uniform(results, method))
    from matplotlib import colormaps

    figure = new_figure(2.9, method)
    axes = figure.subplots(1, len(found), squeeze=False, sharex=True, sharey=True)[0]
    largest = max(float(np.abs(each.gain).max()) for each in found.values()) or 1.0
    colours = {"cmap": colormaps["coolwarm"].resampled(_SHADES), "vmin": -largest, "vmax": largest}
    for axis, (weighting, each) in zip(axes, found.items(), strict=True):
        points = axis.scatter(each.mean, each.rpsv, c=each.gain, s=34, edgecolors=INK, linewidths=0.5, **colours)
        axis.set_yscale("log")
        axis.locator_params(axis="x", nbins=4)
        y = "RPSV" if axis is axes[0] else ""
        finish(axis, title=weighting, x="mean normalised return", y=y, width=WIDTH / len(found) - 0.4)
    bar = figure.colorbar(points, ax=list(axes))
    bar.set_label("gain over Uniform", fontsize=SMALL, color=INK)
    bar.ax.tick_params(labelsize=SMALL, colors=INK)
    bar.outline.set_edgecolor(INK)
    notes = (
        "Each dataset is a point; its colour is the mean score less that of Uniform. The paper's claim is that at similar mean "
        "returns weighting gains more where the RPSV (return positive-sided variance) is higher.",
        *_growth_notes(found, intervals, method),
    )
    words = [
        f"{name} from {score_text(each.gain.min(), normalized=True)} to {score_text(each.gain.max(), normalized=True)}"
        for name, each in found.items()
    ]
    label = f"{method}: datasets by mean return and RPSV, coloured by the gain over Uniform: {', '.join(words)}."
    return Drawing(figure, label, notes)


def _gains(results: Results, method: str) -> dict[str, Gains]:
    """Of RW and AW or, if none of them was run, of whatever was; on mixes or, if there are none, on all datasets."""
    usual = [each.name for each in results.weightings(method) if not each.is_variant and each.name != UNIFORM]
    for datasets in (results.datasets_of(method, family="mixed"), results.datasets_of(method)):
        found = {name: gains for name in usual if len((gains := gains_of(results, method, name, datasets)).gain)}
        if found:
            return {name: gains for name, gains in found.items() if name in ("RW", "AW")} or found
    return {}


def _growth_notes(found: dict[str, Gains], intervals: Intervals, method: str) -> Iterator[str]:
    """How closely the gain follows the RPSV, in a sentence for each weighting."""
    for name, each in found.items():
        if each.are_few:
            continue
        simple, partial = (
            estimate_text(each.growth(intervals, at_equal_mean=equal), normalized=True) for equal in (False, True)
        )
        growth = f"{method}, {name}: rank correlation of gain and RPSV {simple or UNDEFINED}"
        over = f"(95% intervals over the {each.num_kinds} datasets)"
        yield f"{growth}, at equal mean return {partial or UNDEFINED} {over}." if simple else f"{growth}."


def draw_performance(results: Results, intervals: Intervals, method: str) -> Drawing:
    """The paper's appendix: what Uniform makes of a dataset, against the mean return of the dataset."""
    facts = [each for each in results.datasets if each.normalized and results.is_normalized(each.dataset)]
    scores = results.scores(method, UNIFORM, [each.dataset for each in facts])
    known = [each for each in facts if each.dataset.name in scores]
    if len(known) < FEW_DATASETS:
        raise NothingToDraw(f"fewer than {FEW_DATASETS} datasets with a description have normalised scores of Uniform")
    means = np.array([each.mean for each in known])
    levels = np.array([np.mean(scores[each.dataset.name]) for each in known])
    mixed = np.array([each.dataset.sigma is not None for each in known])
    figure = new_figure(2.6, method)
    axis = figure.subplots()
    handles = {}
    for name, chosen, fill in (("mixes", mixed, _BLUE), ("other datasets", ~mixed, "none")):
        if chosen.any():
            handles[name] = axis.scatter(
                means[chosen], levels[chosen], s=34, facecolors=fill, edgecolors=INK, linewidths=0.8
            )
    finish(axis, title="", x="mean normalised return of the dataset", y="score of Uniform")
    if len(handles) > 1:
        add_legend(figure, handles)
    trend = estimate_text(intervals.correlation(means, levels), normalized=True)
    over = f" (95% interval over the {len(known)} datasets)" if trend else ""
    notes = (
        "Each dataset is a point: the mean score of Uniform against the mean return of the data. The paper sees it grow, up to a "
        "sweet spot.",
        f"{method}: rank correlation {trend or UNDEFINED}{over}.",
    )
    return Drawing(
        figure, f"{method}: score of Uniform against the mean return of the dataset: {trend or UNDEFINED}.", notes
    )


def draw_returns(datasets: Sequence[DatasetFacts]) -> Drawing:
    """Histograms of returns of the datasets of one task."""
    columns = min(_COLUMNS, len(datasets))
    rows = -(-len(datasets) // columns)
    task = datasets[0].dataset.task
    figure = new_figure(_PANEL * rows + 0.4, task)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axis, facts in zip(axes, datasets, strict=False):
        counts = np.array(facts.counts, np.float64)
        axis.stairs(100 * counts / counts.sum(), facts.edges, fill=True, color=_BLUE)
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
