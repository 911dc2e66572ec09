"""Sweeps on a Ray cluster: the same store, whatever dies."""

import json
import math
import os
import pickle
import socket
import subprocess
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import cartpole_log
from upweight.base.errors import UpweightWarning
from upweight.cli.main import main
from upweight.lab.study.store import Store
from upweight.lab.sweep.packing import Population, pack
from upweight.lab.sweep.ray_executor import _Driver
from upweight.lab.sweep.ray_tasks import Failure, News, Order, changed_files, load_once, train, write_files
from upweight.lab.sweep.run_data import RunData
from upweight.lab.sweep.work import Work

ROOT = Path(__file__).parents[3]
STUDY = """\
updates = 800
seeds = 2
episodes = 2
evaluate_every = 100
dataset_steps = 500
datasets = ["cartpole-expert-random-50"]
algorithms = [{name = "discrete_bc", hidden_units = [128, 128], batch_size = 256}]
weightings = ["uniform", {name = "aw", temperature = 0.1}]
"""


def contents(path: Path) -> dict[str, Any]:
    """Everything in a store but how long it took."""
    store = Store(path)
    runs = {run["run_id"]: {**run, "train_seconds": None, "evaluate_seconds": None} for run in store.runs()}
    files = {file.relative_to(path): file.read_bytes() for file in path.glob("*/*.safetensors")}
    return {"runs": runs, "datasets": store.datasets(), "files": files, "work": list(path.glob("work/*"))}


@pytest.mark.slow
def test_a_cluster_of_mortals_leaves_the_store_of_one_computer(tmp_path: Path) -> None:
    """kill -9 of the driver, Ctrl-C, a slice, a node that dies: nothing is lost, and the outcome is the same, bit for bit."""
    study, store = tmp_path / "study.toml", tmp_path / "cluster"
    study.write_text(STUDY)
    path = os.pathsep.join([str(ROOT / "tests"), *sys.path])
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "support" / "ray_sweep.py"), str(study), str(store)],
        env={**os.environ, "PYTHONPATH": path, "RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(store.with_suffix(".json").read_text())
    assert 0 < told["after kill -9"] < told["after Ctrl-C"] < told["after a slice"] < told["when a node died"] < 4 * 800
    assert told["slice"]["paused"] and "paused at " in told["slice"]["paused_at"]
    assert told["result"]["finished"] == 4 and not told["result"]["failures"]
    assert any("nodes: 2" in line and "discrete_bc x 1: " in line for line in told["progress"])
    assert [line.split(" (")[0] for line in told["refused"]] == [
        "--gpus-per-population 0.5: no node of the cluster has so many GPUs",
        "--cpus-per-population 9: no node of the cluster has so many CPUs",
    ]
    assert "UpweightWarning: the baseline fits 5 coefficients" in done.stderr  # as a node said
    with pytest.warns(UpweightWarning, match="the baseline fits"):
        uw.sweep(uw.read_experiment(study), tmp_path / "local", max_agents=1)
    assert contents(store) == contents(tmp_path / "local")


def test_a_folder_arrives_as_it_is(tmp_path: Path) -> None:
    """Only what is new is sent; what a checkpoint supposes is there before it."""
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "points").mkdir(parents=True)
    there.mkdir()
    for name in ("program-000.safetensors", "points/program-000-5.json", "plan.json", "lock", ".upweight-x"):
        (here / name).write_text(name)
    seen: dict[str, object] = {}
    files = changed_files(here, seen)
    assert list(files)[-1] == "program-000.safetensors" and files.keys() == seen.keys()
    write_files(there, files)
    assert sorted(path.name for path in there.rglob("*") if path.is_file()) == sorted(Path(name).name for name in files)
    assert changed_files(here, seen) == {}
    (here / "program-000.safetensors").write_text("later")
    (here / "plan.json").unlink()
    files = changed_files(here, seen)
    assert files == {"program-000.safetensors": b"later", "plan.json": None}
    write_files(there, files)
    assert changed_files(there, {}).keys() == {"program-000.safetensors", "points/program-000-5.json"}


def test_data_travel_without_their_file(tmp_path: Path) -> None:
    path, made = tmp_path / "log.hdf5", cartpole_log()
    uw.save(made, path)
    travelling = pickle.dumps(RunData(uw.load(path), {}).in_memory())
    path.unlink()
    arrived = pickle.loads(travelling).dataset
    for name in ("observations", "actions", "rewards", "next_observations", "terminated", "returns"):
        np.testing.assert_array_equal(getattr(arrived, name), getattr(made, name))


class Cluster:
    """One in which every task dies when it has posted a file and come to an update."""

    def __init__(self, updates: list[int]) -> None:
        self._updates, self.trainings = iter(updates), 0
        self.gpus, self.cpus, self.ray, self._news = 0.0, 1, self, list[News]()
        self.exceptions = SimpleNamespace(RayTaskError=KeyError, RayError=OSError)
        self.load = SimpleNamespace(remote=lambda *_: ("data", "told"))
        self.train = SimpleNamespace(remote=self._train)
        self.mailbox = SimpleNamespace(collect=SimpleNamespace(remote=self._collect))

    def _train(self, order: Order, *_: object) -> str:
        news = News(order.population.population_id, "a", next(self._updates), "", {f"note-{self.trainings}": b""})
        self._news.append(news)
        self.trainings += 1
        return f"task {self.trainings}"

    def _collect(self) -> list[News]:
        news, self._news = self._news, []
        return news

    def get(self, what: object) -> object:
        if what == [f"task {self.trainings}"]:
            raise OSError("the worker died\nof this and that")
        return what

    def wait(self, parts: list[str], **_: object) -> tuple[list[str], list[str]]:
        return parts, []

    def places(self) -> list[int]:
        return [1]


def test_a_population_that_kills_its_task_is_given_up(tmp_path: Path) -> None:
    """After three deaths that came no further; files alone are no progress."""
    (tmp_path / "study.toml").write_text(STUDY)
    (population,) = pack(uw.read_experiment(tmp_path / "study.toml").runs)
    cluster, store = Cluster([0, 100, 200, 200, 100, 200, 200]), Store(tmp_path / "store", create=True)
    driver = _Driver(uw.RayExecutor(), cluster, store, math.inf)  # type: ignore[arg-type]
    (outcome,) = driver.run(deque([population]))
    assert outcome.population == population and cluster.trainings == 6
    assert outcome.failure == "its task died 4 times, perhaps for lack of memory (the worker died)"
    assert Work(store).begun() == []  # and its runs are free


@pytest.mark.parametrize(
    "error",
    [RuntimeError("Version mismatch: The cluster was started with:\n Ray: 2.40.0"), ConnectionError("no cluster")],
)
def test_a_cluster_that_cannot_be_used(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        raise error

    ray = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr("upweight.lab.sweep.ray_executor.require", lambda *_, **__: ray)
    (tmp_path / "study.toml").write_text(STUDY)
    study = uw.read_experiment(tmp_path / "study.toml")
    with pytest.raises(uw.ConfigError) as raised:
        uw.sweep(study, tmp_path / "store", executor=uw.RayExecutor("auto"))
    assert " ".join(str(error).split()) in str(raised.value) and "the same versions of Ray and Python" in str(
        raised.value
    )


def test_a_node_says_what_it_lacks(tmp_path: Path) -> None:
    """And its own name: a file that is gone, another version of the package, JAX for its GPU."""
    (tmp_path / "study.toml").write_text(STUDY)
    (population,) = pack(uw.read_experiment(tmp_path / "study.toml").runs)
    run = population.runs[0]
    gone = replace(run, data=replace(run.data, name=str(tmp_path / "gone.npz"), content="abc"))
    data, told = load_once(Population((gone,)))
    assert (
        isinstance(data, Failure) and f"on {socket.gethostname()}: " in data.why and "gone.npz" in data.why and not told
    )
    order = Order(population, {}, math.inf, 0, 1, "0.0.1")
    assert train(order, data, None).trained == data
    data = RunData(cartpole_log(), {})
    other, idle = (train(each, data, None).trained for each in (order, order._replace(version=uw.__version__, gpus=1)))
    assert (
        isinstance(other, Failure)
        and f"expected upweight 0.0.1, as the driver has, found {uw.__version__}" in other.why
    )
    assert isinstance(idle, Failure) and "expected a GPU, but JAX finds none" in idle.why


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--address", "auto"], "--address: needs --executor ray"),
        (["--executor", "ray", "--workers", "2"], "say --cpus-per-population"),
        (["--executor", "ray", "--gpus-per-population", "1.5"], "expected a fraction or a whole number, found 1.5"),
        (
            ["--executor", "ray", "--cpus-per-population", "0"],
            "(--cpus-per-population): expected a whole number of at least 1",
        ),
    ],
)
def test_options_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    assert main(["sweep", str(tmp_path / "study.toml"), "-o", str(tmp_path / "store"), *options]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "store").exists()
