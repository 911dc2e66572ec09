"""Names as the paper writes them: samplers, algorithms and datasets, and the order they are shown in."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from upweight.engine.run import paper_temperature

UNIFORM = "Uniform"
PAPER_SAMPLERS = (UNIFORM, "Top-10%", "Half", "RW", "AW")  # in the order of tables and legends
_ALGORITHMS = {"bc": "BC", "td3_bc": "TD3+BC", "iql": "IQL", "cql": "CQL"}
_TASKS = ("hopper", "halfcheetah", "walker2d", "ant", "antmaze", "cartpole", "acrobot", "mountaincar")
_KINDS = ("random", "medium", "expert", "medium-expert", "medium-replay", "full-replay")
_MIX = re.compile(r"(?P<task>.+)-(?P<good>medium|expert)-random-(?P<sigma>\d+)")
_STOCHASTIC = "upweight/Stochastic"  # how the ids of our noisy environments begin


@dataclass(frozen=True)
class Sampler:
    """What weights a run was trained with."""

    name: str  # "RW", "Top-1%", ...
    kind: str  # of the weighting: "rw", "top", ...
    setting: float | None = None  # the temperature, or the fraction

    @property
    def is_variant(self) -> bool:
        """Whether it is one of the paper's samplers at another temperature or fraction."""
        return self.setting is not None and self.name not in PAPER_SAMPLERS


@dataclass(frozen=True)
class DatasetName:
    """A dataset and what its name says about it."""

    base: str  # the name that the paper may know it by: "hopper-expert-random-5"
    task: str
    family: str  # "mixed", "regular" or "stochastic"
    good: str | None = None  # of a mix: "expert" or "medium"
    sigma: int | None = None  # of a mix: percent of good steps
    variant: str = ""  # which of the datasets of that name: "1,000,000 steps, seed 0"
    is_ambiguous: bool = False  # whether others share the base name, so that the variant has to be said

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return f"{self.base} ({self.variant})" if self.is_ambiguous else self.base


def name_sampler(weighting: Mapping[str, Any], algorithm: str) -> Sampler:
    """The sampler of a weighting's description; settings other than the paper's are part of the name."""
    kind = str(weighting["name"])
    settings = {key: value for key, value in weighting.items() if key != "name" and value is not None}
    if kind == "uniform" and not settings:
        return Sampler(UNIFORM, kind)
    if kind == "top" and settings.keys() == {"fraction"}:
        return Sampler(f"Top-{100 * settings['fraction']:.6g}%", kind, float(settings["fraction"]))
    if kind in {"rw", "aw"} and settings.keys() == {"temperature"}:
        temperature = float(settings["temperature"])
        usual = temperature == paper_temperature(algorithm)
        return Sampler(kind.upper() if usual else f"{kind.upper()} {temperature:g}", kind, temperature)
    name = "Half" if kind == "half" else kind
    return Sampler(" ".join([name, *_settings(settings)]), kind)


def name_algorithm(algorithm: str, config: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> str:
    """The algorithm, and how its settings differ from the nearest of the ``known`` ones (the first of them is unsaid)."""
    plain = algorithm.removeprefix("discrete_")
    name = _ALGORITHMS.get(plain, plain)
    name = f"discrete {name}" if plain != algorithm else name
    differences = {label: differing(config, settings) for label, settings in known.items()}
    if not differences:
        return name
    nearest = min(differences, key=lambda label: len(differences[label]))
    label = "" if nearest == next(iter(known)) else nearest
    return " ".join(filter(None, [name, label, *_settings(differences[nearest])]))


def differing(config: Mapping[str, Any], reference: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of ``config`` that ``reference`` lacks or has another value for."""
    return {key: value for key, value in config.items() if key not in reference or reference[key] != value}


def name_dataset(name: str, env_id: str) -> DatasetName:
    """What the name of a dataset says: its task, and for a mix the good part and its share."""
    mix = _MIX.fullmatch(name)
    stochastic = env_id.startswith(_STOCHASTIC)
    if mix is None:
        return DatasetName(name, name.split("-")[0], "stochastic" if stochastic else "regular")
    return DatasetName(name, mix["task"], "stochastic" if stochastic else "mixed", mix["good"], int(mix["sigma"]))


def sort_samplers(samplers: Iterable[Sampler]) -> list[Sampler]:
    """The paper's first, in its order; then by kind and setting."""

    def place(sampler: Sampler) -> tuple[int, str, float, str]:
        usual = PAPER_SAMPLERS.index(sampler.name) if sampler.name in PAPER_SAMPLERS else len(PAPER_SAMPLERS)
        return (usual, sampler.kind, sampler.setting or 0.0, sampler.name)

    return sorted(set(samplers), key=place)


def sort_datasets(datasets: Iterable[DatasetName]) -> list[DatasetName]:
    """By task; in a task the regular sets, then the mixes by what is good in them and how much of it."""

    def place(dataset: DatasetName) -> tuple[int, str, int, str, int, str]:
        kind = dataset.base.removeprefix(f"{dataset.task}-")
        return (
            _place(dataset.task, _TASKS),
            dataset.task,
            _place(kind, _KINDS) if dataset.sigma is None else len(_KINDS) + 1,
            dataset.good or "",
            dataset.sigma or 0,
            dataset.name,
        )

    return sorted(set(datasets), key=place)


def sort_methods(methods: Iterable[str]) -> list[str]:
    """The paper's algorithms first, each followed by its variants."""
    usual = tuple(_ALGORITHMS.values())
    return sorted(set(methods), key=lambda name: (_place(name.split(" ")[0].rstrip(","), usual), name))


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _settings(values: Mapping[str, Any]) -> list[str]:
    return [f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in values.items()]
