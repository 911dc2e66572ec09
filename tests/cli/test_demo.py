"""The demo, with less of everything."""

from pathlib import Path

import pytest

import upweight as uw
from upweight.cli.demo import score_table
from upweight.cli.main import main
from upweight.errors import UpweightWarning
from upweight.experiments import experiment_file

SMALL = {
    "updates = 20_000": "updates = 30",
    "episodes = 20": "episodes = 1",
    "dataset_steps = 100_000": "dataset_steps = 4_000",
}


@pytest.mark.slow
def test_the_demo_does_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (experiment_file.SUITES / "demo.toml").read_text()
    for long, short in SMALL.items():
        assert long in text
        text = text.replace(long, short)
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "demo.toml").write_text(text)
    monkeypatch.setattr(experiment_file, "SUITES", tmp_path / "suites")
    assert main(["demo", "-o", str(tmp_path / "demo"), "--seed", "3"]) == 0
    printed = capsys.readouterr().out
    for word in ("Dataset ", "Suggestion:", "25 runs, 0 finished, 25 to do", "95% interval"):
        assert word in printed
    table = [
        line.split()[0] for line in printed.splitlines() if line.startswith(("Uniform", "Top-10%", "Half", "RW", "AW"))
    ]
    assert table == ["Uniform", "Top-10%", "Half", "RW", "AW"]
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "hopper-expert-random-10" in page
    assert uw.load(tmp_path / "demo" / "mixed.hdf5").metadata["recipe"]["seed"] == 3
    assert (tmp_path / "demo" / "weights.png").stat().st_size > 10_000


def test_a_negative_seed_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "-o", str(tmp_path / "demo"), "--seed", "-1"]) == 2
    assert "expected --seed 0 or more, found -1" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_a_run_without_a_score_counts_as_a_random_policy() -> None:
    records = [
        {"spec": {"algorithm": "bc", "weighting": {"name": "uniform"}}, "score": score} for score in (0.1, None, 0.2)
    ]
    with pytest.warns(UpweightWarning, match="3 runs"):
        assert "Uniform  0.100" in score_table(records)
