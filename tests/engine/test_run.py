"""What a run is made of."""

import pytest

import upweight as uw
from upweight.engine.algorithm import algorithms


@pytest.mark.parametrize("algorithm", sorted(algorithms()))
def test_a_name_means_the_papers_temperature_for_the_algorithm(algorithm: str) -> None:
    temperature = 0.2 if algorithm in {"cql", "discrete_cql"} else 0.1
    for given in (algorithm, uw.algorithm_config(algorithm)):
        run = uw.Run(given, "aw", actor_weighting="rw")
        assert run.weighting == uw.AdvantageWeighting(temperature)
        assert run.actor_weighting == uw.ReturnWeighting(temperature)
    assert uw.Run(algorithm, "uniform").weighting == uw.Uniform()
    assert uw.Run(algorithm, uw.ReturnWeighting()).weighting == uw.ReturnWeighting(0.1)  # knows no algorithm
