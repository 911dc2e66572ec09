"""A Ray cluster as executor: populations are its tasks, and everything they come to arrives in the driver's store.

::

    driver   takes populations (work.py), writes checkpoints and runs; the only one who writes into the store
    load     on the driver's node, once per pool of data; Ray's object store brings it to the nodes
    train    a task with GPUs and CPUs; posts its checkpoints. If it dies, another goes on from the last one
    play     tasks of one core, during the next trainings; Ray itself repeats them
"""

import time
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from upweight import __version__
from upweight.base.checks import finite_number, whole_number, yes_or_no
from upweight.base.errors import ConfigError, UpweightWarning
from upweight.base.optional import require
from upweight.base.progress import report
from upweight.lab.study.store import Store
from upweight.lab.sweep import ray_tasks
from upweight.lab.sweep.evaluation import Trained, missing_runs, store_runs
from upweight.lab.sweep.executor import Outcome
from upweight.lab.sweep.packing import Population
from upweight.lab.sweep.ray_tasks import Answer, Failure, Order
from upweight.lab.sweep.work import Work, Workplace
from upweight.lab.train.train import TrainingPaused

_LOOK_SECONDS = 0.25
_STOP_SECONDS = 60  # for nodes to write and post a last checkpoint
_MOST_DEATHS = 3  # of one population's tasks that came no further than others before
_PARTS_PER_CORE = 2  # of a population's policies, when they play


@dataclass(frozen=True)
class RayExecutor:
    """A Ray cluster: one that runs (``address``, "auto" on its own computers), or one of this computer alone.

    A population takes ``gpus_per_population`` (by default 1 where the cluster has any, else 0; 0.5 puts two onto each, 2
    spreads its agents over two) and ``cpus_per_population``, with which it also plays points on the way. Ray stays connected
    until the program ends.
    """

    address: str | None = None
    gpus_per_population: float | None = None
    cpus_per_population: int = 1
    keep_policies: bool = True

    def __post_init__(self) -> None:
        name = "cpus_per_population (--cpus-per-population)"
        cpus = whole_number(name, self.cpus_per_population, least=1, error=ConfigError)
        object.__setattr__(self, "cpus_per_population", cpus)
        yes_or_no("keep_policies", self.keep_policies, error=ConfigError)
        if self.gpus_per_population is not None:
            name = "gpus_per_population (--gpus-per-population)"
            gpus = finite_number(name, self.gpus_per_population, least=0, error=ConfigError)
            if gpus > 1 and gpus != int(gpus):
                raise ConfigError(f"{name}: expected a fraction or a whole number, found {gpus}")
            object.__setattr__(self, "gpus_per_population", gpus)

    def execute(self, populations: Sequence[Population], store: Store, *, deadline: float) -> Iterator[Outcome]:
        """See :class:`~upweight.lab.sweep.executor.Executor`."""
        if not populations:
            return
        cluster = _Cluster(self)
        driver = _Driver(self, cluster, store, deadline)
        try:
            yield from driver.run(deque(populations))
        finally:
            driver.stop()


class _Cluster:
    """A connection, and the tasks with what they need."""

    def __init__(self, executor: RayExecutor) -> None:
        self.ray = _connect(executor.address)
        self.cpus, gpus = executor.cpus_per_population, executor.gpus_per_population
        self.gpus = gpus if gpus is not None else float(self._most("GPU") > 0)
        for option, kind, wanted in (("gpus", "GPU", self.gpus), ("cpus", "CPU", self.cpus)):
            if wanted > (most := self._most(kind)):
                raise ConfigError(
                    f"--{option}-per-population {wanted:g}: no node of the cluster has so many {kind}s (the most is {most:g}); "
                    f"add a node that has (one at least that an autoscaler never removes), or ask for fewer"
                )
        remote, here = self.ray.remote, self.ray.get_runtime_context().get_node_id()
        on_this_node = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        self.mailbox = remote(num_cpus=0, scheduling_strategy=on_this_node)(ray_tasks.Mailbox).remote()
        self.load = remote(num_cpus=0, num_returns=2, scheduling_strategy=on_this_node)(ray_tasks.load_once)
        self.train = remote(num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0)(ray_tasks.train)
        self.play = remote(num_cpus=1)(ray_tasks.play)

    def nodes(self) -> list[dict[str, float]]:
        """The resources of those that are alive."""
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def places(self) -> list[int]:
        """Of the nodes that can train, how many populations they have room for."""
        needs = {kind: need for kind, need in (("CPU", self.cpus), ("GPU", self.gpus)) if need}
        room = [int(min(node.get(kind, 0) / need for kind, need in needs.items())) for node in self.nodes()]
        return [places for places in room if places]

    def cores(self) -> int:
        return int(sum(node.get("CPU", 0) for node in self.nodes()))

    def _most(self, kind: str) -> float:
        return max((node.get(kind, 0.0) for node in self.nodes()), default=0.0)


@dataclass(eq=False)
class _Job:
    """A population that is ours, until it is done."""

    workplace: Workplace
    data: Any  # references to its data, and to what is told of them
    parts: list[Any] = field(default_factory=list)  # references to what its tasks come to
    waiting: set[Any] = field(default_factory=set)  # those of them that are under way
    trained: list[Trained] | None = None  # and now it plays
    began: float = 0.0  # to play
    deaths: int = 0
    updates: int = 0

    @property
    def population(self) -> Population:
        return self.workplace.population

    def hand_out(self, *parts: Any) -> None:
        self.parts, self.waiting = list(parts), set(parts)


class _Driver:
    """Hands out populations and puts away what comes of them."""

    def __init__(self, executor: RayExecutor, cluster: _Cluster, store: Store, deadline: float) -> None:
        self._executor, self._cluster, self._ray = executor, cluster, cluster.ray
        self._store, self._work, self._deadline = store, Work(store), deadline
        self._jobs: list[_Job] = []
        self._paused: str | None = None
        self._detail = ""

    def run(self, upcoming: deque[Population]) -> Iterator[Outcome]:
        """Until all are done, or time is up."""
        is_first = True
        while True:
            while upcoming and self._has_room() and (is_first or time.monotonic() < self._deadline):
                is_first = not self._begin(upcoming.popleft()) and is_first
            if not self._jobs:
                break
            waiting = [part for job in self._jobs for part in job.waiting]
            ready, _ = self._ray.wait(waiting, timeout=_LOOK_SECONDS)
            self._read_mail()
            self._tell()
            for job in list(self._jobs):
                job.waiting -= set(ready)
                if not job.waiting and (outcome := self._settle(job)) is not None:
                    yield outcome
        if self._paused is not None:
            raise TrainingPaused(self._paused)

    def stop(self) -> None:
        """Let whatever is under way write a checkpoint, fetch it, and leave the rest to others."""
        waiting = [part for job in self._jobs for part in job.waiting]
        try:
            if waiting:
                report("stopping", 0, 1, "nodes write their checkpoints")
                for part in [*waiting, *(job.data[0] for job in self._jobs)]:
                    self._ray.cancel(part)  # as Ctrl-C does there
                self._ray.wait(waiting, num_returns=len(waiting), timeout=_STOP_SECONDS)
                self._read_mail()
        finally:
            for job in self._jobs:
                job.workplace.release()

    # ---- one population -----------------------------------------------------------------------------------------
    def _has_room(self) -> bool:
        """One waits for each that trains: nodes do not, and an autoscaler sees that more would help."""
        return sum(job.trained is None for job in self._jobs) < max(2, 2 * sum(self._cluster.places()))

    def _begin(self, population: Population) -> bool:
        """Hand it out; False if others are at it, or did it."""
        workplace = self._work.take(population)
        if workplace is None:
            return False
        alike = (job.data for job in self._jobs if job.population.data == workplace.population.data)
        job = _Job(workplace, next(alike, None) or self._cluster.load.remote(workplace.population))
        self._jobs.append(job)
        self._train(job)
        return True

    def _train(self, job: _Job) -> None:
        files = ray_tasks.changed_files(job.workplace.folder, {})
        deadline = time.time() + self._deadline - time.monotonic()
        order = Order(job.population, files, deadline, self._cluster.gpus, self._cluster.cpus, __version__)
        job.hand_out(self._cluster.train.remote(order, job.data[0], self._cluster.mailbox))

    def _settle(self, job: _Job) -> Outcome | None:
        """What is next for a population whose tasks have ended; its outcome, if nothing is."""
        errors = self._ray.exceptions
        try:
            found = self._ray.get(job.parts)
            return self._put_away(job, found[0]) if job.trained is None else self._finish(job, found)
        except errors.RayTaskError as error:  # of the node's installation: what the work raises is caught there
            return self._fail(job, f"{error.cause!r}; has every node upweight {__version__} and what it needs?")
        except errors.RayError as error:
            job.deaths += 1
            if job.trained is None and job.deaths <= _MOST_DEATHS:
                self._train(job)
                return None
            why = f"its task died {job.deaths} times, perhaps for lack of memory ({str(error).splitlines()[0]})"
            return self._fail(job, why)

    def _put_away(self, job: _Job, answer: Answer) -> Outcome | None:
        """Of a training; its policies play next."""
        for text in answer.warnings:
            warnings.warn(text, UpweightWarning, stacklevel=2)
        if isinstance(answer.trained, Failure):
            return self._fail(job, answer.trained.why, paused=answer.trained.paused)
        told = self._ray.get(job.data[1])
        for spec, record in zip(job.population.data, told, strict=bool(told)):
            if not self._store.has_dataset(spec):
                self._store.write_dataset(spec, record)
        job.trained, job.began = missing_runs(answer.trained, self._store), time.perf_counter()
        if not job.trained:
            return self._finish(job, [])
        size = max(1, -(-len(job.trained) // (_PARTS_PER_CORE * max(1, self._cluster.cores()))))
        parts = [job.trained[first : first + size] for first in range(0, len(job.trained), size)]
        job.hand_out(*(self._cluster.play.remote(part) for part in parts))
        return None

    def _finish(self, job: _Job, found: Sequence[Any]) -> Outcome | None:
        """Store the runs, and clear the workplace away."""
        for part in found:
            if isinstance(part, Failure):
                return self._fail(job, part.why)
        played, seconds = [each for part in found for each in part], time.perf_counter() - job.began
        keep_policies = self._executor.keep_policies
        store_runs(job.trained or [], played, self._store, seconds=seconds, keep_policies=keep_policies)
        self._work.end(job.workplace)
        self._jobs.remove(job)
        return Outcome(job.population)

    def _fail(self, job: _Job, why: str, *, paused: bool = False) -> Outcome | None:
        """Leave it to others; what was trained stays."""
        self._jobs.remove(job)
        if not paused and self._work.share_done(job.population) == 0:
            self._work.end(job.workplace)  # nothing is lost, and its runs are free to be packed in another way
        job.workplace.release()
        if paused:
            self._paused = why
            return None
        return Outcome(job.population, why)

    # ---- all of them --------------------------------------------------------------------------------------------
    def _read_mail(self) -> None:
        jobs = {job.population.population_id: job for job in self._jobs}
        for news in self._ray.get(self._cluster.mailbox.collect.remote()):
            job = jobs.get(news.population_id)
            if job is None:
                continue
            ray_tasks.write_files(job.workplace.folder, news.files)
            self._detail = f"{news.node}: {news.detail or 'preparing'}"
            if news.updates > job.updates:
                job.updates, job.deaths = news.updates, 0

    def _tell(self) -> None:
        """Progress of all nodes together."""
        training = [job for job in self._jobs if job.trained is None]
        if training:
            total = sum(job.population.runs[0].updates for job in training)
            done, nodes = sum(job.updates for job in training), len(self._cluster.places())
            report(f"trainings: {len(training)}, nodes: {nodes}", done, total, self._detail)
        else:
            parts = sum(len(job.parts) for job in self._jobs)
            report("evaluating", parts - sum(len(job.waiting) for job in self._jobs), parts)


def _connect(address: str | None) -> Any:
    """Ray, connected; it stays so."""
    ray = require("ray", extra="ray", purpose="a sweep on a cluster")
    require("ray.util.scheduling_strategies", extra="ray", purpose="a sweep on a cluster")
    if ray.is_initialized():
        return ray
    alone = {"include_dashboard": False} if address is None else {}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*fork", RuntimeWarning)  # of JAX's threads: Ray's are new programs
            ray.init(address=address, log_to_driver=False, logging_level="WARNING", **alone)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"address (--address) {address}: {' '.join(str(error).split())} (a cluster is started with  ray start --head;  all "
            "its computers need the same versions of Ray and Python; without an address, Ray runs on this computer alone)"
        ) from None
    return ray
