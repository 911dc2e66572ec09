"""Figures of a weighting's setting: the temperature of RW and AW, the share that Top-x% keeps."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from upweight.lab.report.figures.drawing import (
    BAND,
    Drawing,
    NothingToDraw,
    add_legend,
    draw_curve,
    draw_level,
    finish,
    new_figure,
)
from upweight.lab.report.figures.weightings import SHARED, why_nothing_shared
from upweight.lab.report.names import UNIFORM, WeightingName
from upweight.lab.report.results import Results
from upweight.lab.report.statistics.intervals import Intervals, level_name
from upweight.lab.report.tables import score_text


def draw_temperature(results: Results, intervals: Intervals, method: str) -> Drawing:
    """RW and AW against temperature."""
    if not any(len(_settings(results, method, kind)) > 1 for kind in ("rw", "aw")):
        raise NothingToDraw("there are no runs at several temperatures (suite paper/temperature)")
    return _draw_setting(results, intervals, method, ("rw", "aw"), "temperature", "{:g}")


def draw_percentage(results: Results, intervals: Intervals, method: str) -> Drawing:
    """Top-x% against x."""
    if len(_settings(results, method, "top")) < 2:
        raise NothingToDraw("there are no runs at several percentages (suite paper/percentage)")
    return _draw_setting(results, intervals, method, ("top",), "share of episodes kept", "{:.3g}%", factor=100)


def _settings(results: Results, method: str, kind: str) -> list[WeightingName]:
    found = [each for each in results.weightings(method) if each.kind == kind and each.setting is not None]
    return sorted(found, key=lambda each: each.setting or 0)


def _draw_setting(
    results: Results, intervals: Intervals, method: str, kinds: Sequence[str], x: str, tick: str, *, factor: int = 1
) -> Drawing:
    """Scores against the setting of a kind of weighting."""
    series = {kind: group for kind in kinds if len(group := _settings(results, method, kind)) > 1}
    everyone = [weighting for group in series.values() for weighting in group]
    datasets = results.comparable(method, [each.name for each in everyone], results.datasets_of(method))
    if not datasets:
        raise NothingToDraw(why_nothing_shared(results, method, everyone, results.datasets_of(method)))
    unit = results.unit(datasets[0])
    shown = partial(score_text, normalized=results.is_normalized(datasets[0]))
    figure = new_figure(2.8, method)
    axis = figure.subplots()
    handles: dict[str, Any] = {}
    words = []
    ticks = sorted({factor * (each.setting or 0) for each in everyone})
    for kind, group in series.items():
        places = [factor * (each.setting or 0) for each in group]
        levels = [intervals.level(results.scores(method, each.name, datasets)) for each in group]
        name = "Top-x%" if kind == "top" else kind.upper()
        handles[name] = draw_curve(axis, group[0], places, levels)
        words += [f"{name} at {tick.format(at)} {shown(level.point)}" for at, level in zip(places, levels, strict=True)]
    uniform = results.scores(method, UNIFORM, datasets)
    if len(uniform) == len(datasets):
        level = intervals.level(uniform).point
        handles[UNIFORM] = draw_level(axis, WeightingName(UNIFORM, "uniform"), level)
        words.append(f"Uniform {shown(level)}")
    axis.set_xscale("log")
    axis.set_xticks(ticks, [tick.format(value) for value in ticks])
    axis.minorticks_off()
    finish(
        axis,
        title=f"{len(datasets)} dataset{'s' if len(datasets) > 1 else ''}",
        x=x,
        y=f"{unit} ({level_name(len(datasets))})",
    )
    add_legend(figure, handles)
    notes = [
        f"{unit.capitalize()} by {x}.",
        SHARED,
        *(["Grey line: Uniform on the same datasets."] if UNIFORM in handles else []),
        BAND,
    ]
    label = f"{method}: {unit} against {x}. {', '.join(words)}."
    return Drawing(figure, label, tuple(notes))
