"""Arguments that several commands share."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

import upweight as uw
from support.datasets import random_dataset
from support.results import add_runs
from support.rollout import make_policy
from upweight.base.errors import WeightingError
from upweight.cli.main import main
from upweight.cli.options import add_evaluate_every, count, parse_settings
from upweight.cli.terminal import print_json
from upweight.lab.study.store import Store
from upweight.lab.train.algorithm import find_algorithm
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


@pytest.mark.parametrize("text", ["many", "0.5", "inf", "nan", "", "1,5", "10,20,30", "1000,000", ",100", "-1,000"])
def test_what_is_no_count(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="expected a whole number such as 100000, 1e5 or 100_000"):
        count(text)


@pytest.mark.parametrize(
    ("given", "meant"), [([], None), (["5,000"], 5000), (["1e3", "5_000"], [1000, 5000]), (["9", "3", "6"], [9, 3, 6])]
)
def test_points_on_the_way(given: list[str], meant: object) -> None:
    """One number is an interval, several are the points."""
    parser = argparse.ArgumentParser()
    add_evaluate_every(parser, "each agent")
    assert parser.parse_args([f"--evaluate-every={each}" for each in given]).evaluate_every == meant


def test_a_mistyped_command_is_corrected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspct", "log.npz"]) == 2
    assert "no command 'inspct'; did you mean 'inspect'?" in capsys.readouterr().err


def test_suggest_is_a_command_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in Python; the suggestion stands at the end of what ``inspect`` prints."""
    uw.save(random_dataset(), tmp_path / "log.npz")
    assert main(["suggest", str(tmp_path / "log.npz")]) == 0
    assert "\n\nSuggestion: " in capsys.readouterr().out


@pytest.mark.parametrize(("spelled", "name"), [("IQL", "iql"), ("TD3+BC", "td3_bc"), ("Discrete-CQL", "discrete_cql")])
def test_algorithms_however_they_are_spelled(spelled: str, name: str) -> None:
    assert find_algorithm(spelled).name == name
    assert make_weighting("RW") == make_weighting("rw")


@pytest.mark.parametrize(
    ("command", "partner"),
    [
        ("train data.npz -o runs --env Hopper-v5", "--evaluate-every"),
        ("train data.npz -o runs --episodes 20", "--evaluate-every"),
        ("train data.npz -o runs --workers 2", "--evaluate-every"),
        ("explore data.npz --port 8000", "--serve"),
        ("explore data.npz --serve --output page.html", "without --serve"),
        ("explore data.npz --serve --overwrite", "without --serve"),
        ("inspect data.npz --overwrite", "--plot"),
        ("make --list --steps 100", "without --list"),
        ("make --list --seed 0", "without --list"),
        ("make --list --workers 2", "without --list"),
        ("make --list --output out.npz", "without --list"),
        ("make --list --format npz", "without --list"),
        ("make --list --overwrite", "without --list"),
        ("pack data.packed --verify --overwrite", "-o FOLDER"),
        ("pack data.packed --verify --dtype float16", "-o FOLDER"),
        ("pack data.packed --verify --workers 2", "-o FOLDER"),
        ("pack data.packed --verify --input-format csv", "-o FOLDER"),
        ("pack data.packed --verify --episode stay", "-o FOLDER"),
        ("select runs --data data.npz --episodes 20", "--env"),
        ("select runs --data data.npz --workers 2", "--env"),
        ("select runs --data data.npz --episodes-allowed 9", "--env"),
        (
            "select runs --data data.npz --env Hopper-v5 --episodes-allowed 9 --episodes 20",
            "without --episodes-allowed",
        ),
        ("select runs --data data.npz --env Hopper-v5 --episodes-allowed 9 --workers 2", "without --episodes-allowed"),
        ("select runs --data data.npz --overwrite", "-o"),
        ("sweep demo -o results --address auto", "--executor ray"),
        ("sweep demo -o results --gpus-per-population 2", "--executor ray"),
        ("sweep demo -o results --executor ray --workers 2", "--cpus-per-population"),
        ("evaluate policy.safetensors --env CartPole-v1 --overwrite", "folder"),
    ],
    ids=str,
)
def test_an_option_that_would_do_nothing_names_its_partner(
    command: str, partner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    uw.save(random_dataset(), "data.npz")
    make_policy("CartPole-v1").save(tmp_path / "policy.safetensors")
    monkeypatch.setattr("upweight.cli.explore.until_interrupted", lambda: None)
    before = sorted(tmp_path.iterdir())
    words = command.split()
    option = next(word for word in reversed(words) if word.startswith("--"))
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert f"{option}: needs " in err and partner in err and out == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "command",
    [
        ["convert", "data.npz", "-o", "out.npz"],
        ["mix", "data.npz", "data.npz", "--fraction", "0.5", "--steps", "20", "-o", "out.npz"],
        ["make", "cartpole-random", "--steps", "50", "-o", "out.npz"],
        ["weights", "data.npz", "-o", "out.npz"],
        ["inspect", "data.npz", "--plot", "out.svg"],
        ["report", "results", "-o", "out.html"],
        ["evaluate", "runs", "--env", "CartPole-v1", "--episodes", "1", "--workers", "1"],
    ],
    ids=lambda command: command[0],
)
def test_no_file_is_replaced_unasked(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    uw.save(random_dataset(), "data.npz")
    for sampler in ("Uniform", "RW"):
        add_runs(Store(tmp_path / "results", create=True), "hopper-expert-random-5", sampler, [0.1, 0.2])
    (tmp_path / "runs" / "policies").mkdir(parents=True)
    make_policy("CartPole-v1").save(tmp_path / "runs" / "policies" / "run-000.safetensors")
    file = Path(command[-1] if command[-1].startswith("out") else "runs/evaluation.json")
    file.write_text("mine")
    assert main(command) == 2
    assert f"{file}: exists already; choose another name, or replace it with --overwrite" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert main([*command, "--overwrite"]) == 0
    assert file.read_bytes() != b"mine"


def test_json_is_strict(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"loss": [0.5, float("nan")], "best": float("-inf")})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert json.loads(capsys.readouterr().out, parse_constant=refuse) == {"loss": [0.5, None], "best": None}
