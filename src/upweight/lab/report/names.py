"""Names as the paper writes them: weightings, algorithms and datasets, and the order they are shown in."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from upweight.base.errors import DatasetError, UpweightError
from upweight.base.text import settings_text
from upweight.lab.study.run_spec import ACTOR, config_of, run_spec_from_dict
from upweight.lab.study.store import Record
from upweight.lab.train.config import paper_temperature

UNIFORM = "Uniform"
BESIDE = ", actor "  # between the critics' weights and those of the actor's own
PAPER_WEIGHTINGS = (UNIFORM, "Top-10%", "Half", "RW", "AW")  # in the order of tables and legends
FAMILIES = {
    "mixed": "mixed datasets",
    "regular": "regular datasets",
    "stochastic": "stochastic control",
    "other": "other datasets",  # of which the paper says nothing: one's own
}
_ALGORITHMS = {"bc": "BC", "td3_bc": "TD3+BC", "iql": "IQL", "cql": "CQL"}
_MAZES = ("antmaze-umaze", "antmaze-medium", "antmaze-large")
_TASKS = ("hopper", "halfcheetah", "walker2d", "ant", *_MAZES, "cartpole", "acrobot", "mountaincar")
_KINDS = ("random", "medium", "expert", "medium-expert", "medium-replay", "full-replay")
_MIX = re.compile(r"(?P<task>.+)-(?P<good>medium|expert)-(?:random|wander)-(?P<sigma>\d+)")
_STOCHASTIC = "upweight/Stochastic"  # how the ids of our noisy environments begin

# Tells datasets apart: name, steps, seed, content, edition, share held out.
DataKey = tuple[str, int | None, int | None, str | None, int, float | None]


@dataclass(frozen=True)
class WeightingName:
    """What weights a run was trained with: the paper's "sampler"."""

    name: str  # "RW", "Top-1%", ...
    kind: str  # of the weighting: "rw", "top", ...
    setting: float | None = None  # the temperature, or the fraction

    @property
    def is_variant(self) -> bool:
        """Whether it is one of the paper's weightings at another temperature or fraction."""
        return self.setting is not None and self.name not in PAPER_WEIGHTINGS


@dataclass(frozen=True)
class DatasetName:
    """A dataset and what its name says about it."""

    base: str  # the name that the paper may know it by: "hopper-expert-random-5"
    task: str
    family: str  # one of FAMILIES
    good: str | None = None  # of a mix: "expert" or "medium"
    sigma: int | None = None  # of a mix: percent of good steps
    variant: str = ""  # which of the datasets of that name: "1,000,000 steps, seed 0"
    is_ambiguous: bool = False  # whether others share the base name, so that the variant has to be said

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return f"{self.base} ({self.variant})" if self.is_ambiguous else self.base


def name_weighting(weighting: Mapping[str, Any], algorithm: str) -> WeightingName:
    """The name of a weighting's description; settings other than the paper's are part of it, and weights of the actor's own."""
    if ACTOR in weighting:
        rest = {key: value for key, value in weighting.items() if key != ACTOR}
        own, actor = (name_weighting(each, algorithm) for each in (rest, weighting[ACTOR]))
        return WeightingName(f"{own.name}{BESIDE}{actor.name}", f"{own.kind}{BESIDE}{actor.kind}")
    kind = str(weighting["name"])
    settings = {key: value for key, value in weighting.items() if key != "name" and value is not None}
    if kind == "uniform" and not settings:
        return WeightingName(UNIFORM, kind)
    if kind == "top" and settings.keys() == {"fraction"}:
        return WeightingName(f"Top-{100 * settings['fraction']:.6g}%", kind, float(settings["fraction"]))
    if kind in {"rw", "aw"} and settings.keys() == {"temperature"}:
        temperature = float(settings["temperature"])
        usual = temperature == paper_temperature(algorithm)
        return WeightingName(kind.upper() if usual else f"{kind.upper()} {temperature:g}", kind, temperature)
    name = "Half" if kind == "half" else kind
    return WeightingName(f"{name} {settings_text(settings)}".strip(), kind)


def name_algorithm(algorithm: str, config: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> str:
    """The algorithm, and how its settings differ from the nearest of the ``known`` ones (the first of them is unsaid)."""
    plain = algorithm.removeprefix("discrete_")
    name = _ALGORITHMS.get(plain, plain)
    name = f"discrete {name}" if plain != algorithm else name
    differences = {
        label: {key: value for key, value in config.items() if key not in settings or settings[key] != value}
        for label, settings in known.items()
    }
    if not differences:
        return name
    nearest = min(differences, key=lambda label: len(differences[label]))
    label = "" if nearest == next(iter(known)) else nearest
    return " ".join(filter(None, [name, label, settings_text(differences[nearest])]))


def name_dataset(name: str, env_id: str) -> DatasetName:
    """What the name of a dataset says: its task, and for a mix the good part and its share."""
    mix = _MIX.fullmatch(name)
    stochastic = env_id.startswith(_STOCHASTIC)
    if mix is None:
        task = next((maze for maze in _MAZES if name.startswith(maze)), name.split("-")[0])
        is_regular = task in _MAZES or (task in _TASKS and name.removeprefix(f"{task}-") in _KINDS)
        return DatasetName(name, task, "stochastic" if stochastic else "regular" if is_regular else "other")
    return DatasetName(name, mix["task"], "stochastic" if stochastic else "mixed", mix["good"], int(mix["sigma"]))


def data_key(data: Mapping[str, Any]) -> DataKey:
    """The key of a dataset in the description of a run, or in a store's description of the dataset."""
    return (data["name"], data["steps"], data["seed"], data.get("content"), data.get("edition", 1), data.get("holdout"))


def name_datasets(records: Sequence[Record]) -> dict[DataKey, DatasetName]:
    """A name for each dataset of some runs: steps and seed, or content, are said only where the name would be ambiguous."""
    found: dict[DataKey, Mapping[str, Any]] = {}
    for record in records:
        try:
            spec = run_spec_from_dict(record["spec"])
            found[data_key(record["spec"]["data"])] = vars(spec.data)
            name_weighting(spec.weighting, spec.algorithm)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DatasetError(
                f"run {record['run_id']}: expected the description of a run, found something else ({error}); "
                "remove the file and start the sweep again to repeat that run"
            ) from None
    plain = {key: str(data["name"]).replace("\\", "/").rsplit("/", 1)[-1] for key, data in found.items()}
    taken = Counter(plain.values())
    names = {}
    for key, data in found.items():
        what = f"{data['steps']:,} steps, seed {data['seed']}" if data["steps"] else str(data["content"])[:8]
        what += f", edition {data['edition']}" if data["edition"] > 1 else ""
        what += f", {data['holdout']:.3g} held out" if data["holdout"] else ""
        name = name_dataset(plain[key], str(data["env_id"]))
        names[key] = replace(name, variant=what, is_ambiguous=taken[plain[key]] > 1)
    return names


def known_settings(records: Sequence[Record]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Settings with a name, by algorithm: the presets or, where they cannot be had, the most frequent settings."""
    specs: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        specs.setdefault(record["spec"]["algorithm"], []).append(record["spec"])
    known: dict[str, dict[str, Mapping[str, Any]]] = {}
    for algorithm, mine in specs.items():
        texts = Counter(json.dumps(spec["config"], sort_keys=True) for spec in mine)
        known[algorithm] = _presets(mine[0]) or {"": json.loads(max(sorted(texts), key=texts.__getitem__))}
    return known


def _presets(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    try:
        kind = type(config_of(run_spec_from_dict(spec)))
        return {name: kind.preset(name).to_dict() for name in kind.presets}
    except (ImportError, UpweightError):  # no JAX here, or settings of another version
        return {}


def sort_weightings(weightings: Iterable[WeightingName]) -> list[WeightingName]:
    """The paper's first, in its order; then by kind and setting."""
    return sorted(
        set(weightings),
        key=lambda each: (_place(each.name, PAPER_WEIGHTINGS), each.kind, each.setting or 0.0, each.name),
    )


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
