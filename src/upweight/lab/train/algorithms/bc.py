r"""Behaviour cloning: :math:`\min_\pi E\,\|\pi(s) - a\|^2` with a deterministic policy :math:`\pi(s) = \tanh f(s)`."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from upweight.lab.train.algorithm import Algorithm, Array, Batches, Hyper, Metrics, PolicyParts, Setup
from upweight.lab.train.config import Config, traced
from upweight.lab.train.losses import batch_mean
from upweight.lab.train.nn import MLP, adam_step, apply_mlp, init_adam


@dataclass(frozen=True)
class BCConfig(Config):
    """d3rlpy v1's settings, with the paper's batch of 256."""

    learning_rate: float = traced(1e-3)


class State(NamedTuple):
    actor: MLP
    moments: Any


def init(key: Array, setup: Setup, config: BCConfig) -> State:
    actor = setup.init_network(key, setup.observation_size, setup.action_size, config)
    return State(actor, init_adam(actor))


def loss(actor: MLP, batches: Batches, setup: Setup) -> Array:
    batch = batches.actor
    error = jnp.tanh(apply_mlp(actor, batch.observations, setup.compute)) - batch.actions
    return batch_mean(jnp.mean(error**2, axis=-1), batch.weights)


def update(
    state: State, batches: Batches, noise: None, hyper: Hyper, step: Array, setup: Setup, config: BCConfig, phase: int
) -> tuple[State, Metrics]:
    value, gradients = jax.value_and_grad(loss)(state.actor, batches, setup)
    actor, moments = adam_step(gradients, state.moments, state.actor, hyper["learning_rate"])
    return State(actor, moments), {"loss": value}


ALGORITHM = Algorithm(
    name="bc",
    config=BCConfig,
    discrete=False,
    init=init,
    update=update,
    policy=lambda state, config: PolicyParts("deterministic", state.actor),
    network_rows=lambda config: config.batch_size,
    has_critic=False,
    uses_rewards=False,
)
