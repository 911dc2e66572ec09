r"""Conservative Q-learning (Kumar et al., 2020) on top of SAC.

Critics: :math:`\sum_k (Q_k(s,a) - y)^2 + w\,\mathrm{mean}_k(\log\sum_{a'} e^{Q_k(s,a') - \log p(a')} - Q_k(s,a))`
with actions :math:`a'` from :math:`U(-1,1)`, :math:`\pi(s)` and :math:`\pi(s')`, importance-corrected by their density.
Actor and temperature as in SAC: :math:`\alpha\log\pi - \min_k Q_k`, target entropy minus the number of action dimensions.
"""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from upweight.lab.train.algorithm import Algorithm, Array, Batch, Batches, Hyper, Metrics, PolicyParts, Setup
from upweight.lab.train.config import Config, added, traced
from upweight.lab.train.losses import batch_mean, tanh_normal, tanh_normal_log_prob, td_target
from upweight.lab.train.nn import MLP, adam_step, apply_critics, apply_mlp, init_adam, soft_update
from upweight.policies.policy import LOG_STD_RANGE


@dataclass(frozen=True)
class CQLConfig(Config):
    """``paper``: d3rlpy v1's, where the conservative term is averaged over the two critics: 5 means 2.5 for each.

    ``official``: the original code's for MuJoCo: 5 for each critic, a sampled next action, small last layers, and an actor
    that imitates for its first 40,000 updates. ``jaxcql``: those of JaxCQL as the paper's repository ran it: 10 for each critic,
    smaller networks that begin as Flax's do, and faster actors. All of its networks learn at once, and here one after another;
    its offset of log sigma learns apart from the bias that it is added to, and here it is that bias.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "official": {
            "conservative_weight": 10.0,
            "sample_next_action": True,
            "imitation_updates": 40_000,
            "final_bound": 3e-3,
        },
        "jaxcql": {
            "hidden_units": (256, 256),
            "initialization": "lecun",
            "final_bound": math.sqrt(3 * 0.01 / 256),  # uniform, of variance 0.01 / in
            "initial_log_std": -1.0,
            "conservative_weight": 20.0,
            "sample_next_action": True,
            "actor_learning_rate": 3e-4,
            "temperature_learning_rate": 3e-4,
        },
    }

    hidden_units: tuple[int, ...] = (256, 256, 256)
    action_samples: int = 10
    sample_next_action: bool = False  # in the target; otherwise the mean action
    # at the start the actor maximises log pi(a) instead of Q
    imitation_updates: int = field(default=0, metadata={"low": 0})
    final_bound: float = 0.0  # range of last layers at the start; 0 means as the others
    initial_log_std: float = added(0.0)  # what is added to the bias of log sigma at the start
    actor_learning_rate: float = traced(1e-4)
    critic_learning_rate: float = traced(3e-4)
    temperature_learning_rate: float = traced(1e-4)
    discount: float = traced(0.99, high=1.0)
    tau: float = traced(0.005, high=1.0)
    conservative_weight: float = traced(5.0)  # of the mean over critics


class State(NamedTuple):
    actor: MLP
    critics: MLP  # [2, ...]
    target_critics: MLP
    log_temperature: Array
    actor_moments: Any
    critic_moments: Any
    temperature_moments: Any


class Noise(NamedTuple):
    """All randomness of one update."""

    here: Array  # [B, n, a] normal, for actions from pi(s)
    there: Array  # [B, n, a] normal, for actions from pi(s')
    anywhere: Array  # [B, n, a] uniform in [-1, 1]
    actor: Array  # [B, a] normal
    target: Array  # [B, a] normal


def init(key: Array, setup: Setup, config: CQLConfig) -> State:
    actor_key, critic_key = jax.random.split(key)
    size, acts, bound = setup.observation_size, setup.action_size, config.final_bound or None
    actor = setup.init_network(actor_key, size, 2 * acts, config, final_bound=bound)
    *hidden, last = actor
    actor = (*hidden, last._replace(bias=last.bias.at[acts:].add(config.initial_log_std)))
    critics = setup.init_twins(critic_key, size + acts, 1, config, final_bound=bound)
    log_temperature = jnp.zeros((), setup.dtype)
    moments = (init_adam(actor), init_adam(critics), init_adam(log_temperature))
    return State(actor, critics, jax.tree.map(jnp.copy, critics), log_temperature, *moments)


def noise(key: Array, setup: Setup, config: CQLConfig) -> Noise:
    keys = jax.random.split(key, 5)
    few = (config.batch_size, setup.action_size)
    many = (config.batch_size, config.action_samples, setup.action_size)
    return Noise(
        jax.random.normal(keys[0], many, setup.dtype),
        jax.random.normal(keys[1], many, setup.dtype),
        jax.random.uniform(keys[2], many, setup.dtype, -1.0, 1.0),
        jax.random.normal(keys[3], few, setup.dtype),
        jax.random.normal(keys[4], few, setup.dtype),
    )


def distribution(actor: MLP, observations: Array, setup: Setup) -> tuple[Array, Array]:
    """Mean and log sigma [B, a] before tanh."""
    outputs = apply_mlp(actor, observations, setup.compute)
    return outputs[..., : setup.action_size], jnp.clip(outputs[..., setup.action_size :], *LOG_STD_RANGE)


def critic_loss(
    critics: MLP, batch: Batch, target: Array, actions: Array, log_densities: Array, weight: Array, setup: Setup
) -> tuple[Array, Array]:
    """Loss and its conservative part; ``actions`` [B, 3n, a] with their log-densities [B, 3n]."""
    every = jnp.concatenate([batch.actions[:, None], actions], axis=1)  # one pass for all
    values = apply_critics(critics, batch.observations, every, setup.compute)  # [2, B, 1 + 3n]
    q, others = values[..., 0], values[..., 1:]
    gap = jax.nn.logsumexp(others - log_densities, axis=-1) - q
    conservative = batch_mean(jnp.mean(gap, axis=0), batch.weights)
    td = batch_mean(jnp.sum((q - target) ** 2, axis=0), batch.weights)
    return td + weight * conservative, conservative


def actor_loss(
    actor: MLP,
    critics: MLP,
    temperature: Array,
    batch: Batch,
    epsilon: Array,
    step: Array,
    setup: Setup,
    config: CQLConfig,
) -> Array:
    mean, log_std = distribution(actor, batch.observations, setup)
    actions, log_prob = tanh_normal(mean, log_std, epsilon)
    gain = apply_critics(critics, batch.observations, actions, setup.compute).min(axis=0)
    if config.imitation_updates:
        imitation = tanh_normal_log_prob(batch.actions, mean, log_std)
        gain = jnp.where(step < config.imitation_updates, imitation, gain)
    return batch_mean(temperature * log_prob - gain, batch.weights)


def update(
    state: State, batches: Batches, noise: Noise, hyper: Hyper, step: Array, setup: Setup, config: CQLConfig, phase: int
) -> tuple[State, Metrics]:
    batch = batches.critic
    both = jnp.concatenate([batch.observations, batch.next_observations])  # one pass for both
    (mean, next_mean), (log_std, next_log_std) = map(jnp.split, distribution(state.actor, both, setup), (2, 2))
    here, here_density = tanh_normal(mean[:, None], log_std[:, None], noise.here)
    there, there_density = tanh_normal(next_mean[:, None], next_log_std[:, None], noise.there)
    uniform_density = jnp.full_like(here_density, math.log(0.5) * setup.action_size)
    actions = jnp.concatenate([here, there, noise.anywhere], axis=1)
    densities = jnp.concatenate([here_density, there_density, uniform_density], axis=1)
    if config.sample_next_action:
        next_actions, _ = tanh_normal(next_mean, next_log_std, noise.target)
    else:
        next_actions = jnp.tanh(next_mean)
    next_values = apply_critics(state.target_critics, batch.next_observations, next_actions, setup.compute).min(axis=0)
    target = td_target(batch.rewards, batch.terminated, hyper["discount"], next_values)
    (loss, conservative), gradients = jax.value_and_grad(critic_loss, has_aux=True)(
        state.critics, batch, target, actions, densities, hyper["conservative_weight"], setup
    )
    critics, critic_moments = adam_step(gradients, state.critic_moments, state.critics, hyper["critic_learning_rate"])

    seen = batches.actor
    seen_mean, seen_log_std = (mean, log_std) if seen is batch else distribution(state.actor, seen.observations, setup)
    _, log_prob = tanh_normal(seen_mean, seen_log_std, noise.actor)
    temperature = jnp.exp(state.log_temperature)
    temperature_gradient = -temperature * batch_mean(log_prob - setup.action_size, seen.weights)
    log_temperature, temperature_moments = adam_step(
        temperature_gradient, state.temperature_moments, state.log_temperature, hyper["temperature_learning_rate"]
    )
    pi_loss, gradients = jax.value_and_grad(actor_loss)(
        state.actor, critics, jnp.exp(log_temperature), seen, noise.actor, step, setup, config
    )
    actor, actor_moments = adam_step(gradients, state.actor_moments, state.actor, hyper["actor_learning_rate"])
    target_critics = soft_update(state.target_critics, critics, hyper["tau"])
    state = State(actor, critics, target_critics, log_temperature, actor_moments, critic_moments, temperature_moments)
    metrics = {"critic_loss": loss, "conservative_loss": conservative, "actor_loss": pi_loss}
    return state, {**metrics, "temperature": jnp.exp(log_temperature)}


ALGORITHM = Algorithm(
    name="cql",
    config=CQLConfig,
    discrete=False,
    init=init,
    noise=noise,
    update=update,
    policy=lambda state, config: PolicyParts("tanh_gaussian", state.actor),
    network_rows=lambda config: 2 * config.batch_size * (3 * config.action_samples + 5),
)
