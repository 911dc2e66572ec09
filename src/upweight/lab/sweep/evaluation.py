"""From trained policies to records in the store."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import NamedTuple

from upweight.base.optional import installed_versions
from upweight.lab.play.evaluate import Evaluation, Evaluator
from upweight.lab.study.run_spec import RunSpec
from upweight.lab.study.store import Record, Store
from upweight.lab.train.result import RunResult

_PACKAGES = ("upweight", "jax", "numpy", "gymnasium", "mujoco")
_WRITERS = 16  # they wait for the disk, not for each other


class Trained(NamedTuple):
    """A run that was trained."""

    run: RunSpec
    result: RunResult
    train_seconds: float  # of the population, and of its points on the way where those are played in turn
    data_sha256: str  # of the dataset: those by name may differ in the last digits between machines
    device: str  # that trained it
    agents: int  # that it was trained with, itself included
    holdout: Record | None = None  # the episodes of the dataset that were kept back, if any


def evaluate_and_store(trained: Sequence[Trained], store: Store, *, workers: int | None, keep_policies: bool) -> None:
    """Evaluate the runs of a population that are not in the store, and write them."""
    began, missing = time.perf_counter(), missing_runs(trained, store)
    played = play_runs(missing, workers)
    store_runs(missing, played, store, seconds=time.perf_counter() - began, keep_policies=keep_policies)


def missing_runs(trained: Sequence[Trained], store: Store) -> list[Trained]:
    """Those that are not in the store."""
    return [each for each in trained if each.run.run_id not in store]


def play_runs(trained: Sequence[Trained], workers: int | None) -> list[Evaluation]:
    """Play the policies of some runs; results do not depend on the other runs."""
    if not trained:
        return []
    evaluator = evaluator_of([each.run for each in trained], workers)
    return evaluator.play(range(len(trained)), [each.result.policy for each in trained])


def store_runs(
    trained: Sequence[Trained], played: Sequence[Evaluation], store: Store, *, seconds: float, keep_policies: bool
) -> None:
    """Write runs and how they played, which took so many seconds: a policy always before its record."""
    versions = installed_versions(*_PACKAGES)

    def write(place: int) -> None:
        run_id, result, evaluation = trained[place].run.run_id, trained[place].result, played[place]
        if keep_policies:
            result.policy.save(store.policy_path(run_id))
            was_better = any(point["mean_return"] > evaluation.mean_return for point in result.points)
            if result.best is not None and was_better:
                result.best.save(store.best_policy_path(run_id))
        store.write_run(run_id, _record(trained[place], evaluation, seconds, versions))

    with ThreadPoolExecutor(_WRITERS) as writers:
        list(writers.map(write, range(len(trained))))


def evaluator_of(runs: Sequence[RunSpec], workers: int | None) -> Evaluator:
    """How the runs of a population are evaluated: those of one seed play the same episodes."""
    env_ids = [run.data.env_id for run in runs]
    return Evaluator(env_ids, [run.episodes for run in runs], [run.seed for run in runs], workers, last=False)


def _record(trained: Trained, evaluation: Evaluation, seconds: float, versions: Record) -> Record:
    outcome = {"status": trained.result.status, "diverged_at": trained.result.diverged_at}
    returns = {**evaluation.summary(), "lengths": evaluation.lengths.tolist()}
    returns |= {} if trained.run.evaluate_every is None else {"points": trained.result.points}
    if (kept := trained.result.kept) is not None:
        returns["kept"] = {"updates": trained.result.updates, **asdict(kept)}
    data: Record = {"data_sha256": trained.data_sha256, "train_seconds": round(trained.train_seconds, 2)}
    data |= {} if trained.holdout is None else {"holdout": trained.holdout}
    how = {"agents": trained.agents, "device": trained.device, "kernels": trained.result.kernels, "versions": versions}
    about = {"spec": trained.run.to_dict(), **outcome, **returns, **data}
    return {**about, "evaluate_seconds": round(seconds, 2), **how}
