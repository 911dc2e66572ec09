"""``train``: runs in, policies out."""

import contextlib
import logging
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
from numpy.typing import ArrayLike

from upweight.base.background import Background
from upweight.base.checks import whole_number, yes_or_no
from upweight.base.errors import ConfigError, UpweightError, naming_memory
from upweight.base.interrupts import Interrupts, interrupts_wait
from upweight.base.progress import report, showing
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.holdout import held_out_episodes
from upweight.data.notes import warn_of_data
from upweight.lab.play.evaluate import Evaluator
from upweight.lab.train.advance import Advance, advances, speed
from upweight.lab.train.advice import with_advice
from upweight.lab.train.agreement import Comparison, HeldOut, held_out
from upweight.lab.train.algorithm import Setup
from upweight.lab.train.checkpoint import take_snapshot
from upweight.lab.train.device import compilation_cache, number_types
from upweight.lab.train.extraction import extract_policies
from upweight.lab.train.folder import TrainingFolder, describe_training, training_folder
from upweight.lab.train.length import AUTO, CHOSEN_BY_ACTIONS, Length, choose_lengths, points_of
from upweight.lab.train.plan import Plan, make_plan
from upweight.lab.train.point_list import Every, as_every, points_before
from upweight.lab.train.points import Points, Watch, best_point, make_watch
from upweight.lab.train.population import Agents, Data, Interval, Program, Progress
from upweight.lab.train.prepare import (
    RunEpisodes,
    check_range,
    make_agents,
    make_data,
    make_parts,
    make_setup,
    with_given_weights,
)
from upweight.lab.train.repetition import warn_of_repetition
from upweight.lab.train.result import Kept, RunResult
from upweight.lab.train.run import Run, check_runs, without_episodes
from upweight.lab.train.scale import warn_of_scale
from upweight.lab.train.schedule import Schedule, make_schedule
from upweight.lab.train.spread import Devices, Spread, choose_devices
from upweight.lab.train.stream import StreamedData
from upweight.lab.train.tracking import Callback, Record
from upweight.policies.policy import Policy


class TrainingPaused(UpweightError):
    """A training met its deadline; its folder holds a checkpoint to go on from with ``resume=True``."""


CHECKPOINT_SECONDS = 60.0  # of work that a training which is killed may lose, if its disk keeps up
_log = logging.getLogger("upweight")


def plan_training(
    dataset: AnyDataset,
    runs: Iterable[Run],
    *,
    precision: str = "float32",
    max_agents: int | None = None,
    devices: Devices = None,
    kernels: str = "auto",
    stream: bool | None = None,
) -> Plan:
    """How the runs would be packed, the memory they would take, and what computes their networks; trains nothing.

    Args:
        dataset: as in :func:`train`.
        runs: as in :func:`train`.
        precision: "float32", "bfloat16" or "float64".
        max_agents: how many agents train together at most; as many as fit if None.
        devices: over which agents are spread, as in :func:`train`.
        kernels: what would compute networks in bfloat16, as in :func:`train`.
        stream: whether rows would be gathered batch by batch, as in :func:`train`.

    Examples:
        >>> print(uw.plan_training(ds, [uw.Run("bc", "rw", seed) for seed in range(5)]))
        bc x 5: about ... MiB (... MiB data, ... MiB per agent), ... networks by ... GiB
    """
    dataset, num_devices = as_dataset(dataset), len(choose_devices(devices))
    with number_types(precision), naming_memory("planning"):
        runs = with_advice(dataset, check_runs(dataset, runs))
        setup = make_setup(dataset, precision, kernels)
        return make_plan(
            dataset, runs, setup, max_agents=max_agents, num_devices=num_devices, kernels=kernels, stream=stream
        )


def train(
    dataset: AnyDataset,
    runs: Iterable[Run],
    *,
    num_updates: int | str,
    precision: str = "float32",
    output: str | Path | None = None,
    resume: bool = False,
    log_every_updates: int | None = None,
    checkpoint_every_updates: int | None = None,
    max_agents: int | None = None,
    kernels: str = "auto",
    deadline: float | None = None,
    callbacks: Iterable[Callback] = (),
    evaluate_every: Every | None = None,
    evaluate_with: Evaluator | str | None = None,
    progress: bool | None = None,
    holdout: float | ArrayLike | None = None,
    devices: Devices = None,
    stream: bool | None = None,
) -> list[RunResult]:
    """Train every run, as many as fit at a time, and return one result per run, in order.

    Ctrl-C takes effect when the updates of the moment (about two seconds) are done and a checkpoint is written; a second at once.

    Args:
        dataset: a dataset, or anything that :func:`upweight.load` makes one of.
        runs: the agents, each a :class:`~upweight.Run`.
        num_updates: how many updates every agent makes; or "auto" for at most 100,000, after which policies that copy actions are
            kept as they were when they did best on held-out actions, or, where few episodes count, after a thousand passes
            through those. ``RunResult.kept`` says which and why. Actor-critics keep the last policy.
        precision: "float32", "bfloat16" (products and activations; parameters stay float32) or "float64".
        output: a folder for metrics, policies and a checkpoint a minute; if None, nothing is written.
        resume: whether to go on with the training that was interrupted in ``output``.
        log_every_updates: updates between two records of metrics; by default about a fiftieth of the training.
        checkpoint_every_updates: updates between two checkpoints; by default one a minute.
        max_agents: how many agents train together at most; by default as many as fit. A training that goes on keeps the programs
            that it began with.
        kernels: what computes networks in bfloat16: "xla", "fused" (on a Hopper GPU), or "auto" for the faster of the two.
        deadline: a value of ``time.monotonic()``. The training is then saved in its folder, and :class:`TrainingPaused` raised.
        callbacks: functions that are called with the new records of metrics.
        evaluate_every: updates between two evaluations, or a list of updates. Policies play then and at the end, during the
            training unless the device is the CPU, and the training stays the same. ``RunResult.points`` has the returns, and
            ``RunResult.best`` the best policy, chosen with the simulator.
        evaluate_with: the environment they play in, an id or an :class:`~upweight.Evaluator`; by default what the dataset names.
        progress: whether to show a bar; by default in terminals and notebooks.
        holdout: a share of the episodes, or which, that no run learns from (``RunResult.holdout``). Actions are compared with
            theirs at the end (``RunResult.agreement``). The draw follows from the data, not from seeds; plan.json lists them.
        devices: over which agents are spread, the data on each: a number, or some of ``jax.local_devices()``; by default all.
            Results are the same to rounding, whichever other agents train too.
        stream: whether rows stay where they are and are gathered batch by batch, while the device learns from the batches before
            (the same ones, bit for bit). By default rows of a packed dataset (:func:`upweight.pack`) that do not fit on the
            device.

    Examples:
        >>> small = uw.algorithm_config("bc", hidden_units=(8,), batch_size=8)
        >>> results = uw.train(ds, [uw.Run(small, "uniform"), uw.Run(small, "rw")], num_updates=10)
        >>> [result.status for result in results], results[1].policy.act(ds.observations[:5]).shape
        (['finished', 'finished'], (5, 1))
    """
    if num_updates != AUTO:
        num_updates = whole_number('num_updates (or "auto")', num_updates, least=1, error=ConfigError)
    elif evaluate_every is not None:
        raise ConfigError('evaluate_every chooses with the simulator, num_updates="auto" without it: give one of them')
    if log_every_updates is not None:
        log_every_updates = whole_number("log_every_updates", log_every_updates, least=1, error=ConfigError)
    if checkpoint_every_updates is not None:
        checkpoint_every_updates = whole_number(
            "checkpoint_every_updates", checkpoint_every_updates, least=1, error=ConfigError
        )
    if evaluate_every is not None:
        evaluate_every = as_every(evaluate_every)
    if callable(callbacks):
        raise ConfigError("callbacks: expected a list of functions, found one; put it into a list")
    callbacks = tuple(callbacks)
    if evaluate_every is None and evaluate_with is not None:
        raise ConfigError("evaluate_with: needs evaluate_every, which says when; or play afterwards: uw.evaluate")
    resume = yes_or_no("resume", resume, error=ConfigError)
    if output is None and (resume or deadline is not None):
        raise ConfigError("resume and a deadline need an output folder, with what was done until then")
    dataset, chosen = as_dataset(dataset), choose_devices(devices)
    with showing(progress), number_types(precision), compilation_cache(), naming_memory("training"):
        asked = with_advice(dataset, check_runs(dataset, runs))
        runs, lengths = _check(dataset, asked, holdout, num_updates)
        parts = make_parts(dataset, runs)
        runs = with_given_weights(runs, parts)
        comparison = Comparison(dataset, runs, [length.held for length in lengths])
        setup, most = make_setup(dataset, precision, kernels), len(chosen)
        check_range(dataset, setup, with_rewards=any(run.method.uses_rewards for run in runs))
        plan = make_plan(dataset, runs, setup, max_agents=max_agents, num_devices=most, kernels=kernels, stream=stream)
        watch = None if evaluate_every is None else make_watch(evaluate_every, evaluate_with, dataset, runs, setup)
        if num_updates != AUTO:
            warn_of_repetition(runs, parts, int(num_updates))
        results: dict[int, RunResult] = {}
        with contextlib.ExitStack() as opened:  # the folder, and points that play while the next program trains
            folder = None
            if output is not None:
                more = _describe_lengths(lengths, is_auto=num_updates == AUTO, is_held_out=holdout is not None)
                about = describe_training(dataset, runs, parts, points_of(lengths)[-1], precision, more)
                programs = [part.runs for part in plan.programs]
                folder = opened.enter_context(training_folder(Path(output), about, programs, resume=resume))
                plan = plan.repacked(folder.programs)
            _log.info("%s", plan)
            watched = list[tuple[Sequence[int], Points]]()
            for number, part in enumerate(plan.programs):
                mine, learned = [runs[place] for place in part.runs], [parts[place] for place in part.runs]
                spread = Spread(len(mine), chosen[:1] if part.streams else chosen)
                here = setup.with_kernels(part.fused)
                ends = points_of(lengths[place] for place in part.runs)
                if num_updates == AUTO:
                    watch = Watch(ends, comparison, CHOSEN_BY_ACTIONS, {n: lengths[n].points for n in part.runs})
                every = log_every_updates, None if watch is None else watch.every
                group = _ProgramRuns(dataset, part.runs, mine, learned, ends[-1], here, spread, part.streams, *every)
                recorder = (
                    None if folder is None else _Recorder(folder, number, group, checkpoint_every_updates, deadline)
                )
                points = None if watch is None else opened.enter_context(Points(watch, folder, number))
                found = None if recorder is None else recorder.finished()
                if points is not None and found is not None:
                    points.go_on(ends[-1] - 1)
                found = found or _train_program(group, recorder, callbacks, points)
                results |= zip(part.runs, found, strict=True)
                if points is not None:
                    points.end(ends[-1], {n: results[n].policy for n in part.runs})
                    watched.append((part.runs, points))
            for numbers, points in watched:
                points.wait()
                if num_updates != AUTO:
                    results |= {n: replace(results[n], points=points.of(n), best=points.best(n)) for n in numbers}
                    continue
                for n in numbers:
                    results[n] = _kept(replace(results[n], run=asked[n]), lengths[n], points.of(n), points.best(n))
                if folder is not None:
                    folder.write_policies({n: results[n].policy for n in numbers})
            return _finish(comparison, folder, lengths, [results[place] for place in range(len(runs))])


def _check(
    dataset: Dataset, asked: Sequence[Run], holdout: float | ArrayLike | None, num_updates: int | str
) -> tuple[list[Run], list[Length]]:
    """Refuse what cannot work; warn of data that may not be what they seem, or that networks cannot learn from as they are.

    The runs come back without the episodes that are held out, and with how long each of them trains.
    """
    held: Sequence[HeldOut | None] = [None] * len(asked)
    if holdout is not None:
        held = held_out(dataset, asked, held_out_episodes(dataset, holdout))
    if num_updates == AUTO:
        lengths = choose_lengths(dataset, asked, held)
    else:
        lengths = [Length((int(num_updates),), "the number given", each) for each in held]
    runs = [
        run if length.held is None else without_episodes(run, length.held.episodes, dataset)
        for run, length in zip(asked, lengths, strict=True)
    ]
    warn_of_data(dataset, stacklevel=3)
    warn_of_scale(dataset, runs)
    return runs, lengths


def _describe_lengths(lengths: Sequence[Length], *, is_auto: bool, is_held_out: bool) -> Record:
    """For the plan: which episodes all runs do without, and when the policy of each may be kept."""
    found: Record = {AUTO: [length.to_dict() for length in lengths]} if is_auto else {}
    if is_held_out and (held := lengths[0].held) is not None:
        found["holdout"] = held.episodes.tolist()
    return found


def _kept(result: RunResult, length: Length, points: list[Record], best: Policy | None) -> RunResult:
    """With the policy of the best point; with the last one if none was sound."""
    if best is None:
        return result
    updates = min(result.updates, best_point(points)["updates"])
    return replace(result, policy=best, updates=updates, kept=Kept(length.by, points))


def _finish(
    comparison: Comparison, folder: TrainingFolder | None, lengths: Sequence[Length], trained: Sequence[RunResult]
) -> list[RunResult]:
    """Compare the policies with the log, and write down what the runs came to."""
    found = comparison.agreements([result.policy for result in trained])
    results = [
        replace(result, agreement=each, holdout=None if length.held is None else length.held.episodes)
        for result, each, length in zip(trained, found, lengths, strict=True)
    ]
    if folder is not None:
        folder.write_results([result.to_dict() for result in results])
    return results


@dataclass(frozen=True)
class _ProgramRuns:
    """The runs of one program, and how long they train."""

    dataset: Dataset
    numbers: Sequence[int]  # of the runs, in the whole training
    runs: Sequence[Run]
    parts: Sequence[RunEpisodes]  # what each of them learns from
    num_updates: int
    setup: Setup
    spread: Spread
    streams: bool
    log_every: int | None
    evaluate_every: Every | None = None

    @property
    def title(self) -> str:
        return f"{self.runs[0].method.name} x {len(self.runs)}"

    @property
    def kernels(self) -> str:
        return "fused" if self.setup.compute.fused else "xla"

    @cached_property
    def schedule(self) -> Schedule:
        first = self.runs[0]
        made = make_schedule(self.num_updates, self.log_every, first.method, first.config, len(self.runs))
        return replace(made, points=points_before(self.evaluate_every, self.num_updates))

    @property
    def about(self) -> dict[str, Any]:
        """What its policies say of where they come from."""
        where = {key: self.dataset.metadata[key] for key in ("env_id", "categories") if key in self.dataset.metadata}
        return {"num_updates": self.num_updates, "dataset": self.dataset.source, **where}

    def metrics_of(self, number: int, history: Sequence[Record]) -> list[Record]:
        return [record for record in history if record["run"] == number]


def _train_program(
    group: _ProgramRuns, recorder: "_Recorder | None", callbacks: Sequence[Callback], points: Points | None
) -> list[RunResult]:
    """Train the runs of one program to the end, unless somebody presses Ctrl-C."""
    kept = "nothing is kept, for want of an output folder" if recorder is None else "a checkpoint is written then"
    with interrupts_wait(f"stopping after these updates ({kept}); press Ctrl-C again to exit at once") as interrupts:
        return _train_waiting(group, recorder, callbacks, points, interrupts)


def _train_waiting(
    group: _ProgramRuns,
    recorder: "_Recorder | None",
    callbacks: Sequence[Callback],
    points: Points | None,
    interrupts: Interrupts,
) -> list[RunResult]:
    """Tell those who listen after each chunk, and leave after one if somebody wants to."""
    method, config = group.runs[0].method, group.runs[0].config
    program = Program(method, config, group.setup, group.spread)
    agents = group.spread.put(make_agents(group.runs, group.parts, group.setup, group.num_updates))
    data: Data | StreamedData = StreamedData(group.dataset, program, agents)
    if not group.streams:
        data = group.spread.share(make_data(group.dataset, method, group.setup))
    progress, done, history = program.start(agents), 0, list[Record]()
    if recorder is not None:
        some = data.sample() if isinstance(data, StreamedData) else data
        interval = jax.eval_shape(program.begin_interval, progress, agents, some)
        progress, done, history = recorder.resume(progress, interval)
    jax.block_until_ready((() if group.streams else data, agents, progress))  # type: ignore[no-untyped-call]
    interrupts.heed()
    if points is not None:
        with interrupts.at_once():
            points.go_on(done)
    report(group.title, done, group.num_updates, "compiling")
    with recorder.writing if recorder is not None else contextlib.nullcontext():
        began, latest = time.perf_counter(), list[Record]()
        for step in advances(program, agents, data, progress, done, group.schedule, group.numbers):
            rate = (step.num_updates - done) / (time.perf_counter() - began)
            progress, done, records = step
            history += records
            latest = records or latest
            report(group.title, done, group.num_updates, speed(rate, len(group.runs), latest))
            for callback in callbacks if progress.interval is None else ():
                callback(records)
            is_point = points is not None and done in group.schedule.points
            if points is not None and is_point:
                about = {**group.about, **points.chosen, "num_updates": done}
                points.keep(done, _policies_now(about, group, program, progress, agents))
            if recorder is not None:
                recorder.keep(step, save=interrupts.heard or is_point)
            if done < group.num_updates:
                interrupts.heed()
            if points is not None and is_point:
                with interrupts.at_once():  # policies and checkpoint are kept
                    points.play(done)
            began = time.perf_counter()
    results = _results(group, program, progress, agents, history)
    if recorder is not None:
        recorder.finish(results)
    return results


class _Recorder:
    """Keeps one program's training in its folder: metrics at once, checkpoints now and then, written by a second thread."""

    def __init__(
        self, folder: TrainingFolder, program: int, group: _ProgramRuns, every: int | None, deadline: float | None
    ) -> None:
        self._folder, self._program, self._group = folder, program, group
        self._every = every or 10 * group.schedule.interval
        self._deadline = math.inf if deadline is None else deadline
        self._saved_at, self._saved_time = 0, time.monotonic()
        self.writing = Background()

    def finished(self) -> list[RunResult] | None:
        """What an earlier call trained to the end, if it did."""
        found = self._folder.finished_program(self._program)
        if found is None:
            return None
        group, history = self._group, self._folder.read_metrics(self._group.numbers, self._group.num_updates)
        return [
            RunResult(run=run, policy=policy, metrics=group.metrics_of(number, history), **outcome)
            for number, run, outcome, policy in zip(group.numbers, group.runs, *found, strict=True)
        ]

    def resume(self, fresh: Progress, interval: Interval) -> tuple[Progress, int, list[Record]]:
        """Where an earlier call was, maybe within an interval (of that structure), or the beginning; and its log until there."""
        spread = self._group.spread
        likes = jax.eval_shape(spread.take, (fresh._replace(interval=interval), fresh))
        progress, self._saved_at = self._folder.load_checkpoint(self._program, *likes) or (fresh, 0)
        return spread.put(progress), self._saved_at, self._folder.read_metrics(self._group.numbers, self._saved_at)

    def keep(self, step: Advance, *, save: bool) -> None:
        """Write what is new, and a checkpoint if one is due or wanted; pause the training if its deadline is over."""
        if step.records:
            self._folder.append_metrics(step.records)
        if step.num_updates == self._group.num_updates:
            return
        now = time.monotonic()
        late, many = now > self._deadline, step.num_updates - self._saved_at >= self._every
        if save or late or many or (now - self._saved_time >= CHECKPOINT_SECONDS and not self.writing.is_busy):
            self.writing.wait()  # at most one is under way
            snapshot = take_snapshot(self._group.spread.take(step.progress))
            self.writing.start(partial(self._folder.save_checkpoint, self._program, snapshot, step.num_updates))
            self._saved_at, self._saved_time = step.num_updates, now
        if late:
            where = f"{step.num_updates:,} of {self._group.num_updates:,} updates of {self._group.title}"
            raise TrainingPaused(f"{self._folder.path}: paused at {where}")

    def finish(self, results: Sequence[RunResult]) -> None:
        outcomes, policies = [result.outcome() for result in results], [result.policy for result in results]
        self._folder.finish_program(self._program, outcomes, policies)


def _policies_now(
    about: Record, group: _ProgramRuns, program: Program, progress: Progress, agents: Agents
) -> dict[int, Policy]:
    """Policies on the way, by the number of their run: of agents that have not diverged."""
    policies = extract_policies(program, progress, agents, group.runs, about)
    lost = jax.device_get(group.spread.take(progress.diverged_at)) >= 0
    return {number: policy for number, policy, gone in zip(group.numbers, policies, lost, strict=True) if not gone}


def _results(
    group: _ProgramRuns, program: Program, progress: Progress, agents: Agents, history: Sequence[Record]
) -> list[RunResult]:
    policies = extract_policies(program, progress, agents, group.runs, group.about)
    results = []
    for place, (number, run) in enumerate(zip(group.numbers, group.runs, strict=True)):
        lost = int(progress.diverged_at[place])
        result = RunResult(
            run=run,
            policy=policies[place],
            status="finished" if lost < 0 else "diverged",
            updates=int(progress.num_updates[place]),
            diverged_at=None if lost < 0 else lost,
            metrics=group.metrics_of(number, history),
            kernels=group.kernels,
        )
        results.append(result)
    return results
