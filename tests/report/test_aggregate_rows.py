"""The aggregate table: four statistics by hand, over the datasets that all samplers share."""

import io
from pathlib import Path

import pandas
import pytest

from support.results import add_runs
from upweight.report.aggregate_rows import aggregate_rows
from upweight.report.collect import collect
from upweight.report.fact_formats import aggregates_csv, aggregates_html, aggregates_latex, aggregates_markdown
from upweight.report.statistics.intervals import Intervals
from upweight.studies.store import Store

INTERVALS = Intervals(resamples=200)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two mixes that both samplers have, one that only Uniform has, and a regular set with Uniform alone."""
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "hopper-expert-random-1", "Uniform", [0.0, 0.2, 0.2, 0.4, 0.2])
    add_runs(store, "hopper-expert-random-5", "Uniform", [0.4, 0.6, 0.6, 0.8, 0.6])
    add_runs(store, "hopper-expert-random-1", "RW", [1.0, 1.0, 1.0, 1.0, 1.0])
    add_runs(store, "hopper-expert-random-5", "RW", [1.2, 1.2, 1.2, 1.2, 1.2])
    add_runs(store, "hopper-expert-random-10", "Uniform", [9.0])
    add_runs(store, "hopper-expert", "Uniform", [1.1] * 5)
    return store


def test_values_by_hand(store: Store) -> None:
    uniform, weighted = aggregate_rows(collect(store), INTERVALS)
    assert [each.name for each in uniform.group.datasets] == ["hopper-expert-random-1", "hopper-expert-random-5"]
    # Means of the datasets 0.2 and 0.6. Of ten runs the six in the middle: 0.2, 0.2, 0.4, 0.4, 0.6, 0.6.
    assert [each.point for each in uniform.estimates] == pytest.approx([0.4, 0.4, 0.4, 0.6])
    assert [each.point for each in weighted.estimates] == pytest.approx([1.1, 1.1, 1.1, 0.0])
    assert uniform.estimates[0].low < 0.4 < uniform.estimates[0].high


def test_formats(store: Store) -> None:
    rows = aggregate_rows(collect(store), INTERVALS)
    frame = pandas.read_csv(io.StringIO(aggregates_csv(rows))).set_index("sampler")
    assert frame.loc["RW", "optimality_gap"] == pytest.approx(0.0)
    assert (frame.loc["RW", "datasets"], frame.loc["RW", "family"], frame.loc["RW", "fewest_seeds"]) == (2, "mixed", 5)
    assert "BC & mixed datasets (2) & RW & 1.10 [1.10, 1.10]" in aggregates_latex(rows)
    assert "| BC | mixed datasets (2) | RW | 1.10 [1.10, 1.10] |" in aggregates_markdown(rows)
    text = aggregates_html(rows)
    assert "BC: mixed datasets (2)" in text and '<th scope="row">RW</th><td>1.10 [1.10, 1.10]</td>' in text


def test_a_method_with_one_sampler_has_its_aggregates_too(tmp_path: Path) -> None:
    store = Store(tmp_path / "one", create=True)
    add_runs(store, "hopper-medium", "RW", [0.5] * 5)
    (row,) = aggregate_rows(collect(store), INTERVALS)
    assert (row.sampler, row.estimates[0].point) == ("RW", 0.5)


def test_no_rows_without_reference_scores(tmp_path: Path) -> None:
    store = Store(tmp_path / "raw", create=True)
    add_runs(store, "mine-medium", "RW", [None] * 5)
    assert aggregate_rows(collect(store), INTERVALS) == []
