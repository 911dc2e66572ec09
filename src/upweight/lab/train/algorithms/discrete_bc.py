r"""Behaviour cloning of discrete actions: :math:`-\log\pi(a|s) + \beta\,\mathrm{mean}(f(s)^2)` with logits f(s)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from upweight.base.errors import ConfigError
from upweight.lab.train.algorithm import Algorithm, Array, Batches, Hyper, Metrics, PolicyParts, Setup
from upweight.lab.train.config import Config, traced
from upweight.lab.train.losses import batch_mean
from upweight.lab.train.nn import MLP, adam_step, apply_mlp, init_adam


@dataclass(frozen=True)
class DiscreteBCConfig(Config):
    """d3rlpy v1's defaults. Version 2 penalises log-probabilities instead of logits: ``penalize="log_probs"``."""

    batch_size: int = 100
    penalize: str = "logits"
    learning_rate: float = traced(1e-3)
    logit_penalty: float = traced(0.5)  # d3rlpy's beta

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalize not in {"logits", "log_probs"}:
            raise ConfigError(f"penalize: expected logits or log_probs, found {self.penalize!r}")


class State(NamedTuple):
    actor: MLP
    moments: Any


def init(key: Array, setup: Setup, config: DiscreteBCConfig) -> State:
    actor = setup.init_network(key, setup.observation_size, setup.action_size, config)
    return State(actor, init_adam(actor))


def loss(actor: MLP, batches: Batches, penalty: Array, setup: Setup, config: DiscreteBCConfig) -> Array:
    batch = batches.actor
    logits = apply_mlp(actor, batch.observations, setup.compute)
    log_probs = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(log_probs, batch.actions[:, None], axis=-1)[:, 0]
    penalised = logits if config.penalize == "logits" else log_probs
    return batch_mean(-chosen + penalty * jnp.mean(penalised**2, axis=-1), batch.weights)


def update(
    state: State,
    batches: Batches,
    noise: None,
    hyper: Hyper,
    step: Array,
    setup: Setup,
    config: DiscreteBCConfig,
    phase: int,
) -> tuple[State, Metrics]:
    value, gradients = jax.value_and_grad(loss)(state.actor, batches, hyper["logit_penalty"], setup, config)
    actor, moments = adam_step(gradients, state.moments, state.actor, hyper["learning_rate"])
    return State(actor, moments), {"loss": value}


ALGORITHM = Algorithm(
    name="discrete_bc",
    config=DiscreteBCConfig,
    discrete=True,
    init=init,
    update=update,
    policy=lambda state, config: PolicyParts("categorical", state.actor),
    network_rows=lambda config: config.batch_size,
    has_critic=False,
    uses_rewards=False,
)
