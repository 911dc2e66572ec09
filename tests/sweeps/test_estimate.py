import pytest

from upweight.rollout.processes import usable_cores
from upweight.studies.experiment_file import read_experiment
from upweight.sweeps.sweep import plan_sweep


@pytest.mark.parametrize(("suite", "seconds"), [("paper/official_antmaze", 17), ("paper/stochastic", 4.3)])
def test_evaluation_is_estimated_to_a_factor_of_two(suite: str, seconds: float) -> None:
    """Of what it took on one core: an ant is slow, and classic control has short episodes."""
    found = plan_sweep(read_experiment(suite, scale="smoke")).estimate.evaluation * usable_cores()
    assert seconds / 2 < found < 2 * seconds
