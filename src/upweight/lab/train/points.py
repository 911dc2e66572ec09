"""Evaluation on the way: policies at points of a training play while it goes on, or are compared with held-out actions.

::

    points/program-000-50000/run-000.safetensors   policies that wait to be played
    points/program-000-50000.json                  what they came to, which replaces the folder
    best/run-000.safetensors                       of each run the best policy

A point is written before the checkpoint of its moment, and played after it: a training that goes on finds what was played, and
what still waits.
"""

import logging
import shutil
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol, Self

import jax
import numpy as np

from upweight.base.background import Background
from upweight.base.errors import ConfigError
from upweight.base.files import read_json, write_json
from upweight.data.dataset import Dataset
from upweight.lab.play.evaluate import Evaluator
from upweight.lab.train.algorithm import Setup
from upweight.lab.train.folder import TrainingFolder
from upweight.lab.train.point_list import Every, points_before
from upweight.lab.train.run import Run
from upweight.lab.train.tracking import Record
from upweight.policies.policy import Policy, load_policy

# In the metadata of policies at points: of those, the best are kept.
CHOSEN = {"chosen": "with the simulator, as the best of the points on the way"}
_log = logging.getLogger("upweight")


class _Played(Protocol):
    def summary(self) -> Record: ...


class Judge(Protocol):
    """Who says how good policies are, each named by the number of its run: a simulator, or held-out actions."""

    def play(self, runs: Sequence[int], policies: Sequence[Policy]) -> Sequence[_Played]: ...


class Watch(NamedTuple):
    """When and how a training is evaluated."""

    every: Every  # updates
    judge: Judge
    chosen: Mapping[str, str] = CHOSEN  # in the metadata of its policies
    only: Mapping[int, Sequence[int]] | None = None  # points of each run, where they differ
    is_beside: bool = False  # the training, rather than in turn with it
    plays_last: bool = True  # the final policies too


class Points:
    """The points of one program's training; without a folder for it, they are kept in a temporary one."""

    def __init__(self, watch: Watch, folder: TrainingFolder | None, program: int) -> None:
        self._temporary: TemporaryDirectory[str] | None = None
        if folder is None:
            self._temporary = TemporaryDirectory(prefix="upweight-")
            self._folder, self._identity = Path(self._temporary.name), ""
        else:
            self._folder, self._identity = folder.path, folder.identity
        self._name, self._watch = f"program-{program:03d}", watch
        self._background = Background() if watch.is_beside else None
        self._asked = set[int]()  # points to be played, or that were
        for name in ("points", "best"):
            (self._folder / name).mkdir(exist_ok=True)
        files = (read_json(path) for path in self._folder.glob(f"points/{self._name}-*.json"))
        mine = (found for found in files if isinstance(found, dict) and found.get("identity") == self._identity)
        self._played: dict[int, dict[str, Record]] = {found["updates"]: found["runs"] for found in mine}

    @property
    def chosen(self) -> Mapping[str, str]:
        """What policies on the way say of how they are chosen."""
        return self._watch.chosen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for what is to be played; where a training broke off, only for what is played now, and not even that if somebody
        wants to leave: what waits on the disk is played next time."""
        try:
            if kind is not None and self._background is not None:
                self._background.drop()
            if kind is None or not issubclass(kind, KeyboardInterrupt):
                self.wait()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()

    def keep(self, updates: int, policies: Mapping[int, Policy]) -> None:
        """Write the policies of a point, by the numbers of their runs, unless they were played before an interruption."""
        if updates not in self._played:
            waiting = self._waiting(updates)
            shutil.rmtree(waiting, ignore_errors=True)  # half written, when somebody was stopped
            waiting.mkdir()
            only = self._watch.only
            asked = {run: policy for run, policy in policies.items() if only is None or updates in only[run]}
            sound = {run: policy for run, policy in asked.items() if _is_finite(policy)}  # others diverge soon
            with ThreadPoolExecutor() as writers:
                list(writers.map(Policy.save, sound.values(), (waiting / _file(run) for run in sound)))

    def play(self, updates: int) -> None:
        """Play the policies of a point, in a second thread or at once, unless that was done or asked for."""
        if updates not in self._played and updates not in self._asked:
            self._asked.add(updates)
            play = partial(self._play, updates)
            play() if self._background is None else self._background.add(play)

    def end(self, updates: int, policies: Mapping[int, Policy]) -> None:
        """Play the final policies too, unless that is left to the caller."""
        if self._watch.plays_last:
            self.keep(updates, policies)
            self.play(updates)

    def go_on(self, updates: int) -> None:
        """Do what an earlier call left to do with the points of a training that had come so far."""
        missed = 0
        for point in points_before(self._watch.every, updates + 1):
            if point in self._played:
                self._tidy(point)
            elif self._waiting(point).exists():
                self.play(point)
            else:
                missed += 1
        if missed:
            _log.warning("%s: went past %d points without being evaluated there", self._folder, missed)

    def wait(self) -> None:
        """Until all is played; what went wrong is raised here."""
        if self._background is not None:
            self._background.wait()

    def of(self, run: int) -> list[Record]:
        """Updates and returns at each point of a run."""
        found = sorted(self._played.items())
        return [{"updates": updates, **runs[str(run)]} for updates, runs in found if str(run) in runs]

    def best(self, run: int) -> Policy | None:
        """The best policy of a run."""
        path = self._folder / "best" / _file(run)
        return load_policy(path) if path.exists() else None

    def _play(self, updates: int) -> None:
        paths = sorted(self._waiting(updates).glob("*.safetensors"))
        runs = [_number(path) for path in paths]
        found = self._watch.judge.play(runs, [load_policy(path) for path in paths]) if runs else []
        records = {str(run): each.summary() for run, each in zip(runs, found, strict=True)}
        path = self._folder / "points" / f"{self._name}-{updates}.json"
        write_json(path, {"identity": self._identity, "updates": updates, "runs": records})
        self._played[updates] = records
        self._tidy(updates)

    def _tidy(self, updates: int) -> None:
        """Of policies that were played, the best stay."""
        for path in self._waiting(updates).glob("*.safetensors"):
            if best_point(self.of(_number(path)))["updates"] == updates:
                path.replace(self._folder / "best" / path.name)
        shutil.rmtree(self._waiting(updates), ignore_errors=True)

    def _waiting(self, updates: int) -> Path:
        return self._folder / "points" / f"{self._name}-{updates}"


def best_point(points: list[Record]) -> Record:
    """The first that none returned more than, or had a lower error than."""
    return max(points, key=lambda point: -float(point["error"]) if "error" in point else float(point["mean_return"]))


def make_watch(
    every: Every, evaluate_with: Evaluator | str | None, dataset: Dataset, runs: Sequence[Run], setup: Setup
) -> Watch:
    """Refuses what cannot work before anything is trained."""
    for number in every if isinstance(every, Sequence) else [every]:
        for run in runs:
            if number % (period := run.method.period(run.config)):
                raise ConfigError(
                    f"evaluate_every: expected a multiple of {period}, because {run.method.name} updates its actor every "
                    f"{period} updates, found {number}"
                )
    given = named_environment(dataset) if evaluate_with is None else evaluate_with
    evaluator = Evaluator(given) if isinstance(given, str) else given
    evaluator.check(len(runs), setup.observation_size, setup.action_size, is_discrete=dataset.discrete_actions)
    return Watch(every, evaluator, is_beside=_is_beside(evaluator), plays_last=evaluator.last)


def named_environment(dataset: Dataset) -> str:
    """The environment that a dataset says it is from."""
    env_id = dataset.metadata.get("env_id")
    if not isinstance(env_id, str) or ":" in env_id:  # "module:id" would import a module because a file says so
        raise ConfigError(
            f"evaluate_every: {dataset.source} does not say which environment it is from; name it: "
            'evaluate_with="Hopper-v5" (--env Hopper-v5)'
        )
    return env_id


def _is_beside(evaluator: Evaluator) -> bool:
    """Whether simulators play while the device trains: not where both want the same cores, or threads of one process."""
    return jax.default_backend() != "cpu" and evaluator.workers != 1


def _is_finite(policy: Policy) -> bool:
    return all(np.isfinite(array).all() for layer in policy.layers for array in layer)


def _file(run: int) -> str:
    return f"run-{run:03d}.safetensors"


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("run-"))
