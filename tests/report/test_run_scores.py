"""What a run counts as."""

from pathlib import Path
from typing import Any

import pytest

from support.results import add_runs
from upweight.report.collect import collect
from upweight.report.results import Results
from upweight.report.statistics.intervals import Intervals
from upweight.report.tables import score_tables
from upweight.studies.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results", create=True)


def change(store: Store, run_id: str, **values: Any) -> None:
    record = next(record for record in store.runs() if record["run_id"] == run_id)
    store.write_run(run_id, {**record, **values})


def scores(results: Results, sampler: str) -> list[float]:
    (found,) = results.scores("BC", sampler, results.datasets_of("BC")).values()
    return found


def test_a_diverged_run_counts_as_a_random_policy(store: Store) -> None:
    (lost,) = add_runs(store, "hopper-medium", "RW", [0.9], status="diverged")
    add_runs(store, "hopper-medium", "Uniform", [0.3])
    results = collect(store)
    assert scores(results, "RW") == [0.0]
    assert [run.run_id for run in results.runs if run.diverged] == [lost]


def test_a_diverged_run_is_no_better_than_any_other_run(store: Store) -> None:
    add_runs(store, "hopper-medium", "RW", [0.9], status="diverged")
    add_runs(store, "hopper-medium", "Uniform", [-0.02, 0.1])
    assert scores(collect(store), "RW") == [-0.02]


def test_divergence_does_not_win_where_returns_are_negative(store: Store) -> None:
    """Pendulum's returns lie below 0, and have no reference scores: the worst other run is what a lost one counts as."""
    returns = {"Uniform": [-1200.0, -1100.0, -1000.0, -1150.0, -1050.0], "RW": [-300.0, -200.0, -250.0, -400.0, -350.0]}
    for sampler, values in returns.items():
        for run_id, value in zip(add_runs(store, "pendulum-mine", sampler, [None] * 5), values, strict=True):
            change(store, run_id, mean_return=value)
    for run_id in add_runs(store, "pendulum-mine", "Half", [None] * 5, status="diverged"):
        change(store, run_id, mean_return=None)
    results = collect(store)
    assert scores(results, "Half") == [-1200.0] * 5
    (table,) = score_tables(results, Intervals(resamples=200))
    (_, cells) = table.rows[0]
    marks = {
        name: (cell.is_better, cell.is_maximum)
        for name, cell in zip(table.samplers, cells, strict=True)
        if cell is not None
    }
    assert marks == {"Uniform": (False, False), "Half": (False, False), "RW": (True, True)}


def test_a_missing_score_is_computed_where_the_environment_has_reference_scores(store: Store) -> None:
    """Hopper: random -20.272305, expert 3234.3."""
    first, _ = add_runs(store, "hopper-medium", "RW", [None, 0.4])
    change(store, first, mean_return=(-20.272305 + 3234.3) / 2)
    results = collect(store)
    assert scores(results, "RW") == [pytest.approx(0.5), 0.4]
    assert all(results.is_normalized(dataset) for dataset in results.datasets_of("BC"))


def test_a_missing_score_is_left_out_where_others_have_one(store: Store) -> None:
    add_runs(store, "mine-medium", "RW", [0.4, None])  # an environment without reference scores
    results = collect(store)
    assert scores(results, "RW") == [0.4]
    assert [run.left_out for run in results.runs if run.seed == 1] == [
        "no normalised score, unlike others on its dataset"
    ]


def test_scores_without_reference_stay_out_of_comparisons(store: Store) -> None:
    for sampler in ("Uniform", "RW"):
        add_runs(store, "mine-medium", sampler, [None, None])
    results = collect(store)
    assert scores(results, "RW") == [1500.0, 1500.0]  # mean returns
    assert results.comparable("BC", ["Uniform", "RW"], results.datasets_of("BC")) == []
