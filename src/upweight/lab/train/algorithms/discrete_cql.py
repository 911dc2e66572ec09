r"""Conservative Q-learning for discrete actions, on top of double DQN.

:math:`\mathrm{huber}(Q(s,a) - y) + w(\log\sum_{a'} e^{Q(s,a')} - Q(s,a))` with
:math:`y = r + \gamma(1-d)\bar Q(s', \arg\max_{a'} Q(s',a'))` and a target that is replaced every so often.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from upweight.lab.train.algorithm import Algorithm, Array, Batch, Batches, Hyper, Metrics, PolicyParts, Setup
from upweight.lab.train.config import Config, traced
from upweight.lab.train.losses import batch_mean, huber, td_target
from upweight.lab.train.nn import MLP, adam_step, apply_mlp, init_adam


@dataclass(frozen=True)
class DiscreteCQLConfig(Config):
    """d3rlpy's defaults. With a target replaced every 8,000 updates, short runs learn little: lower it for them."""

    batch_size: int = 32
    learning_rate: float = traced(6.25e-5)
    discount: float = traced(0.99, high=1.0)
    conservative_weight: float = traced(1.0)
    target_every_updates: float = traced(8000, low=1)


class State(NamedTuple):
    critic: MLP
    target: MLP
    moments: Any


def init(key: Array, setup: Setup, config: DiscreteCQLConfig) -> State:
    critic = setup.init_network(key, setup.observation_size, setup.action_size, config)
    return State(critic, jax.tree.map(jnp.copy, critic), init_adam(critic))


def pick(values: Array, actions: Array) -> Array:
    """values[b, actions[b]]"""
    return jnp.take_along_axis(values, actions[:, None], axis=-1)[:, 0]


def critic_loss(critic: MLP, batch: Batch, target: Array, weight: Array, setup: Setup) -> tuple[Array, Array]:
    values = apply_mlp(critic, batch.observations, setup.compute)  # [B, actions]
    q = pick(values, batch.actions)
    conservative = batch_mean(jax.nn.logsumexp(values, axis=-1) - q, batch.weights)
    return batch_mean(huber(q - target), batch.weights) + weight * conservative, conservative


def update(
    state: State,
    batches: Batches,
    noise: None,
    hyper: Hyper,
    step: Array,
    setup: Setup,
    config: DiscreteCQLConfig,
    phase: int,
) -> tuple[State, Metrics]:
    batch = batches.critic
    best = jnp.argmax(apply_mlp(state.critic, batch.next_observations, setup.compute), axis=-1)
    next_values = pick(apply_mlp(state.target, batch.next_observations, setup.compute), best)
    target = td_target(batch.rewards, batch.terminated, hyper["discount"], next_values)
    (loss, conservative), gradients = jax.value_and_grad(critic_loss, has_aux=True)(
        state.critic, batch, target, hyper["conservative_weight"], setup
    )
    critic, moments = adam_step(gradients, state.moments, state.critic, hyper["learning_rate"])
    replace = jnp.mod(step, hyper["target_every_updates"].astype(jnp.int32)) == 0
    kept = jax.tree.map(lambda new, old: jnp.where(replace, new, old), critic, state.target)
    return State(critic, kept, moments), {"critic_loss": loss, "conservative_loss": conservative}


ALGORITHM = Algorithm(
    name="discrete_cql",
    config=DiscreteCQLConfig,
    discrete=True,
    init=init,
    update=update,
    policy=lambda state, config: PolicyParts("greedy", state.critic),
    network_rows=lambda config: 3 * config.batch_size,
    has_actor=False,
)
