"""The demo, with less of everything."""

from pathlib import Path

import pytest

import upweight as uw
from support.results import add_runs, run_record
from upweight.base.errors import UpweightWarning
from upweight.cli.main import main
from upweight.lab.cli.demo import score_table
from upweight.lab.study import experiment_file
from upweight.lab.study.store import Store

SMALL = {
    "updates = 20_000": "updates = 30",
    "episodes = 20": "episodes = 1",
    "dataset_steps = 100_000": "dataset_steps = 4_000",
}


def make_small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (experiment_file.SUITES / "demo.toml").read_text()
    for long, short in SMALL.items():
        assert long in text
        text = text.replace(long, short)
    (folder / "suites").mkdir()
    (folder / "suites" / "demo.toml").write_text(text)
    monkeypatch.setattr(experiment_file, "SUITES", folder / "suites")


@pytest.mark.slow
def test_the_demo_does_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_small(tmp_path, monkeypatch)
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
    assert "--seed" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_a_diverged_run_counts_as_in_a_report(tmp_path: Path) -> None:
    """As a random policy, whatever its last healthy policy scored."""
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "hopper-medium", "Uniform", [0.1, 0.2])
    store.write_run(*run_record("hopper-medium", "Uniform", 0.9, seed=2, status="diverged"))
    with pytest.warns(UpweightWarning, match="3 runs"):
        assert "Uniform  0.100" in score_table(uw.collect(store).runs)


@pytest.mark.slow
def test_a_demo_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise uw.RolloutError("the simulator broke")

    make_small(tmp_path, monkeypatch)
    monkeypatch.setattr("upweight.lab.sweep.executor.evaluate_and_store", broken)
    assert main(["demo", "-o", str(tmp_path / "demo")]) == 2
    assert capsys.readouterr().err.rstrip().endswith("bc on hopper: the simulator broke")
