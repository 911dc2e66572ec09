"""``sweep``: do what is missing of a study, and keep it."""

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from upweight.base.checks import finite_number
from upweight.base.errors import ConfigError
from upweight.base.progress import report
from upweight.lab.study.experiment_file import Experiment
from upweight.lab.study.run_spec import DataSpec, RunSpec
from upweight.lab.study.store import Store
from upweight.lab.sweep.executor import Executor, LocalExecutor, Outcome
from upweight.lab.sweep.packing import Population, pack
from upweight.lab.sweep.work import Work
from upweight.lab.train.train import TrainingPaused


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep would do."""

    experiment: Experiment
    finished: int  # runs that are in the store already
    damaged: int  # runs whose files cannot be used: they are done again
    without_points: int  # finished runs that should be evaluated on the way, and were not
    populations: tuple[Population, ...]  # of the runs to do
    begun: Mapping[str, float]  # by population_id: the share that is done of those that were begun

    @property
    def to_do(self) -> int:
        """Runs of the study that are not finished."""
        return len(self.experiment.runs) - self.finished

    def __str__(self) -> str:
        lines = [
            f"{self.experiment.name}: {_count(len(self.experiment.runs), 'run')}, {self.finished:,} finished, "
            f"{self.to_do:,} to do"
        ]
        if self.damaged:
            lines.append(f"  the files of {_count(self.damaged, 'run')} are damaged or of another version: done again")
        if self.without_points:
            lines.append(
                f"  {_count(self.without_points, 'finished run')} stay without points on the way (evaluate_every): they were "
                "trained without; use another folder to train them again"
            )
        return "\n".join([*lines, *(f"  {self._describe(population)}" for population in self.populations)])

    def _describe(self, population: Population) -> str:
        agents, first = len(population.runs), population.runs[0]
        text = f"{population.title}: {_count(agents, 'agent')} x {'at most ' if first.auto else ''}{first.updates:,} updates"
        if first.evaluate_every is not None:
            text += f", evaluated {_count(1 + first.num_points, 'time')}" + ("" if first.num_points else ", at the end")
        if population.population_id not in self.begun:
            return text
        text += f", goes on with a training that is {self.begun[population.population_id]:.0%} done"
        wanted = {run.run_id for run in self.experiment.runs}
        if others := sum(run.run_id not in wanted for run in population.runs):
            text += f" ({others:,} of its runs are not of this study: a training is one piece)"
        return text


@dataclass(frozen=True)
class SweepResult:
    """What a sweep did, of the runs of its study."""

    finished: int
    remaining: int
    paused: bool  # time ran out, and the next call goes on
    diverged: int = 0  # of the finished ones
    paused_at: str = ""  # how far the training is that was paused
    failures: tuple[str, ...] = ()  # populations that could not be done, and why


def plan_sweep(
    experiment: Experiment, store: str | Path | Store | None = None, *, max_agents: int | None = None
) -> SweepPlan:
    """What is missing in ``store`` (all, without one), and how it would be packed; writes nothing.

    Examples:
        >>> print(uw.plan_sweep(uw.read_experiment("demo")))
        demo: 25 runs, 0 finished, 25 to do
          bc on hopper: 25 agents x 20,000 updates
    """
    found = Store.find(store) if isinstance(store, str | Path) else store
    return _plan(experiment, found, max_agents, failed=())


def sweep(
    experiment: Experiment,
    store: str | Path,
    *,
    max_minutes: float = math.inf,
    max_agents: int | None = None,
    executor: Executor | None = None,
) -> SweepResult:
    """Train and evaluate every run of the study that is not in the store yet.

    It may be stopped at any moment and started again: finished runs are never repeated, and a training under way goes on from
    its last checkpoint. ``max_minutes`` cuts it into slices that add up. A population that cannot be done is noted in
    ``failures``, and the others are done. ``executor``: this computer, unless it is a :class:`~upweight.RayExecutor`.

    Examples:
        >>> uw.sweep(uw.read_experiment("demo"), "results")  # doctest: +SKIP
    """
    if max_minutes != math.inf:
        max_minutes = finite_number("max_minutes (--max-minutes)", max_minutes, least=0, error=ConfigError)
    deadline = time.monotonic() + 60 * max_minutes
    folder, executor = Store(store, create=True), executor or LocalExecutor()
    failed: list[Outcome] = []
    paused, paused_at = False, ""
    try:
        for outcome in _do_rounds(experiment, folder, max_agents, executor, deadline, failed):
            if outcome.failure is not None:
                failed.append(outcome)
            left = [run.run_id for run in experiment.runs if run.run_id not in folder]
            report("runs", len(experiment.runs) - len(left), len(experiment.runs), outcome.population.title)
            if time.monotonic() > deadline and not _runs_of(failed).issuperset(left):
                paused = True
                break
    except TrainingPaused as pause:
        paused, paused_at = True, str(pause)
    finished = [run.run_id for run in experiment.runs if run.run_id in folder]
    return SweepResult(
        finished=len(finished),
        remaining=len(experiment.runs) - len(finished),
        paused=paused,
        diverged=sum(folder.run(run_id)["status"] == "diverged" for run_id in finished),
        paused_at=paused_at,
        failures=tuple(f"{outcome.population.title}: {outcome.failure}" for outcome in failed),
    )


def _do_rounds(
    experiment: Experiment,
    store: Store,
    max_agents: int | None,
    executor: Executor,
    deadline: float,
    failed: Sequence[Outcome],
) -> Iterator[Outcome]:
    """Repeat until nothing is left to do: another sweep on this folder may have been stopped."""
    did_something = True
    while did_something:
        did_something = False
        plan = _plan(experiment, store, max_agents, failed=_runs_of(failed))
        report("runs", plan.finished, len(experiment.runs))
        for outcome in executor.execute(plan.populations, store, deadline=deadline):
            did_something = True
            yield outcome


def _runs_of(outcomes: Sequence[Outcome]) -> set[str]:
    return {run.run_id for outcome in outcomes for run in outcome.population.runs}


def _plan(experiment: Experiment, store: Store | None, max_agents: int | None, *, failed: Collection[str]) -> SweepPlan:
    missing = [run for run in experiment.runs if store is None or run.run_id not in store]
    lost = {run.run_id for run in missing}
    watched = [run.run_id for run in experiment.runs if run.num_points and run.run_id not in lost]
    pending = [run for run in missing if run.run_id not in failed]
    begun = [] if store is None else list(_under_way(pending, experiment, Work(store)))
    started = {run.run_id for population in begun for run in population.runs}
    populations = begun + pack([run for run in pending if run.run_id not in started], max_agents=max_agents)
    done = {} if store is None else {each.population_id: Work(store).share_done(each) for each in begun}
    return SweepPlan(
        experiment=experiment,
        finished=len(experiment.runs) - len(missing),
        without_points=sum(store is not None and "points" not in store.run(run_id) for run_id in watched),
        damaged=sum(store is not None and store.is_damaged(run.run_id) for run in missing),
        populations=tuple(populations),
        begun=done,
    )


def _under_way(pending: Sequence[RunSpec], experiment: Experiment, work: Work) -> Iterator[Population]:
    """Populations that were begun and have runs to do, complete: a training is one piece."""
    wanted = {run.run_id for run in pending}
    known = (run.data for run in experiment.runs)
    files = {data.content: data for data in known if data.content is not None}  # where they are now
    for population in work.begun():
        if any(run.run_id in wanted for run in population.runs):
            yield Population(tuple(_moved(run, files) for run in population.runs))


def _moved(run: RunSpec, files: Mapping[str, DataSpec]) -> RunSpec:
    """The run with the way to its file that the study knows, which may have moved since the training was begun."""
    now = files.get(run.data.content or "", run.data)
    return replace(run, data=replace(run.data, name=now.name, options=now.options))


def _count(number: int, what: str) -> str:
    """1 run, 2 runs."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
