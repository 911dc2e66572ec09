"""From trained policies to records in the store."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax

from upweight.base.optional import installed_versions
from upweight.engine.train import RunResult
from upweight.rollout.evaluate import Evaluation, evaluate
from upweight.studies.run_spec import RunSpec
from upweight.studies.store import Record, Store

_PACKAGES = ("upweight", "jax", "numpy", "gymnasium", "mujoco")
_WRITERS = 16  # they wait for the disk, not for each other


class Trained(NamedTuple):
    """A run that was trained."""

    run: RunSpec
    result: RunResult
    train_seconds: float  # of the population
    data_sha256: str  # of the data that it saw: datasets by name may differ in the last digits between machines


def evaluate_and_store(trained: Sequence[Trained], store: Store, *, workers: int | None, keep_policies: bool) -> None:
    """Evaluate the runs of a population that are not in the store, and write them: a policy always before its record."""
    missing = [each for each in trained if each.run.run_id not in store]
    began = time.perf_counter()
    evaluations = _evaluate(missing, workers)
    about = {
        "evaluate_seconds": round(time.perf_counter() - began, 2),
        "agents": len(trained),
        "device": jax.devices()[0].device_kind,
        "versions": installed_versions(*_PACKAGES),
    }

    def write(place: int) -> None:
        run_id = missing[place].run.run_id
        if keep_policies:
            missing[place].result.policy.save(store.policy_path(run_id))
        store.write_run(run_id, _record(missing[place], evaluations[place], about))

    with ThreadPoolExecutor(_WRITERS) as writers:
        list(writers.map(write, range(len(missing))))


def _evaluate(trained: Sequence[Trained], workers: int | None) -> list[Evaluation]:
    """Runs of one seed play the same episodes."""
    found: dict[int, Evaluation] = {}
    groups: dict[tuple[str, int], list[int]] = {}
    for place, each in enumerate(trained):
        groups.setdefault((each.run.data.env_id, each.run.episodes), []).append(place)
    for (env_id, episodes), places in groups.items():
        policies = [trained[place].result.policy for place in places]
        seeds = [trained[place].run.seed for place in places]
        found |= dict(zip(places, evaluate(policies, env_id, episodes, seeds, workers=workers), strict=True))
    return [found[place] for place in range(len(trained))]


def _record(trained: Trained, evaluation: Evaluation, about: Record) -> Record:
    outcome = {"status": trained.result.status, "diverged_at": trained.result.diverged_at}
    returns = {
        "score": evaluation.score,
        "mean_return": evaluation.mean_return,
        "returns": [round(float(value), 4) for value in evaluation.returns],
        "lengths": evaluation.lengths.tolist(),
    }
    data = {"data_sha256": trained.data_sha256, "train_seconds": round(trained.train_seconds, 2)}
    return {"spec": trained.run.to_dict(), **outcome, **returns, **data, **about}
