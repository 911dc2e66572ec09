import numpy as np

import upweight as uw
from support.datasets import tiny


def test_probabilities_are_the_weights() -> None:
    p = uw.StepSampler.from_weights([1.0, 0.0, 3.0]).probabilities()
    np.testing.assert_allclose(p, [0.25, 0, 0.75])


def test_a_step_that_cannot_be_learned_from_loses_its_weight() -> None:
    p = uw.StepSampler(tiny(), np.ones(8)).probabilities()
    np.testing.assert_allclose(p, np.array([1, 1, 1, 1, 0, 1, 1, 1]) / 7)
