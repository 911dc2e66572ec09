"""Padding does not matter, and the temperature does its work."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reproduction.policies import soft_actor_critic as sac
from upweight.lab.train.nn import Linear

SMALL = sac.Settings(observation_size=3, action_size=2, hidden_units=(8, 8), batch_size=16)
WIDE = sac.Settings(observation_size=5, action_size=4, hidden_units=(8, 8), batch_size=16)


def without_padding(agent: sac.Agent) -> sac.Agent:
    """The agent of the small sizes with the same numbers, moments at zero."""

    def critic(layers: Any) -> Any:
        first = layers[0]
        return (Linear(first.weight[:, jnp.r_[:3, 5:7]], first.bias), *layers[1:])

    first, *middle, last = agent.actor
    keep = jnp.r_[:2, 4:6]
    actor = (Linear(first.weight[:3], first.bias), *middle, Linear(last.weight[:, keep], last.bias[keep]))
    critics, targets = critic(agent.critics), critic(agent.target_critics)
    moments = (sac.init_adam(actor), sac.init_adam(critics), sac.init_adam(agent.log_temperature))
    return sac.Agent(actor, critics, targets, agent.log_temperature, *moments)


@pytest.mark.slow
def test_padding_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    observations, nexts = rng.normal(size=(2, 16, 3))
    actions, ends = np.tanh(rng.normal(size=(16, 2))), rng.random(16) < 0.2
    scalars = np.stack([rng.normal(size=16), ends], 1)
    zeros = np.zeros((16, 2))
    small = jnp.asarray(np.concatenate([observations, actions, scalars, nexts], 1), jnp.float32)
    wide = jnp.asarray(np.concatenate([observations, zeros, actions, zeros, scalars, nexts, zeros], 1), jnp.float32)
    assert small.shape[1] == SMALL.row_size and wide.shape[1] == WIDE.row_size
    noise = rng.normal(size=(2, 16, 4)).astype(np.float32)
    monkeypatch.setattr(jax.random, "normal", lambda key, shape: jnp.asarray(noise[..., : shape[-1]]))
    padded = sac.init(jax.random.key(0), WIDE)
    plain = without_padding(padded)
    mask = jnp.asarray([1.0, 1.0, 0.0, 0.0])
    update = jax.jit(sac.update, static_argnums=4)
    for _ in range(3):
        padded = update(padded, wide, mask, jax.random.key(1), WIDE)
        plain = update(plain, small, jnp.ones(2), jax.random.key(1), SMALL)
    cut = without_padding(padded)
    for ours, reference in zip(jax.tree.leaves(cut[:4]), jax.tree.leaves(plain[:4]), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("spread", "rises"), [(-8.0, True), (-0.3, False)])
def test_the_temperature_keeps_the_entropy(spread: float, rises: bool) -> None:
    agent = sac.init(jax.random.key(0), SMALL)
    *hidden, last = agent.actor
    bias = last.bias.at[2:].set(spread)  # log sigma: a narrow policy must be pushed to explore, a wide one to settle
    agent = agent._replace(actor=(*hidden, Linear(last.weight * 0.01, bias)))
    rows = jax.random.normal(jax.random.key(1), (16, SMALL.row_size))
    after = jax.jit(sac.update, static_argnums=4)(agent, rows, jnp.ones(2), jax.random.key(2), SMALL)
    assert bool(after.log_temperature > agent.log_temperature) is rises
