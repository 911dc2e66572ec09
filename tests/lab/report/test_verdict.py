"""The sentence that a page begins with: what it says is what tables and statistics say."""

from pathlib import Path

from support.results import add_returns, add_runs, make_study
from upweight.lab.report.results import collect
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.report.tables import score_tables
from upweight.lab.report.verdict import verdict
from upweight.lab.study.run_spec import DataSpec
from upweight.lab.study.store import Store

INTERVALS = Intervals(resamples=50)
LOW, HIGH = [0.1, 0.11, 0.12, 0.13, 0.14], [0.8, 0.81, 0.82, 0.83, 0.84]


def said(store: Store) -> str:
    results = collect(store)
    return verdict(results, INTERVALS, score_tables(results, INTERVALS))


def add_pair(store: Store, dataset: str, rw: list[float], uniform: list[float]) -> None:
    add_runs(store, dataset, "RW", rw)
    add_runs(store, dataset, "Uniform", uniform)


def test_counts_and_gain_are_those_of_tables_and_statistics(tmp_path: Path) -> None:
    results = collect(make_study(tmp_path / "results", algorithms=["bc"]))
    tables = score_tables(results, INTERVALS)
    wins = dict(zip(tables[0].weightings, tables[0].wins, strict=True))["RW"]
    both = results.comparable("BC", ["RW", "Uniform"], results.datasets_of("BC"))
    gain = INTERVALS.gain(results.scores("BC", "RW", both), results.scores("BC", "Uniform", both))
    numbers = f"+{gain.point:.2f} IQM [{gain.low:.2f}, {gain.high:.2f}]"
    clause = verdict(results, INTERVALS, tables).split("; ")[0]
    assert clause == f"BC: RW beats Uniform on {wins} datasets, {numbers}"


def test_one_dataset_is_named_and_losses_are_said(store: Store) -> None:
    add_pair(store, "hopper-medium", HIGH, LOW)
    assert said(store).startswith("BC: RW beats Uniform on hopper-medium, +0.70 in the mean [0.6")
    add_pair(store, "hopper-expert", HIGH, LOW)
    add_pair(store, "hopper-random", LOW, HIGH)
    assert said(store).startswith("BC: RW beats Uniform on 2 of 3 datasets and loses on 1, ")
    add_pair(store, "walker2d-random", LOW, HIGH)
    add_pair(store, "walker2d-expert", LOW, HIGH)
    assert said(store).startswith("BC: RW loses to Uniform on 3 of 5 datasets and beats it on 2, ")


def test_returns_of_one_environment_have_a_gain_and_those_of_several_are_counted(store: Store) -> None:
    add_returns(store, "mine-medium", "Uniform", LOW)
    add_returns(store, "mine-medium", "RW", HIGH)
    assert said(store).startswith("BC: RW beats Uniform on mine-medium, +2100 in the mean return [20")
    other = DataSpec("other-medium", 1000, 0, "Other-v0")
    add_returns(store, other, "Uniform", LOW)
    add_returns(store, other, "RW", HIGH)
    assert said(store) == "BC: RW beats Uniform on 2 of 2 datasets."
    add_pair(store, "hopper-medium", HIGH, LOW)
    assert said(store).startswith("BC: RW beats Uniform on 3 of 3 datasets, +0.70 in the mean [")
    assert said(store).endswith("] on the 1 with reference scores.")


def test_no_difference_is_no_victory(store: Store) -> None:
    add_pair(store, "hopper-medium", LOW, LOW)
    assert said(store).startswith("BC: RW and Uniform cannot be told apart on hopper-medium, +0.00 in the mean [-0.0")


def test_few_seeds_are_not_judged(store: Store) -> None:
    add_pair(store, "hopper-medium", HIGH[:2], LOW[:2])
    start = "BC: RW against Uniform on hopper-medium, from fewer than 5 seeds, too few to judge, +0.70 in the mean ["
    assert said(store).startswith(start)


def test_rw_is_spoken_of_whatever_wins(store: Store) -> None:
    add_pair(store, "hopper-medium", LOW, LOW)
    add_runs(store, "hopper-medium", "Top-10%", HIGH)
    assert "RW and Uniform" in said(store)


def test_rw_at_another_temperature_comes_before_other_samplers(store: Store) -> None:
    for sampler in ("Uniform", "Top-10%", "AW", {"name": "rw", "temperature": 0.5}):
        add_runs(store, "hopper-medium", sampler, LOW)
    assert "RW 0.5 and Uniform" in said(store)


def test_another_sampler_where_there_is_no_rw(store: Store) -> None:
    add_runs(store, "hopper-medium", "Uniform", LOW)
    add_runs(store, "hopper-medium", {"name": "rw", "temperature": 0.5}, HIGH)
    assert said(store).startswith("BC: RW 0.5 beats Uniform on hopper-medium, ")


def test_without_uniform_there_is_no_verdict_and_it_says_why(store: Store) -> None:
    add_runs(store, "hopper-medium", "RW", HIGH)
    assert said(store) == "BC: no comparison, because there are no runs with Uniform."
