import io
from pathlib import Path

import pandas
import pytest

from support.results import add_dataset, add_runs
from upweight.experiments.store import Store
from upweight.report.collect import collect
from upweight.report.comparison import Intervals
from upweight.report.table_formats import (
    datasets_csv,
    datasets_html,
    datasets_latex,
    latex_escape,
    scores_csv,
    scores_html,
    scores_latex,
    scores_markdown,
)
from upweight.report.tables import Cell, ScoreTable, dataset_table, score_tables, score_text

INTERVALS = Intervals(resamples=200)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One mix where RW is clearly better, and a regular set with fewer runs."""
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "hopper-expert-random-5", "Uniform", [0.1, 0.2, 0.3, 0.2, 0.2])
    add_runs(store, "hopper-expert-random-5", "Half", [0.1, 0.3, 0.2, 0.2, 0.2])
    add_runs(store, "hopper-expert-random-5", "RW", [0.8, 0.9, 1.0, 0.9, 0.9])
    add_runs(store, "walker2d-medium", "Uniform", [0.5])
    add_runs(store, "walker2d-medium", "RW", [0.6])
    add_dataset(store, "hopper-expert-random-5", mean=0.05, rpsv=0.0014)
    return store


@pytest.fixture
def table(store: Store) -> ScoreTable:
    (found,) = score_tables(collect(store), INTERVALS)
    return found


def cell(table: ScoreTable, dataset: str, sampler: str) -> Cell | None:
    cells = next(cells for name, cells in table.rows if name.name == dataset)
    return cells[table.samplers.index(sampler)]


def test_values_by_hand(table: ScoreTable) -> None:
    assert table.samplers == ("Uniform", "Half", "RW")
    assert [dataset.name for dataset, _ in table.rows] == ["hopper-expert-random-5", "walker2d-medium"]
    found = cell(table, "hopper-expert-random-5", "Uniform")
    assert found is not None
    assert (found.mean, found.seeds) == (pytest.approx(0.2), 5)
    assert found.std == pytest.approx(0.005**0.5)  # squares 0.01 + 0.01 over 4
    assert found.paper == 0.04
    assert (found.text, found.spread) == ("0.20", "0.07")
    assert cell(table, "walker2d-medium", "Half") is None


def test_bold_is_the_best_and_a_star_is_better_than_uniform(table: ScoreTable) -> None:
    uniform, half, weighted = (cell(table, "hopper-expert-random-5", name) for name in table.samplers)
    assert [each.best for each in (uniform, half, weighted) if each] == [False, False, True]
    assert [each.star for each in (uniform, half, weighted) if each] == [False, False, True]
    assert half is not None and half.improvement is not None and half.paper is None
    assert half.improvement.point == 0.5


def test_one_seed_earns_no_star(table: ScoreTable) -> None:
    found = cell(table, "walker2d-medium", "RW")
    assert found is not None and found.best and not found.star
    assert (found.std, found.spread) == (None, "")


def test_equal_as_shown_is_equally_bold(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    for sampler, score in (("Uniform", 0.701), ("RW", 0.704), ("AW", 0.69)):
        add_runs(store, "hopper-medium", sampler, [score, score])
    (table,) = score_tables(collect(store), INTERVALS)
    assert [each.best for each in table.rows[0][1] if each] == [True, True, False]


def test_other_settings_get_a_table_of_their_own(store: Store) -> None:
    add_runs(store, "hopper-expert-random-5", {"name": "rw", "temperature": 1.0}, [0.9] * 5)
    usual, other = score_tables(collect(store), INTERVALS)
    assert (usual.name, other.name, other.samplers) == ("scores-bc", "scores-bc-settings", ("RW 1",))
    (found,) = other.rows[0][1]
    assert found is not None and found.star and not found.best
    assert len(other.rows) == 1


def test_csv_is_tidy(table: ScoreTable) -> None:
    frame = pandas.read_csv(io.StringIO(scores_csv(table)))
    assert len(frame) == 5
    row = frame.set_index(["dataset", "sampler"]).loc[("hopper-expert-random-5", "RW")]
    assert row["mean"] == pytest.approx(0.9)
    assert (row["paper"], row["improvement_low"], row["star"], row["best"]) == (0.87, 1.0, True, True)
    assert frame["std"].isna().sum() == 2


def test_latex_has_as_many_cells_as_columns(table: ScoreTable) -> None:
    text = scores_latex(table)
    lines = text.splitlines()
    columns = lines[1].removeprefix(r"\begin{tabular}{").removesuffix("}")
    assert columns == "lrrrrr"  # Uniform and RW with the paper's numbers, Half without
    rows = [line for line in lines if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(rows) == 3
    assert all(line.count("&") == len(columns) - 1 for line in rows)
    assert r"\textbf{0.90}" in text
    assert text.count("$^{*}$") == 1
    assert all(word in text for word in (r"\toprule", r"\midrule", r"\bottomrule", r"\addlinespace"))


def test_markdown(table: ScoreTable) -> None:
    head, rule, *rows = scores_markdown(table).splitlines()
    assert head == "| dataset | Uniform | Half | RW |" and rule == "| --- | --- | --- | --- |"
    assert len(rows) == len(table.rows) and all(row.count("|") == 5 for row in rows)
    (row,) = [row for row in rows if "hopper-expert-random-5" in row]
    assert row.endswith(r"| **0.90** ± 0.07 \* (0.87) |")


def test_latex_escapes() -> None:
    assert latex_escape(r"Top-10% a_b & {c}$\^~#") == (
        r"Top-10\% a\_b \& \{c\}\$\textbackslash{}\textasciicircum{}\textasciitilde{}\#"
    )


def test_html(table: ScoreTable) -> None:
    text = scores_html(table)
    assert "<strong>0.90</strong>" in text
    assert text.count('class="star"') == 1
    assert "paper 0.87" in text
    assert text.count("<tbody>") == 2


def test_dataset_table(store: Store) -> None:
    rows = dataset_table(collect(store))
    (row,) = pandas.read_csv(io.StringIO(datasets_csv(rows))).itertuples()
    assert (row.dataset, row.episodes, row.mean, row.rpsv) == ("hopper-expert-random-5", 1000, 0.05, 0.0014)
    assert row.paper_rpsv == pytest.approx(0.0014, abs=1e-4)
    assert "hopper-expert-random-5 & 1,000 & 1,000,000 & 0.05 & 0.001400 & 0.001436" in datasets_latex(rows)
    assert "<td>0.001400</td>" in datasets_html(rows)


def test_numbers_as_text() -> None:
    assert score_text(-0.001, normalized=True) == "0.00"
    assert score_text(-0.5, normalized=True) == "-0.50"
    assert score_text(1234.56, normalized=False) == "1235"
