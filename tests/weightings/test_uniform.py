import numpy as np

import upweight as uw
from support.datasets import random_dataset


def test_every_trainable_step_is_equally_likely_incomplete_episodes_included() -> None:
    ds = random_dataset(0, fragment=True)
    p = uw.EpisodeSampler(ds, uw.Uniform()).probabilities()
    np.testing.assert_allclose(p[p > 0], 1 / ds.num_transitions.sum())
    assert (p > 0).sum() == ds.num_transitions.sum()
