import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.results import add_dataset, add_runs, data_spec, describe_dataset, run_record
from upweight.base.errors import DatasetError, UpweightWarning
from upweight.lab.report.page import write_report
from upweight.lab.report.replicate import replicate
from upweight.lab.report.results import Results, collect
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.report.tables import aggregate_table, dataset_table, score_tables
from upweight.lab.study.run_spec import DataSpec
from upweight.lab.study.store import Record, Store, StoreReader


def test_presets_of_real_algorithms_are_known(store: Store) -> None:
    from upweight.lab.train.run import algorithm_config

    for preset in ("paper", "official"):
        add_runs(
            store,
            "hopper-medium",
            "RW",
            [0.5],
            algorithm="iql",
            config=algorithm_config("iql", preset=preset).to_dict(),
        )
    other = algorithm_config("iql", expectile=0.9).to_dict()
    add_runs(store, "hopper-medium", "RW", [0.5], algorithm="iql", config=other, precision="bfloat16")
    assert collect(store).methods == ["IQL", "IQL expectile=0.9, bfloat16", "IQL official"]


def test_scores_per_seed(store: Store) -> None:
    add_runs(store, "hopper-medium", "RW", [0.5, 0.6, 0.4])
    add_runs(store, "hopper-medium", "RW", [0.7], precision="bfloat16")
    add_runs(store, "walker2d-medium", "Uniform", [0.1])
    results = collect(store)
    datasets = results.datasets_of("BC")
    assert results.methods == ["BC", "BC, bfloat16"]
    assert results.scores("BC", "RW", datasets) == {"hopper-medium": [0.5, 0.6, 0.4]}
    assert results.scores("BC", "Uniform", datasets) == {"walker2d-medium": [0.1]}
    assert results.comparable("BC", ["RW", "Uniform"], datasets) == []
    assert results.fewest_seeds() == 1
    assert results.versions["jax"] == ("0.10.0",)


def test_runs_of_several_lengths_are_kept_apart(store: Store) -> None:
    add_runs(store, "hopper-medium", "RW", [0.5, 0.5], updates=1000)
    add_runs(store, "hopper-medium", "RW", [0.8], updates=2000)
    add_runs(store, "cartpole-medium", "RW", [0.3], updates=500, algorithm="discrete_cql")
    results = collect(store)
    assert dict(results.updates) == {"BC": 2000, "discrete CQL": 500}
    assert results.scores("BC", "RW", results.datasets_of("BC")) == {"hopper-medium": [0.8]}
    assert sorted(run.left_out for run in results.runs) == ["", "", "1,000 updates", "1,000 updates"]
    short = collect(store, updates=1000)
    assert short.scores("BC", "RW", short.datasets_of("BC")) == {"hopper-medium": [0.5, 0.5]}
    assert short.methods == ["BC"]
    with pytest.raises(DatasetError, match="expected runs of 7 updates, found runs of 500, 1,000, 2,000"):
        collect(store, updates=7)


def test_a_seed_counts_once(store: Store) -> None:
    add_runs(store, "hopper-medium", "RW", [0.5], episodes=10)
    add_runs(store, "hopper-medium", "RW", [0.6], episodes=20)
    results = collect(store)
    assert results.scores("BC", "RW", results.datasets_of("BC")) == {"hopper-medium": [0.6]}
    assert len(results.runs) == 2


def test_several_stores_are_one_and_a_run_in_both_counts_once(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "more", create=True)
    add_runs(store, "hopper-medium", "RW", [0.5, 0.6])
    add_runs(other, "hopper-medium", "RW", [0.5, 0.6, 0.7])
    add_dataset(other, "hopper-medium")
    results = collect([store, other])
    assert results.scores("BC", "RW", results.datasets_of("BC")) == {"hopper-medium": [0.5, 0.6, 0.7]}
    assert [facts.dataset.name for facts in results.datasets] == ["hopper-medium"]


def test_datasets_of_one_name_are_kept_apart(store: Store) -> None:
    add_runs(store, data_spec("hopper-medium", steps=1000), "RW", [0.5])
    add_runs(store, data_spec("hopper-medium", steps=2000, seed=1), "RW", [0.6])
    add_runs(store, DataSpec("/somewhere/logs.hdf5", None, None, "Hopper-v5", "abcdef"), "RW", [0.6])
    names = [each.name for each in collect(store).datasets_of("BC")]
    assert names == ["hopper-medium (1,000 steps, seed 0)", "hopper-medium (2,000 steps, seed 1)", "logs.hdf5"]


def test_the_paper_is_looked_up_by_the_name_without_seed_and_steps(store: Store) -> None:
    for seed in (0, 1):
        add_runs(store, data_spec("hopper-expert-random-5", seed=seed), "RW", [0.5])
    datasets = collect(store).datasets_of("BC", sigma=5)
    assert [each.base for each in datasets] == ["hopper-expert-random-5"] * 2
    assert [each.variant for each in datasets] == ["1,000,000 steps, seed 0", "1,000,000 steps, seed 1"]


def test_descriptions_go_to_the_file_of_their_content(store: Store) -> None:
    files = [DataSpec("logs.hdf5", None, None, "Hopper-v5", content) for content in ("aaaa", "bbbb")]
    facts = {"name": "logs.hdf5", "steps": None, "seed": None, "normalized": True, "episodes": 1, "total_steps": 1}
    facts |= {"rpsv": 0.1, "histogram": {"counts": [1], "edges": [0, 1]}}
    for data, mean in zip(files, (0.1, 0.2), strict=True):
        add_runs(store, data, "RW", [0.5])
        store.write_dataset(data_spec(f"file-{data.content}"), {**facts, "content": data.content, "mean": mean})
    store.write_dataset(data_spec("unused"), {**facts, "content": "cccc", "mean": 0.3})
    store.write_dataset(data_spec("old"), {**facts, "mean": 0.4})  # does not say which of the two it is
    found = {each.dataset.name: each.mean for each in collect(store).datasets}
    assert found == {"logs.hdf5 (aaaa)": 0.1, "logs.hdf5 (bbbb)": 0.2}


def test_bad_input(store: Store, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="expected finished runs, found none; make some with upweight sweep"):
        collect(store)
    with pytest.raises(DatasetError, match="not a store"):
        Store(tmp_path / "nowhere")
    (run_id,) = add_runs(store, "hopper-medium", "RW", [0.5])
    store.write_run(run_id, {"spec": {"data": {}}, "returns": [], "score": 1, "status": "finished"})
    with pytest.raises(DatasetError, match=f"run {run_id}: expected the description of a run"):
        collect(store)


SAW_TWO = "hopper-expert-random-5: its runs saw 2 different versions of the data (other machines or versions)."


def test_runs_of_one_name_that_saw_other_data_are_told_everywhere(store: Store, tmp_path: Path) -> None:
    add_runs(store, "hopper-expert-random-5", "Uniform", [0.1] * 5, data_sha256="aaaa")
    add_runs(store, "hopper-expert-random-5", "RW", [0.9] * 5, data_sha256="bbbb")
    add_runs(store, "hopper-expert-random-5", "AW", [0.9] * 5)  # an old record
    add_runs(store, "hopper-medium", "Uniform", [0.1] * 5, data_sha256="cccc")
    add_runs(store, "hopper-medium", "RW", [0.1] * 5, data_sha256="dddd", updates=500)  # not shown
    add_dataset(store, "hopper-expert-random-5")
    results, intervals = collect(store), Intervals(resamples=20)
    assert results.data_notes == {"hopper-expert-random-5": SAW_TWO}
    (scores,) = score_tables(results, intervals)
    for table in (scores.shown(), aggregate_table(results, intervals), dataset_table(results)):
        assert table.notes[-1] == SAW_TWO
    replication = replicate(results, intervals)
    assert f"Note: {SAW_TWO}" in str(replication) and replication.to_dict()["notes"][1:] == [SAW_TWO]
    with pytest.warns(UpweightWarning, match="Left out: 5 runs of BC"):
        write_report(store.path, tmp_path / "out.html", resamples=20)
    assert f'<p class="warning" role="note">{SAW_TWO}</p>' in (tmp_path / "out.html").read_text()


def test_the_same_data_or_records_without_a_hash_need_no_note(store: Store) -> None:
    add_runs(store, data_spec("hopper-medium", seed=0), "Uniform", [0.1] * 5, data_sha256="aaaa")
    add_runs(store, data_spec("hopper-medium", seed=1), "Uniform", [0.1] * 5, data_sha256="bbbb")
    add_runs(store, data_spec("hopper-medium", seed=0), "RW", [0.9] * 5)
    results = collect(store)
    assert results.data_notes == {} and replicate(results, Intervals(resamples=20)).notes == ()
    assert SAW_TWO not in score_tables(results, Intervals(resamples=20))[0].shown().notes


class ManyRuns(StoreReader):
    """A store of so many runs, and as many datasets, of an algorithm that has no presets."""

    def __init__(self, count: int) -> None:
        self.path, self.count = Path(f"{count}-runs"), count

    def runs(self) -> Iterator[Record]:
        for number in range(self.count):
            data = data_spec("hopper-medium", seed=number)
            run_id, record = run_record(data, "RW", 0.5, algorithm="other", config={"batch_size": number})
            yield {"run_id": run_id, **record}

    def datasets(self) -> list[Record]:
        return [describe_dataset(data_spec("hopper-medium", seed=number)) for number in range(self.count)]


class CountedText(str):
    """Text that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def count_operations(store: StoreReader, monkeypatch: pytest.MonkeyPatch) -> int:
    """Calls, resumed generators and comparisons of texts while collecting."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    CountedText.compared = 0
    dumps = json.dumps
    with monkeypatch.context() as patch:
        patch.setattr(json, "dumps", lambda *given, **options: CountedText(dumps(*given, **options)))
        sys.setprofile(count)
        try:
            collect(store)
        finally:
            sys.setprofile(None)
    return calls + CountedText.compared


def test_ten_times_the_runs_take_about_ten_times_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (count_operations(ManyRuns(count), monkeypatch) for count in (50, 500))
    assert many < 15 * few


# What a run counts as.


def change(store: Store, run_id: str, **values: Any) -> None:
    record = next(record for record in store.runs() if record["run_id"] == run_id)
    store.write_run(run_id, {**record, **values})


def scores(results: Results, weighting: str) -> list[float]:
    (found,) = results.scores("BC", weighting, results.datasets_of("BC")).values()
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
    (_, found) = table.rows[0]
    marks = {
        name: (score.is_better, score.is_maximum)
        for name, score in zip(table.weightings, found, strict=True)
        if score is not None
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


def test_returns_are_compared_within_an_environment_and_never_beside_normalised_scores(store: Store) -> None:
    def comparable() -> list[str]:
        results = collect(store)
        return [each.name for each in results.comparable("BC", ["Uniform", "RW"], results.datasets_of("BC"))]

    for name in ("mine-expert", "mine-medium"):  # of one environment without reference scores
        for sampler in ("Uniform", "RW"):
            add_runs(store, name, sampler, [None, None])
    assert {run.score for run in collect(store).shown} == {1500.0}  # mean returns
    assert comparable() == ["mine-medium", "mine-expert"]
    for sampler in ("Uniform", "RW"):
        add_runs(store, DataSpec("other-medium", 1000, 0, "Other-v0"), sampler, [None, None])
    assert comparable() == []
    assert [group.scale for group in collect(store).groups("BC")] == ["Unknown-v0", "Other-v0"]
    for sampler in ("Uniform", "RW"):
        add_runs(store, "hopper-medium", sampler, [0.5, 0.6])
    assert comparable() == ["hopper-medium"]
