"""Arguments that several commands share."""

import argparse
from typing import Any

import pytest

from upweight.base.errors import WeightingError
from upweight.cli.main import main
from upweight.cli.options import count, parse_settings
from upweight.engine.algorithm import find_algorithm
from upweight.weightings.registry import make_weighting


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=3", 3),
        ("a = 250_000", 250_000),
        ("a=1e-3", 1e-3),
        ("a=true", True),
        ("a=[64, 64]", [64, 64]),
        ("a=[]", []),
        ('a=["uniform", {name = "rw", temperature = 0.1}]', ["uniform", {"name": "rw", "temperature": 0.1}]),
        ('a="two words"', "two words"),
        ("a=bfloat16", "bfloat16"),
        ("a=upweight/StochasticCartPole-v1", "upweight/StochasticCartPole-v1"),
        ("a=hopper-*", "hopper-*"),
        ("a=b=c", "b=c"),
    ],
)
def test_values_are_those_of_an_experiment_file(text: str, value: Any) -> None:
    found = parse_settings([text, "z=1"], example="a=3")
    assert found == {"a": value, "z": 1} and type(found["a"]) is type(value)


@pytest.mark.parametrize("text", ["a", "=3", " =3", ""])
def test_a_key_and_a_value(text: str) -> None:
    with pytest.raises(WeightingError, match=f"--set: expected KEY=VALUE, e.g. seeds=3, found '{text}'"):
        parse_settings([text], example="seeds=3")


@pytest.mark.parametrize("value", ["64,64", "", "[64, 64", ".5", "3 4", "two words", "1\nb = 2", '"a'])
def test_what_is_no_value(value: str) -> None:
    with pytest.raises(
        WeightingError, match=r"--set a: expected a number, a word, true, false or a list such as \[64, 64\]"
    ):
        parse_settings([f"a={value}"], example="a=3")


@pytest.mark.parametrize("text", ["100000", "1e5", "100_000", "100,000"])
def test_counts_however_they_are_written(text: str) -> None:
    assert count(text) == 100_000


@pytest.mark.parametrize("text", ["many", "0.5", "inf", "nan", ""])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number such as 100000, 1e5 or 100_000"):
        count(text)


def test_a_mistyped_command_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspct", "log.npz"]) == 2
    assert "no command 'inspct'; did you mean 'inspect'?" in capsys.readouterr().err


@pytest.mark.parametrize(("spelled", "name"), [("IQL", "iql"), ("TD3+BC", "td3_bc"), ("Discrete-CQL", "discrete_cql")])
def test_algorithms_however_they_are_spelled(spelled: str, name: str) -> None:
    assert find_algorithm(spelled).name == name
    assert make_weighting("RW") == make_weighting("rw")
