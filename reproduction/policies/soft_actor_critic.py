r"""Soft actor-critic (Haarnoja et al., 2018), as D4RL used it, for several tasks at once.

Tasks of different sizes share one program: observations and actions are padded with zeros to the widest task's, and a mask
tells which action dimensions are real. Nothing else differs from the usual algorithm: two critics, targets
:math:`y = r + \gamma(1-d)(\min_k \bar Q_k(s', a') - \alpha\log\pi(a'|s'))`, actor loss :math:`\alpha\log\pi - \min_k Q_k`, and
a temperature that keeps the entropy at minus the number of action dimensions.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from upweight.lab.train.losses import tanh_normal, td_target
from upweight.lab.train.nn import MLP, Compute, adam_step, apply_critics, apply_mlp, init_adam, init_mlp, soft_update
from upweight.policies.policy import LOG_STD_RANGE

Array = jax.Array


@dataclass(frozen=True)
class Settings:
    """The usual ones; all are part of the compiled program."""

    observation_size: int  # o, of the widest task
    action_size: int  # a, of the widest task
    hidden_units: tuple[int, ...] = (256, 256)
    batch_size: int = 256
    learning_rate: float = 3e-4
    discount: float = 0.99
    tau: float = 0.005

    @property
    def row_size(self) -> int:
        """Numbers of a packed transition: observation, action, reward, terminated, next observation."""
        return 2 * self.observation_size + self.action_size + 2


class Agent(NamedTuple):
    """Everything that learning changes."""

    actor: MLP
    critics: MLP  # [2, ...]
    target_critics: MLP
    log_temperature: Array
    actor_moments: Any
    critic_moments: Any
    temperature_moments: Any


def init(key: Array, settings: Settings) -> Agent:
    actor_key, critic_key = jax.random.split(key)
    o, a = settings.observation_size, settings.action_size
    actor = init_mlp(actor_key, (o, *settings.hidden_units, 2 * a), dtype=jnp.float32)
    critics = jax.vmap(lambda k: init_mlp(k, (o + a, *settings.hidden_units, 1), dtype=jnp.float32))(
        jax.random.split(critic_key)
    )
    log_temperature = jnp.zeros(())
    moments = (init_adam(actor), init_adam(critics), init_adam(log_temperature))
    return Agent(actor, critics, jax.tree.map(jnp.copy, critics), log_temperature, *moments)


def sample_actions(
    actor: MLP, observations: Array, mask: Array, noise: Array, settings: Settings
) -> tuple[Array, Array]:
    """Actions [B, a], zero where the mask is, and their log-densities [B]."""
    outputs = apply_mlp(actor, observations, Compute(jnp.float32))
    mean, log_std = outputs[..., : settings.action_size], outputs[..., settings.action_size :]
    actions, log_prob = tanh_normal(mean, jnp.clip(log_std, *LOG_STD_RANGE), noise, mask)
    return actions * mask, log_prob


def unpack(rows: Array, settings: Settings) -> tuple[Array, Array, Array, Array, Array]:
    """Observations, actions, rewards, terminated, next observations of packed transitions [B, row]."""
    o, a = settings.observation_size, settings.action_size
    return rows[:, :o], rows[:, o : o + a], rows[:, o + a], rows[:, o + a + 1], rows[:, o + a + 2 :]


def update(agent: Agent, rows: Array, mask: Array, key: Array, settings: Settings) -> Agent:
    """One update of critics, actor, temperature and targets from a batch of packed transitions [B, row]."""
    observations, actions, rewards, terminated, next_observations = unpack(rows, settings)
    noise = jax.random.normal(key, (2, settings.batch_size, settings.action_size))
    rate = jnp.float32(settings.learning_rate)
    temperature = jnp.exp(agent.log_temperature)

    next_actions, next_log_prob = sample_actions(agent.actor, next_observations, mask, noise[0], settings)
    next_values = apply_critics(agent.target_critics, next_observations, next_actions, Compute(jnp.float32)).min(axis=0)
    target = td_target(rewards, terminated, jnp.float32(settings.discount), next_values - temperature * next_log_prob)

    def critic_loss(critics: MLP) -> Array:
        values = apply_critics(critics, observations, actions, Compute(jnp.float32))  # [2, B]
        return jnp.mean((values - target) ** 2, axis=1).sum()

    critics, critic_moments = adam_step(jax.grad(critic_loss)(agent.critics), agent.critic_moments, agent.critics, rate)

    def actor_loss(actor: MLP) -> tuple[Array, Array]:
        chosen, log_prob = sample_actions(actor, observations, mask, noise[1], settings)
        values = apply_critics(critics, observations, chosen, Compute(jnp.float32)).min(axis=0)
        return jnp.mean(temperature * log_prob - values), log_prob

    gradients, log_prob = jax.grad(actor_loss, has_aux=True)(agent.actor)
    actor, actor_moments = adam_step(gradients, agent.actor_moments, agent.actor, rate)
    gradient = -jnp.mean(log_prob - mask.sum())  # of -log(alpha) (log pi + target entropy), target entropy = -|a|
    log_temperature, temperature_moments = adam_step(gradient, agent.temperature_moments, agent.log_temperature, rate)
    targets = soft_update(agent.target_critics, critics, jnp.float32(settings.tau))
    return Agent(actor, critics, targets, log_temperature, actor_moments, critic_moments, temperature_moments)
