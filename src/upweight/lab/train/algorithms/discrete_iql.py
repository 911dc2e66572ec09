r"""Implicit Q-learning for discrete actions: as the continuous one, with a categorical policy and Q(s) over all actions.

Settings are those of the continuous version in d3rlpy v1; neither the paper nor d3rlpy gives any for this one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from upweight.lab.train.algorithm import Algorithm, Array, Batch, Batches, Hyper, Metrics, PolicyParts, Setup
from upweight.lab.train.config import Config, traced
from upweight.lab.train.losses import batch_mean, expectile, td_target
from upweight.lab.train.nn import MLP, adam_step, apply_mlp, apply_stacked, cosine_decay, init_adam, soft_update


@dataclass(frozen=True)
class DiscreteIQLConfig(Config):
    """The continuous version's ``paper`` preset."""

    scale_rewards_by_return: bool = True
    actor_learning_rate: float = traced(3e-4)
    critic_learning_rate: float = traced(3e-4)
    discount: float = traced(0.99, high=1.0)
    tau: float = traced(0.005, high=1.0)
    expectile: float = traced(0.7, high=1.0)
    beta: float = traced(3.0)
    max_weight: float = traced(100.0)
    actor_decay_updates: float = traced(0.0)  # cosine decay of the actor's rate over this many; 0 means the whole run

    def traced_values(self, num_updates: int) -> dict[str, float]:
        values = super().traced_values(num_updates)
        return {**values, "actor_decay_updates": self.actor_decay_updates or float(num_updates)}


class State(NamedTuple):
    actor: MLP
    critics: MLP  # [2, ...]
    value: MLP
    target_critics: MLP
    actor_moments: Any
    critic_moments: Any
    value_moments: Any


def init(key: Array, setup: Setup, config: DiscreteIQLConfig) -> State:
    actor_key, critic_key, value_key = jax.random.split(key, 3)
    actor = setup.init_network(actor_key, setup.observation_size, setup.action_size, config)
    value = setup.init_network(value_key, setup.observation_size, 1, config)
    critics = setup.init_twins(critic_key, setup.observation_size, setup.action_size, config)
    moments = (init_adam(actor), init_adam(critics), init_adam(value))
    return State(actor, critics, value, jax.tree.map(jnp.copy, critics), *moments)


def values(critics: MLP, batch: Batch, setup: Setup) -> Array:
    """[2, B] of the actions taken."""
    every = apply_stacked(critics, batch.observations, setup.compute)
    return jnp.take_along_axis(every, batch.actions[None, :, None], axis=-1)[..., 0]


def value_of(value: MLP, observations: Array, setup: Setup) -> Array:
    return apply_mlp(value, observations, setup.compute)[..., 0]


def value_loss(value: MLP, batch: Batch, q: Array, tau: Array, setup: Setup) -> Array:
    return batch_mean(expectile(q - value_of(value, batch.observations, setup), tau), batch.weights)


def critic_loss(critics: MLP, batch: Batch, target: Array, setup: Setup) -> Array:
    return batch_mean(jnp.sum((values(critics, batch, setup) - target) ** 2, axis=0), batch.weights)


def actor_loss(actor: MLP, batch: Batch, advantage: Array, hyper: Hyper, setup: Setup) -> Array:
    weight = jax.lax.stop_gradient(jnp.minimum(jnp.exp(hyper["beta"] * advantage), hyper["max_weight"]))
    log_probs = jax.nn.log_softmax(apply_mlp(actor, batch.observations, setup.compute))
    chosen = jnp.take_along_axis(log_probs, batch.actions[:, None], axis=-1)[:, 0]
    return batch_mean(-weight * chosen, batch.weights)


def update(
    state: State,
    batches: Batches,
    noise: None,
    hyper: Hyper,
    step: Array,
    setup: Setup,
    config: DiscreteIQLConfig,
    phase: int,
) -> tuple[State, Metrics]:
    batch, seen, old = batches.critic, batches.actor, state
    q = values(old.target_critics, batch, setup).min(axis=0)
    v_loss, gradients = jax.value_and_grad(value_loss)(old.value, batch, q, hyper["expectile"], setup)
    value, value_moments = adam_step(gradients, old.value_moments, old.value, hyper["critic_learning_rate"])
    next_values = value_of(old.value, batch.next_observations, setup)
    target = td_target(batch.rewards, batch.terminated, hyper["discount"], next_values)
    q_loss, gradients = jax.value_and_grad(critic_loss)(old.critics, batch, target, setup)
    critics, critic_moments = adam_step(gradients, old.critic_moments, old.critics, hyper["critic_learning_rate"])
    actor_q = q if seen is batch else values(old.target_critics, seen, setup).min(axis=0)
    advantage = actor_q - value_of(value, seen.observations, setup)
    pi_loss, gradients = jax.value_and_grad(actor_loss)(old.actor, seen, advantage, hyper, setup)
    rate = hyper["actor_learning_rate"] * cosine_decay(step, hyper["actor_decay_updates"])
    actor, actor_moments = adam_step(gradients, old.actor_moments, old.actor, rate)
    target_critics = soft_update(old.target_critics, critics, hyper["tau"])
    state = State(actor, critics, value, target_critics, actor_moments, critic_moments, value_moments)
    return state, {"critic_loss": q_loss, "value_loss": v_loss, "actor_loss": pi_loss}


ALGORITHM = Algorithm(
    name="discrete_iql",
    config=DiscreteIQLConfig,
    discrete=True,
    init=init,
    update=update,
    policy=lambda state, config: PolicyParts("categorical", state.actor),
    network_rows=lambda config: 8 * config.batch_size,
)
