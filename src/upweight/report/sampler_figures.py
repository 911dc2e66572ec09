"""Figures that set samplers against each other: by share of good data, by probability of improvement, by demand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from upweight.report.comparison import FAMILIES, groups_of
from upweight.report.drawing import (
    BAND,
    WIDTH,
    Drawing,
    NothingToDraw,
    add_legend,
    draw_curve,
    draw_whole_set,
    draw_zero,
    finish,
    new_figure,
    style_of,
)
from upweight.report.names import UNIFORM, DatasetName, Sampler
from upweight.report.reasons import why_nothing_beside_uniform, why_nothing_shared
from upweight.report.results import Results
from upweight.report.statistics.aggregate import performance_profile
from upweight.report.statistics.intervals import Intervals

SHARED = "IQM over the datasets that all samplers shown have runs on."
_WHOLE_SETS = {
    "all expert data": "the whole expert set (long dashes)",
    "all medium data": "the whole medium set (dash-dots)",
}
_DODGE = 0.1  # between samplers at a single share
_DEMANDS = 61  # points of a profile


def draw_sigma(results: Results, intervals: Intervals, method: str) -> Drawing:
    """Return against sigma, a panel for each good policy: of the mixes of the first family that has some."""
    families = (results.datasets_of(method, family=family) for family in FAMILIES)
    mixes = next(filter(None, ([each for each in family if each.sigma is not None] for family in families)), [])
    if not mixes:
        raise NothingToDraw("there are no runs on mixed datasets (such as hopper-expert-random-5)")
    samplers = results.usual_samplers(method, mixes)
    names = [sampler.name for sampler in samplers]
    common = results.comparable(method, names, mixes)
    if not common:
        raise NothingToDraw(why_nothing_shared(results, names, mixes))
    panels = {good: [each for each in common if each.good == good] for good in ("expert", "medium")}
    panels = {good: datasets for good, datasets in panels.items() if datasets}
    figure = new_figure(2.8, method)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    handles: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    words, dodged = [], False
    for axis, (good, datasets) in zip(axes, panels.items(), strict=True):
        by_sigma = {each.sigma: [other for other in datasets if other.sigma == each.sigma] for each in datasets}
        dodged |= len(by_sigma) == 1
        ends: dict[int, list[str]] = {place: [] for place in (0, len(by_sigma) - 1)}
        for number, sampler in enumerate(samplers):
            shift = _DODGE * (number - (len(samplers) - 1) / 2) if len(by_sigma) == 1 else 0.0
            levels = [intervals.level(results.scores(method, sampler.name, sets)) for sets in by_sigma.values()]
            points, low, high = zip(*((level.point, level.low, level.high) for level in levels), strict=True)
            places = [place + shift for place in range(len(levels))]
            handles[sampler.name] = draw_curve(axis, sampler, places, points, low, high)
            for place, found in ends.items():
                found.append(f"{sampler.name} {points[place]:.2f}")
        whole |= _draw_whole_sets(axis, results, intervals, method, good, datasets)
        ticks = [f"{sigma}%" for sigma in by_sigma]
        axis.set_xticks(range(len(ticks)), ticks)
        axis.set_xlim(-0.4, len(ticks) - 0.6)
        finish(
            axis,
            title=f"{good} and random",
            x=f"share of {good} steps",
            y="" if axis is not axes[0] else "normalised return (IQM)",
            width=WIDTH / len(panels) - 0.3,
        )
        words.append(f"{good}: " + "; ".join(f"at {ticks[place]} {', '.join(found)}" for place, found in ends.items()))
    add_legend(figure, handles | whole)
    notes = [
        "Normalised return when a share of the steps comes from the policy named above a panel and the rest from random "
        "actions.",
        SHARED,
        *(
            [f"Lines without marks: Uniform on {' and on '.join(_WHOLE_SETS[name] for name in whole)}."]
            if whole
            else []
        ),
        *(["Where there is one share only, samplers stand side by side."] if dodged else []),
        BAND,
    ]
    label = f"{method}: normalised return, interquartile mean, against the share of good steps. {'. '.join(words)}."
    return Drawing(figure, label, tuple(notes))


def draw_improvement(results: Results, intervals: Intervals, method: str) -> Drawing:
    """Intervals by sampler, a panel for each family of datasets."""
    panels: dict[str, list[tuple[Sampler, Any, int]]] = {}
    for family in FAMILIES:
        datasets = results.datasets_of(method, family=family)
        for sampler in results.usual_samplers(method, datasets):
            common = results.comparable(method, [UNIFORM, sampler.name], datasets)
            if sampler.name != UNIFORM and common:
                x, y = (results.scores(method, name, common) for name in (sampler.name, UNIFORM))
                panels.setdefault(family, []).append((sampler, intervals.improvement(x, y), len(common)))
    if not panels:
        raise NothingToDraw(why_nothing_beside_uniform(results, method))
    heights = [len(rows) + 1.5 for rows in panels.values()]
    figure = new_figure(0.6 + 0.27 * sum(heights), method)
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    words = []
    for axis, (family, rows) in zip(axes, panels.items(), strict=True):
        for place, (sampler, estimate, _) in enumerate(rows):
            style = style_of(sampler)
            axis.plot([estimate.low, estimate.high], [place, place], color=style.color, linewidth=4, alpha=0.5)
            axis.plot(estimate.point, place, color=style.color, marker=style.marker, markersize=7)
            words.append(
                f"{sampler.name} on {FAMILIES[family]} {estimate.point:.2f}, interval {estimate.low:.2f} to {estimate.high:.2f}"
            )
        draw_zero(axis, at=0.5, vertical=True)
        axis.set_yticks(range(len(rows)), [sampler.name for sampler, _, _ in rows])
        axis.set_ylim(len(rows) - 0.4, -0.6)
        axis.set_xlim(-0.03, 1.03)
        counts = sorted({count for *_, count in rows})
        number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        finish(axis, title=f"{FAMILIES[family]} ({number})", x="P(better than Uniform)" if axis is axes[-1] else "")
    notes = (
        "How likely a run with the sampler beats a run with Uniform on a dataset drawn at random (in brackets: of how many).",
        "An interval right of 0.5 means better, left of it worse; one that is the point 1 (or 0) means that every run seen "
        "with the sampler was better (worse) than every one with Uniform, not that new ones must be.",
        BAND,
    )
    return Drawing(figure, f"{method}: probability of improvement over Uniform. {'; '.join(words)}.", notes)


def draw_profiles(results: Results, intervals: Intervals, method: str) -> Drawing:
    """Share of runs above each score, a panel for each family of datasets."""
    groups = groups_of(results, method)
    if not groups:
        datasets = results.datasets_of(method)
        names = [sampler.name for sampler in results.usual_samplers(method, datasets)]
        raise NothingToDraw(why_nothing_shared(results, names, datasets))
    highest = max(run.score for run in results.shown if run.method == method and run.normalized)
    thresholds = np.linspace(0.0, max(1.0, 1.05 * highest), _DEMANDS)
    figure = new_figure(0.7 + 1.9 * len(groups), method)
    axes = figure.subplots(len(groups), 1, squeeze=False, sharex=True)[:, 0]
    handles: dict[str, Any] = {}
    words = []
    for axis, group in zip(axes, groups, strict=True):
        for sampler in group.samplers:
            scores = results.scores(method, sampler.name, group.datasets)
            band = intervals.profile(scores, thresholds)
            handles[sampler.name] = draw_curve(
                axis, sampler, thresholds.tolist(), band.point.tolist(), band.low.tolist(), band.high.tolist()
            )
            half = 100 * float(performance_profile(scores, [0.5])[0])
            words.append(f"{sampler.name} on {FAMILIES[group.family]} {half:.0f}%")
        axis.set_ylim(-0.03, 1.03)
        title = f"{FAMILIES[group.family]} ({len(group.datasets)})"
        finish(axis, title=title, x="score" if axis is axes[-1] else "", y="share of runs above")
    add_legend(figure, handles)
    notes = (
        "Performance profiles: the share of runs whose normalised return is above a score, over the datasets that all "
        "samplers shown have runs on (in brackets: how many). A curve above another everywhere is better at every demand.",
        BAND,
    )
    label = f"{method}: share of runs above a score, against the score. Above 0.5: {', '.join(words)}."
    return Drawing(figure, label, notes)


def _draw_whole_sets(
    axis: Any, results: Results, intervals: Intervals, method: str, good: str, mixes: Sequence[DatasetName]
) -> dict[str, Any]:
    """Levels of Uniform on the whole set of the good policy, and of the expert: what the paper's dashed lines are."""
    tasks = {each.task for each in mixes}
    handles = {}
    for policy in dict.fromkeys((good, "expert")):
        names = {f"{task}-{policy}" for task in tasks}
        sets = [each for each in results.datasets_of(method) if each.base in names]
        scores = results.scores(method, UNIFORM, results.comparable(method, [UNIFORM], sets))
        if scores:
            handles[f"all {policy} data"] = draw_whole_set(axis, intervals.level(scores).point, policy)
    return handles
