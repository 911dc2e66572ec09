"""Sweeps: every run once, whatever happens."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import upweight as uw
from support.results import make_study
from upweight.cli.main import main
from upweight.engine.train import TrainingPaused
from upweight.errors import DatasetError
from upweight.experiments.executor import LocalExecutor
from upweight.experiments.experiment_file import Experiment, read_experiment
from upweight.experiments.packing import pack
from upweight.experiments.store import Store, open_store
from upweight.experiments.sweep import plan_sweep, sweep

STUDY = """\
updates = {updates}
seeds = 2
episodes = 2
dataset_steps = 500
datasets = ["cartpole-expert-random-50", "cartpole-random"]
algorithms = [{{name = "discrete_bc", hidden_units = [8], batch_size = 16}}]
weightings = ["uniform", {{name = "rw", temperature = 0.1}}]
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def study(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setenv("UPWEIGHT_CACHE", str(cache))
    return read_experiment(study_file(tmp_path))


def study_file(folder: Path, updates: int = 40) -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY.format(updates=updates))
    return path


def contents(store: Path) -> dict[str, list[float]]:
    return {record["run_id"]: record["returns"] for record in Store(store).runs()}


@pytest.mark.slow
def test_every_run_once(study: Experiment, tmp_path: Path) -> None:
    plan = plan_sweep(study, tmp_path / "store")
    assert len(plan.populations) == 1  # both datasets are parts of one pool
    assert "8 runs, 0 finished, 8 to do" in str(plan) and "8 agents x 40 updates" in str(plan)
    result = sweep(study, tmp_path / "store")
    assert (result.finished, result.remaining, result.paused) == (8, 0, False)
    store = Store(tmp_path / "store")
    records = list(store.runs())
    assert {record["run_id"] for record in records} == {run.run_id for run in study.runs}
    assert all(record["status"] == "finished" and len(record["returns"]) == 2 for record in records)
    assert list((tmp_path / "store" / "work").iterdir()) == []
    frame = pd.DataFrame(store.table())
    assert len(frame) == 8 and set(frame["weighting"]) == {"uniform", "rw"}
    named = {record["name"]: record for record in store.datasets()}
    whole = uw.load("cartpole-expert-random-50", steps=500)
    assert named["cartpole-expert-random-50"]["episodes"] == whole.num_episodes
    assert sum(named["cartpole-expert-random-50"]["histogram"]["counts"]) == whole.num_episodes
    # A stored policy reaches the stored returns, and is the one that training on the dataset alone gives.
    run = next(
        run for run in study.runs if run.weighting["name"] == "rw" and "expert" in run.data.name and run.seed == 1
    )
    policy = uw.load_policy(store.policy_path(run.run_id))
    played = uw.evaluate(policy, run.data.env_id, 2, seed=1)
    np.testing.assert_allclose(played.returns, contents(tmp_path / "store")[run.run_id])
    config = uw.algorithm_config("discrete_bc", hidden_units=(8,), batch_size=16)
    alone = uw.train(whole, [uw.Run(config, uw.ReturnWeighting(0.1), 1)], num_updates=40)[0].policy
    np.testing.assert_allclose(alone.layers[0][0], policy.layers[0][0], rtol=1e-4, atol=1e-6)
    # Nothing is left to do, and nothing is done.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store" / "runs").iterdir()}
    assert sweep(study, tmp_path / "store").finished == 8
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store" / "runs").iterdir()} == before


@pytest.mark.slow
def test_slices_add_up(study: Experiment, tmp_path: Path) -> None:
    study = read_experiment(study_file(tmp_path, updates=300))
    whole = sweep(study, tmp_path / "whole")
    paused = 0
    while (result := sweep(study, tmp_path / "sliced", max_minutes=0, max_agents=4)).remaining:
        paused += 1
        assert result.paused and paused < 200
    assert whole.finished == result.finished == 8 and paused > 2
    theirs, ours = contents(tmp_path / "whole"), contents(tmp_path / "sliced")
    assert (
        theirs.keys() == ours.keys()
    )  # other packing: float32 may round differently, so the episodes may differ a little
    for run_id in ours:
        np.testing.assert_allclose(ours[run_id], theirs[run_id], atol=30)


@pytest.mark.slow
def test_evaluating_beside_the_next_training_changes_nothing(study: Experiment, tmp_path: Path) -> None:
    """Also if the training beside it runs out of time."""
    executor = LocalExecutor(overlap=True)
    whole = sweep(study, tmp_path / "whole", max_agents=3)
    assert sweep(study, tmp_path / "beside", max_agents=3, executor=executor).finished == whole.finished == 8
    assert contents(tmp_path / "beside") == contents(tmp_path / "whole")
    assert list((tmp_path / "beside" / "work").iterdir()) == []
    populations = pack(study.runs, max_agents=4)
    store = Store(tmp_path / "cut", create=True)
    deadline = time.monotonic() + 3600
    steps = executor.execute([populations[0], populations[0], populations[1]], store, deadline=deadline)
    assert next(steps) is populations[0]  # the second time nothing is left to do
    steps.close()
    assert {run.run_id for run in populations[0].runs} == contents(tmp_path / "cut").keys()


def test_the_time_of_slices_is_summed(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    note = store.begin_population("id", []) / "time.json"
    assert [store.add_time("id", seconds) for seconds in (2.5, 4.0)] == [2.5, 6.5]
    note.write_text("{")  # cut short
    assert store.add_time("id", 1.0) == 1.0


@pytest.mark.slow
def test_kill_and_go_on(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPWEIGHT_CACHE", str(cache))
    file, store = study_file(tmp_path, updates=30_000), tmp_path / "store"
    command = [sys.executable, "-m", "upweight", "sweep", str(file), "-o", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ})
    try:
        while not list((store / "work").glob("*/program-*.safetensors")):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not list(Store(store).runs())
    experiment = read_experiment(file)
    plan = plan_sweep(experiment, store, max_agents=3)  # what was begun is not packed anew
    assert [len(population.runs) for population in plan.populations] == [8]
    assert sweep(experiment, store, max_agents=3).finished == 8
    undisturbed = tmp_path / "undisturbed"
    assert sweep(experiment, undisturbed).finished == 8
    assert contents(store) == contents(undisturbed)


@pytest.mark.slow
def test_a_population_that_was_half_stored_is_completed(
    study: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = Store.write_run, []

    def failing(self: Store, run_id: str, record: dict[str, object]) -> None:
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        written.append(run_id)
        real(self, run_id, record)

    monkeypatch.setattr(Store, "write_run", failing)
    with pytest.raises(OSError, match="No space left"):
        sweep(study, tmp_path / "store")
    monkeypatch.setattr(Store, "write_run", real)
    first = contents(tmp_path / "store")
    assert len(first) == 3
    trained = []
    monkeypatch.setattr("upweight.engine.population.Program.advance", lambda *_: trained.append(1))
    assert sweep(study, tmp_path / "store").finished == 8  # from the checkpoint: not one update is repeated
    assert not trained
    assert {run_id: contents(tmp_path / "store")[run_id] for run_id in first} == first


@pytest.mark.slow
def test_two_sweeps_share_a_store(study: Experiment, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    (population,) = pack(study.runs)
    with store.lock(population.population_id) as mine:
        assert mine
        result = sweep(study, tmp_path / "store")  # somebody else is at it
    assert (result.finished, result.remaining) == (0, 8)
    part = Experiment("part", "", study.runs[:3])
    assert sweep(part, tmp_path / "store").finished == 3
    assert sweep(study, tmp_path / "store").finished == 8


@pytest.mark.slow
def test_from_the_command_line(study: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sweep", str(tmp_path / "study.toml"), "-o", str(tmp_path / "store"), "--only", "cartpole-random"]
    assert main([*arguments, "--plan"]) == 0
    assert "4 runs, 0 finished, 4 to do" in capsys.readouterr().out
    assert main(arguments) == 0
    assert "all 4 runs are in" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"finished": 4, "remaining": 0, "paused": False}


def test_other_values_from_the_command_line(
    study: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["sweep", str(tmp_path / "study.toml"), "-o", str(tmp_path / "store"), "--plan"]
    assert main([*arguments, "--set", "seeds=[0, 3, 5]", "--set", "updates=1_000", "--set", "precision=bfloat16"]) == 0
    shown = capsys.readouterr().out
    assert "12 runs" in shown and "x 1,000 updates" in shown
    for wrong, message in {
        "seed=3": "seed: unknown key; known: datasets",
        "precision=half": "precision: expected one of float32",
        "updates": "expected KEY=VALUE, e.g. updates=250_000, found 'updates'",
        "updates=many": "updates: expected int, found 'many'",
    }.items():
        assert main([*arguments, "--set", wrong]) != 0
        assert message in capsys.readouterr().err


def test_a_deadline_pauses_a_training(tmp_path: Path) -> None:
    dataset = uw.Dataset.from_arrays(
        observations=np.zeros((20, 2), np.float32),
        actions=np.zeros((20, 1), np.float32),
        rewards=np.arange(20.0),
        terminated=np.arange(20) % 5 == 4,
    )
    runs = [uw.Run(uw.algorithm_config("bc", hidden_units=(4,), batch_size=4))]
    with pytest.raises(TrainingPaused, match="paused at 100 of 300 updates"):
        uw.train(dataset, runs, num_updates=300, output=tmp_path / "run", deadline=time.monotonic() - 1)
    assert uw.train(dataset, runs, num_updates=300, output=tmp_path / "run", resume=True)[0].updates == 300
    with pytest.raises(uw.WeightingError, match="a deadline needs an output folder"):
        uw.train(dataset, runs, num_updates=3, deadline=0.0)


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
    (store.path / "work" / "cut").mkdir()
    assert store.populations() == [] and not (store.path / "work" / "cut").exists()
    (store.path / "store.json").write_text('{"format": 99}')
    with pytest.raises(DatasetError, match="expected a store of format 1, found 99"):
        Store(store.path)
    (store.path / "store.json").write_text("{")
    with pytest.raises(DatasetError, match="damaged"):
        Store(store.path)
