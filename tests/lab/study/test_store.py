"""The store: what is in it can be trusted."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.results import add_dataset, add_runs, data_spec, make_study
from upweight.base.errors import DatasetError
from upweight.lab.study.experiment_file import read_experiment
from upweight.lab.study.readers import open_store
from upweight.lab.study.run_spec import DataSpec, run_spec_from_dict
from upweight.lab.study.store import Store


def test_a_packed_store_reads_like_the_folder(tmp_path: Path) -> None:
    store = make_study(tmp_path / "store", seeds=1, algorithms=["bc"])
    store.pack(tmp_path / "packed.jsonl")
    packed = open_store(tmp_path / "packed.jsonl")
    assert list(packed.runs()) == list(store.runs()) and packed.datasets() == store.datasets()
    assert packed.table() == store.table() == open_store(tmp_path / "store").table()
    whole = (tmp_path / "packed.jsonl").read_text()
    (tmp_path / "cut.jsonl").write_text(whole[:-30])
    with pytest.raises(DatasetError, match=r"cut\.jsonl: line \d+: not a line of a packed store, or cut short"):
        open_store(tmp_path / "cut.jsonl")
    (tmp_path / "other.jsonl").write_text(whole.replace('"format":1', '"format":7', 1))
    with pytest.raises(DatasetError, match=r"expected a packed store of format 1, found \[7\]"):
        open_store(tmp_path / "other.jsonl")


def test_bad_stores(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="not a store of results"):
        Store(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DatasetError, match="expected a store or an empty folder"):
        Store(tmp_path, create=True)
    store = Store(tmp_path / "store", create=True)
    (store.path / "runs" / "abc.json").write_text('{"run_id": "abc", "spec"')
    with pytest.raises(DatasetError, match=r"abc\.json: damaged; remove it"):
        list(store.runs())
    (store.path / "store.json").write_text('{"format": 99}')
    with pytest.raises(DatasetError, match="expected a store of format 1, found 99"):
        Store(store.path)
    (store.path / "store.json").write_text("{")
    with pytest.raises(DatasetError, match="damaged"):
        Store(store.path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"store": 3}', "line 1: expected the format of the packed store, found 3"),
        ('{"store": {"format": 1}}\n{"run": {}}', r"line 2: damaged; remove it"),
        ('{"store": {"format": 1}}\n{"run": 3}', r"line 2: damaged; remove it"),
        ('{"store": {"format": 1}}\n{"dataset": 3}', r"line 2: damaged, or not a dataset's description"),
        ('{"store": {"format": 1}, "run": 3}', "line 1: not a line of a packed store"),
        ("[1]", "line 1: not a line of a packed store"),
        ("[" * 100_000, "line 1: not a line of a packed store"),
        ("", "expected a packed store of format 1, found none"),
        (b"\x93NUMPY\xff\xfe", "expected a packed store .*, found binary content"),
    ],
)
def test_what_is_no_packed_store(tmp_path: Path, line: str | bytes, message: str) -> None:
    path = tmp_path / "packed.jsonl"
    path.write_bytes(line if isinstance(line, bytes) else line.encode())
    with pytest.raises(DatasetError, match=message):
        open_store(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda record: {**record, "spec": None}, "expected the description of a run"),
        (lambda record: {**record, "spec": {**record["spec"], "data": 3}}, "expected the description of a run"),
        (lambda record: {**record, "spec": {**record["spec"], "format": 2}}, "expected a run of format 1, found 2"),
        (lambda record: {"run_id": record["run_id"]}, "damaged; remove it and start the sweep again"),
        (lambda record: 3, "damaged; remove it and start the sweep again"),
    ],
)
def test_a_run_that_cannot_be_used_is_not_finished(tmp_path: Path, change: object, message: str) -> None:
    store = Store(tmp_path / "store", create=True)
    good, bad = add_runs(store, "hopper-medium", "RW", [0.5, 0.6])
    assert good in store and bad in store
    path = store.path / "runs" / f"{bad}.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))  # type: ignore[operator]
    assert good in store and bad not in store and store.is_damaged(bad) and not store.is_damaged(good)
    with pytest.raises(DatasetError, match=message):
        list(store.runs())
    for cut in ("", path.read_text()[:-20]):
        path.write_text(cut)
        assert bad not in store and store.is_damaged(bad)


def test_a_damaged_description_of_a_dataset(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    add_dataset(store, "hopper-medium")
    data = data_spec("hopper-medium")
    assert store.has_dataset(data)
    (path,) = (store.path / "datasets").iterdir()
    path.write_text(path.read_text()[:-40])
    assert not store.has_dataset(data)  # a sweep writes it anew
    with pytest.raises(DatasetError, match=r"hopper-medium-0-1000000\.json: damaged"):
        store.datasets()


def test_datasets_do_not_share_a_description(tmp_path: Path) -> None:
    """Neither two files of one name, nor what a file held before and what it holds now."""
    store = Store(tmp_path / "store", create=True)
    specs = [DataSpec(path, None, None, "X-v0", content) for path, content in (("a/cp.npz", "1"), ("b/cp.npz", "2"))]
    for spec in [*specs, replace(specs[0], content="3"), replace(specs[0], holdout=0.2)]:
        assert not store.has_dataset(spec)
        store.write_dataset(spec, {"content": spec.content})
    assert len(list((store.path / "datasets").iterdir())) == 4


def test_the_table_tells_settings_apart(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    file = DataSpec("logs.npz", None, None, "X-v0", "abc")
    add_runs(store, file, "RW", [0.5], config={"expectile": 0.9})
    add_runs(store, "hopper-medium", "Uniform", [0.5], config={"expectile": 0.7}, episodes=7)
    table = store.table()
    rows = {
        row["dataset"]: row
        for row in (dict(zip(table, each, strict=True)) for each in zip(*table.values(), strict=True))
    }
    assert rows["logs.npz"]["algorithm_settings"] == '{"expectile": 0.9}'
    assert rows["logs.npz"]["data_sha256"] is None  # as in old records
    assert rows["logs.npz"]["weighting_settings"] == '{"temperature": 0.1}'
    assert (rows["logs.npz"]["dataset_content"], rows["logs.npz"]["dataset_steps"]) == ("abc", None)
    other = rows["hopper-medium"]
    assert (other["dataset_content"], other["dataset_steps"], other["dataset_seed"]) == (None, 1_000_000, 0)
    assert (other["env_id"], other["episodes"], other["algorithm_settings"]) == ("Hopper-v5", 7, '{"expectile": 0.7}')


def test_many_make_one_store(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def make(path: Path, together: threading.Barrier) -> None:
        together.wait()
        try:
            Store(path, create=True)
        except Exception as error:
            errors.append(error)

    for attempt in range(20):
        together = threading.Barrier(4)
        threads = [threading.Thread(target=make, args=(tmp_path / f"s{attempt}", together)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []


def test_what_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "store" / ".store.json.abc").mkdir(parents=True)
    assert Store.find(tmp_path / "store") is None
    assert list(Store(tmp_path / "store", create=True).runs()) == []
    assert Store.find(tmp_path / "store") is not None


def test_a_store_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for open_it in (Store.find, lambda path: Store(path, create=True)):
        with pytest.raises(DatasetError, match="file: expected a folder for results, found a file"):
            open_it(tmp_path / "file")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(DatasetError, match="expected a store or an empty folder"):
        Store.find(tmp_path / "notes")
    store = Store(tmp_path / "store", create=True)
    (store.path / "store.json").write_text("[1]")
    with pytest.raises(DatasetError, match=r"store\.json: damaged"):
        Store(store.path)


RESULTS = Path(__file__).parents[3] / "reproduction" / "results"


COUNTS = dict.fromkeys(("hopper_mixed_float32", "hopper_mixed_bfloat16"), 430)  # nothing comes to these
COUNTS |= {"hopper_fused": 215, "hopper_settings": 720, **{f"demo_seed{seed}": 25 for seed in (0, 1, 2, "0_sse4")}}
STORES = [
    path for path in sorted(RESULTS.glob("*.jsonl")) if "selection_study" not in path.stem
]  # that has rows, not runs


@pytest.mark.parametrize("path", STORES, ids=lambda path: path.stem)
def test_names_of_stored_runs_stay(path: Path) -> None:
    """Results are kept under them: another name would make every run of a study be done again."""
    records = list(open_store(path).runs())
    assert len(records) == COUNTS.get(path.stem, len(records)) and records
    assert [run_spec_from_dict(record["spec"]).run_id for record in records] == [r["run_id"] for r in records]


@pytest.mark.parametrize("suite", ["mixed", "regular", "stochastic", "temperature", "percentage"])
def test_stored_runs_are_those_of_the_shipped_suites(suite: str) -> None:
    """Of every algorithm, precision and number of updates that is stored: all runs in a task, or none.

    Only a sampler's number of seeds may be its own: of other settings there may be fewer than of the usual ones.
    """
    path = RESULTS / f"{suite}.jsonl"
    stored: dict[tuple[str, str, int], list[Any]] = {}
    for record in open_store(path).runs() if path.exists() else ():
        spec = record["spec"]
        stored.setdefault((spec["algorithm"], spec["precision"], spec["updates"]), []).append(spec)
        assert record["run_id"] == run_spec_from_dict(spec).run_id
    assert stored or suite != "mixed"
    for (algorithm, precision, updates), specs in stored.items():
        seeds: dict[str, int] = {}
        for spec in specs:
            seeds[str(spec["weighting"])] = max(spec["seed"] + 1, seeds.get(str(spec["weighting"]), 0))
        changes = {"updates": updates, "precision": precision, "seeds": max(seeds.values())}
        tasks = {spec["data"]["name"].split("-")[0] for spec in specs}
        study = read_experiment(f"paper/{suite}", algorithms=[algorithm], changes=changes).runs
        mine = [run for run in study if run.data.name.split("-")[0] in tasks]
        wanted = {run.run_id for run in mine if run.seed < seeds[str(dict(run.weighting))]}
        assert wanted == {run_spec_from_dict(spec).run_id for spec in specs}


def test_replaced_data_make_other_runs() -> None:
    """What was stored on the first edition of the medium data is not taken for results on the second."""
    stored = {record["run_id"]: record for record in open_store(RESULTS / "hopper_mixed_float32.jsonl").runs()}
    study = read_experiment("paper/mixed", only="hopper-*", algorithms=["bc", "td3_bc"], changes={"updates": 250_000})
    medium = {run_id for run_id, record in stored.items() if "medium" in record["spec"]["data"]["name"]}
    assert len(medium) == 210 and {run.run_id for run in study.runs} & stored.keys() == stored.keys() - medium
    assert {run.data.edition for run in study.runs if run.run_id not in stored} == {2}
