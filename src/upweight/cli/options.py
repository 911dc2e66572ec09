"""Arguments that several commands share."""

import argparse
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from upweight.base.errors import ConfigError, DatasetError, WeightingError
from upweight.data.dataset import Dataset
from upweight.data.table import CHOICES, SEVERAL
from upweight.io.loading import load
from upweight.io.registry import formats, save, writable
from upweight.io.table import CSV
from upweight.weightings.registry import find_weighting, make_weighting, weighting_classes
from upweight.weightings.weighting import Weighting

_BARE_WORD = r"""[A-Za-z][^\s,"'\[\]{}]*"""  # that --set takes without quotes


def count(text: str) -> int:
    """A type for argparse: a whole number, also as 1e5, 100_000 or 100,000; 1,5 is none, and 50,100 is 50100."""
    digits = text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", text) else text
    try:
        value = float(digits.replace("_", ""))
        if value == int(value):
            return int(value)
    except (ValueError, OverflowError):  # no number, or an infinite one
        pass
    raise argparse.ArgumentTypeError(f"expected a whole number such as 100000, 1e5 or 100_000, found {text!r}")


def count_or_auto(text: str) -> int | str:
    """A type for argparse: a whole number, or "auto"."""
    return text if text == "auto" else count(text)


def check_partner(arguments: argparse.Namespace, names: Iterable[str], present: bool, partner: str) -> None:
    """Refuse options that were given and would do nothing, because their partner is not ``present``.

    The defaults of these options are None or False, so that one that was given shows.
    """
    for name in names:
        value = getattr(arguments, name)
        if not present and value is not None and value is not False:
            raise ConfigError(f"--{name.replace('_', '-')}: needs {partner}")


def add_environment(parser: argparse._ActionsContainer, default: str = "what the dataset says") -> None:
    parser.add_argument(
        "--env",
        metavar="ID",
        type=_environment,
        help=f"the environment: an id such as Hopper-v5, or module:function for one of your own (default: {default})",
    )


def _environment(text: str) -> str:
    """A type for argparse; a module may lie in the current folder."""
    if ":" in text and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return text


def add_data(parser: argparse.ArgumentParser, name: str = "data", what: str = "the dataset") -> None:
    parser.add_argument(
        name,
        metavar=name.upper(),
        help=f"{what}: a file, a folder, minari:<id>, or a name such as hopper-expert-random-5 (upweight make --list)",
    )


_READING_HELP = {
    "horizon": "the environment's time limit: truncated episodes shorter than this were cut by the collector, so their "
    "returns are not used (replay-buffer datasets have such cuts)",
    "num_actions": "how many discrete actions there are, if the data may not show the last or store them as floats (default: "
    "what the file knows, or shows)",
    "success": "for logs without rewards: the flags that tell which episodes succeeded (LeRobot's next.success, or success for "
    "short; a column; an entry of the episodes' metadata); their return is then 1, that of the others 0",
    "score": "for logs with neither: what tells how good an episode was, instead of its return: a column (the last value "
    "counts), an entry of the episodes' metadata, LeRobot's progress_sparse, or "
    "mean_reward or last_reward, made of the rewards",
    "join": "join pieces of episodes: truncated ones that stop where the next one begins",
}
_TABLES = (
    "CSV, or Parquet of your own: names of columns; or say it under [table] in a TOML file, icu.toml for icu.csv, which "
    "upweight init icu.csv begins for you"
)


def add_reading(parser: argparse.ArgumentParser, *, shown: bool = False) -> None:
    """How data are read, for :func:`read_dataset`. Help has a line on it; ``upweight help data`` has all of it."""
    line = "how DATA is read: --success, --score, --horizon, the columns of a table, ...: upweight help data"
    group = parser.add_argument_group("reading", None if shown else line)

    def add(key: str, text: str, **how: Any) -> None:
        group.add_argument(f"--{key.replace('_', '-')}", help=text if shown else argparse.SUPPRESS, **how)

    known = sorted([*formats(), CSV])
    add("input_format", f"one of {', '.join(known)} (default: recognised by content)", choices=known, metavar="FORMAT")
    add("horizon", _READING_HELP["horizon"], type=int, metavar="STEPS")
    add("num_actions", _READING_HELP["num_actions"], type=int, metavar="N")
    add("success", _READING_HELP["success"], metavar="NAME")
    add("score", _READING_HELP["score"], metavar="NAME")
    add("join", _READING_HELP["join"], action="store_true", default=None)
    if shown:
        group = parser.add_argument_group("tables", _TABLES)
    for key, text in _TABLE_HELP.items():
        how: dict[str, Any] = {"metavar": "COLUMN"}
        if key in CHOICES:
            how = {"choices": CHOICES[key]}
        elif key in SEVERAL:
            how = {"metavar": "COLUMNS", "type": _columns}
        add(key, text, **how)


def reading_help() -> str:
    """The options of every command that reads data."""
    parser = argparse.ArgumentParser(add_help=False, usage="upweight COMMAND DATA ...")
    add_reading(parser, shown=True)
    return parser.format_help()


_TABLE_HELP = {  # help of the options for tables
    "episode": "what tells episodes apart",
    "observations": "the observations: age,hr or, for a common beginning, vital (vital_1, vital_2, ...)",
    "actions": "the actions, one column or several",
    "rewards": "the rewards",
    "next_observations": "the observations after each step, one for each of --observations",
    "terminated": "flags: the episode ended here, nothing comes after",
    "truncated": "flags: the recording stopped here",
    "timestep": "numbers or dates that order an episode's rows (needed if they do not stand together)",
    "label": "where an episode comes from",
    "categories": "columns whose values are categories: of actions they are numbered, of observations they become 0 and 1",
    "ends": "how episodes end if no flag says so (default: terminated, with a warning); where flags do, in data of any kind, "
    "truncated takes terminal states after the longest length for time limits",
    "missing_rewards": "what an empty reward means: 0, or that the episode is left out if its return is not known (default: an "
    "error)",
}

READING = ("input_format", "horizon", "num_actions", "success", "score", "join", *_TABLE_HELP)  # what add_reading adds


def _columns(text: str) -> str | list[str]:
    """A type for argparse: one name, or several with commas between them."""
    names = [name.strip() for name in text.split(",")]
    return names if len(names) > 1 else text


def add_writing(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Where a dataset goes, for :func:`write_dataset`."""
    parser.add_argument(
        "-o", "--output", type=Path, required=required, help="file or folder to write; the suffix names the format"
    )
    add_overwrite(parser)
    parser.add_argument("--format", choices=sorted(writable()), help="write this format whatever the suffix")


class _Points(argparse.Action):
    """One number means updates between two points; several are the points."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, value: Any, option: str | None = None) -> None:
        known = getattr(namespace, self.dest)
        before = known if isinstance(known, list) else [known]
        setattr(namespace, self.dest, value if known is None else [*before, value])


def add_evaluate_every(parser: argparse._ActionsContainer, what: str) -> None:
    """Evaluation on the way, with what it costs."""
    parser.add_argument(
        "--evaluate-every",
        type=count,
        action=_Points,
        metavar="UPDATES",
        help=f"evaluate {what} on the way too, every so many updates (given several times: after so many, and so many, ...), and "
        "keep the best policy next to the last; the training "
        "is the same, and each point costs as much simulation as the final evaluation (20 to 120 s for 200 agents on 16 "
        "cores): beside the training on a GPU, in turn on a CPU",
    )


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add ``--overwrite``, for every command that writes a file; :func:`check_free` reads it."""
    parser.add_argument("--overwrite", action="store_true", help="replace the file if there is one already")


def check_free(path: Path | None, arguments: argparse.Namespace) -> None:
    """Refuse to replace a file unless asked to; call it before any work."""
    if path is not None and path.is_file() and not arguments.overwrite:
        raise DatasetError(f"{path}: exists already; choose another name, or replace it with --overwrite")


def add_json(parser: argparse.ArgumentParser, instead_of: str = "text") -> None:
    parser.add_argument("--json", action="store_true", help=f"print JSON instead of {instead_of}")


def add_weighting(parser: argparse.ArgumentParser, *, several: bool, default: str | None) -> None:
    """Which weighting, and an option for every setting that one of them has."""
    group = parser.add_argument_group("weighting")
    extra: dict[str, Any] = {"action": "append"} if several else {"default": default}
    note = f"{'may be given several times; ' if several else ''}default: {default or 'all that fit the data'}"
    group.add_argument(
        "--weighting",
        metavar="NAME",
        help=f"one of {', '.join(weighting_classes())}: rw by return, aw by advantage over the initial state, top keeps "
        f"the best episodes, half draws equally from two sources ({note})",
        **extra,
    )
    for name, owners in _settings().items():
        kind, setting = next(iter(owners.values()))
        usual = "" if setting.default in (None, MISSING) else f" (default {setting.default})"
        text = f"of {' and '.join(owners)}: {setting.metadata.get('help', name.replace('_', ' '))}{usual}"
        how: dict[str, Any] = {"action": argparse.BooleanOptionalAction} if kind is bool else {"type": kind}
        group.add_argument(f"--{name.replace('_', '-')}", dest=name, help=text.replace("%", "%%"), **how)


def _settings() -> dict[str, dict[str, tuple[type, Field[Any]]]]:
    """The settings of weightings that fit on a command line: {setting: {weighting: (its type, its field)}}."""
    found: dict[str, dict[str, tuple[type, Field[Any]]]] = {}
    for name, weighting in weighting_classes().items():
        types = get_type_hints(weighting)
        for setting in fields(weighting):
            kind = types[setting.name]
            kinds = set(get_args(kind)) - {NoneType}
            if isinstance(kind, UnionType) and (len(kinds) == 1 or str in kinds):
                kind = str if str in kinds else kinds.pop()  # what it is if it is not None; its name if it has one
            if kind in {int, float, str, bool}:
                found.setdefault(setting.name, {})[name] = (kind, setting)
    return found


def add_settings(parser: argparse._ActionsContainer, *, what: str, example: str) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"{what}, e.g. {example}; may be given several times",
    )


def parse_settings(texts: Sequence[str], *, example: str) -> dict[str, Any]:
    """KEY=VALUE, with values as in an experiment file (TOML); quotes around a word may be left out."""
    found = {}
    for text in texts:
        key, sign, value = (part.strip() for part in text.partition("="))
        if not sign or not key:
            raise WeightingError(f"--set: expected KEY=VALUE, e.g. {example}, found {text!r}")
        try:
            ((_, found[key]),) = tomllib.loads(f"value = {value}").items()
        except ValueError:  # no TOML, or more than a value
            if not re.fullmatch(_BARE_WORD, value):
                raise WeightingError(
                    f"--set {key}: expected a number, a word, true, false or a list such as [64, 64], found {value!r}"
                ) from None
            found[key] = value
    return found


def reading_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of :func:`add_reading`, as arguments of ``load``."""
    return {
        "format": arguments.input_format,
        "horizon": arguments.horizon,
        "num_actions": arguments.num_actions,
        "success": arguments.success,
        "score": arguments.score,
        "join": bool(arguments.join),
        "guard": True,
        **{key: value for key in _TABLE_HELP if (value := getattr(arguments, key)) is not None},
    }


def reading_words(name: str, arguments: argparse.Namespace) -> str:
    """The dataset and the reading options that were given, as words of another command."""
    words = [name]
    for key, value in reading_options(arguments).items():
        if key != "guard" and value is not None and value is not False:
            words += ["--input-format" if key == "format" else f"--{key.replace('_', '-')}"]
            words += [] if value is True else [",".join(value) if isinstance(value, list) else str(value)]
    return shlex.join(words)


def read_dataset(name: str, arguments: argparse.Namespace) -> Dataset:
    return load(name, **reading_options(arguments))


def write_dataset(dataset: Dataset, arguments: argparse.Namespace) -> tuple[list[str], str]:
    """Save a dataset; what was lost, and a line that says what was written."""
    lost = save(dataset, arguments.output, format=arguments.format)
    return lost, f"wrote {arguments.output}: {dataset.num_episodes:,} episodes, {dataset.num_steps:,} steps"


def weightings_from(
    arguments: argparse.Namespace, make: Callable[..., Weighting] = make_weighting
) -> list[Weighting] | None:
    """The weightings asked for, each with those of the given settings it knows; None if none was named.

    ``make(name, **settings)`` says what a name means.
    """
    named = arguments.weighting
    settings = _settings()
    given = {name: value for name in settings if (value := getattr(arguments, name)) is not None}
    if named is None:
        if given:
            raise WeightingError(f"--{next(iter(given))} needs --weighting to say what it is for")
        return None
    chosen: list[Weighting] = []
    used: set[str] = set()
    for name in [named] if isinstance(named, str) else named:
        mine = {key: value for key, value in given.items() if find_weighting(name).name in settings[key]}
        used |= mine.keys()
        chosen.append(make(name, **mine))
    unused = given.keys() - used
    if unused:
        raise WeightingError(f"--{sorted(unused)[0]} is not a setting of {', '.join(w.name for w in chosen)}")
    return chosen
