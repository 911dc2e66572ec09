"""One grid of an experiment file: every dataset with every algorithm, weighting and seed."""

import fnmatch
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple, NoReturn, get_args, get_type_hints

from upweight.base.errors import DatasetError, UpweightError
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import fingerprint
from upweight.engine.run import Run, algorithm_config, named_weighting
from upweight.loading import is_recipe, load
from upweight.recipes.recipe import find_recipe, recipe_names
from upweight.studies.experiment_text import ExperimentText, Place
from upweight.studies.fit import check_algorithm, check_environment, check_weighting, recipe_outline
from upweight.studies.run_spec import DataSpec, RunSpec
from upweight.weightings.registry import weighting_classes
from upweight.weightings.weighting import Weighting

_MINARI = "minari:"


class Value(NamedTuple):
    """Of a key, and where it was given."""

    value: Any
    place: Place


@dataclass(frozen=True)
class Grid:
    """The values that hold for one grid, and what is kept of it."""

    text: ExperimentText
    values: Mapping[str, Value]
    only: str | None = None  # a wildcard over dataset names
    algorithms: Sequence[str] | None = None

    def runs(self) -> Iterator[RunSpec]:
        """All that is kept; parts that do not fit together are an error."""
        seeds = self["seeds"]
        kept = [run for run in self.agents() if self.algorithms is None or run.method.name in self.algorithms]
        weightings = {run: [self._weighting(entry, run.method.name) for entry in self["weightings"]] for run in kept}
        distinct = list(dict.fromkeys(weighting for each in weightings.values() for weighting in each))
        for name in self.dataset_names() if kept else []:
            if self.only is not None and not fnmatch.fnmatch(name, self.only):
                continue
            data = self._recipe(name, kept, distinct) if name in recipe_names() else self._file(name, kept, distinct)
            for run in kept:
                for weighting in weightings[run]:
                    for seed in range(seeds) if isinstance(seeds, int) else seeds:
                        yield RunSpec(
                            data=data,
                            algorithm=run.method.name,
                            config=run.config.to_dict(),
                            weighting=weighting.to_dict(),
                            seed=seed,
                            updates=self["updates"],
                            precision=self["precision"],
                            episodes=self["episodes"],
                        )

    def dataset_names(self) -> list[str]:
        """Recipes, with wildcards spelled out, and files, as they are written."""
        found: list[str] = []
        for pattern in self["datasets"]:
            if not isinstance(pattern, str):
                self._fail("datasets", f"expected names or files, found {pattern!r}")
            names = fnmatch.filter(recipe_names(), pattern)
            if not names and (is_recipe(pattern) or any(sign in pattern for sign in "*?[")):
                try:
                    find_recipe(pattern)
                except DatasetError as error:
                    self._fail("datasets", str(error))
            found += names or [pattern]
        return list(dict.fromkeys(found))

    def agents(self) -> list[Run]:
        """The algorithms with their settings."""
        return [self._agent(entry) for entry in self["algorithms"]]

    def _recipe(self, name: str, agents: Sequence[Run], weightings: Sequence[Weighting]) -> DataSpec:
        task = find_recipe(name).task
        if "env" in self.values and self["env"] != task.env_id:
            self._fail(
                "env",
                f"says where files are evaluated, but {name} is evaluated in {task.env_id}; give files a grid of their own",
            )
        self._check(recipe_outline(name), agents, weightings, is_outline=True)
        steps = self["dataset_steps"] if "dataset_steps" in self.values else task.steps
        return DataSpec(name, steps, self["dataset_seed"], task.env_id)

    def _file(self, name: str, agents: Sequence[Run], weightings: Sequence[Weighting]) -> DataSpec:
        if "env" not in self.values:
            self._fail("datasets", f"{name} is a file: say with env = where its policies are evaluated")
        path = name if name.startswith(_MINARI) else os.path.abspath(self.text.path.parent / name)
        try:
            dataset = load(path)
            content = fingerprint(dataset)
        except UpweightError as error:
            self._fail("datasets", str(error))
        self._check(dataset, agents, weightings, is_outline=False)
        try:
            check_environment(self["env"], dataset)
        except UpweightError as error:
            self._fail("env", str(error))
        return DataSpec(path, None, None, self["env"], content)

    def _check(
        self, dataset: Dataset, agents: Sequence[Run], weightings: Sequence[Weighting], *, is_outline: bool
    ) -> None:
        for run in agents:
            try:
                check_algorithm(run, dataset)
            except UpweightError as error:
                self._fail("algorithms", str(error).removeprefix("run 0: "))
        for weighting in weightings:
            try:
                check_weighting(weighting, dataset, is_outline=is_outline)
            except UpweightError as error:
                self._fail("weightings", str(error))

    def _agent(self, entry: Any) -> Run:
        name, settings = self._entry("algorithms", entry)
        try:
            base = algorithm_config(name, **{key: settings[key] for key in ("preset",) if key in settings})
            given = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
            return Run(algorithm_config(name, **_as_floats(type(base), base.to_dict(), given)))
        except (UpweightError, TypeError, OverflowError) as error:
            self._fail("algorithms", f"{name}: {error}")

    def _weighting(self, entry: Any, algorithm: str) -> Weighting:
        name, settings = self._entry("weightings", entry)
        try:
            if (kind := weighting_classes().get(name)) is not None:
                defaults = {each.name: each.default for each in fields(kind) if each.default is not MISSING}
                settings = _as_floats(kind, defaults, settings)
            return named_weighting(name, algorithm, **settings)
        except (UpweightError, TypeError, OverflowError) as error:
            self._fail("weightings", f"{name}: {error}")

    def _entry(self, key: str, entry: Any) -> tuple[str, dict[str, Any]]:
        if isinstance(entry, str):
            return entry, {}
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            self._fail(key, f"expected a name or {{name = ..., setting = ...}}, found {entry!r}")
        settings = {name: value for name, value in entry.items() if name != "name"}
        for name, value in settings.items():
            if isinstance(value, float) and not math.isfinite(value):
                self._fail(key, f"{entry['name']}: {name}: expected a finite number, found {value}")
        return entry["name"], settings

    def _fail(self, key: str, message: str) -> NoReturn:
        self.text.fail(key, message, self.values[key].place)

    def __getitem__(self, key: str) -> Any:
        return self.values[key].value


def _as_floats(kind: type, defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with one spelling for each number: 1 and 1.0 are one temperature, and so are one run."""
    hints = get_type_hints(kind)
    found = dict(settings)
    for name, value in settings.items():
        if float in (hints.get(name), *get_args(hints.get(name))):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise TypeError(f"{name}: expected a number, found {value!r}")
            found[name] = defaults[name] if name in defaults and value == defaults[name] else float(value)
    return found
