"""Who does the work: populations in, records out. The local one trains on this machine's device, one after the other."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Protocol

import jax
import numpy as np
from numpy.typing import NDArray

from upweight.behaviours.datasets import load
from upweight.behaviours.pools import make_pool
from upweight.data.background import Background
from upweight.data.dataset import Dataset
from upweight.data.reference_scores import find_reference_scores, normalize_returns
from upweight.data.statistics import positive_sided_variance
from upweight.engine.run import Run
from upweight.engine.train import RunResult, train
from upweight.experiments.packing import Population, config_of
from upweight.experiments.run_spec import DataSpec, RunSpec
from upweight.experiments.store import Record, Store
from upweight.rollout.evaluate import Evaluation, evaluate
from upweight.weightings.registry import weighting_from_dict

_PACKAGES = ("upweight", "jax", "numpy", "gymnasium", "mujoco")
_HISTOGRAM_BINS = 60


class Executor(Protocol):
    """Does populations and writes their runs into the store; yields each population when it is in there."""

    def execute(self, populations: Sequence[Population], store: Store, *, deadline: float) -> Iterator[Population]: ...


@dataclass(frozen=True)
class LocalExecutor:
    """This machine: its JAX device trains, its cores simulate.

    With ``overlap`` a population is evaluated while the next one trains; by default where the device is not the CPU itself.
    """

    workers: int | None = None
    keep_policies: bool = True
    overlap: bool | None = None

    def execute(self, populations: Sequence[Population], store: Store, *, deadline: float) -> Iterator[Population]:
        """``deadline`` is a value of ``time.monotonic()``; a training that meets it is kept and gone on with next time."""
        overlap = jax.default_backend() != "cpu" if self.overlap is None else self.overlap
        overlap = (
            overlap and self.workers != 1
        )  # one worker is this process, whose linear algebra is one for all threads
        pools: dict[Any, tuple[Dataset, dict[str, NDArray[np.int64] | None]]] = {}
        background = Background()
        evaluating: Population | None = None  # in the background
        try:
            for place, population in enumerate(populations, 1):
                with ExitStack() as lock:
                    finish = None
                    mine = lock.enter_context(store.lock(population.population_id))
                    if mine and any(run.run_id not in store for run in population.runs):  # nobody else did it meanwhile
                        key = _pool_key(population)
                        if key not in pools:
                            pools = {key: self._load(populations, key)}  # one at a time: they can be large
                        self._describe_datasets(population, pools[key], store)
                        finish = self._train(population, *pools[key], store, deadline)
                    if evaluating is not None:
                        background.wait()
                        yield evaluating
                        evaluating = None
                    if finish is not None and overlap and place < len(populations):
                        background.start(partial(_do_and_unlock, finish, lock.pop_all()))
                        evaluating = population
                        continue
                    if finish is not None:
                        finish()
                yield population
        except KeyboardInterrupt:  # who asks to stop is not kept waiting: the training is on disk
            raise
        except BaseException:
            background.wait()
            raise

    def _load(self, populations: Sequence[Population], key: Any) -> Any:
        """The data of all populations with this key, and which episodes each dataset is."""
        mine = [run.data for population in populations if _pool_key(population) == key for run in population.runs]
        first = mine[0]
        if first.content is not None:
            return load(first.name), {first.name: None}
        pool = make_pool(
            list(dict.fromkeys(data.name for data in mine)),
            steps=first.steps,
            seed=first.seed or 0,
            workers=self.workers,
        )
        return pool.dataset, dict(pool.episodes)

    def _train(
        self,
        population: Population,
        dataset: Dataset,
        episodes: dict[str, NDArray[np.int64] | None],
        store: Store,
        deadline: float,
    ) -> Callable[[], None]:
        """Train, and give back what is left to do: evaluate and store."""
        runs = [
            Run(config_of(run), weighting_from_dict(run.weighting), run.seed, episodes=episodes[run.data.name])
            for run in population.runs
        ]
        folder = store.begin_population(population.population_id, [run.to_dict() for run in population.runs])
        first = population.runs[0]
        began = time.perf_counter()
        try:
            results = train(
                dataset,
                runs,
                num_updates=first.updates,
                precision=first.precision,
                output=folder,
                resume=True,
                deadline=deadline,
            )
        finally:
            trained = store.add_time(population.population_id, time.perf_counter() - began)
        return partial(self._finish, population, results, store, trained)

    def _finish(self, population: Population, results: Sequence[RunResult], store: Store, trained: float) -> None:
        began = time.perf_counter()
        evaluations = self._evaluate(population, results)
        about = {
            "train_seconds": round(trained, 2),
            "evaluate_seconds": round(time.perf_counter() - began, 2),
            "agents": len(results),
            "device": jax.devices()[0].device_kind,
            "versions": {name: version(name) for name in _PACKAGES},
        }
        for run, result, evaluation in zip(population.runs, results, evaluations, strict=True):
            if self.keep_policies:
                result.policy.save(store.policy_path(run.run_id))
            store.write_run(run.run_id, _record(run, result, evaluation, about))
        store.end_population(population.population_id)

    def _evaluate(self, population: Population, results: Sequence[RunResult]) -> list[Evaluation]:
        """Runs of one seed play the same episodes."""
        found: dict[int, Evaluation] = {}
        groups: dict[tuple[str, int], list[int]] = {}
        for place, run in enumerate(population.runs):
            groups.setdefault((run.data.env_id, run.episodes), []).append(place)
        for (env_id, episodes), places in groups.items():
            policies = [results[place].policy for place in places]
            seeds = [population.runs[place].seed for place in places]
            found |= dict(zip(places, evaluate(policies, env_id, episodes, seeds, workers=self.workers), strict=True))
        return [found[place] for place in range(len(results))]

    def _describe_datasets(self, population: Population, pool: Any, store: Store) -> None:
        dataset, episodes = pool
        for data in dict.fromkeys(run.data for run in population.runs):
            if not store.has_dataset(data):
                part = dataset if episodes[data.name] is None else dataset.subset(episodes[data.name])
                store.write_dataset(data, describe_dataset(data, part))


def describe_dataset(data: DataSpec, dataset: Dataset) -> Record:
    """What a report says about a dataset."""
    reference = find_reference_scores(data.env_id)
    values = dataset.returns if reference is None else normalize_returns(dataset.returns, reference)
    counts, edges = np.histogram(values, bins=_HISTOGRAM_BINS)
    return {
        "name": data.name,
        "steps": data.steps,
        "seed": data.seed,
        "env_id": data.env_id,
        "normalized": reference is not None,
        "episodes": dataset.num_episodes,
        "total_steps": dataset.num_steps,
        "mean": float(values.mean()),
        "rpsv": positive_sided_variance(values),
        "histogram": {"counts": counts.tolist(), "edges": [round(float(edge), 6) for edge in edges]},
    }


def _record(run: RunSpec, result: RunResult, evaluation: Evaluation, about: Record) -> Record:
    outcome = {"status": result.status, "diverged_at": result.diverged_at}
    returns = {
        "score": evaluation.score,
        "mean_return": evaluation.mean_return,
        "returns": [round(float(value), 4) for value in evaluation.returns],
        "lengths": evaluation.lengths.tolist(),
    }
    return {"spec": run.to_dict(), **outcome, **returns, **about}


def _do_and_unlock(work: Callable[[], None], lock: ExitStack) -> None:
    with lock:
        work()


def _pool_key(population: Population) -> Any:
    data = population.runs[0].data
    return (data.env_id, data.steps, data.seed) if data.content is None else data
