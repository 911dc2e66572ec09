"""Stores of made-up results."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from upweight.lab.study.run_spec import DataSpec, RunSpec
from upweight.lab.study.store import Store

ENVIRONMENTS = {"hopper": "Hopper-v5", "walker2d": "Walker2d-v5", "cartpole": "upweight/StochasticCartPole-v1"}
SAMPLERS: dict[str, dict[str, Any]] = {
    "Uniform": {"name": "uniform"},
    "Top-10%": {"name": "top", "fraction": 0.1},
    "Half": {"name": "half", "threshold": None, "high": None},
    "RW": {"name": "rw", "temperature": 0.1},
    "AW": {"name": "aw", "temperature": 0.1},
}
MIXES = [f"hopper-{good}-random-{sigma}" for good in ("expert", "medium") for sigma in (1, 5, 10, 50)]
VERSIONS = {"upweight": "0.1.0", "jax": "0.10.0"}


def data_spec(name: str, *, steps: int = 1_000_000, seed: int = 0) -> DataSpec:
    return DataSpec(name, steps, seed, ENVIRONMENTS.get(name.split("-")[0], "Unknown-v0"))


def add_runs(
    store: Store,
    dataset: str | DataSpec,
    sampler: str | Mapping[str, Any],
    scores: Sequence[float | None],
    **about: Any,
) -> list[str]:
    """One run per score, with seeds 0, 1, ..., each a :func:`run_record`; gives their ids."""
    found = []
    for seed, score in enumerate(scores):
        run_id, record = run_record(dataset, sampler, score, seed=seed, **about)
        store.write_run(run_id, record)
        found.append(run_id)
    return found


def add_returns(store: Store, dataset: str | DataSpec, sampler: str, shares: Sequence[float]) -> None:
    """Runs in an environment without reference scores, whose mean returns are these shares of 3000."""
    for seed, share in enumerate(shares):
        run_id, record = run_record(dataset, sampler, share, seed=seed)
        store.write_run(run_id, {**record, "score": None})


def add_points(store: Store, run_ids: Sequence[str], *scores: Mapping[int, float]) -> None:
    """Points on the way of some runs: updates -> score, one such for each run."""
    for run_id, found in zip(run_ids, scores, strict=True):
        points = [point_record(updates, score) for updates, score in found.items()]
        store.write_run(run_id, {**store.run(run_id), "points": points})


def point_record(updates: int, score: float) -> dict[str, Any]:
    """What a store keeps of a point on the way."""
    return {"updates": updates, "score": score, "mean_return": 3000.0 * score, "returns": [3000.0 * score] * 2}


def run_record(
    dataset: str | DataSpec,
    sampler: str | Mapping[str, Any],
    score: float | None,
    *,
    seed: int = 0,
    algorithm: str = "bc",
    config: Mapping[str, Any] | None = None,
    updates: int = 1000,
    precision: str = "float32",
    status: str = "finished",
    episodes: int = 20,
    data_sha256: str | None = None,
) -> tuple[str, dict[str, Any]]:
    """A run's id and what a store keeps of it."""
    spec = RunSpec(
        data=data_spec(dataset) if isinstance(dataset, str) else dataset,
        algorithm=algorithm,
        config=dict(config or {}),
        weighting=dict(SAMPLERS[sampler] if isinstance(sampler, str) else sampler),
        seed=seed,
        updates=updates,
        precision=precision,
        episodes=episodes,
    )
    record = record_of(spec, score, status=status)
    return spec.run_id, record if data_sha256 is None else {**record, "data_sha256": data_sha256}


def record_of(spec: RunSpec, score: float | None, *, status: str = "finished") -> dict[str, Any]:
    """What a store keeps of a run (old ones have no hash of the data)."""
    return {
        "spec": json.loads(json.dumps(spec.to_dict())),
        "status": status,
        "diverged_at": 100 if status == "diverged" else None,
        "score": score,
        "mean_return": 3000.0 * (score if score is not None else 0.5),
        "returns": [3000.0 * (score or 0.5)] * spec.episodes,
        "lengths": [1000] * spec.episodes,
        "train_seconds": 1.0,
        "evaluate_seconds": 1.0,
        "agents": 1,
        "device": "test",
        "versions": VERSIONS,
    }


def write_finished(store: Store, run: RunSpec, *, status: str = "finished") -> None:
    """A run that counts as finished, without any training."""
    store.write_run(run.run_id, record_of(run, 0.5, status=status))


def add_dataset(store: Store, name: str | DataSpec, *, mean: float = 0.1, rpsv: float = 0.01) -> None:
    """Write the description of a dataset."""
    data = data_spec(name) if isinstance(name, str) else name
    store.write_dataset(data, describe_dataset(data, mean=mean, rpsv=rpsv))


def describe_dataset(data: DataSpec, *, mean: float = 0.1, rpsv: float = 0.01) -> dict[str, Any]:
    """What a store keeps of a dataset: most episodes near 0, some near 1."""
    counts = np.r_[900, 50, np.zeros(56, int), 10, 40]
    edges = np.linspace(-0.05, 1.1, len(counts) + 1).round(6)
    return {
        "name": data.name,
        "steps": data.steps,
        "seed": data.seed,
        "env_id": data.env_id,
        "normalized": True,
        "episodes": int(counts.sum()),
        "total_steps": 1_000_000,
        "mean": mean,
        "rpsv": rpsv,
        "histogram": {"counts": counts.tolist(), "edges": edges.tolist()},
    }


def make_study(path: Path, *, seeds: int = 5, algorithms: Sequence[str] = ("bc", "td3_bc")) -> Store:
    """A plausible study: mixes, regular and stochastic sets, temperatures and percentages; weighting helps on mixes."""
    store = Store(path, create=True)
    for algorithm in algorithms:
        for task in ("hopper", "walker2d"):
            for good, level in (("expert", 1.0), ("medium", 0.5)):
                for sigma in (1, 5, 10, 50):
                    name = f"{task}-{good}-random-{sigma}"
                    add_dataset(store, name, mean=level * sigma / 100, rpsv=level * sigma / 400)
                    for sampler, share in {"Uniform": 0.2, "Top-10%": 0.5, "Half": 0.45, "RW": 0.8, "AW": 0.85}.items():
                        reach = level * (share + (0.95 - share) * (sigma / 50) ** 0.5)
                        add_runs(
                            store, name, sampler, _noisy(reach, seeds, algorithm, name, sampler), algorithm=algorithm
                        )
                name = f"{task}-{good}"
                add_dataset(store, name, mean=level, rpsv=0.02)
                for sampler in ("Uniform", "RW", "AW"):
                    add_runs(store, name, sampler, _noisy(level, seeds, algorithm, name, sampler), algorithm=algorithm)
    for temperature in (0.01, 0.5, 1.0):
        for kind in ("rw", "aw"):
            for name in ("hopper-expert-random-5", "walker2d-expert-random-5"):
                scores = _noisy(0.75 - 0.2 * abs(temperature - 0.1), seeds, kind, name, str(temperature))
                add_runs(store, name, {"name": kind, "temperature": temperature}, scores)
    for fraction in (0.01, 0.5):
        scores = _noisy(0.6 - fraction / 2, seeds, "top", str(fraction))
        add_runs(store, "hopper-expert-random-5", {"name": "top", "fraction": fraction}, scores)
    for sampler, weighting in SAMPLERS.items():
        if sampler != "Half":
            name = "cartpole-expert-random-5"
            add_dataset(store, name)
            usual = {**weighting, "temperature": 0.2} if "temperature" in weighting else weighting
            add_runs(store, name, usual, _noisy(0.9, seeds, sampler), algorithm="discrete_cql")
    add_runs(store, "hopper-expert-random-1", "Half", [0.9], algorithm="iql", status="diverged")
    return store


def _noisy(level: float, seeds: int, *about: str) -> list[float]:
    """Scores around a level, the same every time."""
    seed = int.from_bytes(hashlib.sha256("/".join(about).encode()).digest()[:4], "big")
    return (level + 0.04 * np.random.default_rng(seed).standard_normal(seeds)).round(4).tolist()
