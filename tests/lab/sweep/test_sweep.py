"""Sweeps: every run once, whatever happens."""

import itertools
import json
import logging
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import upweight as uw
from support.datasets import cartpole_log
from support.results import write_finished
from upweight.base.errors import DatasetError, MissingExtraError
from upweight.cli.main import main
from upweight.data.fingerprint import content_hash, fingerprint
from upweight.data.holdout import held_out_episodes
from upweight.lab.play.evaluate import Evaluator
from upweight.lab.report.results import collect
from upweight.lab.study.experiment_file import Experiment, read_experiment
from upweight.lab.study.readers import open_store
from upweight.lab.study.store import Store
from upweight.lab.sweep import executor as executor_module
from upweight.lab.sweep.evaluation import Trained, evaluate_and_store
from upweight.lab.sweep.executor import LocalExecutor, Outcome
from upweight.lab.sweep.packing import pack
from upweight.lab.sweep.run_data import load_data
from upweight.lab.sweep.sweep import plan_sweep, sweep
from upweight.lab.sweep.work import Work, Workplace
from upweight.lab.train import length as length_module, points as points_module
from upweight.lab.train.folder import TrainingFolder
from upweight.lab.train.train import TrainingPaused

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
def test_mazes_train_together_and_are_played_apart(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same ant walks in all of them."""
    monkeypatch.setenv("UPWEIGHT_CACHE", str(cache))
    names = ["antmaze-umaze", "antmaze-medium-expert-random-50"]
    algorithm = '{name = "bc", hidden_units = [8], batch_size = 16}'
    text = STUDY.format(updates=40).replace("seeds = 2", "seeds = 1").replace("episodes = 2", "episodes = 1")
    lines = [line for line in text.splitlines() if not line.startswith(("datasets", "algorithms", "weightings"))]
    lines += [f"datasets = {names}", f"algorithms = [{algorithm}]", 'weightings = ["uniform"]']
    (tmp_path / "mazes.toml").write_text("\n".join(lines))
    study = read_experiment(tmp_path / "mazes.toml")
    assert [len(population.runs) for population in pack(study.runs)] == [2]
    sweep(study, tmp_path / "store")
    store = Store(tmp_path / "store")
    for run in study.runs:
        whole = uw.load(run.data.name, steps=500)
        record = store.run(run.run_id)
        assert record["data_sha256"] == whole.metadata["content_sha256"]
        played = uw.evaluate(store.policy_path(run.run_id), whole.metadata["env_id"], 1)
        assert (record["returns"], record["lengths"]) == (played.returns.tolist(), played.lengths.tolist())
    lengths = {run.data.name: store.run(run.run_id)["lengths"] for run in study.runs}
    assert lengths == {names[0]: [700], names[1]: [1000]}  # a policy that has hardly learned stays until the end


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
    # Runs say which data they saw.
    seen = {run.run_id: whole.metadata["content_sha256"] for run in study.runs if "expert" in run.data.name}
    assert seen.items() <= dict(zip(frame["run_id"], frame["data_sha256"], strict=True)).items()
    assert frame["data_sha256"].nunique() == 2
    assert named["cartpole-expert-random-50"]["data_sha256"] == whole.metadata["content_sha256"]
    # A stored policy reaches the stored returns, and is the one that training on the dataset alone gives.
    run = next(
        run for run in study.runs if run.weighting["name"] == "rw" and "expert" in run.data.name and run.seed == 1
    )
    policy = uw.load_policy(store.policy_path(run.run_id))
    played = uw.evaluate(policy, run.data.env_id, 2, seed=1)
    np.testing.assert_allclose(played.returns, contents(tmp_path / "store")[run.run_id])
    config = uw.algorithm_config("discrete_bc", hidden_units=(8,), batch_size=16)
    alone = uw.train(whole, [uw.Run(config, uw.ReturnWeighting(0.1), 1)], num_updates=40)[0].policy
    np.testing.assert_allclose(alone.layers[0][0], policy.layers[0][0], rtol=1e-4, atol=1e-4)
    # Nothing is left to do, and nothing is done.
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store" / "runs").iterdir()}
    assert sweep(study, tmp_path / "store").finished == 8
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "store" / "runs").iterdir()} == before


@pytest.mark.slow
def test_the_actor_draws_by_weights_of_its_own(tmp_path: Path) -> None:
    """As in a training of the same runs."""
    (tmp_path / "study.toml").write_text(
        """\
updates = 20
episodes = 2
dataset_steps = 500
datasets = ["cartpole-expert-random-50"]
algorithms = [{name = "discrete_iql", hidden_units = [8], batch_size = 16}]
weightings = [{name = "uniform", actor_weighting = "rw"}, {name = "rw", actor_weighting = "uniform"}]
"""
    )
    study = read_experiment(tmp_path / "study.toml")
    assert [each.title for each in plan_sweep(study).populations] == ["discrete_iql on cartpole, actors drawing apart"]
    assert sweep(study, tmp_path / "store").finished == 2
    config = uw.algorithm_config("discrete_iql", hidden_units=(8,), batch_size=16)
    runs = [uw.Run(config, own, actor_weighting=actor) for own, actor in (("uniform", "rw"), ("rw", "uniform"))]
    results = uw.train(uw.load("cartpole-expert-random-50", steps=500), runs, num_updates=20)
    for run, result in zip(study.runs, results, strict=True):
        stored = uw.load_policy(Store(tmp_path / "store").policy_path(run.run_id))
        np.testing.assert_allclose(result.policy.layers[0][0], stored.layers[0][0], rtol=1e-4, atol=1e-4)
    shown = {run.weighting.name for run in collect(open_store(tmp_path / "store")).shown}
    assert shown == {"Uniform, actor RW", "RW, actor Uniform"}


@pytest.mark.slow
def test_episodes_are_held_out(study: Experiment, tmp_path: Path) -> None:
    """In one program with runs that learn from all; the record says which episodes of what."""
    changes = {"holdout": 0.25, "seeds": 1}
    part = read_experiment(tmp_path / "study.toml", only="*-50", changes=changes)
    runs = (*part.runs, *(run for run in study.runs if run.data.name.endswith("-50") and run.seed == 0))
    assert len(pack(runs)) == 1
    sweep(replace(study, runs=runs), tmp_path / "store")
    store = Store(tmp_path / "store")
    dataset = uw.make_dataset("cartpole-expert-random-50", steps=500)
    held = held_out_episodes(dataset, 0.25)
    for run in runs:
        record = store.run(run.run_id)
        kept = {"episodes": held.tolist(), "fingerprint": fingerprint(dataset)}
        assert record.get("holdout") == (None if run.data.holdout is None else kept)
        assert record["data_sha256"] == content_hash(dataset)
    learned = {record["holdout"]: record["episodes"] for record in store.datasets()}
    assert learned == {None: dataset.num_episodes, 0.25: dataset.num_episodes - len(held)}
    assert set(store.table()["dataset_holdout"]) == {None, 0.25}
    seen = load_data(pack(part.runs)[0])
    chosen = seen.episodes_of(part.runs[0].data)
    assert chosen is not None
    np.testing.assert_array_equal(
        seen.dataset.subset(chosen).returns, dataset.returns[np.setdiff1d(np.arange(dataset.num_episodes), held)]
    )
    names = {run.dataset.name for run in uw.collect(store).runs}
    assert names == {f"cartpole-expert-random-50 (500 steps, seed 0{more})" for more in ("", ", 0.25 held out")}


@pytest.mark.slow
def test_updates_may_be_left_to_the_data(study: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run learns from and is judged by episodes of its own dataset; its record says what was kept."""
    monkeypatch.setattr(length_module, "POINTS", (10, 30))
    auto = read_experiment(tmp_path / "study.toml", changes={"updates": "auto", "seeds": 1})
    sweep(auto, tmp_path / "store")
    store = Store(tmp_path / "store")
    (length,) = {run.updates for run in auto.runs}
    assert length == 100_000
    for run in auto.runs:
        kept, policy = store.run(run.run_id)["kept"], uw.load_policy(store.policy_path(run.run_id))
        assert kept["updates"] == policy.metadata["num_updates"] in [point["updates"] for point in kept["points"]]
    assert all(run.method.endswith("batch_size=16 hidden_units=[8], updates auto") for run in collect(store).runs)
    assert set(store.table()["updates_auto"]) == {True}


@pytest.mark.slow
def test_slices_add_up(study: Experiment, tmp_path: Path) -> None:
    study = read_experiment(study_file(tmp_path, updates=300))
    whole = sweep(study, tmp_path / "whole", max_agents=4)
    paused = 0
    while (result := sweep(study, tmp_path / "sliced", max_minutes=0, max_agents=4)).remaining:
        paused += 1
        assert result.paused and paused < 200
    assert whole.finished == result.finished == 8 and paused > 2
    assert contents(tmp_path / "whole") == contents(tmp_path / "sliced")


@pytest.mark.slow
def test_points_on_the_way_are_added_to_the_same_runs(study: Experiment, tmp_path: Path) -> None:
    """Under the same names, with the same returns; also in slices."""
    path = study_file(tmp_path, updates=300)
    plain, watched = read_experiment(path), read_experiment(path, changes={"evaluate_every": 100})
    sweep(plain, tmp_path / "plain", max_agents=4)
    assert "4 agents x 300 updates, evaluated 3 times" in str(plan_sweep(watched, tmp_path / "whole", max_agents=4))
    beyond = read_experiment(path, changes={"evaluate_every": [300, 400]})
    assert "300 updates, evaluated 1 time, at the end" in str(plan_sweep(beyond, tmp_path / "whole"))
    sweep(watched, tmp_path / "whole", max_agents=4)
    while sweep(watched, tmp_path / "sliced", max_minutes=0, max_agents=4).remaining:
        pass
    without, whole, sliced = (Store(tmp_path / name) for name in ("plain", "whole", "sliced"))
    assert contents(without.path) == contents(whole.path) == contents(sliced.path)
    for run in plain.runs:
        record = whole.run(run.run_id)
        assert [point["updates"] for point in record["points"]] == [100, 200]
        assert record["points"] == sliced.run(run.run_id)["points"] and "points" not in without.run(run.run_id)
        best = max(record["points"], key=lambda point: point["mean_return"])
        assert whole.best_policy_path(run.run_id).exists() == (best["mean_return"] > record["mean_return"])
        if best["mean_return"] > record["mean_return"]:
            played = uw.evaluate(uw.load_policy(whole.best_policy_path(run.run_id)), run.data.env_id, 2, run.seed)
            assert played.summary()["returns"] == best["returns"]
    # Points are no reason to do a finished run again, and that is said.
    plan = plan_sweep(watched, without.path)
    assert plan.to_do == 0 and "8 finished runs stay without points on the way" in str(plan)
    assert plan_sweep(plain, whole.path).to_do == plan_sweep(watched, whole.path).without_points == 0


@pytest.mark.slow
def test_waiting_for_simulators_is_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they play beside it, here until long after its end."""
    trained, passed = threading.Event(), [0.0]
    played, finish = Evaluator.play, TrainingFolder.finish_program

    def play(*arguments: Any) -> Any:
        if not trained.is_set():
            assert trained.wait(60)
            passed[0] += 3600
        return played(*arguments)

    def finish_program(*arguments: Any) -> None:
        finish(*arguments)
        trained.set()

    monkeypatch.setattr(points_module, "_is_beside", lambda _: True)
    monkeypatch.setattr(Evaluator, "play", play)
    monkeypatch.setattr(TrainingFolder, "finish_program", finish_program)
    clock = time.perf_counter
    monkeypatch.setattr(executor_module.time, "perf_counter", lambda: clock() + passed[0])
    study = read_experiment(study_file(tmp_path, updates=300), changes={"evaluate_every": [200]})
    sweep(study, tmp_path / "store")
    assert passed == [3600] and all(0 < run["train_seconds"] < 3600 for run in Store(tmp_path / "store").runs())


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
    assert next(steps).population == populations[0]  # the second time nothing is left to do
    steps.close()
    assert {run.run_id for run in populations[0].runs} == contents(tmp_path / "cut").keys()


@pytest.mark.slow
def test_a_failed_evaluation_is_told_also_when_time_is_up(
    study: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happens beside a training that meets the deadline."""
    calls = itertools.count()

    def train_once(*arguments: Any, **options: Any) -> Any:
        if next(calls):
            raise TrainingPaused("time is up")
        return uw.train(*arguments, **options)

    def fail(*_: Any, **__: Any) -> None:
        raise uw.RolloutError("the simulator broke")

    monkeypatch.setattr("upweight.lab.sweep.executor.train", train_once)
    monkeypatch.setattr("upweight.lab.sweep.executor.evaluate_and_store", fail)
    result = sweep(study, tmp_path / "store", max_agents=4, executor=LocalExecutor(overlap=True))
    assert result.paused and result.remaining == 8
    assert [failure.split(": ")[1] for failure in result.failures] == ["the simulator broke"]


class Beside:
    """Two populations with a training and an evaluation that do nothing but what a test wants."""

    def __init__(self, study: Experiment, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.populations, self.store = pack(study.runs, max_agents=4), Store(path, create=True)
        self.second: BaseException | None = None  # what the second training raises
        self.evaluation: Callable[[], None] = lambda: None
        monkeypatch.setattr("upweight.lab.sweep.executor._Trainer._train", self._train)
        monkeypatch.setattr("upweight.lab.sweep.executor.evaluate_and_store", lambda *_, **__: self.evaluation())

    def _train(self, workplace: Workplace) -> list[Trained]:
        if workplace.population == self.populations[1] and self.second is not None:
            raise self.second
        return []

    def run(self) -> Iterator[Outcome]:
        return LocalExecutor(overlap=True).execute(self.populations, self.store, deadline=math.inf)

    def is_free(self, place: int) -> bool:
        workplace = Work(self.store).take(self.populations[place])
        if workplace is not None:
            workplace.release()
        return workplace is not None


@pytest.fixture
def beside(study: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Beside:
    return Beside(study, tmp_path / "store", monkeypatch)


def test_what_is_beside_ends_before_a_sweep_stops(beside: Beside) -> None:
    done = threading.Event()
    beside.second, beside.evaluation = OSError(28, "No space left on device"), lambda: time.sleep(0.1) or done.set()
    steps = beside.run()
    assert next(steps) == Outcome(beside.populations[0]) and done.is_set()
    with pytest.raises(OSError, match="No space left"):
        next(steps)
    assert beside.is_free(1)


def test_an_interrupt_is_not_kept_waiting(beside: Beside) -> None:
    """And what is evaluated then stays ours until that has ended."""
    go_on = threading.Event()
    beside.second, beside.evaluation = KeyboardInterrupt(), lambda: go_on.wait(60) and None
    with pytest.raises(KeyboardInterrupt):
        list(beside.run())
    assert not beside.is_free(0) and beside.is_free(1)
    go_on.set()
    while not beside.is_free(0):
        time.sleep(0.01)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MissingExtraError("it", "mujoco", "mujoco")])
def test_an_evaluation_that_cannot_be_stored_stops_a_sweep(beside: Beside, error: Exception) -> None:
    beside.evaluation = raising(error)
    with pytest.raises(type(error)):
        list(beside.run())
    assert beside.is_free(0) and beside.is_free(1)  # to go on with when there is room


def test_an_evaluation_that_fails_stops_nothing(beside: Beside) -> None:
    beside.evaluation = raising(uw.RolloutError("the simulator broke"))
    assert [outcome.failure for outcome in beside.run()] == ["the simulator broke"] * 2
    beside.second = DatasetError("no such data")
    beside.evaluation = lambda: None
    assert [outcome.failure for outcome in beside.run()] == [None, "no such data"]
    assert list((beside.store.path / "work").iterdir()) == []  # nothing was begun that could be lost


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "begin"),
    [(signal.SIGINT, []), (signal.SIGTERM, []), (signal.SIGTERM, ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"])],
    ids=["Ctrl-C", "a scheduler's end", "the end of a background job"],
)
def test_an_interrupt_is_no_crash(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, sent: signal.Signals, begin: list[str]
) -> None:
    """While the second population trains, after workers simulated for the first: the device may be in the middle of something.

    What a script starts with ``&`` ignores Ctrl-C from the beginning.
    """
    monkeypatch.setenv("UPWEIGHT_CACHE", str(cache))
    store = tmp_path / "store"
    command = [sys.executable, "-m", "upweight", "sweep", str(study_file(tmp_path, updates=8_000)), "-o", str(store)]
    process = subprocess.Popen([*begin, *command, "--max-agents", "4"], stderr=subprocess.PIPE, text=True)
    while not (list(store.glob("runs/*.json")) and under_way(store)):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(sent)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.rstrip().endswith(
        "interrupted; finished runs are stored, and the same command goes on from the last checkpoint"
    )
    assert sweep(read_experiment(tmp_path / "study.toml"), store).remaining == 0


def under_way(store: Path) -> list[Path]:
    """Folders of trainings that have made updates, and not all of them."""
    begun = [log.parent for log in store.glob("work/*/metrics.jsonl")]
    return [folder for folder in begun if not (folder / "policies").exists()]


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
    real, written = Store.write_run, itertools.count()

    def failing(self: Store, run_id: str, record: dict[str, object]) -> None:
        if next(written) >= 3:
            raise OSError(28, "No space left on device")
        real(self, run_id, record)

    monkeypatch.setattr(Store, "write_run", failing)
    with pytest.raises(OSError, match="No space left"):
        sweep(study, tmp_path / "store")
    monkeypatch.setattr(Store, "write_run", real)
    first = contents(tmp_path / "store")
    assert len(first) == 3
    trained = []
    monkeypatch.setattr("upweight.lab.train.population.Program.advance", lambda *_: trained.append(1))
    assert sweep(study, tmp_path / "store").finished == 8  # from the checkpoint: not one update is repeated
    assert not trained
    assert {run_id: contents(tmp_path / "store")[run_id] for run_id in first} == first


@pytest.mark.slow
def test_two_sweeps_share_a_store(study: Experiment, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", create=True)
    (population,) = pack(study.runs)
    mine = Work(store).take(population)
    assert mine is not None and mine.population == population
    result = sweep(study, tmp_path / "store")  # somebody else is at it
    assert (result.finished, result.remaining) == (0, 8)
    mine.release()
    shutil.rmtree(mine.folder)  # else it would be gone on with
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
    told = json.loads(capsys.readouterr().out)
    assert told == {"finished": 4, "remaining": 0, "paused": False, "diverged": 0, "paused_at": "", "failures": []}


def test_other_values_from_the_command_line(
    study: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["sweep", str(tmp_path / "study.toml"), "--plan"]
    assert main([*arguments, "--set", "seeds=[0, 3, 5]", "--set", "updates=1_000", "--set", "precision=bfloat16"]) == 0
    shown = capsys.readouterr().out
    assert "12 runs" in shown and "x 1,000 updates" in shown
    for wrong, message in {
        "seed=3": "seed: unknown key; did you mean 'seeds'",
        "precision=half": "precision: expected one of float32",
        "updates": "expected KEY=VALUE, e.g. updates=250_000, found 'updates'",
        "updates=many": "updates: expected a whole number from 1 to 2,147,483,647, found 'many'",
    }.items():
        assert main([*arguments, "--set", wrong]) != 0
        assert message in capsys.readouterr().err


def test_a_table_is_warned_of_once(tmp_path: Path) -> None:
    """By the reader of the experiment; it is loaded again to train, maybe much later, and must be the same."""
    log = cartpole_log()
    columns = {f"observation_{place}": log.observations[:, place] for place in range(4)}
    rows = {**columns, "action": log.actions, "reward": log.rewards, "stay": np.repeat(np.arange(10), 4)}
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "study.toml").write_text(
        'updates = 5\nepisodes = 1\nenv = "CartPole-v1"\ndatasets = [{path = "log.csv", episode = "stay"}]\n'
        'algorithms = ["discrete_bc"]'
    )
    with pytest.warns(uw.UpweightWarning, match="nothing says how 10 episodes ended") as caught:
        study = read_experiment(tmp_path / "study.toml")
    assert len(caught) == 1
    (population,) = pack(study.runs)
    assert load_data(population).dataset.num_episodes == 10  # and no warning, which would be an error here


@pytest.mark.slow
def test_what_fails_does_not_stop_the_others(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that changes after its runs got their names must not be stored under them."""
    monkeypatch.setenv("UPWEIGHT_CACHE", str(cache))
    path, store = tmp_path / "study.toml", tmp_path / "store"
    path.write_text(
        'updates = 5\nepisodes = 1\nenv = "CartPole-v1"\ndatasets = ["a.npz", "b.npz"]\n'
        'algorithms = [{name = "discrete_bc", hidden_units = [8], batch_size = 16}]'
    )
    for seed, name in enumerate("ab"):
        uw.save(cartpole_log(seed), tmp_path / f"{name}.npz")
    study = read_experiment(path)
    uw.save(cartpole_log(7), tmp_path / "a.npz")
    result = sweep(study, store)
    assert (result.finished, result.remaining, result.paused) == (1, 1, False)
    (failure,) = result.failures
    assert failure.startswith("discrete_bc on a.npz: ") and "a.npz: changed since the experiment was read" in failure
    assert contents(store).keys() == {study.runs[1].run_id} and list((store / "work").iterdir()) == []
    assert [record["content"] for record in Store(store).datasets()] == [study.runs[1].data.content]
    # On the command line: the failure is told, and the exit code says it too.
    monkeypatch.setattr("upweight.lab.sweep.executor.load_data", raising(DatasetError("no such luck")))
    assert main(["sweep", str(path), "-o", str(store)]) == 2
    shown = capsys.readouterr()
    assert "1 of 2 runs finished\ntrainings that failed: 1" in shown.out
    assert "discrete_bc on a.npz: no such luck" in shown.err
    monkeypatch.undo()
    monkeypatch.setenv("UPWEIGHT_CACHE", str(cache))
    assert main(["sweep", str(path), "-o", str(store)]) == 0
    assert f"all 2 runs are in {store}" in capsys.readouterr().out


def test_a_training_on_a_file_that_moved_goes_on(tmp_path: Path) -> None:
    """With the options that the study has for it now."""
    text = 'updates = 5\nenv = "CartPole-v1"\nalgorithms = ["discrete_bc"]\ndatasets = [{path = "a.npz", horizon = 9}]'
    (tmp_path / "study.toml").write_text(text)
    uw.save(cartpole_log(), tmp_path / "a.npz")
    store = Store(tmp_path / "store", create=True)
    workplace = Work(store).take(pack(read_experiment(tmp_path / "study.toml").runs)[0])
    assert workplace is not None
    workplace.release()
    (tmp_path / "a.npz").rename(tmp_path / "b.npz")
    (tmp_path / "study.toml").write_text(text.replace("a.npz", "b.npz").replace("9", "7"))
    study = read_experiment(tmp_path / "study.toml")
    (population,) = plan_sweep(study, store).populations
    assert population.population_id == workplace.population.population_id
    (data,) = population.data
    assert (data.name, data.options) == (str(tmp_path / "b.npz"), {"horizon": 7})


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_full_disk_and_a_missing_package_stop_a_sweep(
    study: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (OSError(28, "No space left on device"), MissingExtraError("it", "mujoco", "mujoco")):
        monkeypatch.setattr("upweight.lab.sweep.executor.load_data", raising(error))
        with pytest.raises(type(error)):
            sweep(study, tmp_path / "store")


@pytest.mark.slow
def test_runs_that_were_done_meanwhile_are_not_repeated(study: Experiment, tmp_path: Path) -> None:
    """By another study, in other packings, after this one was planned."""
    plan = plan_sweep(study, tmp_path / "store")
    sweep(Experiment("part", "", study.runs[2:5]), tmp_path / "store", max_agents=2)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "store" / "runs").iterdir()}
    assert len(before) == 3
    store = Store(tmp_path / "store", create=True)
    (outcome,) = LocalExecutor().execute(plan.populations, store, deadline=math.inf)
    assert outcome.population.runs == (*study.runs[:2], *study.runs[5:]) and outcome.failure is None
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert all(run.run_id in store for run in study.runs)


@pytest.mark.slow
def test_a_slice_goes_on_where_the_last_one_was(
    study: Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Although the next slice has less to do, and so less data to load; and if it cannot, it begins anew."""
    path, store = study_file(tmp_path, updates=300), tmp_path / "store"
    study = read_experiment(path)
    calls = itertools.count()

    def late_the_second_time(*given: Any, **options: Any) -> Any:
        return uw.train(*given, **{**options, "deadline": -math.inf if next(calls) else math.inf})

    monkeypatch.setattr("upweight.lab.sweep.executor.train", late_the_second_time)
    assert main(["sweep", str(path), "-o", str(store), "--max-agents", "4"]) == 0  # one dataset each
    shown = capsys.readouterr().out
    assert "4 of 8 runs finished" in shown and "paused at 100 of 300 updates of discrete_bc x 4" in shown
    assert "start the same command again to go on" in shown
    plan = plan_sweep(study, store, max_agents=4)
    assert "4 agents x 300 updates, goes on with a training that is 33% done" in str(plan)
    narrow = plan_sweep(Experiment("one", "", study.runs[-1:]), store)
    assert "one: 1 run, 0 finished, 1 to do" in str(narrow)
    assert "(3 of its runs are not of this study: a training is one piece)" in str(narrow)
    plan_sweep(study, tmp_path / "nowhere", max_agents=4)
    assert not (tmp_path / "nowhere").exists()  # a plan makes nothing
    assert sweep(study, store, max_agents=4).paused_at.endswith("paused at 200 of 300 updates of discrete_bc x 4")
    # A damaged checkpoint is no reason to stop for ever.
    (checkpoint,) = (store / "work").glob("*/program-000.safetensors")
    checkpoint.write_bytes(checkpoint.read_bytes()[:100])
    monkeypatch.undo()
    assert not caplog.records
    with caplog.at_level(logging.WARNING, "upweight"):
        assert sweep(study, store, max_agents=4).finished == 8
    assert f"{checkpoint.parent}: {checkpoint}: not a safetensors file" in caplog.text
    assert "the training starts again" in caplog.text


def test_progress_is_kept_whatever_else_is_wrong(
    study: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a checkpoint that is damaged is a reason to begin anew."""
    store = Store(tmp_path / "store", create=True)
    workplace = Work(store).take(pack(study.runs)[0])
    assert workplace is not None
    workplace.release()
    (workplace.folder / "plan.json").write_text('{"num_updates": 40, "runs": [{}, {}, {}, {}, {}, {}, {}, {}]}')
    log = workplace.folder / "metrics.jsonl"
    log.write_text('{"run": 0, "updates": 10}')

    def fails(*_: object, **__: object) -> None:
        raise DatasetError("the observations cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr("upweight.lab.sweep.executor.train", fails)
        (failure,) = sweep(study, store.path).failures
    assert "cannot be read" in failure and log.exists()


def test_what_is_told_of_runs_that_diverged_or_are_damaged(
    study: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "store", create=True)
    for place, run in enumerate(study.runs):
        write_finished(store, run, status="diverged" if place < 3 else "finished")
    arguments = ["sweep", str(tmp_path / "study.toml"), "-o", str(store.path)]
    assert main(arguments) == 0
    assert "all 8 runs are in" in (shown := capsys.readouterr().out) and "3 of the finished runs diverged" in shown
    for place, cut in enumerate(("", '{"run_id": ')):
        (store.path / "runs" / f"{study.runs[place].run_id}.json").write_text(cut)
    assert main([*arguments, "--plan"]) == 0
    shown = capsys.readouterr().out
    assert "8 runs, 6 finished, 2 to do" in shown and "the files of 2 runs are damaged" in shown
    assert main([*arguments, "--plan", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"runs": 8, "finished": 6, "to_do": 2, "trainings": 1}


def test_a_policy_is_written_before_its_record(tmp_path: Path, study: Experiment) -> None:
    """So that a record in the store always has one; and where MuJoCo is absent, its version is not known."""
    store, order = Store(tmp_path / "store", create=True), []

    class Policy:
        def __init__(self, run_id: str) -> None:
            self.run_id = run_id

        def save(self, path: Path) -> None:
            time.sleep(0.01)
            assert path == store.policy_path(self.run_id) and self.run_id not in store
            order.append(self.run_id)

    write_finished(store, study.runs[0])
    about = {"status": "finished", "diverged_at": None, "points": [], "best": None, "kernels": "fused", "kept": None}
    results = [SimpleNamespace(policy=Policy(run.run_id), **about) for run in study.runs]
    trained = [Trained(run, result, 1.0, "abc", "cpu", 8) for run, result in zip(study.runs, results, strict=True)]  # type: ignore[arg-type]
    played = uw.Evaluation("X-v0", np.ones(1), np.ones(1, np.int64), np.ones(1, bool))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("upweight.lab.play.evaluate.evaluate", lambda policies, *_, **__: [played] * len(policies))
        patch.setattr("importlib.metadata.distribution", without_mujoco)
        evaluate_and_store(trained, store, workers=1, keep_policies=True)
    assert sorted(order) == sorted(run.run_id for run in study.runs[1:])  # the first one was done
    assert all(run.run_id in store for run in study.runs)
    record = store.run(study.runs[1].run_id)
    assert (record["agents"], record["device"], record["kernels"]) == (8, "cpu", "fused")
    versions = record["versions"]
    assert versions["mujoco"] is None and versions["numpy"] == np.__version__


def without_mujoco(name: str) -> Distribution:
    if name == "mujoco":
        raise PackageNotFoundError(name)
    return Distribution.from_name(name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-agents", "0"], "(--max-agents): expected a whole number of at least 1, found 0"),
        (["--max-agents", "-1"], "(--max-agents): expected a whole number of at least 1, found -1"),
        (["--max-minutes", "nan"], "(--max-minutes): expected a number of at least 0, found nan"),
        (["--max-minutes", "-1"], "(--max-minutes): expected a number of at least 0, found -1"),
        (["--workers", "0"], "(--workers): expected a whole number of at least 1, found 0"),
        (["--workers", "0", "--plan"], "(--workers): expected a whole number of at least 1, found 0"),
    ],
)
def test_bad_numbers(
    study: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["sweep", str(tmp_path / "study.toml"), "-o", str(tmp_path / "store"), *options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


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
    with pytest.raises(uw.ConfigError, match="a deadline need an output folder"):
        uw.train(dataset, runs, num_updates=3, deadline=0.0)
