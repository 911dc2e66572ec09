"""Experiment files: TOML that spells out a grid of runs.

::

    name = "my study"
    updates = 250_000
    seeds = 5                       # 0 to 4; or a list of seeds
    episodes = 20                   # of the evaluation of each final policy
    evaluate_every = 50_000         # updates, to be evaluated on the way too; not part of a run's name
    precision = "float32"

    [[grid]]                        # one or more; the runs of all of them
    datasets = ["hopper-*-random-*", "logs.hdf5", {path = "replay.hdf5", horizon = 1000}]    # names (with wildcards) or files
    algorithms = ["bc", {name = "iql", preset = "official", expectile = 0.9}]
    weightings = ["uniform", {name = "rw", temperature = 0.1}, {name = "uniform", actor_weighting = "rw"}]  # last: actor alone
    env = "Hopper-v5"               # where files are evaluated; names know it

    [scale.smoke]                   # other values for a quick look: --scale smoke
    updates = 1_000
    seeds = 1

Everything under ``[[grid]]`` may also stand at the top, as a default for all grids. The whole file is checked when it is read:
every key, and whether datasets, algorithms, weightings and environments fit together. :class:`upweight.lab.study.grid.Grid` has
the keys, and docs/experiments.md explains them.
"""

import fnmatch
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from upweight.base.errors import DatasetError
from upweight.base.names import hint
from upweight.lab.study.grid import KEYS, NEEDED, Grid, KeyMistake, check_value
from upweight.lab.study.run_spec import RunSpec
from upweight.lab.train.algorithm import find_algorithm

SUITES = Path(__file__).parent / "suites"
_TOP_ONLY = ("name", "description", "grid", "scale")
_MOST_NAMES = 8  # in a message


class ExperimentError(DatasetError):
    """An experiment file is malformed or contradicts itself."""


@dataclass(frozen=True)
class Experiment:
    """A study: its runs, each once."""

    name: str
    description: str
    runs: tuple[RunSpec, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "runs", tuple(self.runs))  # a generator would be used up by the first look


class _Value(NamedTuple):
    """Of a key, and where it was given, as messages begin: "study.toml: grid 2: " or "--set "."""

    value: Any
    where: str


_Values = dict[str, _Value]


def find_experiment(name: str | Path) -> Path:
    """The file of that path, or the shipped suite of that name ("paper/mixed").

    Examples:
        >>> uw.find_experiment("paper/mixed").name
        'mixed.toml'
    """
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

    Examples:
        >>> study = uw.read_experiment("paper/mixed", only="hopper-expert-*", algorithms=["bc"], changes={"seeds": 3})
        >>> len(study.runs)
        60
    """
    path = find_experiment(name)
    algorithms = None if algorithms is None else [find_algorithm(each).name for each in algorithms]
    content = _parse(path)
    title, description = content.pop("name", path.stem), content.pop("description", "")
    for key, value in (("name", title), ("description", description)):
        if not isinstance(value, str):
            raise ExperimentError(f"{path}: {key}: expected text in quotes, found {value!r}")
    tables, scales = _grids(path, content.pop("grid", [{}])), _scales(path, content.pop("scale", {}))
    top = _checked(content, f"{path}: ", also=_TOP_ONLY)
    if scale is not None and scale not in scales:
        raise ExperimentError(f"{path}: no [scale.{scale}]; it has {', '.join(scales) or 'no scales'}")
    chosen = {**scales.get(scale or "", {}), **_checked(changes or {}, "--set ")}
    given = [{**top, **table, **chosen} for table in tables]
    runs: dict[str, RunSpec] = {}
    names: list[str] = []  # of datasets
    methods: list[str] = []
    for number, values in enumerate(given, 1):
        where = f"{path}: grid {number}: "
        for key in NEEDED:
            if key not in values:
                raise ExperimentError(f"{where}missing key {key!r}")
        grid = Grid(**{key: each.value for key, each in values.items()})
        try:
            names += [source.name for source in grid.sources()]
            methods += [run.method.name for run in grid.agents()]
            runs |= {run.run_id: run for run in grid.runs(path.parent, only=only, algorithms=algorithms)}
        except KeyMistake as mistake:
            where = values[mistake.key].where if mistake.key in values else where
            raise ExperimentError(f"{where}{mistake.key}: {mistake}") from None
    _check_selection(path, names, only, methods, algorithms)
    if not runs:
        raise ExperimentError(f"{path}: no runs are left with both --only {only} and --algorithm")
    return Experiment(title, description, tuple(runs.values()))


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ExperimentError(f"{path}: not a TOML file: not text in UTF-8 (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:  # its message has line and column
        raise ExperimentError(f"{path}: not a TOML file: {error}") from None


def _grids(path: Path, tables: Any) -> list[_Values]:
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ExperimentError(f"{path}: grid: expected [[grid]] with double brackets, and keys below it")
    if not tables:
        raise ExperimentError(f"{path}: grid: expected at least one, found an empty list: no runs would be left")
    return [_checked(table, f"{path}: grid {number}: ") for number, table in enumerate(tables, 1)]


def _scales(path: Path, tables: Any) -> dict[str, _Values]:
    """All of them, checked: a mistake should not wait for the day when its scale is asked for."""
    if not isinstance(tables, dict):
        raise ExperimentError(f"{path}: scale: expected tables such as [scale.smoke], found {tables!r}")
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ExperimentError(f"{path}: scale.{name}: expected [scale.{name}] with keys below it, found {table!r}")
    return {name: _checked(table, f"{path}: scale.{name}: ") for name, table in tables.items()}


def _checked(table: Mapping[str, Any], where: str, *, also: Sequence[str] = ()) -> _Values:
    """The values of a table, each of a known key (``also`` may stand there) and looked at alone."""
    for key, value in table.items():
        if key not in KEYS:
            known = [*also, *KEYS]
            mistake = "belongs at the top of the file" if key in _TOP_ONLY else f"unknown key; {hint(key, known)}"
            raise ExperimentError(f"{where}{key}: {mistake}")
        try:
            check_value(key, value)
        except KeyMistake as error:
            raise ExperimentError(f"{where}{key}: {error}") from None
    return {key: _Value(value, where) for key, value in table.items()}


def _check_selection(
    path: Path, names: Sequence[str], only: str | None, methods: Sequence[str], algorithms: Sequence[str] | None
) -> None:
    """What was asked for must be there."""
    if only is not None and not fnmatch.filter(names, only):
        raise ExperimentError(f"{path}: no runs are left: --only {only} fits none of its datasets ({_some(names)})")
    for wanted in algorithms or []:
        if wanted not in methods:
            raise ExperimentError(f"{path}: --algorithm {wanted}: not one of its algorithms ({_some(methods)})")


def _some(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    rest = len(distinct) - _MOST_NAMES
    return ", ".join(distinct[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")
