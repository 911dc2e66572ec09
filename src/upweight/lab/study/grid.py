"""One grid of an experiment file: every dataset with every algorithm, weighting and seed."""

import fnmatch
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from upweight.base.checks import finite_number, whole_number
from upweight.base.errors import UpweightError
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import fingerprint
from upweight.io.loading import is_recipe, load
from upweight.lab.recipes.recipe import find_recipe, recipe_names
from upweight.lab.study.fit import check_environment, check_weighting, recipe_outline
from upweight.lab.study.run_spec import ACTOR, DataSpec, RunSpec, draws_of
from upweight.lab.train.length import AUTO, POINTS
from upweight.lab.train.prepare import PRECISIONS
from upweight.lab.train.run import Run, algorithm_config, check_runs, named_weighting
from upweight.weightings.registry import find_weighting
from upweight.weightings.weighting import Weighting

_ACTOR_WEIGHTING = "actor_weighting"
_MINARI = "minari:"
_MOST_SEEDS = 100_000
_LIMITS = {  # lowest and highest
    "updates": (1, 2**31 - 1),
    "episodes": (1, 2**31 - 1),
    "evaluate_every": (1, 2**31 - 1),
    "dataset_steps": (1, 2**31 - 1),
    "dataset_seed": (0, 2**32 - 1),
}


class KeyMistake(Exception):
    """What is wrong with the value of a key; the reader of the file says where that was given."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class DatasetEntry(NamedTuple):
    """Where data come from: the name of a recipe, or a file and how to read it."""

    name: str
    options: Mapping[str, Any]
    is_recipe: bool


@dataclass(frozen=True)
class Grid:
    """The keys of a grid, with their types and defaults."""

    datasets: list[Any]  # names, wildcards over them, files, or {path = ..., option = ...}
    algorithms: list[Any]  # names, or {name = ..., setting = ...}
    updates: int | str  # or "auto"
    weightings: list[Any] = field(
        default_factory=lambda: ["uniform"]
    )  # as algorithms; actor_weighting = ... may be a setting
    seeds: int | list[int] = 1  # how many, or which
    episodes: int = 20  # of the evaluation
    evaluate_every: int | list[int] | None = None  # updates, on the way: between two evaluations, or those of each
    env: str | None = None  # where policies trained on files are evaluated
    precision: str = "float32"
    dataset_steps: int | None = None
    dataset_seed: int = 0
    holdout: float | None = None  # share of each dataset's episodes that is kept back from the training

    def runs(
        self, folder: Path, *, only: str | None = None, algorithms: Sequence[str] | None = None
    ) -> Iterator[RunSpec]:
        """All that ``only`` (a wildcard over datasets) and ``algorithms`` keep; parts that do not fit together are a mistake.

        Paths of files begin at ``folder``.
        """
        if self.updates == AUTO and self.evaluate_every is not None:
            raise KeyMistake(
                "evaluate_every", 'chooses with the simulator, updates = "auto" without it: give one of them'
            )
        kept = [run for run in self.agents() if algorithms is None or run.method.name in algorithms]
        agents = [_drawing(run, entry) for run in kept for entry in self.weightings]
        every = tuple(self.evaluate_every) if isinstance(self.evaluate_every, list) else self.evaluate_every
        weightings = (weighting for run in agents for weighting in (run.weighting, run.actor_weighting))
        distinct = [each for each in dict.fromkeys(weightings) if isinstance(each, Weighting)]
        for source in self.sources() if kept else []:
            if only is not None and not fnmatch.fnmatch(source.name, only):
                continue
            data, dataset = self._recipe(source) if source.is_recipe else self._file(source, folder)
            for run in kept:
                with _mistakes_of("algorithms"):
                    check_runs(dataset, [run])
            for weighting in distinct:
                with _mistakes_of("weightings"):
                    check_weighting(weighting, dataset, is_outline=source.is_recipe)
            for run in agents:
                for seed in range(self.seeds) if isinstance(self.seeds, int) else self.seeds:
                    yield RunSpec(
                        data=data,
                        algorithm=run.method.name,
                        config=run.config.to_dict(),
                        weighting=draws_of(run.to_dict()),
                        seed=seed,
                        updates=POINTS[-1] if isinstance(self.updates, str) else self.updates,
                        precision=self.precision,
                        episodes=self.episodes,
                        evaluate_every=every,
                        auto=self.updates == AUTO,
                    )

    def agents(self) -> list[Run]:
        """The algorithms with their settings."""
        return [_agent(entry) for entry in self.algorithms]

    def sources(self) -> list[DatasetEntry]:
        """Recipes, with wildcards spelled out, and files, as they are written; each once."""
        found: list[DatasetEntry] = []
        for entry in self.datasets:
            names = fnmatch.filter(recipe_names(), entry) if isinstance(entry, str) else []
            found += [DatasetEntry(name, {}, True) for name in names] or [_file_source(entry)]
        return [source for place, source in enumerate(found) if source not in found[:place]]

    def _recipe(self, source: DatasetEntry) -> tuple[DataSpec, Dataset]:
        recipe = find_recipe(source.name)
        task = recipe.task
        if self.env is not None and self.env != task.env_id:
            raise KeyMistake(
                "env",
                f"says where files are evaluated, but {source.name} is evaluated in {task.env_id}; "
                "give files a grid of their own",
            )
        steps = task.steps if self.dataset_steps is None else self.dataset_steps
        data = DataSpec(
            source.name, steps, self.dataset_seed, task.env_id, edition=recipe.edition, holdout=self.holdout
        )
        return data, recipe_outline(source.name)

    def _file(self, source: DatasetEntry, folder: Path) -> tuple[DataSpec, Dataset]:
        if self.env is None:
            raise KeyMistake("datasets", f"{source.name} is a file: say with env = where its policies are evaluated")
        name = source.name if source.name.startswith(_MINARI) else os.path.abspath(folder / source.name)
        with _mistakes_of("datasets"):
            dataset = load(name, guard=True, **source.options)
            content = fingerprint(dataset)
        with _mistakes_of("env"):
            check_environment(self.env, dataset)
        data = DataSpec(name, None, None, self.env, content, source.options, holdout=self.holdout)
        return data, dataset


def check_value(key: str, value: Any) -> None:
    """Look at a value alone: its type and its range."""
    kinds = KEYS[key]
    if not _is_a(value, kinds):
        raise KeyMistake(key, f"expected {' or '.join(kind.__name__ for kind in kinds)}, found {value!r}")
    with _mistakes_of(key):
        for number in (value if isinstance(value, list) else [value]) if key in _LIMITS and value != AUTO else []:
            least, most = _LIMITS[key]
            whole_number(key, number, least=least, most=most)
        if key == "seeds":
            _check_seeds(value)
        if key == "holdout":
            finite_number(key, value, above=0, below=1)
    if key == "precision" and value not in PRECISIONS:
        raise KeyMistake(key, f"expected one of {', '.join(PRECISIONS)}, found {value!r}")
    if value == []:
        raise KeyMistake(key, "expected at least one, found an empty list: no runs would be left")


def _check_seeds(seeds: int | list[Any]) -> None:
    """How many, or which."""
    whole_number("number of seeds", len(seeds) if isinstance(seeds, list) else seeds, least=1, most=_MOST_SEEDS)
    for seed in seeds if isinstance(seeds, list) else []:
        whole_number("seed", seed, least=0, most=2**32 - 1)


def _is_a(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _kinds(hint: Any) -> tuple[type, ...]:
    """The types of a field that may stand in a file: TOML has no None."""
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return tuple(get_origin(part) or part for part in parts if part is not NoneType)


KEYS = {name: _kinds(hint) for name, hint in get_type_hints(Grid).items()}
NEEDED = tuple(each.name for each in fields(Grid) if each.default is MISSING and each.default_factory is MISSING)


@contextmanager
def _mistakes_of(key: str, name: str = "") -> Iterator[None]:
    """What goes wrong inside is the fault of a key's value (of what has a ``name`` in it)."""
    try:
        yield
    except (UpweightError, TypeError, OverflowError) as error:
        message = str(error).removeprefix("run 0: ").removeprefix(f"{key}: ")
        raise KeyMistake(key, f"{name}: {message}" if name else message) from None


def _file_source(entry: Any) -> DatasetEntry:
    """A file as it is written: its path, or a table of that and of options for reading it."""
    if isinstance(entry, str):
        if is_recipe(entry) or any(sign in entry for sign in "*?["):
            with _mistakes_of("datasets"):
                find_recipe(entry)  # says which names are like it
        return DatasetEntry(entry, {}, False)
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise KeyMistake("datasets", f"expected a name, a file or {{path = ..., horizon = ...}}, found {entry!r}")
    options = {name: value for name, value in entry.items() if name != "path"}
    if entry["path"] in recipe_names():
        raise KeyMistake("datasets", f"{entry['path']} is made, not read from a file: give its name alone")
    for name, value in options.items():
        is_number = isinstance(value, int | float) and math.isfinite(value)
        words = value if isinstance(value, list) else [value]  # several columns of a table
        if not is_number and not all(isinstance(word, str) for word in words):
            raise KeyMistake("datasets", f"{entry['path']}: {name}: expected a number or a word, found {value!r}")
    return DatasetEntry(entry["path"], options, False)


def _agent(entry: Any) -> Run:
    name, settings = _named("algorithms", entry)
    with _mistakes_of("algorithms", name):
        base = algorithm_config(name, **{key: settings[key] for key in ("preset",) if key in settings})
        return Run(algorithm_config(name, **_as_floats(type(base), base.to_dict(), settings)))


def _drawing(run: Run, entry: Any) -> Run:
    """An agent of the algorithm that draws as an entry of the weightings says."""
    rest, actor = entry, None
    if isinstance(entry, dict) and _ACTOR_WEIGHTING in entry:
        rest = {name: value for name, value in entry.items() if name != _ACTOR_WEIGHTING}
        actor = _weighting(entry[_ACTOR_WEIGHTING], run.method.name)
    weighting = _weighting(rest, run.method.name)
    with _mistakes_of("weightings"):
        return replace(run, weighting=weighting, actor_weighting=actor)


def _weighting(entry: Any, algorithm: str) -> Weighting:
    name, settings = _named("weightings", entry)
    if ACTOR in settings:
        raise KeyMistake("weightings", f"{name}: {ACTOR}: unknown setting; did you mean {_ACTOR_WEIGHTING!r}?")
    with _mistakes_of("weightings", name):
        kind = find_weighting(name)
        defaults = {each.name: each.default for each in fields(kind) if each.default is not MISSING}
        settings = _as_floats(kind, defaults, settings)
        return named_weighting(name, algorithm, **settings)


def _named(key: str, entry: Any) -> tuple[str, dict[str, Any]]:
    """Name and settings of an algorithm or a weighting."""
    if isinstance(entry, str):
        return entry, {}
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise KeyMistake(key, f"expected a name or {{name = ..., setting = ...}}, found {entry!r}")
    return entry["name"], {name: value for name, value in entry.items() if name != "name"}


def _as_floats(kind: type, defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with one spelling for each number: 1 and 1.0 are one temperature, and so are one run."""
    hints = get_type_hints(kind)
    found = dict(settings)
    for name, value in settings.items():
        if float in (hints.get(name), *get_args(hints.get(name))):
            given = finite_number(name, value)
            found[name] = defaults[name] if name in defaults and given == defaults[name] else float(given)
    return found
