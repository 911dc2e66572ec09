"""Who does the work: populations in, records out."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import jax

from upweight.base.background import Background
from upweight.base.checks import whole_number
from upweight.base.errors import CheckpointError, ConfigError, MissingExtraError, UpweightError
from upweight.lab.study.run_spec import DataSpec, agent_of
from upweight.lab.study.store import Store
from upweight.lab.sweep.evaluation import Trained, evaluate_and_store, evaluator_of
from upweight.lab.sweep.packing import Population
from upweight.lab.sweep.run_data import RunData, load_data
from upweight.lab.sweep.work import Work, Workplace
from upweight.lab.train.length import AUTO
from upweight.lab.train.result import RunResult
from upweight.lab.train.run import Run
from upweight.lab.train.train import TrainingPaused, train

_STOPS_ALL = (TrainingPaused, MissingExtraError)  # among the errors of ours
_log = logging.getLogger("upweight")


@dataclass(frozen=True)
class Outcome:
    """What became of a population: its runs are in the store, or ``failure`` says why not."""

    population: Population
    failure: str | None = None


class Executor(Protocol):
    """Does populations and writes their runs into the store."""

    def execute(self, populations: Sequence[Population], store: Store, *, deadline: float) -> Iterator[Outcome]:
        """What became of each; those that others do are left out.

        ``deadline`` is a value of ``time.monotonic()``; a training that meets it is kept and gone on with next time.
        """


@dataclass(frozen=True)
class LocalExecutor:
    """This machine: its JAX device trains, its cores simulate.

    What is wrong with one population does not stop the others. A full disk, a missing package or a met deadline
    (:class:`~upweight.lab.train.train.TrainingPaused`) does. With ``overlap`` a population is evaluated while the next one
    trains; by default where the device is not the CPU itself.
    """

    workers: int | None = None
    keep_policies: bool = True
    overlap: bool | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            workers = whole_number("workers (--workers)", self.workers, least=1, error=ConfigError)
            object.__setattr__(self, "workers", workers)

    def execute(self, populations: Sequence[Population], store: Store, *, deadline: float) -> Iterator[Outcome]:
        overlap = jax.default_backend() != "cpu" if self.overlap is None else self.overlap
        overlap = overlap and self.workers != 1  # one worker is this process: its linear algebra is one for all threads
        trainer = _Trainer(self, store, deadline)
        trained: _Evaluation | Outcome | None = None
        evaluating: _Evaluation | None = None  # of the population before
        try:
            for place, population in enumerate(populations, 1):
                stop: Exception | None = None
                try:
                    trained = trainer.train(population)
                except Exception as error:  # of the machine; an interrupt does not wait for the evaluation
                    stop, trained = error, None
                if evaluating is not None:
                    yield evaluating.outcome()
                    evaluating = None
                if stop is not None:
                    raise stop
                if isinstance(trained, Outcome):
                    yield trained
                elif trained is not None and overlap and place < len(populations):
                    evaluating = trained
                    evaluating.start()
                elif trained is not None:
                    yield trained.outcome()
        finally:
            if isinstance(trained, _Evaluation):
                trained.give_up()


class _Trainer:
    """Trains populations of one store, one after the other."""

    def __init__(self, executor: LocalExecutor, store: Store, deadline: float) -> None:
        self._executor, self._store, self._deadline = executor, store, deadline
        self._work = Work(store)
        # One at a time: data can be large, and populations that share them follow each other.
        self._data: dict[tuple[DataSpec, ...], RunData] = {}

    def train(self, population: Population) -> "_Evaluation | Outcome | None":
        """What is left to do with a population; how it failed; or None: others are at it, or did it."""
        workplace = self._work.take(population)
        if workplace is None:
            return None
        try:
            return _Evaluation(workplace, partial(self._finish, workplace, self._train(workplace)))
        except BaseException as error:
            is_of_its_own = isinstance(error, UpweightError) and not isinstance(error, _STOPS_ALL)
            if is_of_its_own and self._work.share_done(workplace.population) == 0:
                self._work.end(workplace)  # nothing is lost, and its runs are free to be packed in another way
            workplace.release()
            if not is_of_its_own:
                raise
            return Outcome(workplace.population, str(error))

    def _train(self, workplace: Workplace) -> list[Trained]:
        population, data = workplace.population, self._load(workplace.population)
        for spec in population.data:
            if data.dataset.has_rewards and not self._store.has_dataset(spec):
                self._store.write_dataset(spec, data.describe(spec))
        return train_population(workplace, data, self._deadline, self._executor.workers)

    def _finish(self, workplace: Workplace, trained: Sequence[Trained]) -> None:
        """Play, store, and clear the workplace away."""
        executor = self._executor
        evaluate_and_store(trained, self._store, workers=executor.workers, keep_policies=executor.keep_policies)
        self._work.end(workplace)

    def _load(self, population: Population) -> RunData:
        if population.data not in self._data:
            self._data.clear()
            self._data[population.data] = load_data(population, workers=self._executor.workers)
        return self._data[population.data]


def train_population(workplace: Workplace, data: RunData, deadline: float, workers: int | None) -> list[Trained]:
    """Train its runs in its folder, or go on there."""
    episodes = {spec: data.episodes_of(spec) for spec in workplace.population.data}
    runs = [agent_of(run, episodes[run.data]) for run in workplace.population.runs]
    began = ended = time.perf_counter()

    def so_far(_: object = None) -> None:
        """At each line of the log: what comes after the last one is waiting for simulators."""
        nonlocal ended
        ended = time.perf_counter()

    try:
        results = _train_in_folder(data, runs, workplace, deadline, workers, so_far)
    except BaseException:
        so_far()
        raise
    finally:
        seconds = workplace.add_time(ended - began)
    device, held = jax.devices()[0].device_kind, {spec: data.holdout(spec) for spec in workplace.population.data}
    return [
        Trained(run, result, seconds, data.sha256(run.data), device, len(runs), held[run.data])
        for run, result in zip(workplace.population.runs, results, strict=True)
    ]


def _train_in_folder(
    data: RunData,
    runs: Sequence[Run],
    workplace: Workplace,
    deadline: float,
    workers: int | None,
    callback: Callable[[object], None],
) -> list[RunResult]:
    """Resume the training in the folder; restart only if its files are damaged or of other data."""
    first = workplace.population.runs[0]
    watched = first.evaluate_every is not None
    training = partial(
        train,
        data.dataset,
        runs,
        num_updates=AUTO if first.auto else first.updates,
        precision=first.precision,
        output=workplace.folder,
        resume=True,
        deadline=deadline,
        callbacks=[callback],
        evaluate_every=first.evaluate_every,
        evaluate_with=evaluator_of(workplace.population.runs, workers) if watched else None,
    )
    try:
        return training()
    except CheckpointError as error:
        _log.warning("%s: %s; the training starts again", workplace.folder, error)
        workplace.forget_progress()
        return training()


class _Evaluation:
    """What is left to do with a trained population, in turn or in a thread of its own."""

    def __init__(self, workplace: Workplace, finish: Callable[[], None]) -> None:
        self._workplace, self._finish = workplace, finish
        self._background: Background | None = None

    def start(self) -> None:
        """Start the evaluation in a second thread."""
        self._background = Background()
        self._background.start(self._do)

    def outcome(self) -> Outcome:
        """Do it, or wait until it is done."""
        try:
            self._do() if self._background is None else self._background.wait()
        except _STOPS_ALL:
            raise
        except UpweightError as error:
            return Outcome(self._workplace.population, str(error))
        return Outcome(self._workplace.population)

    def give_up(self) -> None:
        """Leave the workplace to others, unless a thread is at it: that does so at its end."""
        if self._background is None:
            self._workplace.release()

    def _do(self) -> None:
        try:
            self._finish()
        finally:
            self._workplace.release()
