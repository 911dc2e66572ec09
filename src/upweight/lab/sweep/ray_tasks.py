"""What the nodes of a Ray cluster do for :class:`~upweight.lab.sweep.ray_executor.RayExecutor`.

A node trains in a temporary folder, and a thread posts what is new there to the driver's mailbox: so that the driver's store has
every checkpoint, and another node can go on from it. Nodes need no file of the driver, and it none of theirs.
"""

import os
import socket
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import jax

from upweight import __version__
from upweight.base.cores import usable_cores
from upweight.base.errors import UpweightError, UpweightWarning
from upweight.base.files import atomic_target
from upweight.base.locks import hold
from upweight.base.optional import require
from upweight.base.progress import listening
from upweight.lab.play.evaluate import Evaluation
from upweight.lab.study.store import Record
from upweight.lab.sweep.evaluation import Trained, play_runs
from upweight.lab.sweep.executor import train_population
from upweight.lab.sweep.packing import Population
from upweight.lab.sweep.run_data import RunData, load_data
from upweight.lab.sweep.work import Workplace
from upweight.lab.train.train import TrainingPaused

Files = Mapping[str, bytes | None]  # what is in them, by their names in a folder; None: it is gone
_POST_SECONDS = 0.25
_KEPT_BY_THE_DRIVER = {"population.json", "lock"}
_MEMORY_SHARE = 0.75  # of a GPU that JAX takes, if it is alone there


class Failure(NamedTuple):
    """Why something was not done."""

    why: str
    paused: bool = False  # for want of time


class News(NamedTuple):
    """How far a training is, and what is new in its folder."""

    population_id: str
    node: str
    updates: int
    detail: str
    files: Files


class Mailbox:
    """An actor on the driver's node: nodes post, the driver collects."""

    def __init__(self) -> None:
        self._news: list[News] = []

    def post(self, news: News) -> None:
        self._news.append(news)

    def collect(self) -> list[News]:
        news, self._news = self._news, []
        return news


class Order(NamedTuple):
    """A population to train, or to go on with."""

    population: Population
    files: Files  # of its workplace
    deadline: float  # a value of ``time.time()``: nodes' clocks of other kinds begin at different moments
    gpus: float
    workers: int
    version: str  # of the driver's package


class Answer(NamedTuple):
    """What came of it."""

    trained: list[Trained] | Failure
    warnings: list[str]


def load_once(population: Population) -> tuple[RunData | Failure, list[Record]]:
    """The data for all nodes, made or read on the driver's node, and the facts of them for reports."""
    try:
        data = load_data(population).in_memory()
        told = [data.describe(spec) for spec in population.data] if data.dataset.has_rewards else []
        return data, told
    except Exception as error:
        return Failure(_explain(error)), []


def train(order: Order, data: RunData | Failure, mailbox: Any) -> Answer:
    """Train a population in a folder of this node; a cancelled task, as after Ctrl-C, posts a checkpoint first."""
    if isinstance(data, Failure):
        return Answer(data, [])
    if (lacking := _what_is_lacking(order)) is not None:
        return Answer(Failure(_explain(lacking)), [])
    limits = require("threadpoolctl", extra="mujoco", purpose="playing episodes").threadpool_limits
    with warnings.catch_warnings(record=True) as heard, limits(limits=usable_cores(), user_api="blas"):
        warnings.simplefilter("always", UpweightWarning)
        trained = _train(order, data, mailbox)
    texts = [str(each.message) for each in heard if issubclass(each.category, UpweightWarning)]
    return Answer(trained, list(dict.fromkeys(texts)))


def _what_is_lacking(order: Order) -> str | None:
    """What this node must have for it, and has not; JAX takes its share of a GPU when it is first asked."""
    if order.version != __version__:
        return f"expected upweight {order.version}, as the driver has, found {__version__}"
    if 0 < order.gpus < 1:
        os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{_MEMORY_SHARE * order.gpus:.3f}")
    if order.gpus and jax.default_backend() == "cpu":
        return (
            'expected a GPU, but JAX finds none; install JAX for it there (pip install "jax[cuda12]"), or train on the CPU: '
            "--gpus-per-population 0"
        )
    return None


def play(trained: Sequence[Trained]) -> list[Evaluation] | Failure:
    """Let some policies play on one core."""
    try:
        return play_runs(trained, workers=1)
    except Exception as error:
        return Failure(_explain(error))


def _train(order: Order, data: RunData, mailbox: Any) -> list[Trained] | Failure:
    deadline = time.monotonic() + order.deadline - time.time()
    with TemporaryDirectory(prefix="upweight-") as place:
        folder = Path(place)
        write_files(folder, order.files)
        lock = hold(folder / "lock")
        assert lock is not None  # nobody knows of the folder
        try:
            with lock, _Courier(mailbox, order.population, folder) as courier, listening(courier.hear):
                return train_population(Workplace(order.population, folder, lock), data, deadline, order.workers)
        except TrainingPaused as pause:
            return Failure(str(pause).replace(f"{folder}: ", ""), paused=True)
        except Exception as error:
            return Failure(_explain(error))


class _Courier:
    """Posts how far the training is, and every file that is new in its folder."""

    def __init__(self, mailbox: Any, population: Population, folder: Path) -> None:
        self._mailbox, self._population, self._folder = mailbox, population, folder
        self._seen: dict[str, object] = {}
        changed_files(folder, self._seen)  # the driver has these
        self._updates, self._detail = 0, ""
        self._told: object = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._deliver, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever the training ended with, the last of it arrives."""
        self._over.set()
        self._thread.join()
        self._post()

    def hear(self, description: str, done: int, total: int, detail: str = "") -> None:
        """A listener: updates are what the population counts in."""
        if total == self._population.runs[0].updates:
            self._updates, self._detail = done, f"{description}: {detail}" if detail else description

    def _deliver(self) -> None:
        while not self._over.wait(_POST_SECONDS):
            self._post()

    def _post(self) -> None:
        files, state = changed_files(self._folder, self._seen), (self._updates, self._detail)
        if files or state != self._told:
            self._told = state
            news = News(self._population.population_id, socket.gethostname(), *state, files)
            require("ray", extra="ray", purpose="a cluster").get(self._mailbox.post.remote(news))


def changed_files(folder: Path, seen: dict[str, object]) -> dict[str, bytes | None]:
    """Files of a training that are new since ``seen``, which is brought up to date, and None for those that are gone.

    Checkpoints are read first and come last: whatever a checkpoint supposes is there when it is.
    """
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    names = {name: path for name, path in names.items() if not _is_private(name)}
    found, now = dict[str, bytes | None](), dict[str, object]()
    try:
        for name, path in sorted(names.items(), key=lambda each: not _is_checkpoint(each[0])):
            about = path.stat()
            now[name] = (about.st_mtime_ns, about.st_size, about.st_ino)
            if seen.get(name) != now[name]:
                found[name] = path.read_bytes()
    except FileNotFoundError:  # it was moved just now: what was listed is no picture of any moment
        return changed_files(folder, seen)
    found |= dict.fromkeys(seen.keys() - now.keys())
    seen.clear()
    seen.update(now)
    return dict(sorted(found.items(), key=lambda each: _is_checkpoint(each[0])))


def write_files(folder: Path, files: Files) -> None:
    """Make a folder like the one that the files were read in; each is written completely or not at all."""
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink(missing_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_target(path) as target:
            target.write_bytes(content)


def _is_private(name: str) -> bool:
    """Whether a file is no part of the training: locks, notes of the driver's, and what is being written."""
    return name in _KEPT_BY_THE_DRIVER or any(part.startswith(".") for part in name.split("/"))


def _is_checkpoint(name: str) -> bool:
    return name.startswith("program-")


def _explain(error: Exception | str) -> str:
    """What went wrong, and where."""
    kind = "" if isinstance(error, UpweightError | str) else f"{type(error).__name__}: "
    return f"on {socket.gethostname()}: {kind}{error}"
