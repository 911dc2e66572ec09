import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.results import add_dataset, add_runs, data_spec, describe_dataset, run_record
from upweight.base.errors import DatasetError
from upweight.report.collect import collect
from upweight.report.names import name_algorithm, name_dataset, name_sampler, sort_datasets, sort_samplers
from upweight.studies.run_spec import DataSpec
from upweight.studies.store import Record, Store, StoreReader


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results", create=True)


@pytest.mark.parametrize(
    ("weighting", "algorithm", "name"),
    [
        ({"name": "uniform"}, "bc", "Uniform"),
        ({"name": "top", "fraction": 0.1}, "iql", "Top-10%"),
        ({"name": "top", "fraction": 0.01}, "iql", "Top-1%"),
        ({"name": "top", "fraction": 0.005}, "iql", "Top-0.5%"),
        ({"name": "half", "threshold": None, "high": None}, "bc", "Half"),
        ({"name": "half", "threshold": 3.0, "high": None}, "bc", "Half threshold=3"),
        ({"name": "rw", "temperature": 0.1}, "td3_bc", "RW"),
        ({"name": "aw", "temperature": 0.1}, "bc", "AW"),
        ({"name": "rw", "temperature": 0.5}, "bc", "RW 0.5"),
        ({"name": "rw", "temperature": 0.2}, "cql", "RW"),
        ({"name": "aw", "temperature": 0.2}, "discrete_cql", "AW"),
        ({"name": "rw", "temperature": 0.1}, "cql", "RW 0.1"),
        ({"name": "shifted", "power": 2}, "bc", "shifted power=2"),
    ],
)
def test_samplers_have_the_names_of_the_paper(weighting: dict[str, object], algorithm: str, name: str) -> None:
    assert name_sampler(weighting, algorithm).name == name


def test_samplers_and_datasets_are_shown_in_a_fixed_order() -> None:
    weightings = [{"name": "aw", "temperature": t} for t in (0.1, 1.0, 0.01)]
    weightings += [{"name": "rw", "temperature": 0.1}, {"name": "uniform"}, {"name": "top", "fraction": 0.5}]
    names = [each.name for each in sort_samplers(name_sampler(weighting, "bc") for weighting in weightings)]
    assert names == ["Uniform", "RW", "AW", "AW 0.01", "AW 1", "Top-50%"]
    kinds = ["walker2d-random", "hopper-medium-random-10", "hopper-medium-random-5", "hopper-expert", "hopper-random"]
    found = [each.name for each in sort_datasets(name_dataset(kind, "Hopper-v5") for kind in kinds)]
    assert found == [*kinds[::-1][:2], "hopper-medium-random-5", "hopper-medium-random-10", "walker2d-random"]


def test_what_the_name_of_a_dataset_says() -> None:
    mix = name_dataset("hopper-expert-random-5", "Hopper-v5")
    assert (mix.task, mix.family, mix.good, mix.sigma) == ("hopper", "mixed", "expert", 5)
    assert name_dataset("hopper-medium-expert", "Hopper-v5").family == "regular"
    assert name_dataset("cartpole-expert-random-5", "upweight/StochasticCartPole-v1").family == "stochastic"


def test_algorithms_are_named_by_preset_and_by_what_differs_from_it() -> None:
    known = {"paper": {"a": 1, "b": 2.0, "c": 3}, "official": {"a": 2, "b": 3.0, "c": 3}}
    assert name_algorithm("iql", known["paper"], known) == "IQL"
    assert name_algorithm("iql", known["official"], known) == "IQL official"
    assert name_algorithm("td3_bc", {**known["paper"], "b": 0.5}, known) == "TD3+BC b=0.5"
    assert name_algorithm("discrete_cql", {**known["official"], "c": 4}, known) == "discrete CQL official c=4"


def test_presets_of_real_algorithms_are_known(store: Store) -> None:
    from upweight.engine.run import algorithm_config

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
