"""From trained policies to records in the store."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import jax

from upweight.base.optional import installed_versions
from upweight.engine.train import RunResult
from upweight.rollout.evaluate import Evaluation, evaluate
from upweight.studies.run_spec import RunSpec
from upweight.studies.store import Record, Store

_PACKAGES = ("upweight", "jax", "numpy", "gymnasium", "mujoco")
_WRITERS = 16  # they wait for the disk, not for each other


def evaluate_and_store(
    runs: Sequence[RunSpec],
    results: Sequence[RunResult],
    store: Store,
    *,
    train_seconds: float,
    workers: int | None,
    keep_policies: bool,
) -> None:
    """Evaluate the runs that are not in the store, and write them: a policy always before its record."""
    missing = [(run, result) for run, result in zip(runs, results, strict=True) if run.run_id not in store]
    began = time.perf_counter()
    evaluations = _evaluate(missing, workers)
    about = {
        "train_seconds": round(train_seconds, 2),
        "evaluate_seconds": round(time.perf_counter() - began, 2),
        "agents": len(results),
        "device": jax.devices()[0].device_kind,
        "versions": installed_versions(*_PACKAGES),
    }

    def write(place: int) -> None:
        run, result = missing[place]
        if keep_policies:
            result.policy.save(store.policy_path(run.run_id))
        store.write_run(run.run_id, _record(run, result, evaluations[place], about))

    with ThreadPoolExecutor(_WRITERS) as writers:
        list(writers.map(write, range(len(missing))))


def _evaluate(trained: Sequence[tuple[RunSpec, RunResult]], workers: int | None) -> list[Evaluation]:
    """Runs of one seed play the same episodes."""
    found: dict[int, Evaluation] = {}
    groups: dict[tuple[str, int], list[int]] = {}
    for place, (run, _) in enumerate(trained):
        groups.setdefault((run.data.env_id, run.episodes), []).append(place)
    for (env_id, episodes), places in groups.items():
        policies = [trained[place][1].policy for place in places]
        seeds = [trained[place][0].seed for place in places]
        found |= dict(zip(places, evaluate(policies, env_id, episodes, seeds, workers=workers), strict=True))
    return [found[place] for place in range(len(trained))]


def _record(run: RunSpec, result: RunResult, evaluation: Evaluation, about: Record) -> Record:
    outcome = {"status": result.status, "diverged_at": result.diverged_at}
    returns = {
        "score": evaluation.score,
        "mean_return": evaluation.mean_return,
        "returns": [round(float(value), 4) for value in evaluation.returns],
        "lengths": evaluation.lengths.tolist(),
    }
    return {"spec": run.to_dict(), **outcome, **returns, **about}
