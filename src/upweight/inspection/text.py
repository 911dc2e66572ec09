"""A report as tables: plain text for a terminal, HTML for a notebook."""

from collections.abc import Sequence
from math import prod
from typing import Any

from upweight.base.text import Grid, as_html, number, paragraph, table

Section = tuple[str | Grid, ...]  # what stands together
_MOST_LABELS, _MOST_NAMES = 4, 6  # as columns of a table; on a line


def render(report: dict[str, Any], suggestion: str) -> str:
    """The report of :meth:`Inspection.to_dict` for a terminal."""
    sections = [
        "\n".join(part if isinstance(part, str) else table(part.rows, header=part.header) for part in section)
        for section in _sections(report)
    ]
    notes = [paragraph(note, mark="Note: ") for note in report["notes"]]
    return "\n\n".join([_title(report), *sections, *notes, *([suggestion] if suggestion else [])])


def render_html(report: dict[str, Any]) -> str:
    """The same for a notebook."""
    parts = [part for section in _sections(report) for part in section]
    notes = [f"Note: {note}" for note in report["notes"]]
    return as_html(_title(report), *parts, *notes)


def _title(report: dict[str, Any]) -> str:
    return f"Dataset {report['source']}"


def _sections(report: dict[str, Any]) -> list[Section]:
    facts: Section = (Grid(_facts(report)),)
    return [facts] if report["returns"] is None else [facts, _returns(report), _effects(report), _dropped(report)]


def _facts(report: dict[str, Any]) -> list[list[str]]:
    lengths = report["lengths"]
    kind = "discrete" if report["discrete_actions"] else "continuous"
    ended = f"{report['num_terminated']:,} terminated, {report['num_truncated']:,} truncated"
    rows = [
        ["episodes", f"{report['num_episodes']:,} ({ended})"],
        ["steps", f"{report['num_steps']:,} ({report['num_transitions']:,} trainable)"],
        ["episode length", f"{lengths['min']:,} to {lengths['max']:,}, mean {number(lengths['mean'])}"],
        ["observations", _shape(report["observation_shape"])],
        ["actions", f"{_shape(report['action_shape'])}, {kind}"],
    ]
    if report["returns"] is None and (varying := report["varying_starts"]) is not None:
        size = prod(report["observation_shape"])
        rows.append(["starts", f"differ in {varying:,} of {size:,} directions" if varying else "all alike"])
    if report["num_incomplete"]:
        rows.append(["incomplete", f"{report['num_incomplete']:,} episodes cut short; their returns are not used"])
    if report["num_without_transitions"]:
        rows.append(["not trainable", f"{report['num_without_transitions']:,} episodes without a transition"])
    if report["episodes_per_label"]:
        rows.append(["labels", _some([f"{name} {count:,}" for name, count in report["episodes_per_label"].items()])])
    for column, values in report["metadata"].get("categories", {}).items():
        rows.append(["categories", f"{column}: {_some([f'{place} is {value}' for place, value in enumerate(values)])}"])
    for part, counts in report["metadata"].get("mix", {}).items():
        if isinstance(counts, dict):
            episodes = f"{counts['episodes']:,} episodes, {counts['distinct_episodes']:,} distinct"
            rows.append([f"{part} part", f"{episodes}, {counts['steps']:,} steps"])
    return rows


def _returns(report: dict[str, Any]) -> Section:
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
    every = report["episodes_per_label"] or {}
    labels = (
        sorted(every, key=every.__getitem__, reverse=True)[:_MOST_LABELS] if len(every) > _MOST_LABELS else list(every)
    )
    header = ["weighting", "J(mu_W)", "±", "per step", "eff. episodes", "eff. steps", *(f"% {name}" for name in labels)]
    rows = []
    values = ("weighted_return", "hoeffding_radius", "step_weighted_return", "effective_episodes", "effective_steps")
    for effect in report["effects"]:
        shares = [f"{100 * effect['mass_per_label'][name]:.1f}" for name in labels]
        rows.append([effect["name"], *(number(effect[key]) for key in values), *shares])
    legend = (
        f"J(mu_W): mean return of episodes drawn by weight, of the data and not of a policy; ± {report['confidence']:.0%}\n"
        "Hoeffding bound, which does not cover luck: weights that follow returns favour lucky episodes. per step:\n"
        "mean return of the episode a drawn step is from. eff.: effective sample size."
    )
    if len(labels) < len(every):
        legend += f" Of {len(every)} labels, the most frequent."
    return Grid(rows, header), legend


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
            "J by label: J(mu_W) if every episode had the mean return of its label. Much less than J(mu_W), and labels name\n"
            f"policies: the best episodes of some are drawn, which may be luck, rather than the best policies.\n{legend}"
        )
    if early:
        legend += (
            f"\ngood early: of the first 30 steps of episodes, those drawn from good ones ({report['good']});\n"
            "all episodes pass there, and copying them follows the majority."
        )
    if groups:
        legend += "\nstarts: steps drawn, by quarters of the return that the initial state lets expect."
    return Grid(rows, ["weighting", *by_label, "% dropped", *early, *(f"% {name}" for name in groups)]), legend


def _some(texts: Sequence[str]) -> str:
    more = f", and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return f"{', '.join(texts[:_MOST_NAMES])}{more}"


def _shape(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) + " numbers" if prod(shape) != 1 else "one number"
