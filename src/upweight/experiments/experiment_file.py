"""Experiment files: TOML that spells out a grid of runs.

::

    name = "my study"
    updates = 250_000
    seeds = 5                       # 0 to 4; or a list of seeds
    episodes = 20                   # of the evaluation of each final policy
    precision = "float32"

    [[grid]]                        # one or more; the runs of all of them
    datasets = ["hopper-*-random-*", "logs.hdf5"]        # names (with wildcards) or files
    algorithms = ["bc", {name = "iql", preset = "official", expectile = 0.9}]
    weightings = ["uniform", {name = "rw", temperature = 0.1}]
    env = "Hopper-v5"               # where files are evaluated; names know it

    [scale.smoke]                   # other values for a quick look: --scale smoke
    updates = 1_000
    seeds = 1

Everything under ``[[grid]]`` may also stand at the top, as a default for all grids.
"""

import fnmatch
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from upweight.behaviours.datasets import is_recipe, load
from upweight.behaviours.recipes import find_recipe, recipe_names
from upweight.engine.folder import fingerprint
from upweight.engine.run import Run, algorithm_config
from upweight.errors import DatasetError, UpweightError
from upweight.experiments.run_spec import DataSpec, RunSpec
from upweight.weightings.registry import make_weighting

SUITES = Path(__file__).parent / "suites"
_PRECISIONS = ("float32", "bfloat16", "float64")
_KEYS = {  # what may stand in a grid (or at the top), and its type
    "datasets": list,
    "algorithms": list,
    "weightings": list,
    "env": str,
    "updates": int,
    "seeds": (int, list),
    "episodes": int,
    "precision": str,
    "dataset_steps": int,
    "dataset_seed": int,
}
Place = int | str | None  # where a key stands: in a grid by number, in a scale by name, or at the top
_CHANGES = "changes"  # not in the file at all
_DEFAULTS = {"seeds": 1, "episodes": 20, "precision": "float32", "dataset_seed": 0, "weightings": ["uniform"]}


class ExperimentError(DatasetError):
    """An experiment file is malformed or contradicts itself."""


@dataclass(frozen=True)
class Experiment:
    """A study: its runs, each once."""

    name: str
    description: str
    runs: tuple[RunSpec, ...]


def find_experiment(name: str) -> Path:
    """The file of that path, or the shipped suite of that name ("paper/mixed")."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = SUITES / f"{name}.toml"
    if shipped.is_file():
        return shipped
    known = ", ".join(sorted(suite_names()))
    raise ExperimentError(f"{name}: no such file, and no suite of that name; suites: {known}")


def suite_names() -> list[str]:
    return [str(path.relative_to(SUITES).with_suffix("")) for path in SUITES.rglob("*.toml")]


def read_experiment(
    path: Path,
    *,
    scale: str | None = None,
    only: str | None = None,
    algorithms: list[str] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Experiment:
    """The runs of a file; ``only`` (a wildcard over dataset names) and ``algorithms`` keep some of them.

    ``changes`` are other values for keys of the file, as a scale has them.
    """
    text = path.read_text()
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # its message has line and column
        raise ExperimentError(f"{path}: not a TOML file: {error}") from None
    return _Reader(path, text, scale, only, algorithms, dict(changes or {})).read(content)


@dataclass
class _Reader:
    path: Path
    text: str
    scale: str | None
    only: str | None
    algorithms: list[str] | None
    changes: dict[str, Any]

    def read(self, content: dict[str, Any]) -> Experiment:
        scales = content.pop("scale", {})
        name, description = content.pop("name", self.path.stem), content.pop("description", "")
        grids = content.pop("grid", [{}])
        if not isinstance(grids, list):
            self._fail("grid", "expected [[grid]] with double brackets")
        top = self._checked(content, None)
        chosen: dict[str, Any] = {}
        if self.scale is not None:
            if self.scale not in scales:
                raise ExperimentError(
                    f"{self.path}: no [scale.{self.scale}]; it has {', '.join(scales) or 'no scales'}"
                )
            chosen = self._checked(scales[self.scale], self.scale)
        chosen |= self._checked(self.changes, _CHANGES)
        runs: dict[str, RunSpec] = {}
        for place, grid in enumerate(grids):
            settings = {**_DEFAULTS, **top, **self._checked(grid, place), **chosen}
            for spec in self._expand(settings, place):
                runs[spec.run_id] = spec
        if not runs:
            raise ExperimentError(f"{self.path}: no runs are left{' with what was asked for' if self.only else ''}")
        return Experiment(str(name), str(description), tuple(runs.values()))

    def _checked(self, values: Mapping[str, Any], place: Place) -> dict[str, Any]:
        for key, value in values.items():
            if key not in _KEYS:
                self._fail(key, f"unknown key; known: {', '.join(_KEYS)}", place)
            if isinstance(value, bool) or not isinstance(value, _KEYS[key]):  # type: ignore[arg-type]
                wanted = _KEYS[key]
                kinds = " or ".join(kind.__name__ for kind in (wanted if isinstance(wanted, tuple) else (wanted,)))
                self._fail(key, f"expected {kinds}, found {value!r}", place)
        for key in ("updates", "episodes", "dataset_steps"):
            if values.get(key, 1) < 1:
                self._fail(key, f"expected at least 1, found {values[key]}", place)
        if values.get("precision", "float32") not in _PRECISIONS:
            self._fail("precision", f"expected one of {', '.join(_PRECISIONS)}, found {values['precision']!r}", place)
        return dict(values)

    def _expand(self, settings: dict[str, Any], place: int) -> list[RunSpec]:
        for key in ("datasets", "algorithms", "updates"):
            if key not in settings:
                raise ExperimentError(f"{self.path}: grid {place + 1}: missing key {key!r}")
        seeds = settings["seeds"]
        seeds = list(range(seeds)) if isinstance(seeds, int) else seeds
        if not seeds or any(isinstance(seed, bool) or not isinstance(seed, int) or seed < 0 for seed in seeds):
            self._fail("seeds", f"expected a number of seeds above 0, or a list of them, found {seeds!r}", place)
        specs = []
        for data in self._datasets(settings, place):
            for algorithm in settings["algorithms"]:
                name, config = self._algorithm(algorithm, place)
                if self.algorithms is not None and name not in self.algorithms:
                    continue
                for weighting in settings["weightings"]:
                    described = self._weighting(weighting, place)
                    for seed in seeds:
                        spec = RunSpec(
                            data=data,
                            algorithm=name,
                            config=config,
                            weighting=described,
                            seed=seed,
                            updates=settings["updates"],
                            precision=settings["precision"],
                            episodes=settings["episodes"],
                        )
                        specs.append(spec)
        return specs

    def _datasets(self, settings: dict[str, Any], place: int) -> list[DataSpec]:
        found: dict[str, DataSpec] = {}
        for pattern in settings["datasets"]:
            if not isinstance(pattern, str):
                self._fail("datasets", f"expected names or files, found {pattern!r}", place)
            names = fnmatch.filter(recipe_names(), pattern)
            if not names and (is_recipe(pattern) or any(sign in pattern for sign in "*?[")):
                try:
                    find_recipe(pattern)
                except DatasetError as error:
                    self._fail("datasets", str(error), place)
            for name in names:
                task = find_recipe(name).task
                steps = settings.get("dataset_steps", task.steps)
                found[name] = DataSpec(name, steps, settings["dataset_seed"], task.env_id)
            if not names:
                found[pattern] = self._file(pattern, settings, place)
        if self.only is not None:
            return [data for name, data in found.items() if fnmatch.fnmatch(name, self.only)]
        return list(found.values())

    def _file(self, name: str, settings: dict[str, Any], place: int) -> DataSpec:
        if "env" not in settings:
            self._fail("datasets", f"{name} is a file: say with env = where its policies are evaluated", place)
        path = name if Path(name).is_absolute() else str(self.path.parent / name)
        try:
            return DataSpec(path, None, None, settings["env"], fingerprint(load(path)))
        except UpweightError as error:
            self._fail("datasets", str(error), place)

    def _algorithm(self, entry: Any, place: int) -> tuple[str, dict[str, Any]]:
        name, settings = self._entry("algorithms", entry, place)
        try:
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
            config = algorithm_config(name, **values)
        except UpweightError as error:
            self._fail("algorithms", str(error), place)
        return Run(config).method.name, config.to_dict()

    def _weighting(self, entry: Any, place: int) -> dict[str, Any]:
        name, settings = self._entry("weightings", entry, place)
        try:
            return make_weighting(name, **settings).to_dict()
        except (UpweightError, TypeError) as error:
            self._fail("weightings", str(error), place)

    def _entry(self, key: str, entry: Any, place: int) -> tuple[str, dict[str, Any]]:
        if isinstance(entry, str):
            return entry, {}
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            self._fail(key, f"expected a name or {{name = ..., setting = ...}}, found {entry!r}", place)
        return entry["name"], {name: value for name, value in entry.items() if name != "name"}

    def _fail(self, key: str, message: str, place: Place = None) -> NoReturn:
        """Name the line: the key's in its own grid or scale, else its first."""
        if place == _CHANGES:
            raise ExperimentError(f"{key}: {message}")
        lines = self.text.splitlines()
        head = re.compile(r"\s*\[\[grid\]\]" if isinstance(place, int) else rf"\s*\[scale\.{re.escape(place or '')}\]")
        heads = [number for number, line in enumerate(lines) if place is not None and head.match(line)]
        number = place if isinstance(place, int) else 0
        start = heads[number] if number < len(heads) else 0
        pattern = re.compile(rf"\s*(\[*{re.escape(key)}\b|{re.escape(key)}\s*=)")
        order = [*range(start, len(lines)), *range(start)]
        where = next((f"line {number + 1}: " for number in order if pattern.match(lines[number])), "")
        raise ExperimentError(f"{self.path}: {where}{key}: {message}")
