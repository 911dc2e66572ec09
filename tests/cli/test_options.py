"""Arguments that several commands share."""

from typing import Any

import pytest

from upweight.base.errors import WeightingError
from upweight.cli.options import parse_settings


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
