"""``sweep``: do what is missing of a study, and keep it."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upweight.data.progress import report
from upweight.engine.train import TrainingPaused
from upweight.experiments.estimate import Estimate, estimate_time
from upweight.experiments.executor import Executor, LocalExecutor
from upweight.experiments.experiment_file import Experiment
from upweight.experiments.packing import Population, pack
from upweight.experiments.run_spec import RunSpec, run_spec_from_dict
from upweight.experiments.store import Store


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep would do."""

    experiment: Experiment
    finished: int  # runs that are in the store already
    populations: tuple[Population, ...]  # of the others
    estimate: Estimate

    def __str__(self) -> str:
        pending = sum(len(population.runs) for population in self.populations)
        lines = [
            f"{self.experiment.name}: {len(self.experiment.runs):,} runs, {self.finished:,} finished, {pending:,} to do"
        ]
        for population in self.populations:
            updates = population.runs[0].updates
            lines.append(f"  {population.title}: {len(population.runs):,} agents x {updates:,} updates")
        if pending:
            lines.append(f"  about {self.estimate}")
        return "\n".join(lines)


@dataclass(frozen=True)
class SweepResult:
    """What a sweep did; ``paused`` says that time ran out and the next call goes on."""

    finished: int
    remaining: int
    paused: bool


def plan_sweep(experiment: Experiment, store: str | Path | Store, *, max_agents: int | None = None) -> SweepPlan:
    """What is missing, how it would be packed, and how long it may take."""
    opened = store if isinstance(store, Store) else Store(store, create=True)
    pending = [run for run in experiment.runs if run.run_id not in opened]
    populations = _under_way(pending, opened)
    started = {run.run_id for population in populations for run in population.runs}
    populations += pack([run for run in pending if run.run_id not in started], max_agents=max_agents)
    return SweepPlan(experiment, len(experiment.runs) - len(pending), tuple(populations), estimate_time(populations))


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
    its last checkpoint. ``max_minutes`` cuts it into slices that add up.
    """
    opened = Store(store, create=True)
    deadline = time.monotonic() + 60 * max_minutes
    plan = plan_sweep(experiment, opened, max_agents=max_agents)
    total, done = len(experiment.runs), plan.finished
    report("runs", done, total)
    paused = False
    try:
        for population in (executor or LocalExecutor()).execute(plan.populations, opened, deadline=deadline):
            done = total - sum(run.run_id not in opened for run in experiment.runs)
            report("runs", done, total, population.title)
            if time.monotonic() > deadline and done < total:
                paused = True
                break
    except TrainingPaused:
        paused = True
    left = sum(run.run_id not in opened for run in experiment.runs)
    return SweepResult(total - left, left, paused)


def _under_way(pending: Sequence[RunSpec], store: Store) -> list[Population]:
    """Populations that were begun and have runs to do, complete: a training is one piece."""
    missing = {run.run_id for run in pending}
    begun = [Population(tuple(run_spec_from_dict(run) for run in runs)) for runs in store.populations()]
    return [population for population in begun if any(run.run_id in missing for run in population.runs)]
