r"""Implicit Q-learning (Kostrikov et al., 2022).

:math:`L_V = E[|\tau - 1[u<0]|u^2]`, :math:`u = \min_k\bar Q_k(s,a) - V(s)`;
:math:`L_Q = \sum_k (Q_k(s,a) - r - \gamma(1-d)V(s'))^2`;
:math:`L_\pi = -E[\min(e^{\beta u}, 100)\log\pi(a|s)]` with :math:`\pi = N(\tanh\mu(s), \sigma)`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from upweight.base.errors import ConfigError
from upweight.lab.train.algorithm import Algorithm, Array, Batch, Batches, Hyper, Metrics, PolicyParts, Setup
from upweight.lab.train.config import Config, traced
from upweight.lab.train.losses import batch_mean, expectile, normal_log_prob, td_target
from upweight.lab.train.nn import MLP, adam_step, apply_critics, apply_mlp, cosine_decay, init_adam, soft_update

LOG_STD_RANGE = (-5.0, 2.0)
_OFFICIAL = {
    "initialization": "orthogonal",
    "update_order": "sequential",
    "std_parameter": "clipped",
    "clip_actions": 1e-5,
}


@dataclass(frozen=True)
class IQLConfig(Config):
    """``paper``: d3rlpy v1's. ``official``: the original code's for Hopper, HalfCheetah and Walker2d, and for antmaze.

    It leaves the rewards of Ant unscaled (``scale_rewards_by_return=False``).
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "official": _OFFICIAL,
        "official_antmaze": {
            **_OFFICIAL,
            "expectile": 0.9,
            "beta": 10.0,
            "scale_rewards_by_return": False,
            "reward_shift": -1.0,
        },
    }

    scale_rewards_by_return: bool = True
    update_order: str = "joint"  # Q and V together with the old V, then actor; or "sequential": V, actor, Q
    std_parameter: str = "sigmoid"  # log sigma = -5 + 7 sigmoid(p); or "clipped": p within [-5, 2]
    clip_actions: float = 0.0  # keep dataset actions this far inside (-1, 1)
    actor_learning_rate: float = traced(3e-4)
    critic_learning_rate: float = traced(3e-4)
    discount: float = traced(0.99, high=1.0)
    tau: float = traced(0.005, high=1.0)
    expectile: float = traced(0.7, high=1.0)
    beta: float = traced(3.0)  # inverse temperature of the actor's weights
    max_weight: float = traced(100.0)
    actor_decay_updates: float = traced(0.0)  # cosine decay of the actor's rate over this many; 0 means the whole run

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.update_order not in {"joint", "sequential"} or self.std_parameter not in {"sigmoid", "clipped"}:
            raise ConfigError("expected update_order joint or sequential, and std_parameter sigmoid or clipped")

    def traced_values(self, num_updates: int) -> dict[str, float]:
        values = super().traced_values(num_updates)
        return {**values, "actor_decay_updates": self.actor_decay_updates or float(num_updates)}


class State(NamedTuple):
    actor: MLP
    std_parameter: Array  # [a]
    critics: MLP  # [2, ...]
    value: MLP
    target_critics: MLP
    actor_moments: Any
    critic_moments: Any
    value_moments: Any


def init(key: Array, setup: Setup, config: IQLConfig) -> State:
    actor_key, critic_key, value_key = jax.random.split(key, 3)
    actor = setup.init_network(actor_key, setup.observation_size, setup.action_size, config)
    std_parameter = jnp.zeros(setup.action_size, setup.dtype)
    critics = setup.init_twins(critic_key, setup.observation_size + setup.action_size, 1, config)
    value = setup.init_network(value_key, setup.observation_size, 1, config)
    moments = (init_adam((actor, std_parameter)), init_adam(critics), init_adam(value))
    return State(actor, std_parameter, critics, value, jax.tree.map(jnp.copy, critics), *moments)


def log_std_of(parameter: Array, config: IQLConfig) -> Array:
    low, high = LOG_STD_RANGE
    if config.std_parameter == "sigmoid":
        return low + (high - low) * jax.nn.sigmoid(parameter)
    return jnp.clip(parameter, low, high)


def value_of(value: MLP, observations: Array, setup: Setup) -> Array:
    return apply_mlp(value, observations, setup.compute)[..., 0]


def value_loss(value: MLP, batch: Batch, q: Array, tau: Array, setup: Setup) -> Array:
    return batch_mean(expectile(q - value_of(value, batch.observations, setup), tau), batch.weights)


def critic_loss(critics: MLP, batch: Batch, target: Array, setup: Setup) -> Array:
    errors = apply_critics(critics, batch.observations, batch.actions, setup.compute) - target
    return batch_mean(jnp.sum(errors**2, axis=0), batch.weights)


def actor_loss(
    parameters: tuple[MLP, Array], batch: Batch, advantage: Array, hyper: Hyper, setup: Setup, config: IQLConfig
) -> Array:
    actor, std_parameter = parameters
    mean = jnp.tanh(apply_mlp(actor, batch.observations, setup.compute))
    weight = jnp.minimum(jnp.exp(hyper["beta"] * advantage), hyper["max_weight"])
    actions = jnp.clip(batch.actions, config.clip_actions - 1, 1 - config.clip_actions)
    log_prob = normal_log_prob(actions, mean, log_std_of(std_parameter, config))
    return batch_mean(-jax.lax.stop_gradient(weight) * log_prob, batch.weights)


def update(
    state: State, batches: Batches, noise: None, hyper: Hyper, step: Array, setup: Setup, config: IQLConfig, phase: int
) -> tuple[State, Metrics]:
    batch = batches.critic
    old = state
    q = apply_critics(old.target_critics, batch.observations, batch.actions, setup.compute).min(axis=0)
    v_loss, gradients = jax.value_and_grad(value_loss)(old.value, batch, q, hyper["expectile"], setup)
    value, value_moments = adam_step(gradients, old.value_moments, old.value, hyper["critic_learning_rate"])

    bootstrap = old.value if config.update_order == "joint" else value
    next_values = value_of(bootstrap, batch.next_observations, setup)
    target = td_target(batch.rewards, batch.terminated, hyper["discount"], next_values)
    q_loss, gradients = jax.value_and_grad(critic_loss)(old.critics, batch, target, setup)
    critics, critic_moments = adam_step(gradients, old.critic_moments, old.critics, hyper["critic_learning_rate"])

    seen = batches.actor
    if seen is not batch:
        q = apply_critics(old.target_critics, seen.observations, seen.actions, setup.compute).min(axis=0)
    advantage = q - value_of(value, seen.observations, setup)
    parameters = (old.actor, old.std_parameter)
    pi_loss, gradients = jax.value_and_grad(actor_loss)(parameters, seen, advantage, hyper, setup, config)
    rate = hyper["actor_learning_rate"] * cosine_decay(step, hyper["actor_decay_updates"])
    (actor, std_parameter), actor_moments = adam_step(gradients, old.actor_moments, parameters, rate)
    target_critics = soft_update(old.target_critics, critics, hyper["tau"])
    state = State(actor, std_parameter, critics, value, target_critics, actor_moments, critic_moments, value_moments)
    return state, {"critic_loss": q_loss, "value_loss": v_loss, "actor_loss": pi_loss}


ALGORITHM = Algorithm(
    name="iql",
    config=IQLConfig,
    discrete=False,
    init=init,
    update=update,
    policy=lambda state, config: PolicyParts("gaussian", state.actor, log_std_of(state.std_parameter, config)),
    network_rows=lambda config: 8 * config.batch_size,
)
