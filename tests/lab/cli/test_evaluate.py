"""``upweight evaluate``, on a folder as ``upweight train`` leaves it."""

import json
import sys
from pathlib import Path

import pytest

import upweight as uw
from support.rollout import make_policy
from upweight.cli.main import main


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder as `upweight train` leaves it."""
    folder = tmp_path / "runs"
    (folder / "policies").mkdir(parents=True)
    draws = [{"weighting": {"name": "uniform"}}, {"weighting": {"name": "rw", "temperature": 0.1}}]
    draws += [draws[1] | {"actor_weighting": {"name": "top", "fraction": 0.5}}, draws[1] | {"reweight": True}]
    for number, drawn in enumerate(draws):
        about = {"run": {"algorithm": "discrete_bc", **drawn, "seed": 7}}
        policy = make_policy("CartPole-v1", seed=number, metadata=about)
        policy.save(folder / "policies" / f"run-{number:03d}.safetensors")
    return folder


def test_a_folder(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(runs), "--env", "CartPole-v1", "--episodes", "4", "--workers", "1"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "rw temperature=0.1  " in out
    assert "rw temperature=0.1, actor top fraction=0.5  " in out and "rw temperature=0.1, reweighting  " in out
    assert f"wrote {runs / 'evaluation.json'}" in out
    report = json.loads((runs / "evaluation.json").read_text())
    paths = sorted((runs / "policies").iterdir())
    for entry, result in zip(report["policies"], uw.evaluate(paths, "CartPole-v1", 4, workers=1), strict=True):
        assert entry["returns"] == result.returns.tolist()
    assert report["policies"][1]["policy"] == "run-001.safetensors"
    assert [path.name for path in runs.iterdir() if path.name.startswith(".")] == []


def test_one_file_as_json(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = runs / "policies" / "run-000.safetensors"
    options = ["--env", "CartPole-v1", "--episodes", "3", "--seed", "2", "--stochastic", "--json"]
    assert main(["evaluate", str(file), *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["stochastic"] is True
    assert len(report["policies"][0]["returns"]) == 3
    assert not (runs / "evaluation.json").exists()


def test_a_policy_may_name_its_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_policy("CartPole-v1", metadata={"env_id": "CartPole-v1"}).save(tmp_path / "p.safetensors")
    assert main(["evaluate", str(tmp_path / "p.safetensors"), "--episodes", "1"]) == 0
    assert capsys.readouterr().out.startswith("CartPole-v1, 1 episode")
    make_policy("CartPole-v1", metadata={"env_id": "antigravity:CartPole-v1"}).save(tmp_path / "q.safetensors")
    assert main(["evaluate", str(tmp_path / "q.safetensors")]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give it, e.g. --env Hopper-v5"),
        (("--env", "CartPol-v1"), "did you mean 'CartPole-v1"),
        (("--env", "Hopper-v5"), "policy 0 expects 4 observations"),
        (("--env", "CartPole-v1", "--episodes", "0"), "episodes: expected"),
        (("--env", "CartPole-v1", "--workers", "0"), "workers: expected"),
    ],
)
def test_bad_input(runs: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str) -> None:
    assert main(["evaluate", str(runs), *options]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert not (runs / "evaluation.json").exists()


def test_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(tmp_path), "--env", "CartPole-v1"]) == 2
    assert "expected policies/run-000.safetensors" in capsys.readouterr().err


def test_an_environment_of_ones_own(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import gymnasium\n\ndef build():\n    return gymnasium.make('CartPole-v1', max_episode_steps=5)\n"
    (runs / "own_cart.py").write_text(code)
    monkeypatch.chdir(runs)
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert main(["evaluate", ".", "--env", "own_cart:build", "--episodes", "2", "--workers", "1"]) == 0
    report = json.loads((runs / "evaluation.json").read_text())
    assert {length for entry in report["policies"] for length in entry["lengths"]} == {5}
