import io
from pathlib import Path

import pandas
import pytest

from support.results import add_dataset, add_returns, add_runs, data_spec
from upweight.lab.report.results import collect
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.report.table import as_csv, as_html, as_latex, as_markdown
from upweight.lab.report.tables import (
    GAP,
    Score,
    ScoreTable,
    aggregate_table,
    dataset_table,
    legend,
    score_tables,
    score_text,
)
from upweight.lab.study.store import Store

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


def score(table: ScoreTable, dataset: str, weighting: str) -> Score | None:
    scores = next(scores for name, scores in table.rows if name.name == dataset)
    return scores[table.weightings.index(weighting)]


def test_values_by_hand(table: ScoreTable) -> None:
    assert table.weightings == ("Uniform", "Half", "RW")
    assert [dataset.name for dataset, _ in table.rows] == ["hopper-expert-random-5", "walker2d-medium"]
    found = score(table, "hopper-expert-random-5", "Uniform")
    assert found is not None
    assert (found.mean, found.seeds) == (pytest.approx(0.2), 5)
    assert found.std == pytest.approx(0.005**0.5)  # squares 0.01 + 0.01 over 4
    assert found.paper == 0.04
    assert (found.text, found.shown().spread, found.shown().paper) == ("0.20", "0.07", "0.04")
    assert score(table, "walker2d-medium", "Half") is None


def test_marks_are_those_of_the_paper(table: ScoreTable) -> None:
    """Bold is better than Uniform, a star is the maximum of the row."""
    uniform, half, weighted = (score(table, "hopper-expert-random-5", name) for name in table.weightings)
    assert [each.is_maximum for each in (uniform, half, weighted) if each] == [False, False, True]
    assert [each.is_better for each in (uniform, half, weighted) if each] == [False, False, True]
    assert half is not None and half.improvement is not None and half.paper is None
    assert half.improvement.point == 0.5


def test_a_star_does_not_need_bold(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "hopper-medium", "Uniform", [0.1, 0.9, 0.2, 0.8, 0.5])
    add_runs(store, "hopper-medium", "RW", [0.2, 0.9, 0.3, 0.8, 0.5])
    (table,) = score_tables(collect(store), INTERVALS)
    found = score(table, "hopper-medium", "RW")
    assert found is not None and found.is_maximum and not found.is_better
    assert table.wins == ("-", "0 of 1")


@pytest.mark.parametrize(("seeds", "marked"), [(4, False), (5, True)])
def test_few_seeds_earn_no_marks(tmp_path: Path, seeds: int, marked: bool) -> None:
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "hopper-medium", "Uniform", [0.1] * seeds)
    add_runs(store, "hopper-medium", "RW", [0.9] * seeds)
    (table,) = score_tables(collect(store), INTERVALS)
    found = score(table, "hopper-medium", "RW")
    assert found is not None and (found.is_better, found.is_maximum) == (marked, marked)
    assert table.wins == ("-", "1 of 1" if marked else "-")
    assert ("Here some results have fewer than 5 seeds" in as_latex(table.shown())) is not marked


@pytest.mark.parametrize(("datasets", "separated", "marked"), [(6, 1, 1), (8, 1, 0), (8, 2, 2)])
def test_marks_are_corrected_for_their_number(tmp_path: Path, datasets: int, separated: int, marked: int) -> None:
    """Five seeds that are all better have p = 2/252; with K of them among D, that is adjusted to 2/252 D/K."""
    store = Store(tmp_path / "results", create=True)
    for place in range(datasets):
        level = 0.9 if place < separated else 0.15
        add_runs(store, data_spec("hopper-medium", seed=place), "Uniform", [0.1, 0.2, 0.3, 0.4, 0.5])
        add_runs(store, data_spec("hopper-medium", seed=place), "RW", [level + 0.1 * seed for seed in range(5)])
    (table,) = score_tables(collect(store), INTERVALS)
    assert table.wins == ("-", f"{marked} of {datasets}")
    record = table.shown().records[1]
    assert record["p_value"] == pytest.approx(2 / 252)
    assert record["p_adjusted"] == pytest.approx(2 / 252 * datasets / separated)


def test_one_seed_has_no_spread(table: ScoreTable) -> None:
    found = score(table, "walker2d-medium", "RW")
    assert found is not None and not found.is_maximum and not found.is_better
    assert (found.std, found.shown().spread) == (None, "")


def test_equal_as_shown_is_equally_the_maximum(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    for sampler, score in (("Uniform", 0.701), ("RW", 0.704), ("AW", 0.69)):
        add_runs(store, "hopper-medium", sampler, [score] * 5)
    (table,) = score_tables(collect(store), INTERVALS)
    assert [each.is_maximum for each in table.rows[0][1] if each] == [True, True, False]


def test_other_settings_get_tables_of_their_own_beside_the_default(store: Store) -> None:
    add_runs(store, "hopper-expert-random-5", {"name": "rw", "temperature": 1.0}, [0.7] * 5)
    add_runs(store, "hopper-expert-random-5", {"name": "rw", "temperature": 0.01}, [0.9] * 5)
    add_runs(store, "hopper-expert-random-5", {"name": "top", "fraction": 0.5}, [0.3] * 5)
    usual, top, weighted = score_tables(collect(store), INTERVALS)
    assert (usual.name, top.name, weighted.name) == (*("scores-bc", "scores-bc-settings-top", "scores-bc-settings-rw"),)
    assert (top.weightings, weighted.weightings) == (("Top-50%",), ("RW 0.01", "RW", "RW 1"))
    (row,) = weighted.rows  # of walker2d there is only the default
    assert [(each.is_better, each.is_maximum) for each in row[1] if each] == [(True, True), (True, True), (True, False)]


def test_several_data_seeds_keep_the_numbers_of_the_paper(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    for seed in (0, 1):
        add_runs(store, data_spec("hopper-expert-random-5", seed=seed), "RW", [0.9])
    (table,) = score_tables(collect(store), INTERVALS)
    assert [scores[0].paper for _, scores in table.rows if scores[0]] == [0.87, 0.87]


def test_the_legend_says_what_the_marks_and_the_paper_s_numbers_are(table: ScoreTable, tmp_path: Path) -> None:
    text = " ".join(legend([table]))
    for part in (
        "The paper's bold is any higher mean",
        "corrected for all the comparisons of this table",
        "a million updates, five seeds and D4RL's data",
    ):
        assert part in text
    store = Store(tmp_path / "other", create=True)
    add_runs(store, "mine-medium", "Uniform", [0.5] * 5)
    text = " ".join(legend(score_tables(collect(store), INTERVALS)))
    assert "D4RL" not in text and "Here some" not in text


def test_csv_is_tidy(table: ScoreTable) -> None:
    frame = pandas.read_csv(io.StringIO(as_csv(table.shown())))
    assert len(frame) == 5
    row = frame.set_index(["dataset", "sampler"]).loc[("hopper-expert-random-5", "RW")]
    assert row["mean"] == pytest.approx(0.9)
    assert (row["paper"], row["improvement_low"]) == (0.87, 1.0)
    assert row["better_than_uniform"] and row["maximum"]
    assert frame["std"].isna().sum() == 2


def test_latex_has_as_many_cells_as_columns(table: ScoreTable) -> None:
    text = as_latex(table.shown())
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    columns = lines[0].removeprefix(r"\begin{tabular}{").removesuffix("}")
    assert columns == "lrrrrr"  # Uniform and RW with the paper's numbers, Half without
    rows = [line for line in lines if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(rows) == 4
    assert all(line.count("&") == len(columns) - 1 for line in rows)
    assert rows[0] == r"dataset & ours & paper &  & ours & paper \\"
    assert rows[-1] == r"better than Uniform & - &  & 0 of 1 & 1 of 1 &  \\"
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){5-6}" in lines
    assert r"\textbf{0.90}" in text
    assert text.count("$^{*}$") == 1
    assert all(word in text for word in (r"\toprule", r"\midrule", r"\bottomrule", r"\addlinespace"))
    assert "% Bold: better than Uniform" in text


def test_latex_without_numbers_of_the_paper_has_one_line_of_heads(tmp_path: Path) -> None:
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "mine-medium", "Uniform", [0.5] * 5)
    add_runs(store, "mine-medium", "RW", [0.6] * 5)
    text = as_latex(score_tables(collect(store), INTERVALS)[0].shown())
    assert r"dataset & Uniform & RW \\" in text
    assert "ours" not in text and "cmidrule" not in text


def test_markdown(table: ScoreTable) -> None:
    head, rule, *rows, wins = as_markdown(table.shown(), notes=False).splitlines()
    assert head == "| dataset | Uniform | Half | RW |" and rule == "| --- | --- | --- | --- |"
    assert len(rows) == len(table.rows) and all(row.count("|") == 5 for row in rows)
    (row,) = [row for row in rows if "hopper-expert-random-5" in row]
    assert row.endswith(r"| **0.90** ± 0.07 \* (0.87) |")
    assert wins == "| *better than Uniform* | - | 0 of 1 | 1 of 1 |"


def test_html(table: ScoreTable) -> None:
    text = as_html(table.shown())
    assert "<strong>0.90</strong>" in text
    assert text.count('class="star"') == 1
    assert "paper 0.87" in text
    assert text.count("<tbody>") == 2
    assert "<caption>Scores of BC" in text
    assert "<td>1 of 1</td>" in text


def test_dataset_table(store: Store) -> None:
    table = dataset_table(collect(store))
    (row,) = pandas.read_csv(io.StringIO(as_csv(table))).itertuples()
    assert (row.dataset, row.episodes, row.mean, row.rpsv) == ("hopper-expert-random-5", 1000, 0.05, 0.0014)
    assert row.paper_rpsv == pytest.approx(0.0014, abs=1e-4)
    assert "hopper-expert-random-5 & 1,000 & 1,000,000 & 0.0500 & 0.001400 & 0.001436" in as_latex(table)
    assert "| hopper-expert-random-5 | 1,000 | 1,000,000 | 0.0500 | 0.001400 | 0.001436 |" in as_markdown(table)
    assert "<td>0.001400</td>" in as_html(table)


def test_numbers_as_text() -> None:
    assert score_text(-0.001, normalized=True) == "0.00"
    assert score_text(-0.5, normalized=True) == "-0.50"
    assert score_text(1234.56, normalized=False) == "1235"


@pytest.fixture
def two_mixes(tmp_path: Path) -> Store:
    """Two mixes that both weightings have, one that only Uniform has, and a regular set with Uniform alone."""
    store = Store(tmp_path / "mixes", create=True)
    add_runs(store, "hopper-expert-random-1", "Uniform", [0.0, 0.2, 0.2, 0.4, 0.2])
    add_runs(store, "hopper-expert-random-5", "Uniform", [0.4, 0.6, 0.6, 0.8, 0.6])
    add_runs(store, "hopper-expert-random-1", "RW", [1.0, 1.0, 1.0, 1.0, 1.0])
    add_runs(store, "hopper-expert-random-5", "RW", [1.2, 1.2, 1.2, 1.2, 1.2])
    add_runs(store, "hopper-expert-random-10", "Uniform", [9.0])
    add_runs(store, "hopper-expert", "Uniform", [1.1] * 5)
    return store


def test_aggregates_by_hand(two_mixes: Store) -> None:
    """Over the datasets that all weightings share, with means 0.2 and 0.6 for Uniform."""
    table = aggregate_table(collect(two_mixes), INTERVALS)
    frame = pandas.read_csv(io.StringIO(as_csv(table))).set_index("sampler")
    statistics = ["mean", "median", "iqm", "optimality_gap"]
    # Of ten runs the six in the middle: 0.2, 0.2, 0.4, 0.4, 0.6, 0.6.
    assert frame.loc["Uniform", statistics].tolist() == pytest.approx([0.4, 0.4, 0.4, 0.6])
    assert frame.loc["RW", statistics].tolist() == pytest.approx([1.1, 1.1, 1.1, 0.0])
    assert frame.loc["Uniform", "mean_low"] < 0.4 < frame.loc["Uniform", "mean_high"]
    assert (frame.loc["RW", "datasets"], frame.loc["RW", "family"], frame.loc["RW", "fewest_seeds"]) == (2, "mixed", 5)


def test_forms_of_the_aggregates(two_mixes: Store) -> None:
    table = aggregate_table(collect(two_mixes), INTERVALS)
    assert "BC & mixed datasets (2) & RW & 1.10 [1.10, 1.10]" in as_latex(table)
    assert "| BC | mixed datasets (2) | RW | 1.10 [1.10, 1.10] |" in as_markdown(table)
    text = as_html(table)
    assert "BC: mixed datasets (2)" in text and '<th scope="row">RW</th><td>1.10 [1.10, 1.10]</td>' in text


def test_a_method_with_one_weighting_has_its_aggregates_too(tmp_path: Path) -> None:
    store = Store(tmp_path / "one", create=True)
    add_runs(store, "hopper-medium", "RW", [0.5] * 5)
    (record,) = aggregate_table(collect(store), INTERVALS).records
    assert (record["sampler"], record["mean"]) == ("RW", 0.5)


def test_notes_speak_of_what_is_there(two_mixes: Store, tmp_path: Path) -> None:
    last_row = "The last row counts"
    results = collect(two_mixes)
    assert last_row in " ".join(legend(score_tables(results, INTERVALS)))
    assert "lower is better." in " ".join(aggregate_table(results, INTERVALS).notes)
    alone = Store(tmp_path / "alone", create=True)
    add_runs(alone, "hopper-medium", "RW", [0.5] * 5)
    (table,) = score_tables(collect(alone), INTERVALS)
    assert table.shown().footer == () and last_row not in " ".join(legend([table]))


def test_aggregates_of_returns_have_no_optimality_gap(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw", create=True)
    for sampler, scores in {"Uniform": [0.1, 0.2, 0.3, 0.4, 0.5], "RW": [0.6, 0.7, 0.8, 0.9, 1.0]}.items():
        add_returns(store, "mine-medium", sampler, scores)
    table = aggregate_table(collect(store), INTERVALS)
    assert table.columns == ("algorithm", "datasets", "sampler", "mean", "median", "IQM")
    assert GAP not in " ".join(table.notes)
    assert [row.cells[:3] for row in table.rows] == [
        ("BC", "other datasets (1), returns in Unknown-v0", "Uniform"),
        ("BC", "other datasets (1), returns in Unknown-v0", "RW"),
    ]
    assert str(table.rows[1].cells[5]).startswith("2400 [")  # the mean of 2100, 2400 and 2700
    frame = pandas.read_csv(io.StringIO(as_csv(table)))
    assert frame["iqm"].tolist() == pytest.approx([900, 2400])
    assert frame["optimality_gap"].isna().all() and not frame["normalized"].any()
