"""What a run is made of."""

from typing import Any

import pytest

import upweight as uw
from support.datasets import tiny
from upweight.lab.train.algorithm import algorithms
from upweight.lab.train.run import named_weighting


@pytest.mark.parametrize("algorithm", sorted(algorithms()))
def test_a_name_means_the_papers_temperature_for_the_algorithm(algorithm: str) -> None:
    temperature = 0.2 if algorithm in {"cql", "discrete_cql"} else 0.1
    for given in (algorithm, uw.algorithm_config(algorithm)):
        assert uw.Run(given, "aw").weighting == uw.AdvantageWeighting(temperature)
        assert uw.Run(given, "RW").weighting == uw.ReturnWeighting(temperature)
        assert named_weighting("Rw", algorithm.upper()) == uw.ReturnWeighting(temperature)
        lacks = {"bc": "critic", "discrete_bc": "critic", "discrete_cql": "actor"}.get(algorithm)
        if lacks is None:
            assert uw.Run(given, "uniform", actor_weighting="rw").actor_weighting == uw.ReturnWeighting(temperature)
            continue
        with pytest.raises(uw.ConfigError, match=f"actor_weighting: {algorithm} has no {lacks}"):
            uw.Run(given, "uniform", actor_weighting="rw")
    assert uw.Run(algorithm, "uniform").weighting == uw.Uniform()
    assert uw.Run(algorithm, uw.ReturnWeighting()).weighting == uw.ReturnWeighting(0.1)  # knows no algorithm


@pytest.mark.parametrize("runs", ["bc", ["bc"], uw.Run("bc", "rw"), [("bc", "rw", 0)]])
def test_what_is_no_list_of_runs_is_called_that(runs: Any) -> None:
    for act in (uw.train, uw.plan_training):
        with pytest.raises(uw.ConfigError, match=r"expected a list of uw\.Run\(algorithm, weighting, seed\), found "):
            act(tiny(), runs, **({"num_updates": 1} if act is uw.train else {}))
