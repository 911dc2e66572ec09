"""What policies do, as critics see it."""

import jax.numpy as jnp
import numpy as np

from support.policies import random_policy
from upweight.lab.train.choices import Discrete, make_choices, take_choices


def test_choices_are_what_policies_do_whatever_their_kind_network_and_bounds() -> None:
    observations = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
    low, high = np.array([-2, -1], np.float32), np.array([2, 3], np.float32)
    policies = [
        random_policy(kind, seed, bound=1.5) for seed, kind in enumerate(("deterministic", "gaussian", "tanh_gaussian"))
    ]
    choices = make_choices(policies, observations, (low, high), np.dtype("float32"))
    for place, policy in enumerate(policies):
        for noise, rng in ((None, None), (np.random.default_rng(2).standard_normal((50, 2), np.float32), 2)):
            took = take_choices(choices, jnp.int32(place), jnp.arange(50)).actions(noise)
            acted = policy.act(observations, None if rng is None else np.random.default_rng(rng))
            np.testing.assert_allclose(low + (took + 1) / 2 * (high - low), acted, atol=1e-5)
    categorical, greedy = random_policy("categorical", action=4), random_policy("greedy", 1, action=4)
    chosen = make_choices([categorical, greedy], observations, None, np.dtype("float32"))
    assert isinstance(chosen, Discrete)
    np.testing.assert_allclose(chosen.probabilities.sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_array_equal(chosen.probabilities[0].argmax(axis=1), categorical.act(observations))
    assert chosen.probabilities[0].max() < 1
    np.testing.assert_array_equal(chosen.probabilities[1], np.eye(4)[greedy.act(observations)])
