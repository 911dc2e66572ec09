"""Who does the work: populations in, records out. The local one trains on this machine's device, one after the other."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import jax

from upweight.base.background import Background
from upweight.base.errors import CheckpointError, DatasetError, MissingExtraError, UpweightError
from upweight.engine.run import Run
from upweight.engine.train import RunResult, TrainingPaused, train
from upweight.studies.run_spec import config_of
from upweight.studies.store import Store
from upweight.sweeps.evaluation import evaluate_and_store
from upweight.sweeps.packing import Population
from upweight.sweeps.run_data import RunData, data_key, load_data
from upweight.sweeps.work import Claim, Work
from upweight.weightings.registry import weighting_from_dict

Result = TypeVar("Result")
_log = logging.getLogger("upweight")


@dataclass(frozen=True)
class Outcome:
    """What became of a population: its runs are in the store, or ``failure`` says why not."""

    population: Population
    failure: str | None = None


class Executor(Protocol):
    """Does populations and writes their runs into the store; those that others do are left out.

    What is wrong with one population does not stop the others. A full disk, a missing package or a met deadline
    (:class:`~upweight.engine.train.TrainingPaused`) does.
    """

    def execute(self, populations: Sequence[Population], store: Store, *, deadline: float) -> Iterator[Outcome]: ...


@dataclass(frozen=True)
class LocalExecutor:
    """This machine: its JAX device trains, its cores simulate.

    With ``overlap`` a population is evaluated while the next one trains; by default where the device is not the CPU itself.
    """

    workers: int | None = None
    keep_policies: bool = True
    overlap: bool | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise DatasetError(f"workers (--workers): expected at least 1, found {self.workers}")

    def execute(self, populations: Sequence[Population], store: Store, *, deadline: float) -> Iterator[Outcome]:
        """``deadline`` is a value of ``time.monotonic()``; a training that meets it is kept and gone on with next time."""
        overlap = jax.default_backend() != "cpu" if self.overlap is None else self.overlap
        overlap = overlap and self.workers != 1  # one worker is this process: its linear algebra is one for all threads
        work, data = Work(store), _LoadedData(self.workers)
        background = Background()
        beside: Population | None = None  # evaluated in the background
        try:
            for place, population in enumerate(populations, 1):
                with ExitStack() as holding:
                    claim = holding.enter_context(work.claim(population))
                    training = None if claim is None else partial(self._train, claim, data, work, store, deadline)
                    trained = None if training is None else _attempt(training)
                    if beside is not None:
                        ended, beside = beside, None
                        yield _outcome(ended, _attempt(background.wait))
                    if claim is None or trained is None:
                        continue
                    if isinstance(trained, UpweightError):
                        failure: UpweightError | None = trained
                        if work.share_done(claim.population) == 0:
                            work.end(claim)  # nothing is lost, and its runs are free to be packed in another way
                    elif overlap and place < len(populations):
                        background.start(partial(_do_and_release, trained, holding.pop_all()))
                        beside = claim.population
                        continue
                    else:
                        failure = _attempt(trained)
                yield _outcome(claim.population, failure)
        except KeyboardInterrupt:  # who asks to stop is not kept waiting: the training is on disk
            raise
        except TrainingPaused:
            if beside is not None:
                yield _outcome(beside, _attempt(background.wait))
            raise
        except BaseException:
            if beside is not None and (lost := _attempt(background.wait)) is not None:
                _log.warning("%s: %s", beside.title, lost)
            raise

    def _train(
        self, claim: Claim, data: "_LoadedData", work: Work, store: Store, deadline: float
    ) -> Callable[[], None]:
        """Train, and give back what is left to do: evaluate and store."""
        loaded = data.of(claim.population)
        for spec in data_key(claim.population):
            if loaded.dataset.has_rewards and not store.has_dataset(spec):
                store.write_dataset(spec, loaded.describe(spec))
        runs = [
            Run(config_of(run), weighting_from_dict(run.weighting), run.seed, episodes=loaded.episodes_of(run.data))
            for run in claim.population.runs
        ]
        began = time.perf_counter()
        try:
            results = _train_in_folder(loaded, runs, claim, deadline)
        finally:
            seconds = claim.add_time(time.perf_counter() - began)
        return partial(self._finish, claim, results, seconds, work, store)

    def _finish(self, claim: Claim, results: Sequence[RunResult], seconds: float, work: Work, store: Store) -> None:
        evaluate_and_store(
            claim.population.runs,
            results,
            store,
            train_seconds=seconds,
            workers=self.workers,
            keep_policies=self.keep_policies,
        )
        work.end(claim)


class _LoadedData:
    """One dataset at a time: they can be large, and populations that share one follow each other."""

    def __init__(self, workers: int | None) -> None:
        self._workers = workers
        self._last: dict[object, RunData] = {}

    def of(self, population: Population) -> RunData:
        key = data_key(population)
        if key not in self._last:
            self._last.clear()
            self._last[key] = load_data(population, workers=self._workers)
        return self._last[key]


def _train_in_folder(data: RunData, runs: Sequence[Run], claim: Claim, deadline: float) -> list[RunResult]:
    """Go on where the folder is; begin anew if what is in there is damaged, or of other data, and for no other reason."""
    first = claim.population.runs[0]
    training = partial(
        train,
        data.dataset,
        runs,
        num_updates=first.updates,
        precision=first.precision,
        output=claim.folder,
        resume=True,
        deadline=deadline,
    )
    try:
        return training()
    except CheckpointError as error:
        _log.warning("%s: %s; the training begins anew", claim.folder, error)
        claim.forget_progress()
        return training()


def _attempt(work: Callable[[], Result]) -> Result | UpweightError:
    """What the work gives, or what is wrong with this population alone."""
    try:
        return work()
    except (TrainingPaused, MissingExtraError):
        raise
    except UpweightError as error:
        return error


def _outcome(population: Population, failure: UpweightError | None) -> Outcome:
    return Outcome(population, None if failure is None else str(failure))


def _do_and_release(work: Callable[[], None], holding: ExitStack) -> None:
    with holding:
        work()
