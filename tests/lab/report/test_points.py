import csv
from pathlib import Path

import pytest

from support.results import add_points, add_returns, add_runs, data_spec
from upweight.base.errors import DatasetError
from upweight.lab.report.figures.figures import all_figures
from upweight.lab.report.page import write_report
from upweight.lab.report.points import at_best, at_point, best_table, shared_points, with_points
from upweight.lab.report.results import collect
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.report.tables import aggregate_table, score_tables
from upweight.lab.study.readers import open_store
from upweight.lab.study.store import Store

INTERVALS = Intervals(resamples=50)
HOPPER = "hopper-expert-random-5"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """RW is best at the end, Uniform on the way; seed 1 of each has higher scores."""
    made = Store(tmp_path / "curves", create=True)
    rw, uniform = add_runs(made, HOPPER, "RW", [0.8, 0.9]), add_runs(made, HOPPER, "Uniform", [0.2, 0.3])
    add_points(made, rw, {250: 0.1, 500: 0.4}, {250: 0.3, 500: 0.6})
    add_points(made, uniform, {250: 0.5, 500: 0.3}, {250: 0.6, 500: 0.4})
    return made


def test_scores_at_points_and_at_the_best_of_them(store: Store) -> None:
    results = with_points(collect(store))
    (group,) = results.panels("BC")
    assert shared_points(results, group) == [250, 500, 1000]
    assert at_point(results, 250).scores("BC", "RW", group.datasets) == {HOPPER: [0.1, 0.3]}
    assert at_point(results, 1000).scores("BC", "Uniform", group.datasets) == {HOPPER: [0.2, 0.3]}
    assert at_best(results).scores("BC", "RW", group.datasets) == {HOPPER: [0.8, 0.9]}
    assert at_best(results).scores("BC", "Uniform", group.datasets) == {HOPPER: [0.5, 0.6]}


def test_a_longer_training_stands_for_one_that_ended_at_its_point(store: Store) -> None:
    """Scores and points of then; where both were run, the one that ended there counts, and the other is left out."""
    add_runs(store, HOPPER, "RW", [0.45], updates=500)
    results = collect(store, updates=500)
    assert results.scores("BC", "RW", results.datasets_of("BC")) == {HOPPER: [0.45, 0.6]}
    assert results.scores("BC", "Uniform", results.datasets_of("BC")) == {HOPPER: [0.3, 0.4]}
    assert dict(results.updates) == {"BC": 500}
    assert [run.points for run in results.shown if run.weighting.name == "Uniform"] == [
        ((250, 0.5), (500, 0.3)),
        ((250, 0.6), (500, 0.4)),
    ]
    assert [run.left_out for run in results.runs if run.left_out] == ["1,000 updates"]
    with pytest.raises(DatasetError, match="expected runs of 300 updates, found runs of 500, 1,000"):
        collect(store, updates=300)


def test_points_change_no_other_table_and_survive_packing(store: Store, tmp_path: Path) -> None:
    store.pack(tmp_path / "packed.jsonl")
    with_them, packed = collect(store), collect(open_store(tmp_path / "packed.jsonl"))
    assert packed.runs == with_them.runs
    plain = Store(tmp_path / "plain", create=True)
    for record in store.runs():
        plain.write_run(record["run_id"], {key: value for key, value in record.items() if key != "points"})
    without = collect(plain)
    assert best_table(without, INTERVALS).rows == ()
    assert aggregate_table(without, INTERVALS) == aggregate_table(with_them, INTERVALS)
    assert score_tables(without, INTERVALS) == score_tables(with_them, INTERVALS)


def test_the_best_stands_beside_the_last_and_says_how_it_was_chosen(store: Store, tmp_path: Path) -> None:
    table = best_table(collect(store), INTERVALS)
    assert "chosen with the simulator" in table.caption
    assert table.columns[3:] == ("250", "500", "last", "best (by simulator)")
    rows = {row.cells[2]: row.cells[3:] for row in table.rows}
    assert rows["Uniform"][1:] == ("0.35 [0.30, 0.40]", "0.25 [0.20, 0.30]", "0.55 [0.50, 0.60]")
    assert rows["RW"][0] == "0.20 [0.10, 0.30]" and rows["RW"][2] == rows["RW"][3] == "0.85 [0.80, 0.90]"
    folder = write_report(store.path, tmp_path / "page.html", resamples=50)
    lines = list(csv.DictReader((folder / "best-points.csv").read_text().splitlines()))
    assert [(line["sampler"], float(line["last_level"]), float(line["best_level"])) for line in lines] == [
        ("Uniform", 0.25, 0.55),
        ("RW", pytest.approx(0.85), pytest.approx(0.85)),
    ]
    page = (tmp_path / "page.html").read_text()
    assert "<h2>Policies on the way, last and best (best: chosen with the simulator)</h2>" in page
    assert "<td>0.60 at 250</td>" in page  # seed 1 of Uniform, in the list of runs
    assert "<h3>Score over the training</h3>" in page


def test_of_many_points_the_table_has_a_few(tmp_path: Path) -> None:
    """Those at shares of the last that people ask for or, if none is there, some from the first on."""
    made = Store(tmp_path / "many", create=True)
    runs = add_runs(made, HOPPER, "RW", [0.8, 0.9])
    add_points(made, runs, *[dict.fromkeys(range(50, 1000, 50), 0.5)] * 2)
    odd = add_runs(made, HOPPER, "RW", [0.8, 0.9], algorithm="td3_bc")
    add_points(made, odd, *[dict.fromkeys(range(90, 1000, 90), 0.5)] * 2)
    table = best_table(collect(made), INTERVALS)
    assert table.columns[3:-2] == ("50", "90", "100", "250", "360", "500", "630", "900")
    (bc, td3_bc) = table.rows
    assert [bool(cell) for cell in bc.cells[3:-2]] == [True, False, True, True, False, True, False, False]
    assert [bool(cell) for cell in td3_bc.cells[3:-2]] == [not cell for cell in map(bool, bc.cells[3:-2])]


def test_a_report_without_points_has_neither_figure_nor_table(store: Store, tmp_path: Path) -> None:
    plain = Store(tmp_path / "plain", create=True)
    add_runs(plain, HOPPER, "RW", [0.8, 0.9])
    folder = write_report(plain.path, tmp_path / "report.html", resamples=50)
    page = (tmp_path / "report.html").read_text()
    assert "chosen with the simulator" not in page
    assert "<h3>Score over the training</h3>" not in page
    assert not [path.name for path in folder.iterdir() if "points" in path.name]


def test_the_curve_ends_where_the_overview_is(store: Store) -> None:
    (figure,) = (each for each in all_figures(collect(store), INTERVALS) if each.name == "points")
    label = "BC: score against updates. Uniform from 0.55 at 250 to 0.25 at 1,000, RW from 0.20"
    assert label in figure.pictures["BC"]


def test_runs_without_points_are_left_out_of_the_curve(store: Store) -> None:
    add_runs(store, HOPPER, "AW", [0.7, 0.7])
    results = with_points(collect(store))
    assert [each.name for each in results.weightings("BC")] == ["Uniform", "RW"]


def test_a_diverged_run_has_its_points_and_then_counts_as_diverged(store: Store) -> None:
    lost = add_runs(store, HOPPER, "AW", [0.7, 0.7], status="diverged")
    add_points(store, lost, {250: 0.9}, {250: 0.9})
    results = with_points(collect(store))
    (group,) = results.panels("BC")
    assert shared_points(results, group) == [250, 500, 1000]
    assert at_point(results, 250).scores("BC", "AW", group.datasets) == {HOPPER: [0.9, 0.9]}
    assert at_point(results, 500).scores("BC", "AW", group.datasets) == {HOPPER: [0.0, 0.0]}
    add_runs(store, HOPPER, "Half", [0.7, 0.7], status="diverged")  # never evaluated on the way
    for updates, score, diverged in ((250, 0.9, False), (500, 0.0, True)):
        then = collect(store, updates=updates)
        assert then.scores("BC", "AW", group.datasets) == {HOPPER: [score, score]}
        assert {run.diverged for run in then.shown if run.weighting.name == "AW"} == {diverged}
        assert "Half" not in {run.weighting.name for run in then.shown}


def test_points_that_do_not_meet_are_no_curve(store: Store) -> None:
    add_points(store, add_runs(store, HOPPER, "AW", [0.7, 0.7]), {300: 0.1}, {300: 0.1})
    (figure,) = (each for each in all_figures(collect(store), INTERVALS) if each.name == "points")
    assert figure.pictures == {}
    assert figure.missing == "its runs were evaluated at different points of their trainings"


def test_returns_without_reference_scores(tmp_path: Path) -> None:
    made = Store(tmp_path / "returns", create=True)
    add_returns(made, data_spec("mine-random"), "RW", [0.5, 0.6])
    ids = [record["run_id"] for record in made.runs()]
    add_points(made, ids, {500: 0.25}, {500: 0.25})
    results = with_points(collect(made))
    (group,) = results.panels("BC")
    assert at_point(results, 500).scores("BC", "RW", group.datasets) == {"mine-random": [750.0, 750.0]}


def test_damaged_points_are_a_damaged_record(store: Store) -> None:
    run_id = next(iter(store.runs()))["run_id"]
    store.write_run(run_id, {**store.run(run_id), "points": [{"updates": 3}]})
    assert run_id not in store
