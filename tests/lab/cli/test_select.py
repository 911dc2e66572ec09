"""``upweight select``, on a log and policies as a user has them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.policies import linear
from upweight.cli.main import main

OPTIONS = ["--critics", "2", "--updates", "200", "--set", "hidden_units=[16]", "--set", "batch_size=32"]
OPTIONS += ["--min-reached", "0"]  # no episode of random actions was worth what is estimated


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CSV of random actions, of which the right one is 1 where x > 0; and a folder of policies."""
    rng = np.random.default_rng(0)
    lines = ["stay,x,action,reward,p"]
    for step in range(400):
        x, action = rng.normal(), int(rng.integers(2))
        lines.append(f"{step // 10},{x:.4f},{action},{float(action == (x > 0))},0.5")
    (tmp_path / "log.csv").write_text("\n".join(lines))
    (tmp_path / "runs" / "policies").mkdir(parents=True)
    for number, (gain, name) in enumerate(((2.0, "rw"), (1.9, "rw"), (0.0, "uniform"), (0.01, "uniform"))):
        about = {"run": {"algorithm": "discrete_bc", "weighting": {"name": name}, "seed": number % 2}}
        policy = replace(linear([[-gain, gain]], [0, 0.1], kind="categorical"), metadata=about)
        policy.save(tmp_path / "runs" / "policies" / f"run-{number:03d}.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


DATA = ["--data", "log.csv", "--episode", "stay", "--observations", "x", "--actions", "action", "--ends", "truncated"]


def test_from_a_table_to_a_choice(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["select", "runs", *DATA, *OPTIONS, "-o", "choice.json", "--plot", "estimates.png"]
    assert main([*command, "--propensities", "p"]) == 0
    out = capsys.readouterr().out
    assert "> discrete_bc rw" in out and "Choice: discrete_bc rw: its lower bound" in out
    assert re.search(r"> discrete_bc rw .* \(\d+\.\d\) +chosen\n", out)
    assert "IS: weighted importance sampling (episodes that it rests on" in " ".join(out.split())
    assert "wrote choice.json, choice.safetensors, estimates.png" in out
    written = json.loads((place / "choice.json").read_text())
    assert written["chosen"] == "discrete_bc rw" and written["settings"]["hidden_units"] == [16]
    assert uw.load_policy("choice.safetensors").kind == "categorical"
    assert (place / "estimates.png").stat().st_size > 1000
    assert main(command) == 2
    assert "estimates.png: exists already" in capsys.readouterr().err


def test_an_abstention_is_an_answer(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["select", "runs", *DATA, *OPTIONS, "--margin", "1000", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["chosen"] is None and report["policy"] is None
    assert report["reason"].startswith(
        "nothing is shown to beat BC on all data: the best, discrete_bc rw, is estimated"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "discont=0.9"], "did you mean 'discount'"),
        (["--margin", "-1"], "margin: expected a number of at least 0"),
        (["-o", "choice.txt"], "ends in .json"),
        (["--episodes-allowed", "3"], "--episodes-allowed: needs an environment"),
        (["--propensities", "zeros.npy"], "propensities: expected numbers above 0"),
        (["--propensities", "q"], "expected columns of the table that the data are read from"),
        (["--env", "CartPole-v1"], "was it trained on another task?"),
    ],
)
def test_bad_input(place: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("zeros.npy", np.zeros(400))
    assert main(["select", "runs", *DATA, *OPTIONS, *options]) == 2
    assert message in capsys.readouterr().err
    assert not (place / "choice.txt").exists()
