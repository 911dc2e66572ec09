"""Figures that set weightings against each other: in a number, by share of good data, by improvement, by demand."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from upweight.lab.report.figures.drawing import (
    BAND,
    SMALL,
    WIDTH,
    Drawing,
    NothingToDraw,
    add_legend,
    draw_curve,
    draw_interval,
    draw_whole_set,
    draw_zero,
    finish,
    new_figure,
    plain,
    width_of,
)
from upweight.lab.report.names import FAMILIES, UNIFORM, DatasetName, WeightingName
from upweight.lab.report.results import Group, Results
from upweight.lab.report.statistics.aggregate import Floats, performance_profile
from upweight.lab.report.statistics.bootstrap import Estimate
from upweight.lab.report.statistics.intervals import Intervals, level_name
from upweight.lab.report.tables import score_text

SHARED = "IQM over the datasets that all samplers shown have runs on; the mean over seeds where that is one dataset."
NO_SCALE = "scores are returns of several environments without reference scores, which cannot be pooled"
_WHOLE_SETS = {
    "all expert data": "the whole expert set (long dashes)",
    "all medium data": "the whole medium set (dash-dots)",
}
_DODGE = 0.1  # between weightings at a single share
_DEMANDS = 61  # points of a profile
_OVERVIEW_WIDTH = 3.9  # inches: narrower than the others, so that its text is large on a phone too


def draw_overview(results: Results, intervals: Intervals) -> Drawing:
    """The level of each sampler, a panel for each method (and environment, where scores are returns)."""
    panels = [panel for method in results.methods for panel in results.panels(method)]
    line = max(0.2, min(0.4, 2 / sum(len(panel.weightings) for panel in panels)))  # inches: few lines take more room
    heights = [line * len(panel.weightings) + 0.35 for panel in panels]
    figure = new_figure(0.45 + sum(heights), "", width=_OVERVIEW_WIDTH)
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
        unit = results.unit(datasets[0])
        last = axis is axes[-1] or not shared
        width = _OVERVIEW_WIDTH - 0.3 - max(width_of(name, SMALL) for name in names)
        finish(
            axis,
            title=f"{panel.method}: {panel.where}",
            x=f"{unit} ({level_name(len(datasets))})" if last else "",
            width=width,
        )
        words.append(f"{panel.method}, {panel.where}, {unit} of {', '.join(names)}")
    label = f"Score of each sampler. {'. '.join(words)}."
    return Drawing(figure, label, (SHARED, BAND))


def draw_sigma(results: Results, intervals: Intervals, method: str) -> Drawing:
    """Return against sigma, a panel for each good policy: of the mixes of the first family that has some."""
    families = (results.datasets_of(method, family=family) for family in FAMILIES)
    mixes = next(filter(None, ([each for each in family if each.sigma is not None] for family in families)), [])
    if not mixes:
        raise NothingToDraw("there are no runs on mixed datasets (such as hopper-expert-random-5)")
    weightings = results.usual_weightings(method, mixes)
    if not weightings:
        raise NothingToDraw("all runs on mixed datasets are at other temperatures or percentages than the usual ones")
    common = results.comparable(method, [weighting.name for weighting in weightings], mixes)
    if not common:
        raise NothingToDraw(why_nothing_shared(results, method, weightings, mixes))
    panels = {good: [each for each in common if each.good == good] for good in ("expert", "medium")}
    panels = {good: datasets for good, datasets in panels.items() if datasets}
    unit = results.unit(common[0])
    figure = new_figure(2.8, method)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    handles: dict[str, Any] = {}
    whole: dict[str, Any] = {}
    words, dodged = [], False
    for axis, (good, datasets) in zip(axes, panels.items(), strict=True):
        by_sigma = {f"{each.sigma}%": [other for other in datasets if other.sigma == each.sigma] for each in datasets}
        dodged |= len(by_sigma) == 1
        found, said = _draw_shares(axis, results, intervals, method, weightings, by_sigma)
        handles |= found
        whole |= _draw_whole_sets(axis, results, intervals, method, good, datasets)
        axis.set_xticks(range(len(by_sigma)), list(by_sigma))
        axis.set_xlim(-0.4, len(by_sigma) - 0.6)
        y = "" if axis is not axes[0] else f"{unit} ({level_name(max(map(len, by_sigma.values())))})"
        title, x = f"{good} and random", f"share of {good} steps"
        finish(axis, title=title, x=x, y=y, width=WIDTH / len(panels) - 0.3)
        words.append(f"{good}: {said}")
    add_legend(figure, handles | whole)
    notes = [
        f"{unit.capitalize()} when a share of the steps comes from the policy named above a panel and the rest from random "
        "actions.",
        SHARED,
    ]
    if whole:
        notes.append(f"Lines without marks: Uniform on {' and on '.join(_WHOLE_SETS[name] for name in whole)}.")
    if dodged:
        notes.append("Where there is one share only, samplers stand side by side.")
    label = f"{method}: {unit} against the share of good steps. {'. '.join(words)}."
    return Drawing(figure, label, (*notes, BAND))


def _draw_shares(
    axis: Any,
    results: Results,
    intervals: Intervals,
    method: str,
    weightings: Sequence[WeightingName],
    by_sigma: dict[str, list[DatasetName]],
) -> tuple[dict[str, Any], str]:
    """A curve for each weighting, side by side where there is a single share; gives handles and both ends in words."""
    handles: dict[str, Any] = {}
    sigmas = list(by_sigma)
    ends: dict[str, list[str]] = {sigmas[0]: [], sigmas[-1]: []}
    for number, weighting in enumerate(weightings):
        shift = _DODGE * (number - (len(weightings) - 1) / 2) if len(by_sigma) == 1 else 0.0
        levels = {
            sigma: intervals.level(results.scores(method, weighting.name, sets)) for sigma, sets in by_sigma.items()
        }
        places = [place + shift for place in range(len(levels))]
        handles[weighting.name] = draw_curve(axis, weighting, places, list(levels.values()))
        for sigma, found in ends.items():
            normalized = results.is_normalized(by_sigma[sigma][0])
            found.append(f"{weighting.name} {score_text(levels[sigma].point, normalized=normalized)}")
    return handles, "; ".join(f"at {sigma} {', '.join(found)}" for sigma, found in ends.items())


def _draw_whole_sets(
    axis: Any, results: Results, intervals: Intervals, method: str, good: str, mixes: Sequence[DatasetName]
) -> dict[str, Any]:
    """Levels of Uniform on the whole set of the good policy, and of the expert: what the paper's dashed lines are."""
    tasks = {each.task for each in mixes}
    handles = {}
    for policy in dict.fromkeys((good, "expert")):
        names = {f"{task}-{policy}" for task in tasks}
        sets = [each for each in results.datasets_of(method) if each.base in names]
        alike = [each for each in sets if results.is_normalized(each) == results.is_normalized(mixes[0])]
        scores = results.scores(method, UNIFORM, results.comparable(method, [UNIFORM], alike))
        if scores:
            handles[f"all {policy} data"] = draw_whole_set(axis, intervals.level(scores).point, policy)
    return handles


def draw_improvement(results: Results, intervals: Intervals, method: str) -> Drawing:
    """Intervals by weighting, a panel for each family of datasets."""
    panels: dict[str, list[tuple[WeightingName, Estimate, int]]] = {}
    for family in FAMILIES:
        datasets = results.datasets_of(method, family=family)
        for weighting in results.usual_weightings(method, datasets):
            both = [UNIFORM, weighting.name]
            pooled = results.comparable(method, both, datasets)
            common = pooled or results.shared(method, both, datasets)  # needs no scale
            if weighting.name != UNIFORM and common:
                x, y = (results.scores(method, name, common) for name in (weighting.name, UNIFORM))
                panels.setdefault(family, []).append((weighting, intervals.improvement(x, y), len(common)))
    if not panels:
        raise NothingToDraw(why_nothing_beside_uniform(results, method))
    heights = [len(rows) + 1.5 for rows in panels.values()]
    figure = new_figure(0.6 + 0.27 * sum(heights), method)
    axes = figure.subplots(len(panels), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    words = []
    for axis, (family, rows) in zip(axes, panels.items(), strict=True):
        for place, (weighting, estimate, _) in enumerate(rows):
            draw_interval(axis, weighting, estimate, place)
            what = f"{weighting.name} on {FAMILIES[family]}"
            words.append(f"{what} {estimate.point:.2f}, interval {estimate.low:.2f} to {estimate.high:.2f}")
        draw_zero(axis, at=0.5, vertical=True)
        axis.set_yticks(range(len(rows)), [weighting.name for weighting, _, _ in rows])
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
    groups, datasets = results.groups(method), results.datasets_of(method)
    if not groups:
        raise NothingToDraw(why_nothing_shared(results, method, results.usual_weightings(method, datasets), datasets))
    figure = new_figure(0.7 + 1.9 * len(groups), method)
    shared = not any(group.scale for group in groups)
    axes = figure.subplots(len(groups), 1, squeeze=False, sharex=shared)[:, 0]
    handles: dict[str, Any] = {}
    words: dict[str, list[str]] = {}  # by the demand that they speak of
    for axis, group in zip(axes, groups, strict=True):
        thresholds = _demands(results, group)
        half = float(thresholds.mean()) if group.scale else 0.5
        for weighting in group.weightings:
            scores = results.scores(method, weighting.name, group.datasets)
            band = intervals.profile(scores, thresholds)
            handles[weighting.name] = draw_curve(axis, weighting, thresholds.tolist(), band)
            share = 100 * float(performance_profile(scores, [half])[0])
            words.setdefault(f"{half:.4g}", []).append(f"{weighting.name} on {FAMILIES[group.family]} {share:.0f}%")
        axis.set_ylim(-0.03, 1.03)
        x = "return" if group.scale else "score"
        finish(axis, title=group.title, x=x if axis is axes[-1] or not shared else "", y="share of runs above")
    add_legend(figure, handles)
    what = " or ".join(dict.fromkeys(results.unit(group.datasets[0]) for group in groups))
    notes = (
        f"Performance profiles: the share of runs whose {what} is above a score, over the datasets that all "
        "samplers shown have runs on (in brackets: how many). A curve above another everywhere is better at every demand.",
        BAND,
    )
    said = " ".join(f"Above {demand}: {', '.join(found)}." for demand, found in words.items())
    label = f"{method}: share of runs above a score, against the score. {said}"
    return Drawing(figure, label, notes)


def _demands(results: Results, group: Group) -> Floats:
    """[K] scores to be above: from a random policy to the expert or the best run; of returns from the worst to the best run."""
    if not group.scale:
        highest = max(run.score for run in results.shown if run.method == group.method and run.normalized)
        return np.linspace(0.0, max(1.0, 1.05 * highest), _DEMANDS)
    columns = [results.scores(group.method, each.name, group.datasets) for each in group.weightings]
    returns = [value for column in columns for values in column.values() for value in values]
    return np.linspace(min(returns), max(returns), _DEMANDS)


def why_nothing_shared(
    results: Results, method: str, weightings: Sequence[WeightingName], datasets: Sequence[DatasetName]
) -> str:
    """Why no dataset serves to compare all of the weightings, as the end of a sentence."""
    names = [weighting.name for weighting in weightings]
    return NO_SCALE if results.shared(method, names, datasets) else f"no dataset has runs of all of {', '.join(names)}"


def why_nothing_beside_uniform(results: Results, method: str) -> str:
    """Why no weighting can be compared with Uniform, as the end of a sentence."""
    datasets = results.datasets_of(method)
    names = [weighting.name for weighting in results.usual_weightings(method, datasets)]
    if UNIFORM not in names:
        return "there are no runs with Uniform"
    if len(names) == 1:
        return "there are no runs with another sampler than Uniform"
    uniform = results.scores(method, UNIFORM, datasets).keys()
    others = (results.scores(method, name, datasets).keys() for name in names if name != UNIFORM)
    return (
        NO_SCALE if any(uniform & other for other in others) else "no sampler has runs on the same datasets as Uniform"
    )
