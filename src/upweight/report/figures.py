"""The figures of a report: what each sampler makes of the data, one picture per algorithm."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from upweight.report.collect import Results
from upweight.report.comparison import Intervals, Scores
from upweight.report.dataset_figures import draw_gains, draw_returns
from upweight.report.drawing import SMALL, add_legend, as_svg, finish, line, new_figure, style_of
from upweight.report.names import UNIFORM, DatasetName, Sampler

FAMILIES = {"mixed": "mixed datasets", "regular": "regular datasets", "stochastic": "stochastic control"}


@dataclass(frozen=True)
class ReportFigure:
    """A figure: pictures (for algorithms or tasks) under one caption; none where there is nothing to draw."""

    name: str
    title: str
    caption: str
    pictures: dict[str, str]  # what it is of -> SVG
    missing: str  # what the store would need


def all_figures(results: Results, intervals: Intervals) -> list[ReportFigure]:
    """Every figure, in the order of a report."""

    def per_method(name: str, draw: Callable[[Results, Intervals, str], Any]) -> dict[str, str]:
        pictures = {}
        for place, method in enumerate(results.methods):
            figure = draw(results, intervals, method)
            if figure is not None:
                pictures[method] = as_svg(figure, f"{name}-{place}", f"{name} of {method}")
        return pictures

    band = "Bands and bars: 95% intervals of the stratified bootstrap over seeds."
    shared = "IQM over the datasets that all samplers shown have runs on."
    return [
        ReportFigure(
            "sigma",
            "Return by share of good data",
            f"Normalised return when a share of the steps comes from the expert (left) or medium (right) policy and the "
            f"rest from random actions. {shared} Dashed: Uniform on the whole expert (medium) set. {band}",
            per_method("sigma", draw_sigma),
            "there are no runs on mixed datasets (such as hopper-expert-random-5)",
        ),
        ReportFigure(
            "improvement",
            "Probability of improvement over Uniform",
            "How likely a run with the sampler beats a run with Uniform on a dataset drawn at random (in brackets: of how "
            f"many). An interval right of 0.5 means better, left of it worse. {band}",
            per_method("improvement", draw_improvement),
            "no sampler has runs on the same datasets as Uniform",
        ),
        ReportFigure(
            "gain",
            "Gain over Uniform by kind of dataset",
            "Mean score less that of Uniform, one point per dataset and sampler, against the dataset's mean return and its "
            "return positive-sided variance (RPSV). Weighting has most to gain where the mean is low and the RPSV high.",
            per_method("gain", lambda given, _, method: draw_gains(given, method)),
            "no sampler has runs on the same datasets as Uniform, or the store does not describe the datasets",
        ),
        ReportFigure(
            "temperature",
            "Temperature",
            f"Normalised return by temperature of RW and AW. {shared} Dashed: Uniform on the same datasets. {band}",
            per_method("temperature", draw_temperature),
            "there are no runs at several temperatures (suite paper/temperature)",
        ),
        ReportFigure(
            "percentage",
            "Percentage filtering",
            f"Normalised return by the share of best episodes that Top-x% keeps. {shared} Dashed: Uniform on the same "
            f"datasets. {band}",
            per_method("percentage", draw_percentage),
            "there are no runs at several percentages (suite paper/percentage)",
        ),
        ReportFigure(
            "returns",
            "Returns of the datasets",
            "Share of episodes by return, on a logarithmic scale; dashed: the mean.",
            draw_returns(results.datasets),
            "the store does not describe the datasets",
        ),
    ]


def draw_sigma(results: Results, intervals: Intervals, method: str) -> Any:
    """Return against sigma, a panel for each good policy; None without mixed datasets."""
    panels = {good: results.datasets_of(method, family="mixed", good=good) for good in ("expert", "medium")}
    panels = {good: datasets for good, datasets in panels.items() if datasets}
    samplers = _usual(results, method, [each for datasets in panels.values() for each in datasets])
    names = [sampler.name for sampler in samplers]
    panels = {good: results.comparable(method, names, datasets) for good, datasets in panels.items()}
    panels = {good: datasets for good, datasets in panels.items() if datasets}
    if not panels:
        return None
    figure = new_figure(2.6 * len(panels) + 0.5, 3.1)
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    handles: dict[str, Any] = {}
    sigmas = sorted({each.sigma for datasets in panels.values() for each in datasets if each.sigma is not None})
    for axis, (good, datasets) in zip(axes, panels.items(), strict=True):
        for sampler in samplers:
            points = [
                (place, results.scores(method, sampler.name, [each for each in datasets if each.sigma == sigma]))
                for place, sigma in enumerate(sigmas)
            ]
            handles[sampler.name] = _curve(axis, sampler, [point for point in points if point[1]], intervals)
        tasks = {each.task for each in datasets}
        whole = [each for each in results.datasets_of(method, family="regular") if each.name in _names(tasks, good)]
        reach = results.scores(method, UNIFORM, results.comparable(method, [UNIFORM], whole))
        if reach:
            handles["Uniform, all good data"] = line(axis, intervals.level(reach).point, "")
        axis.set_xticks(range(len(sigmas)), [f"{sigma}%" for sigma in sigmas])
        axis.set_xlim(-0.3, len(sigmas) - 0.7)
        finish(axis, title=f"{method}: {good} and random", x=f"share of {good} steps", y="normalised return (IQM)")
    axes[-1].set_ylabel("" if len(panels) > 1 else axes[-1].get_ylabel())
    add_legend(figure, list(handles.values()), list(handles))
    return figure


def draw_improvement(results: Results, intervals: Intervals, method: str) -> Any:
    """Intervals by sampler, a panel for each family of datasets; None where nothing compares."""
    panels: dict[str, list[tuple[Sampler, Any, int]]] = {}
    for family in FAMILIES:
        datasets = results.datasets_of(method, family=family)
        for sampler in _usual(results, method, datasets):
            common = results.comparable(method, [UNIFORM, sampler.name], datasets)
            if sampler.name != UNIFORM and common:
                x, y = (results.scores(method, name, common) for name in (sampler.name, UNIFORM))
                panels.setdefault(family, []).append((sampler, intervals.improvement(x, y), len(common)))
    if not panels:
        return None
    most = max(map(len, panels.values()))
    figure = new_figure(2.75 * len(panels) + 0.2, 1.1 + 0.28 * most)
    for axis, (family, rows) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for place, (sampler, estimate, _) in enumerate(rows):
            style = style_of(sampler)
            axis.plot([estimate.low, estimate.high], [place, place], color=style.color, linewidth=4, alpha=0.5)
            axis.plot(estimate.point, place, color=style.color, marker=style.marker, markersize=7)
        axis.axvline(0.5, color="#808080", linestyle="--", linewidth=1)
        axis.set_yticks(range(len(rows)), [sampler.name for sampler, _, _ in rows])
        axis.set_ylim(most - 0.4, -0.6)
        axis.set_xlim(-0.03, 1.03)
        counts = sorted({count for *_, count in rows})
        number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        finish(axis, title=f"{method}: {FAMILIES[family]} ({number})", x="P(better than Uniform)")
    return figure


def draw_temperature(results: Results, intervals: Intervals, method: str) -> Any:
    """RW and AW against temperature; None unless one of them has several."""
    return _draw_setting(results, intervals, method, ("rw", "aw"), "temperature", "{:g}")


def draw_percentage(results: Results, intervals: Intervals, method: str) -> Any:
    """Top-x% against x; None unless there are several."""
    return _draw_setting(results, intervals, method, ("top",), "share of episodes kept", "{:.3g}%", factor=100)


def _draw_setting(
    results: Results, intervals: Intervals, method: str, kinds: Sequence[str], label: str, tick: str, *, factor: int = 1
) -> Any:
    """Scores against the setting of a kind of sampler."""
    series = {kind: [each for each in results.samplers(method) if each.kind == kind] for kind in kinds}
    series = {
        kind: sorted(group, key=lambda each: each.setting or 0) for kind, group in series.items() if len(group) > 1
    }
    everyone = [sampler.name for group in series.values() for sampler in group]
    datasets = results.comparable(method, everyone, results.datasets_of(method))
    if not series or not datasets:
        return None
    figure = new_figure(4.4, 3.2)
    axis = figure.subplots()
    handles: dict[str, Any] = {}
    ticks = sorted({factor * (sampler.setting or 0) for group in series.values() for sampler in group})
    for kind, group in series.items():
        points = [(factor * (each.setting or 0), results.scores(method, each.name, datasets)) for each in group]
        handles["Top-x%" if kind == "top" else kind.upper()] = _curve(axis, group[0], points, intervals)
    uniform = results.scores(method, UNIFORM, datasets)
    if len(uniform) == len(datasets):
        handles[UNIFORM] = line(axis, intervals.level(uniform).point, "")
    axis.set_xscale("log")
    axis.set_xticks(ticks, [tick.format(value) for value in ticks])
    axis.minorticks_off()
    finish(
        axis,
        title=f"{method} ({len(datasets)} dataset{'s' if len(datasets) > 1 else ''})",
        x=label,
        y="normalised return (IQM)",
    )
    axis.tick_params(axis="x", labelsize=SMALL)
    add_legend(figure, list(handles.values()), list(handles))
    return figure


def _curve(axis: Any, sampler: Sampler, points: Sequence[tuple[float, Scores]], intervals: Intervals) -> Any:
    """IQM with its band; the handle for a legend."""
    style = style_of(sampler)
    places = [place for place, _ in points]
    levels = [intervals.level(scores) for _, scores in points]
    low, high = [level.low for level in levels], [level.high for level in levels]
    axis.fill_between(places, low, high, color=style.color, alpha=0.18, linewidth=0)
    if len(places) == 1:  # a band over one place cannot be seen
        axis.vlines(places, low, high, color=style.color, alpha=0.45, linewidth=4)
    (handle,) = axis.plot(
        places,
        [level.point for level in levels],
        color=style.color,
        marker=style.marker,
        linestyle=style.line,
        linewidth=1.6,
        markersize=5,
    )
    return handle


def _usual(results: Results, method: str, datasets: Sequence[DatasetName]) -> list[Sampler]:
    """Samplers that have runs on the datasets, without their other temperatures and fractions."""
    found = [sampler for sampler in results.samplers(method) if not sampler.is_variant]
    return [sampler for sampler in found if results.scores(method, sampler.name, datasets)]


def _names(tasks: set[str], good: str) -> set[str]:
    return {f"{task}-{good}" for task in tasks}
