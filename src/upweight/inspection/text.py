"""A report as text for a terminal and as HTML for a notebook: one screen, or everything.

The screen has facts, the suggestion with its checks, and a table. The explanation adds quantiles, bounds and shares.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

from upweight.base.text import Grid, as_html, number, paragraph, table

Section = tuple[str | Grid, ...]  # what stands together
_MOST_LABELS, _MOST_NAMES = 4, 6  # as columns of a table; on a line
_FOLDED = ("top", "half")  # weightings that the screen leaves to the explanation, unless they were asked for


def screen(report: dict[str, Any], suggestion: str, *, every_weighting: bool) -> str:
    """What a person reads first, from :meth:`Inspection.to_dict`."""
    tables = [] if report["returns"] is None else [_short_effects(report, every_weighting)]
    return _join(report, (Grid(_short_facts(report)),), report["notes"], suggestion, tables)


def explanation(report: dict[str, Any], suggestion: str) -> str:
    """Everything."""
    tables = [] if report["returns"] is None else [_quantiles(report), _effects(report), _dropped(report)]
    return _join(report, (Grid(_facts(report)),), [*report["notes"], *report["other_notes"]], suggestion, tables)


def html(report: dict[str, Any], *, every_weighting: bool) -> str:
    """The screen for a notebook, without the suggestion."""
    tables = [] if report["returns"] is None else _short_effects(report, every_weighting)
    notes = [f"Note: {note}" for note in report["notes"]]
    return as_html(_title(report), Grid(_short_facts(report)), *tables, *notes)


def _join(report: dict[str, Any], facts: Section, notes: Sequence[str], suggestion: str, tables: list[Section]) -> str:
    said = [paragraph(note, mark="Note: ") for note in notes]
    parts = [f"{_title(report)}\n{_text(facts)}", *said, suggestion, *map(_text, tables)]
    return "\n\n".join(part for part in parts if part)


def _text(section: Section) -> str:
    return "\n".join(part if isinstance(part, str) else table(part.rows, header=part.header) for part in section)


def _title(report: dict[str, Any]) -> str:
    return f"Dataset {report['source']}"


def _short_facts(report: dict[str, Any]) -> list[list[str]]:
    lengths, returns = report["lengths"], report["returns"]
    long = " to ".join(f"{each:,}" for each in dict.fromkeys((lengths["min"], lengths["max"])))
    rows = [
        ["episodes", f"{report['num_episodes']:,} of {long} steps, {report['num_steps']:,} in all; {_ended(report)}"],
        ["observations", f"{_shape(report['observation_shape'])}; actions {_actions(report)}"],
    ]
    if returns is not None and returns["quantiles"]["min"] == returns["quantiles"]["max"]:
        rows.append(["returns", f"{number(returns['mean'])} in every episode"])
    elif returns is not None:
        ends = " to ".join(number(returns["quantiles"][end]) for end in ("min", "max"))
        middle = f"mean {number(returns['mean'])}, median {number(returns['quantiles']['50%'])}"
        scaled = report["normalized_returns"]
        normalised = "" if scaled is None else f"; normalised ({report['env']}) mean {number(scaled['mean'])}"
        rows.append(["returns", f"{ends}, {middle}{normalised}"])
    return rows + _unusable(report) + _labels(report)


def _facts(report: dict[str, Any]) -> list[list[str]]:
    lengths = report["lengths"]
    rows = [
        ["episodes", f"{report['num_episodes']:,} ({_ended(report)})"],
        ["steps", f"{report['num_steps']:,} ({report['num_transitions']:,} trainable)"],
        ["episode length", f"{lengths['min']:,} to {lengths['max']:,}, mean {number(lengths['mean'])}"],
        ["observations", _shape(report["observation_shape"])],
        ["actions", _actions(report)],
        *([] if report["returns"] is not None else _starts(report)),
        *_unusable(report),
        *_labels(report),
    ]
    for column, values in report["metadata"].get("categories", {}).items():
        rows.append(["categories", f"{column}: {_some([f'{place} is {value}' for place, value in enumerate(values)])}"])
    for part, counts in report["metadata"].get("mix", {}).items():
        if isinstance(counts, dict):
            episodes = f"{counts['episodes']:,} episodes, {counts['distinct_episodes']:,} distinct"
            rows.append([f"{part} part", f"{episodes}, {counts['steps']:,} steps"])
    return rows


def _ended(report: dict[str, Any]) -> str:
    return f"{report['num_terminated']:,} terminated, {report['num_truncated']:,} truncated"


def _actions(report: dict[str, Any]) -> str:
    return f"{_shape(report['action_shape'])}, {'discrete' if report['discrete_actions'] else 'continuous'}"


def _starts(report: dict[str, Any]) -> list[list[str]]:
    if (varying := report["varying_starts"]) is None:
        return []
    size = prod(report["observation_shape"])
    return [["starts", f"differ in {varying:,} of {size:,} directions" if varying else "all alike"]]


def _unusable(report: dict[str, Any]) -> list[list[str]]:
    rows = []
    if report["num_incomplete"]:
        rows.append(["incomplete", f"{report['num_incomplete']:,} episodes cut short; their returns are not used"])
    if report["num_without_transitions"]:
        rows.append(["not trainable", f"{report['num_without_transitions']:,} episodes without a transition"])
    return rows


def _labels(report: dict[str, Any]) -> list[list[str]]:
    labels = report["episodes_per_label"] or {}
    return [["labels", _some([f"{name} {count:,}" for name, count in labels.items()])]] if labels else []


def _short_effects(report: dict[str, Any], every_weighting: bool) -> Section:
    labels = _label_columns(report)
    header = ["weighting", "mean return", "effective episodes", "effective steps", *(f"% {name}" for name in labels)]
    values = ("weighted_return", "effective_episodes", "effective_steps")
    shown = [each for each in report["effects"] if every_weighting or not each["name"].startswith(_FOLDED)]
    return (Grid(_effect_rows(shown, values, labels), header),)


def _quantiles(report: dict[str, Any]) -> Section:
    kinds = [("return", report["returns"])]
    if report["normalized_returns"] is not None:
        kinds.append((f"normalised ({report['env']})", report["normalized_returns"]))
    header = ["", "mean", "std", *kinds[0][1]["quantiles"], "RPSV"]
    rows = []
    for name, part in kinds:
        values = (part["mean"], part["std"], *part["quantiles"].values(), part["rpsv"])
        rows.append([name, *map(number, values)])
    return (Grid(rows, header),)


def _effects(report: dict[str, Any]) -> Section:
    labels = _label_columns(report)
    header = ["weighting", "J(mu_W)", "±", "per step", "eff. episodes", "eff. steps", *(f"% {name}" for name in labels)]
    values = ("weighted_return", "hoeffding_radius", "step_weighted_return", "effective_episodes", "effective_steps")
    legend = (
        "J(mu_W): mean return of episodes drawn by weight, of the data and not of a policy.\n"
        f"±: {report['confidence']:.0%} Hoeffding bound. It does not cover luck: weights that follow returns favour lucky ones.\n"
        "per step: mean return of the episode that a drawn step is from. eff.: effective sample size."
    )
    if len(labels) < len(report["episodes_per_label"] or {}):
        legend += f" The {len(labels)} most frequent of {len(report['episodes_per_label'])} labels are shown."
    return Grid(_effect_rows(report["effects"], values, labels), header), legend


def _label_columns(report: dict[str, Any]) -> list[str]:
    every = report["episodes_per_label"] or {}
    return (
        sorted(every, key=every.__getitem__, reverse=True)[:_MOST_LABELS] if len(every) > _MOST_LABELS else list(every)
    )


def _effect_rows(effects: Sequence[dict[str, Any]], values: Sequence[str], labels: Sequence[str]) -> list[list[str]]:
    """A row for each weighting: these values, and the share of steps drawn from each of these labels."""
    return [
        [
            effect["name"],
            *(number(effect[key]) for key in values),
            *(f"{100 * effect['mass_per_label'][name]:.1f}" for name in labels),
        ]
        for effect in effects
    ]


def _dropped(report: dict[str, Any]) -> Section:
    """What weighting leaves out."""
    first = report["effects"][0]
    groups = list(first["mass_per_start"] or {})
    early = [] if report["good"] is None else ["% good early"]
    by_label = [] if first["weighted_label_return"] is None else ["J by label"]
    rows = []
    for effect in report["effects"]:
        shares = [effect["dropped_episodes"], *([effect["early_share"]] if early else [])]
        shares += [effect["mass_per_start"][name] for name in groups]
        means = [number(effect["weighted_label_return"]) for _ in by_label]
        rows.append([effect["name"], *means, *(f"{100 * share:.1f}" for share in shares)])
    legend = "dropped: episodes that together get under 1% of the steps, and under a tenth of their uniform share."
    if by_label:
        legend = (
            "J by label: J(mu_W) if every episode had the mean return of its label. If it is much less than J(mu_W), and\n"
            f"labels name policies, the best episodes of some policies are drawn, which may be luck.\n{legend}"
        )
    if early:
        legend += (
            f"\ngood early: of the first 30 steps of episodes, those drawn from good ones ({report['good']}).\n"
            "All episodes pass there, and copying them follows the majority."
        )
    if groups:
        legend += "\nstarts: steps drawn, by quarters of the return that the initial state predicts."
    return Grid(rows, ["weighting", *by_label, "% dropped", *early, *(f"% {name}" for name in groups)]), legend


def _some(texts: Sequence[str]) -> str:
    more = f", and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return f"{', '.join(texts[:_MOST_NAMES])}{more}"


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) + " numbers" if prod(shape) != 1 else "one number"
