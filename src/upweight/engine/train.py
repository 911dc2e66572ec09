"""``train``: runs in, policies out."""

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from upweight.base.background import Background
from upweight.base.cache import cache_folder
from upweight.base.errors import ConfigError, UpweightError
from upweight.base.progress import report
from upweight.data.dataset import Dataset
from upweight.engine.algorithm import Setup
from upweight.engine.checkpoint import take_snapshot
from upweight.engine.folder import Record, TrainingFolder, describe_training
from upweight.engine.interrupts import interrupts_wait
from upweight.engine.plan import Plan, ProgramPlan, make_plan
from upweight.engine.population import BLOCK_UPDATES, Agents, Program, Progress
from upweight.engine.prepare import PRECISIONS, ActionSpace, action_space, make_agents, make_data, make_setup
from upweight.engine.run import Run, check_runs
from upweight.policies.policy import Policy


class TrainingPaused(UpweightError):
    """A training met its deadline; its folder holds a checkpoint to go on from with ``resume=True``."""


Callback = Callable[[Sequence[Record]], None]
_LOGS_PER_TRAINING = 50
_log = logging.getLogger("upweight")


@dataclass(frozen=True, eq=False)
class RunResult:
    """What one run came to."""

    run: Run
    policy: Policy
    status: str  # "finished" or "diverged"
    updates: int  # healthy ones
    diverged_at: int | None  # the update at which a NaN first showed
    metrics: list[Record] = field(repr=False)  # one entry per log interval

    def outcome(self) -> Record:
        """How it ended."""
        return {"status": self.status, "updates": self.updates, "diverged_at": self.diverged_at}

    def to_dict(self) -> Record:
        last = self.metrics[-1] if self.metrics else {}
        return {
            **self.run.to_dict(),
            **self.outcome(),
            "last_metrics": {k: v for k, v in last.items() if k not in {"run", "updates"}},
        }


def plan_training(
    dataset: Dataset, runs: Sequence[Run], *, precision: str = "float32", max_agents: int | None = None
) -> Plan:
    """How the runs would be packed, and the memory they would take; compiles nothing."""
    with _number_types(precision):
        check_runs(dataset, runs)
        return make_plan(dataset, runs, make_setup(dataset, action_space(dataset), precision), max_agents=max_agents)


def train(
    dataset: Dataset,
    runs: Sequence[Run],
    *,
    num_updates: int,
    precision: str = "float32",
    output: str | Path | None = None,
    resume: bool = False,
    log_every_updates: int | None = None,
    checkpoint_every_updates: int | None = None,
    max_agents: int | None = None,
    deadline: float | None = None,
    callbacks: Sequence[Callback] = (),
) -> list[RunResult]:
    """Train every run, as many as fit at a time, and return one result per run, in order.

    ``precision``: "float32", "bfloat16" (products and activations; parameters stay float32) or "float64". With an ``output``
    folder, metrics, checkpoints and policies are written there, and ``resume=True`` goes on after an interruption.
    ``callbacks`` are called with the new metric records at each log interval. ``max_agents`` limits how many train together; a
    training that goes on keeps the programs that it began with.
    At the ``deadline`` (a value of ``time.monotonic()``) the training is saved in its folder and :class:`TrainingPaused` raised.
    """
    if isinstance(num_updates, bool) or not isinstance(num_updates, int) or num_updates < 1:
        raise ConfigError(f"num_updates: expected a whole number above 0, found {num_updates!r}")
    if deadline is not None and output is None:
        raise ConfigError("a deadline needs an output folder, to keep what was done until then")
    if resume and output is None:
        raise ConfigError("resume needs the output folder of the training to go on with")
    with _number_types(precision), _compilation_cache():
        check_runs(dataset, runs)
        space = action_space(dataset)
        setup = make_setup(dataset, space, precision)
        plan = make_plan(dataset, runs, setup, max_agents=max_agents)
        folder = None
        if output is not None:
            about = describe_training(dataset, runs, num_updates, precision)
            folder = TrainingFolder(Path(output), about, [part.runs for part in plan.programs], resume=resume)
            plan = plan.repacked(folder.programs)
        _log.info("%s", plan)
        job = _Job(dataset, runs, num_updates, setup, space, folder, callbacks)
        job.log_every = log_every_updates
        job.checkpoint_every = checkpoint_every_updates
        job.deadline = math.inf if deadline is None else deadline
        results: dict[int, RunResult] = {}
        for number, part in enumerate(plan.programs):
            results |= job.run_program(number, part)
        ordered = [results[number] for number in range(len(runs))]
        if folder is not None:
            folder.write_results([result.to_dict() for result in ordered])
        return ordered


@dataclass
class _Job:
    """A training under way."""

    dataset: Dataset
    runs: Sequence[Run]
    num_updates: int
    setup: Setup
    space: ActionSpace
    folder: TrainingFolder | None
    callbacks: Sequence[Callback]
    log_every: int | None = None
    checkpoint_every: int | None = None
    deadline: float = math.inf

    def run_program(self, number: int, part: ProgramPlan) -> dict[int, RunResult]:
        """Train the runs of one program to the end."""
        if self.folder is not None and (found := self.folder.finished_program(number)) is not None:
            return self._finished(part, self.folder, *found)
        runs = [self.runs[place] for place in part.runs]
        method, config = runs[0].method, runs[0].config
        chunk = choose_chunk(self.num_updates, method.period(config), self.log_every)
        program = Program(method, config, self.setup, block=choose_block(chunk, method.period(config)))
        with interrupts_wait():
            data = make_data(self.dataset, method, self.space, self.setup)
            agents = make_agents(self.dataset, runs, self.setup, self.num_updates)
            progress, done, history = self._start(program, agents, number, part)
            jax.block_until_ready(progress)  # type: ignore[no-untyped-call]
        since_checkpoint = 0
        name = f"{method.name} x {len(runs)}"
        with Background() as writing:
            while done < self.num_updates:
                count = min(chunk, self.num_updates - done)
                began = time.perf_counter()
                with interrupts_wait():
                    progress, sums, healthy = program.advance(progress, agents, data, done, count)
                    records = self._records(part, program, sums, np.asarray(healthy), done, count)
                done += count
                rate = count / (time.perf_counter() - began)
                report(name, done, self.num_updates, _detail(rate, len(runs), records))
                history += records
                for callback in self.callbacks:
                    callback(records)
                since_checkpoint += count
                if self.folder is not None:
                    self.folder.append_metrics(records)
                    late = time.monotonic() > self.deadline and done < self.num_updates
                    due = since_checkpoint >= (self.checkpoint_every or 10 * chunk) and done < self.num_updates
                    if late or due:
                        self._save(writing, number, progress, done)
                        since_checkpoint = 0
                    if late:
                        raise TrainingPaused(
                            f"{self.folder.path}: paused at {done:,} of {self.num_updates:,} updates of {name}"
                        )
        results = self._results(part, program, progress, agents, history)
        if self.folder is not None:
            ended = [results[run] for run in part.runs]
            self.folder.finish_program(number, [end.outcome() for end in ended], [end.policy for end in ended])
        return results

    def _finished(
        self, part: ProgramPlan, folder: TrainingFolder, outcomes: Sequence[Record], policies: Sequence[Policy]
    ) -> dict[int, RunResult]:
        """What an earlier call trained, from its folder."""
        history = folder.read_metrics(part.runs, self.num_updates)
        return {
            run: RunResult(
                run=self.runs[run],
                policy=policy,
                metrics=[record for record in history if record["run"] == run],
                **outcome,
            )
            for run, outcome, policy in zip(part.runs, outcomes, policies, strict=True)
        }

    def _save(self, writing: Background, number: int, progress: Progress, updates: int) -> None:
        """Write a checkpoint beside the training; at most one is under way."""
        assert self.folder is not None
        writing.wait()
        writing.start(partial(self.folder.save_checkpoint, number, take_snapshot(progress), updates))

    def _start(
        self, program: Program, agents: Agents, number: int, part: ProgramPlan
    ) -> tuple[Progress, int, list[Record]]:
        progress = program.start(agents)
        if self.folder is None:
            return progress, 0, []
        progress, done = self.folder.load_checkpoint(number, progress) or (progress, 0)
        return progress, done, self.folder.read_metrics(part.runs, done)

    def _records(
        self, part: ProgramPlan, program: Program, sums: dict[str, Any], healthy: Any, done: int, count: int
    ) -> list[Record]:
        """Mean of each metric over the healthy updates of the chunk, per run; those that had none are left out."""
        values = {name: np.asarray(total, np.float64) for name, total in sums.items()}
        share = {name: program.metric_share(name, done, count) for name in values}
        records = []
        for place, run in enumerate(part.runs):
            if healthy[place] > 0:
                means = {name: float(total[place] / (healthy[place] * share[name])) for name, total in values.items()}
                records.append({"run": run, "updates": done + count, **means})
        return records

    def _results(
        self, part: ProgramPlan, program: Program, progress: Progress, agents: Agents, history: list[Record]
    ) -> dict[int, RunResult]:
        states, diverged = jax.tree.map(np.asarray, progress.states), np.asarray(progress.diverged_at)
        results = {}
        for place, number in enumerate(part.runs):
            run = self.runs[number]
            lost = int(diverged[place])
            state = jax.tree.map(lambda leaf, place=place: leaf[place], states)
            policy = self._policy(run, program, state, agents, place)
            results[number] = RunResult(
                run=run,
                policy=policy,
                status="finished" if lost < 0 else "diverged",
                updates=self.num_updates if lost < 0 else lost,
                diverged_at=None if lost < 0 else lost,
                metrics=[record for record in history if record["run"] == number],
            )
        return results

    def _policy(self, run: Run, program: Program, state: Any, agents: Agents, place: int) -> Policy:
        parts = program.algorithm.policy(state, program.config)

        def single(array: Any) -> Any:
            return np.asarray(array, np.float32)

        where = {"env_id": self.dataset.metadata["env_id"]} if "env_id" in self.dataset.metadata else {}
        return Policy(
            kind=parts.kind,
            layers=tuple((single(layer.weight), single(layer.bias)) for layer in parts.layers),
            observation_mean=single(agents.observation_mean[place]),
            observation_scale=single(agents.observation_scale[place]),
            log_std=None if parts.log_std is None else single(parts.log_std),
            action_low=self.space.low,
            action_high=self.space.high,
            metadata={"run": run.to_dict(), "num_updates": self.num_updates, "dataset": self.dataset.source, **where},
        )


def choose_chunk(num_updates: int, period: int, log_every: int | None) -> int:
    """Updates per call of the compiled program: about a fiftieth of the training (or ``log_every``), a multiple of the period.

    If possible the chunk divides the training, because a shorter last call would be compiled anew.
    """
    wanted = log_every or max(BLOCK_UPDATES, num_updates // _LOGS_PER_TRAINING)
    wanted = max(period, wanted // period * period)
    for chunk in range(wanted, min(4 * wanted, num_updates) + 1, period):
        if num_updates % chunk == 0:
            return chunk
    return num_updates if num_updates <= 4 * wanted else wanted


def choose_block(chunk: int, period: int) -> int:
    """The largest block that divides the chunk, again to compile one size only."""
    sizes = [size for size in range(period, min(BLOCK_UPDATES, chunk) + 1, period) if chunk % size == 0]
    return max(sizes, default=min(BLOCK_UPDATES, chunk))


def _detail(rate: float, agents: int, records: Sequence[Record]) -> str:
    """Speed and losses for the progress bar."""
    text = f"{rate:,.0f} updates/s each, {rate * agents:,.0f} in all"
    names = [name for name in (records[0] if records else {}) if name.endswith("loss")]
    return ", ".join([text, *(f"{name} {np.median([r[name] for r in records]):.4g}" for name in names)])


@contextlib.contextmanager
def _number_types(precision: str) -> Iterator[None]:
    """64-bit numbers only while they are asked for."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision: expected one of {', '.join(PRECISIONS)}, found {precision!r}")
    if precision != "float64":
        yield
        return
    with jax.enable_x64(True):
        yield


@contextlib.contextmanager
def _compilation_cache() -> Iterator[None]:
    """Keep compiled programs between processes, unless the user has set up a cache of their own."""
    settings: Any = jax.config  # has no types
    if settings.jax_compilation_cache_dir is not None:
        yield
        return
    folder = cache_folder() / "xla"
    with contextlib.suppress(OSError):  # a read-only home is no reason to fail
        folder.mkdir(parents=True, exist_ok=True)
        settings.update("jax_compilation_cache_dir", str(folder))
    try:
        yield
    finally:
        settings.update("jax_compilation_cache_dir", None)
