r"""TD3+BC (Fujimoto and Gu, 2021): TD3 whose actor also imitates.

Critics: :math:`\sum_k (Q_k(s,a) - y)^2`, :math:`y = r + \gamma(1-d)\min_k \bar Q_k(s', \tilde a)` with
:math:`\tilde a = \bar\pi(s') + \mathrm{clip}(\epsilon)`. Actor, every second update:
:math:`-\lambda Q_1(s,\pi(s)) + (\pi(s) - a)^2` with :math:`\lambda = \alpha / \mathrm{mean}|Q_1|`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from upweight.lab.train.algorithm import Algorithm, Array, Batch, Batches, Hyper, Metrics, PolicyParts, Setup
from upweight.lab.train.config import Config, traced
from upweight.lab.train.losses import batch_mean, td_target
from upweight.lab.train.nn import MLP, adam_step, apply_critics, apply_mlp, init_adam, soft_update


@dataclass(frozen=True)
class TD3BCConfig(Config):
    """The original's settings, which d3rlpy v1 and the paper share; but the original takes antmaze's observations as they are."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "official": {},
        "official_antmaze": {"normalize_observations": False},
    }

    normalize_observations: bool = True
    actor_every_updates: int = 2  # actor and targets move with every second critic update
    actor_learning_rate: float = traced(3e-4)
    critic_learning_rate: float = traced(3e-4)
    discount: float = traced(0.99, high=1.0)
    tau: float = traced(0.005, high=1.0)
    alpha: float = traced(2.5)  # weight of Q against imitation
    target_noise: float = traced(0.2)
    target_noise_clip: float = traced(0.5)


class State(NamedTuple):
    actor: MLP
    critics: MLP  # [2, ...]
    target_actor: MLP
    target_critics: MLP
    actor_moments: Any
    critic_moments: Any


def init(key: Array, setup: Setup, config: TD3BCConfig) -> State:
    actor_key, critic_key = jax.random.split(key)
    actor = setup.init_network(actor_key, setup.observation_size, setup.action_size, config)
    critics = setup.init_twins(critic_key, setup.observation_size + setup.action_size, 1, config)
    target_actor, target_critics = jax.tree.map(jnp.copy, (actor, critics))
    return State(actor, critics, target_actor, target_critics, init_adam(actor), init_adam(critics))


def act(actor: MLP, observations: Array, setup: Setup) -> Array:
    return jnp.tanh(apply_mlp(actor, observations, setup.compute))


def critic_loss(critics: MLP, batch: Batch, target: Array, setup: Setup) -> Array:
    errors = apply_critics(critics, batch.observations, batch.actions, setup.compute) - target
    return batch_mean(jnp.sum(errors**2, axis=0), batch.weights)


def actor_loss(actor: MLP, critic: MLP, batch: Batch, alpha: Array, setup: Setup) -> Array:
    actions = act(actor, batch.observations, setup)
    q = apply_critics(critic, batch.observations, actions, setup.compute)[0]
    scale = alpha / jax.lax.stop_gradient(jnp.mean(jnp.abs(q)))
    imitation = jnp.mean((actions - batch.actions) ** 2, axis=-1)
    return batch_mean(imitation - scale * q, batch.weights)


def update(
    state: State,
    batches: Batches,
    noise: Array,
    hyper: Hyper,
    step: Array,
    setup: Setup,
    config: TD3BCConfig,
    phase: int,
) -> tuple[State, Metrics]:
    batch = batches.critic
    smoothing = jnp.clip(hyper["target_noise"] * noise, -hyper["target_noise_clip"], hyper["target_noise_clip"])
    next_actions = jnp.clip(act(state.target_actor, batch.next_observations, setup) + smoothing, -1, 1)
    next_values = apply_critics(state.target_critics, batch.next_observations, next_actions, setup.compute).min(axis=0)
    target = td_target(batch.rewards, batch.terminated, hyper["discount"], next_values)
    loss, gradients = jax.value_and_grad(critic_loss)(state.critics, batch, target, setup)
    critics, critic_moments = adam_step(gradients, state.critic_moments, state.critics, hyper["critic_learning_rate"])
    state = state._replace(critics=critics, critic_moments=critic_moments)
    if phase != 0:
        return state, {"critic_loss": loss}
    first = jax.tree.map(lambda leaf: leaf[:1], critics)
    imitation_loss, gradients = jax.value_and_grad(actor_loss)(state.actor, first, batches.actor, hyper["alpha"], setup)
    actor, actor_moments = adam_step(gradients, state.actor_moments, state.actor, hyper["actor_learning_rate"])
    state = state._replace(
        actor=actor,
        actor_moments=actor_moments,
        target_actor=soft_update(state.target_actor, actor, hyper["tau"]),
        target_critics=soft_update(state.target_critics, critics, hyper["tau"]),
    )
    return state, {"critic_loss": loss, "actor_loss": imitation_loss}


def noise(key: Array, setup: Setup, config: TD3BCConfig) -> Array:
    return jax.random.normal(key, (config.batch_size, setup.action_size), setup.dtype)


ALGORITHM = Algorithm(
    name="td3_bc",
    config=TD3BCConfig,
    discrete=False,
    period=lambda config: config.actor_every_updates,
    init=init,
    noise=noise,
    update=update,
    policy=lambda state, config: PolicyParts("deterministic", state.actor),
    network_rows=lambda config: 8 * config.batch_size,
)
