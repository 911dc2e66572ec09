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

Everything under ``[[grid]]`` may also stand at the top, as a default for all grids. The whole file is checked when it is read:
every key, and whether datasets, algorithms, weightings and environments fit together.
"""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upweight.studies.experiment_keys import DEFAULTS, find_mistake
from upweight.studies.experiment_text import OPTION, TOP, ExperimentError, ExperimentText, Place
from upweight.studies.grid import Grid, Value
from upweight.studies.run_spec import RunSpec

SUITES = Path(__file__).parent / "suites"
_NEEDED = ("datasets", "algorithms", "updates")
_MOST_NAMES = 8  # in a message


@dataclass(frozen=True)
class Experiment:
    """A study: its runs, each once."""

    name: str
    description: str
    runs: tuple[RunSpec, ...]


def find_experiment(name: str | Path) -> Path:
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
    name: str | Path,
    *,
    scale: str | None = None,
    only: str | None = None,
    algorithms: list[str] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Experiment:
    """The runs of a file, or of a suite that comes with the package ("paper/mixed").

    ``scale`` takes the values of ``[scale.NAME]``, ``only`` (a wildcard over dataset names) and ``algorithms`` keep some of the
    runs, and ``changes`` are other values for keys of the file, as a scale has them.
    """
    path = find_experiment(name)
    text = ExperimentText(path)
    content = dict(text.content)
    title, description = content.pop("name", path.stem), content.pop("description", "")
    for key, value in (("name", title), ("description", description)):
        if not isinstance(value, str):
            text.fail(key, f"expected text in quotes, found {value!r}")
    tables, scales = _grids(text, content.pop("grid", [{}])), _scales(text, content.pop("scale", {}))
    top = _values(text, content, TOP)
    if scale is not None and scale not in scales:
        raise ExperimentError(f"{path}: no [scale.{scale}]; it has {', '.join(scales) or 'no scales'}")
    chosen = {**scales.get(scale or "", {}), **_values(text, changes or {}, OPTION)}
    usual = {key: Value(value, TOP) for key, value in DEFAULTS.items()}
    grids = []
    for number, table in enumerate(tables):
        values = {**usual, **top, **table, **chosen}
        for key in _NEEDED:
            if key not in values:
                text.fail(f"grid {number + 1}", f"missing key {key!r}", ("grid", number))
        grids.append(Grid(text, values, only, algorithms))
    _check_selection(text, grids, only, algorithms)
    runs = {run.run_id: run for grid in grids for run in grid.runs()}
    if not runs:
        raise ExperimentError(f"{path}: no runs are left with both --only {only} and --algorithm")
    return Experiment(title, description, tuple(runs.values()))


def _grids(text: ExperimentText, tables: Any) -> list[dict[str, Value]]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        text.fail("grid", "expected [[grid]] with double brackets, and keys below it")
    if not tables:
        text.fail("grid", "expected at least one, found an empty list: no runs would be left")
    return [_values(text, table, ("grid", number)) for number, table in enumerate(tables)]


def _scales(text: ExperimentText, tables: Any) -> dict[str, dict[str, Value]]:
    """All of them, checked: a mistake should not wait for the day when its scale is asked for."""
    if not isinstance(tables, dict):
        text.fail("scale", f"expected tables such as [scale.smoke], found {tables!r}")
    for name, table in tables.items():
        if not isinstance(table, dict):
            text.fail(name, f"expected [scale.{name}] with keys below it, found {table!r}", ("scale",))
    return {name: _values(text, table, ("scale", name)) for name, table in tables.items()}


def _values(text: ExperimentText, table: Mapping[str, Any], place: Place) -> dict[str, Value]:
    for key, value in table.items():
        if (mistake := find_mistake(key, value, at_the_top=place == TOP)) is not None:
            text.fail(key, mistake, place)
    return {key: Value(value, place) for key, value in table.items()}


def _check_selection(
    text: ExperimentText, grids: Sequence[Grid], only: str | None, algorithms: Sequence[str] | None
) -> None:
    """What was asked for must be there."""
    if only is not None:
        names = list(dict.fromkeys(name for grid in grids for name in grid.dataset_names()))
        if not fnmatch.filter(names, only):
            raise ExperimentError(
                f"{text.path}: no runs are left: --only {only} fits none of its datasets ({_some(names)})"
            )
    for wanted in algorithms or []:
        known = list(dict.fromkeys(run.method.name for grid in grids for run in grid.agents()))
        if wanted not in known:
            raise ExperimentError(f"{text.path}: --algorithm {wanted}: not one of its algorithms ({_some(known)})")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
