"""What a run is made of."""

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import tiny, with_returns
from support.training import small_config
from upweight.lab.train.agreement import Comparison
from upweight.lab.train.algorithm import algorithms
from upweight.lab.train.prepare import make_parts
from upweight.lab.train.run import named_weighting


def sha256_of(array: np.ndarray) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


@pytest.mark.parametrize("algorithm", sorted(algorithms()))
def test_a_name_means_the_papers_temperature_for_the_algorithm(algorithm: str) -> None:
    temperature = 0.2 if algorithm in {"cql", "discrete_cql"} else 0.1
    for given in (algorithm, uw.algorithm_config(algorithm)):
        assert uw.Run(given, "aw").weighting == uw.AdvantageWeighting(temperature)
        assert uw.Run(given, "RW").weighting == uw.ReturnWeighting(temperature)
        assert named_weighting("Rw", algorithm.upper()) == uw.ReturnWeighting(temperature)
        assert named_weighting("aw", algorithm, effective_share=0.1) == uw.AdvantageWeighting(effective_share=0.1)
        lacks = {"bc": "critic", "discrete_bc": "critic", "discrete_cql": "actor"}.get(algorithm)
        if lacks is None:
            assert uw.Run(given, "uniform", actor_weighting="rw").actor_weighting == uw.ReturnWeighting(temperature)
            continue
        with pytest.raises(uw.ConfigError, match=f"actor_weighting: {algorithm} has no {lacks}"):
            uw.Run(given, "uniform", actor_weighting="rw")
    assert uw.Run(algorithm, "uniform").weighting == uw.Uniform()
    assert uw.Run(algorithm, uw.ReturnWeighting()).weighting == uw.ReturnWeighting(0.1)  # knows no algorithm


def test_arrays_of_the_same_bytes_are_different_runs() -> None:
    """Eight flags are the bytes of one index; the same episodes, or weights, are the same however they are written."""
    ds = with_returns(np.arange(8.0))
    mask = np.arange(8) == 0  # as bytes: one whole number, 1
    chosen = [uw.Run("bc", episodes=episodes) for episodes in (mask, np.frombuffer(mask.tobytes(), np.int64), [0])]
    first, second, third = make_parts(ds, chosen)
    assert (first.episodes.tolist(), second.episodes.tolist()) == ([0], [1]) and third is first
    assert [set(steps.tolist()) for steps in Comparison(ds, chosen)._steps] == [{0, 1}, {2, 3}, {0, 1}]
    described = [run.to_dict()["episodes"] for run in chosen]
    assert described[0] == described[2] != described[1] == {"count": 1, "hash": sha256_of(np.array([1]))}

    floats = np.array([1, 2, 3, 4, 0, 0, 0, 0.0])
    ints = floats.view(np.int64)  # the first four as numbers of 10^18 and more
    runs = [uw.Run("bc", weights) for weights in (floats, ints, floats.astype(int))]
    parts = make_parts(ds, runs)
    assert parts[0] is parts[1] and parts[0].weights(floats)[0] == 0.1 != parts[0].weights(ints)[0]
    described = [run.to_dict()["weighting"] for run in runs]
    assert described[0] == described[2] != described[1]
    assert described[0] == {"name": "given", "count": 8, "hash": sha256_of(floats)}
    with pytest.raises(uw.WeightingError, match=r"found shape \(8, 1\)"):
        make_parts(ds, [uw.Run("bc", floats), uw.Run("bc", floats[:, None])])


def test_runs_and_callbacks_may_come_from_generators() -> None:
    def runs() -> Iterator[uw.Run]:
        return (uw.Run(small_config("bc"), "uniform", seed) for seed in range(2))

    assert [part.runs for part in uw.plan_training(tiny(), runs()).programs] == [(0, 1)]
    heard: list[Any] = []
    options: dict[str, Any] = {"num_updates": 4, "log_every_updates": 2, "callbacks": iter([heard.append])}
    assert [result.run.seed for result in uw.train(tiny(), runs(), **options)] == [0, 1]
    assert len(heard) == 2


@pytest.mark.parametrize("runs", ["bc", ["bc"], uw.Run("bc", "rw"), [("bc", "rw", 0)], 3])
def test_what_is_no_list_of_runs_is_called_that(runs: Any) -> None:
    for act in (uw.train, uw.plan_training):
        with pytest.raises(uw.ConfigError, match=r"expected a list of uw\.Run\(algorithm, weighting, seed\), found "):
            act(tiny(), runs, **({"num_updates": 1} if act is uw.train else {}))
