"""Tables and the figure of docs/selection.md, from what selection_analysis.py and fqe_throughput.py stored."""

import json
from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np

from measure import RESULTS
from scores_page import Rows, markdown
from selection_analysis import WAYS, candidate, finished, over_datasets, read, truth
from upweight.report.figures.drawing import add_legend, as_file, as_svg, finish, new_figure, style_of
from upweight.report.names import WeightingName

STUDIES = sorted(RESULTS.glob("selection_study_*.jsonl"))
MAIN = "held_out"  # the way of fitting that most datasets have
PICTURE = "selection_study.svg"
_KINDS = {"uniform": "uniform", "rw 0.1": "rw", "rw 0.03": "other", "aw 0.1": "aw", "top 10%": "top"}
_COLUMNS, _PANEL = 3, 1.25  # panels in a row, and their height in inches


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def parts() -> dict[str, str]:
    """Marker -> Markdown."""
    found = stored("selection_analysis")
    return {
        "verdict": quoted(verdict(found)),
        "rankings": markdown(ranking_rows(found)),
        "choices": markdown(choice_rows(found)),
        "fqe speed": markdown(speed_rows()),
        "figure": f'<img src="images/{PICTURE}" alt="Estimates beside true scores, one panel per dataset" width="100%">\n',
    }


def quoted(text: str) -> str:
    return fill(text, 130, initial_indent="> ", subsequent_indent="> ") + "\n"


def verdict(found: dict[str, Any]) -> str:
    """The rule in words, with DOPE's critics."""
    rules = found["rule"][MAIN]
    made = rules["defaults"]
    chosen = {name: each["gain"] for name, each in made.items() if each["chosen"] is not None}
    gains, tasks = np.array(list(chosen.values())), {name.split("-")[0] for name in made}
    always = {name: each["bc rw 0.1"] - each["rw 0.1"] for name, each in made.items()}
    kept = {name: chosen.get(name, each["clone"] - each["rw 0.1"]) for name, each in made.items()}
    return (
        f"On {len(made)} datasets of {len(tasks)} tasks the rule chooses on {len(gains)}; {(gains < 0).sum()} choices are worse "
        f"than RW 0.1, {(gains < -0.05).sum()} by more than 0.05. Beside always RW 0.1, mean over datasets, an abstention "
        f"counting as RW 0.1: {_gain(_gains(made))}; an abstention counting as BC on all data: {_gain(kept)}. Without the "
        f"veto on estimates that few episodes were worth: {_gain(_gains(rules['no veto']))}. With "
        f"thresholds chosen on the other tasks: {_gain(_gains(rules['others']))}. "
        f"Always BC with RW 0.1, without looking: {_gain(always)}."
    )


def _gains(decisions: Mapping[str, Any]) -> dict[str, float]:
    return {name: each["gain"] for name, each in decisions.items()}


def _gain(gains: Mapping[str, float]) -> str:
    ((point, low, high),) = over_datasets([np.array([gain]) for gain in gains.values()])
    worst = min(gains, key=lambda name: gains[name])
    return f"{point:+.2f} [{low:+.2f}, {high:+.2f}], at worst {gains[worst]:+.2f} ({worst})"


def ranking_rows(found: dict[str, Any]) -> Rows:
    rows: Rows = [("policies ranked by", *found["measures"])]
    for name, values in found["means"][MAIN].items():
        rows.append((name, *("" if p is None else f"{p:.2f} [{low:.2f}, {high:.2f}]" for p, low, high in values)))
    return rows


def choice_rows(found: dict[str, Any]) -> Rows:
    columns = {"RW 0.1": "rw 0.1", "BC, RW 0.1": "bc rw 0.1", "BC": "clone", "best": "best"}
    rows: Rows = [("dataset", "critics", "Spearman", "regret@1", "the rule takes", "gain", "its score", *columns)]
    for each in found["results"]:
        dataset, way = each["dataset"], each["fit"]
        made = found["rule"][way]["defaults"][dataset]
        rank, regret = (f"{value[0]:.2f}" for value in each["FQE, mean"][:2])
        taken: tuple[str, ...] = ("*abstains*", "", "")
        if made["chosen"] is not None:
            taken = (made["chosen"], f"{made['gain']:+.2f}", f"{made['score']:.2f}")
        scores = (f"{made[key]:.2f}" for key in columns.values())
        rows.append((dataset, WAYS[way], rank, regret, *taken, *scores))
    return rows


def speed_rows() -> Rows:
    rows: Rows = [("", "critics at once", "critic-updates/s", "of d3rlpy's", "of a plain PyTorch loop's")]
    for where, name in (("one H200", "fqe_throughput_h200"), ("two CPU cores", "fqe_throughput_cpu")):
        for row in stored(name)["results"]:
            who = f"{where}, {row['dtype']}" if row["who"] == "upweight" else f"{where}, {row['who']}"
            ratios = (f"{row[key]:,.1f}" if key in row else "" for key in ("over_d3rlpy", "over_torch"))
            rows.append((who, str(row["critics"]), f"{row['critic_updates_per_s']:,.0f}", *ratios))
    return rows


def picture() -> str:
    """Mean estimates beside true scores, one panel per dataset, with a ring around what the rule takes."""
    made = stored("selection_analysis")["rule"][MAIN]["defaults"]
    datasets = {key: rows for key, rows in read(STUDIES).items() if key[1] == MAIN}
    lines = -(-len(datasets) // _COLUMNS)
    figure = new_figure(0.5 + _PANEL * lines, "True score (up) beside the estimate (across) of every policy", width=7.2)
    axes = list(figure.subplots(lines, _COLUMNS, squeeze=False).flat)
    handles: dict[str, Any] = {}
    for axis, (key, rows) in zip(axes, sorted(datasets.items()), strict=False):
        for name, kind in _KINDS.items():
            style = style_of(WeightingName(name, kind))
            mine = [row for row in rows if row["weighting"] == name]
            x = [np.mean(row["fqe"]) for row in mine]
            (handles[name],) = axis.plot(
                x, truth(mine), style.marker, color=style.color, markersize=3, alpha=0.6, linewidth=0
            )
        taken = [rows[place] for place in finished(rows) if candidate(rows[place]) == made[key[0]]["chosen"]]
        x = [np.mean(row["fqe"]) for row in taken]
        (handles["the rule's choice"],) = axis.plot(
            x,
            truth(taken),
            "o",
            color="black",
            markersize=7,
            fillstyle="none",
            clip_on=not taken,  # where none is, it must not count for the layout
        )
        finish(axis, title=key[0] if taken else f"{key[0]}: abstains", width=7.2 / _COLUMNS)
    for axis in axes[len(datasets) :]:
        axis.set_visible(False)
    add_legend(figure, handles)
    return as_file(
        as_svg(figure, "selection", "True scores of policies beside their estimates, one panel per dataset.")
    )
