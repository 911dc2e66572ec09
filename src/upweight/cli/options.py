"""Arguments that several commands share."""

import argparse
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from upweight.base.errors import WeightingError
from upweight.data.dataset import Dataset
from upweight.io.registry import formats
from upweight.loading import load
from upweight.weightings.registry import make_weighting, weighting_classes
from upweight.weightings.weighting import Weighting

_SETTINGS = ("temperature", "fraction", "threshold", "high")  # of weightings, as command-line options
_BARE_WORD = r"""[A-Za-z][^\s,"'\[\]{}]*"""  # that --set takes without quotes


def add_data(parser: argparse.ArgumentParser, name: str = "data", what: str = "the dataset") -> None:
    parser.add_argument(
        name,
        metavar=name.upper(),
        help=f"{what}: a file, a folder, minari:<id>, or a name such as hopper-expert-random-5 (upweight make --list)",
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading")
    group.add_argument(
        "--input-format", choices=sorted(formats()), help="read as this format instead of recognising it"
    )
    group.add_argument(
        "--horizon",
        type=int,
        metavar="STEPS",
        help="the environment's time limit: truncated episodes shorter than this were cut by the collector, so their "
        "returns are not used (replay-buffer datasets have such cuts)",
    )
    group.add_argument(
        "--num-actions",
        type=int,
        metavar="N",
        help="how many discrete actions there are, if the data may not show the last (default: what the file knows, or shows)",
    )


def add_weighting(parser: argparse.ArgumentParser, *, several: bool, default: str | None) -> None:
    group = parser.add_argument_group("weighting")
    names = sorted(weighting_classes())
    extra: dict[str, Any] = {"action": "append"} if several else {"default": default}
    note = f"{'may be given several times; ' if several else ''}default: {default or 'all that fit the data'}"
    group.add_argument(
        "--weighting",
        metavar="NAME",
        help=f"one of {', '.join(names)}: rw by return, aw by advantage over the initial state, top keeps the best "
        f"episodes, half draws equally from two sources ({note})",
        **extra,
    )
    group.add_argument(
        "--temperature",
        type=float,
        help="of rw and aw: small means only the best episodes count (default 0.1; training CQL: 0.2)",
    )
    group.add_argument("--fraction", type=float, help="of top: share of the episodes to keep (default 0.1)")
    group.add_argument("--threshold", type=float, help="of half: split by this return instead of by labels")
    group.add_argument("--high", help="of half: the label of the good half, where there are more than two")


def add_settings(parser: argparse.ArgumentParser, *, what: str, example: str) -> None:
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


def read_dataset(name: str, arguments: argparse.Namespace) -> Dataset:
    return load(name, format=arguments.input_format, horizon=arguments.horizon, num_actions=arguments.num_actions)


def weightings_from(
    arguments: argparse.Namespace, make: Callable[..., Weighting] = make_weighting
) -> list[Weighting] | None:
    """The weightings asked for, each with those of the given settings it knows; None if none was named.

    ``make(name, **settings)`` says what a name means.
    """
    named = arguments.weighting
    given = {name: value for name in _SETTINGS if (value := getattr(arguments, name)) is not None}
    if named is None:
        if given:
            raise WeightingError(f"--{next(iter(given))} needs --weighting to say what it is for")
        return None
    chosen, used = [], set()
    for name in [named] if isinstance(named, str) else named:
        known = {field.name for field in fields(weighting_classes()[name])} if name in weighting_classes() else set()
        used |= known & given.keys()
        chosen.append(make(name, **{key: value for key, value in given.items() if key in known}))
    unused = given.keys() - used
    if unused:
        raise WeightingError(f"--{sorted(unused)[0]} is not a setting of {', '.join(w.name for w in chosen)}")
    return chosen
