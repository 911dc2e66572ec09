"""What an algorithm is: pure functions of one agent. The population adds the agent axis.

To add one, write a file in ``algorithms/`` with a module-level ``ALGORITHM``; training, the command line and the contract
tests pick it up.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax

from upweight.base.errors import ConfigError
from upweight.base.names import hint
from upweight.lab.train.config import Config
from upweight.lab.train.nn import MLP, Compute, init_mlp

Array = jax.Array
Hyper = Mapping[str, Array]  # the traced settings, scalars
Metrics = dict[str, Array]  # scalars; one that is not finite means that the agent has diverged


class Setup(NamedTuple):
    """The shapes and number types of a program."""

    observation_size: int
    action_size: int  # numbers in an action, or number of discrete actions
    dtype: Any  # of parameters
    compute: Compute

    def with_kernels(self, fused: bool) -> "Setup":
        return self._replace(compute=self.compute._replace(fused=fused))

    def init_network(self, key: Array, size_in: int, size_out: int, config: Config, **how: Any) -> MLP:
        """A network with the hidden layers of the settings; ``how`` else, as in :func:`init_mlp`."""
        sizes = (size_in, *config.hidden_units, size_out)
        return init_mlp(key, sizes, scheme=config.initialization, dtype=self.dtype, **how)

    def init_twins(self, key: Array, size_in: int, size_out: int, config: Config, **how: Any) -> MLP:
        """[2, ...] two of them, stacked."""
        return jax.vmap(lambda each: self.init_network(each, size_in, size_out, config, **how))(jax.random.split(key))


class Batch(NamedTuple):
    """B transitions of one agent; observations normalised, rewards scaled, actions in [-1, 1] (or indices)."""

    observations: Array  # [B, d]
    actions: Array  # [B, a], or int32 [B]
    rewards: Array  # [B]
    next_observations: Array  # [B, d]
    terminated: Array  # [B], 0 or 1
    weights: Array | None  # [B] loss weights where samples are reweighted rather than resampled
    next_choice: Any = None  # [B, ...] what a given policy does at the next observations, where one is evaluated


class Batches(NamedTuple):
    """What the critic learns from and what the actor learns from; the same unless sampling is decoupled."""

    critic: Batch
    actor: Batch


class PolicyParts(NamedTuple):
    """What makes up the policy file; see :class:`upweight.policies.policy.Policy`."""

    kind: str
    layers: MLP
    log_std: Array | None = None


class Algorithm(NamedTuple):
    """``state`` and ``noise`` are pytrees of the algorithm's own making."""

    name: str
    config: type[Config]
    discrete: bool  # whether it acts on discrete actions
    init: Callable[[Array, Setup, Any], Any]  # init(key, setup, config) -> state
    update: Callable[..., tuple[Any, Metrics]]  # update(state, batches, noise, hyper, step, setup, config, phase)
    policy: Callable[[Any, Any], PolicyParts]  # policy(state, config)
    network_rows: Callable[[Any], int]  # rows of input that pass through networks in one update
    noise: Callable[[Array, Setup, Any], Any] = lambda key, setup, config: None  # -> all randomness of one update
    # Update t behaves as update t mod period does; phase 0 reports all metrics.
    period: Callable[[Any], int] = lambda config: 1
    has_actor: bool = True  # otherwise the critics are the policy
    has_critic: bool = True  # otherwise the actor learns alone
    uses_rewards: bool = True  # otherwise rewards and next observations are not even loaded


@cache
def algorithms() -> dict[str, Algorithm]:
    """All algorithms by name."""
    folder = importlib.import_module("upweight.lab.train.algorithms")
    modules = [
        importlib.import_module(f"{folder.__name__}.{entry.name}") for entry in pkgutil.iter_modules(folder.__path__)
    ]
    return {module.ALGORITHM.name: module.ALGORITHM for module in modules}


def find_algorithm(name: str) -> Algorithm:
    """The algorithm called ``name``, however it is spelled ("TD3+BC" is td3_bc), or an error that suggests the nearest."""
    known = algorithms()
    plain = name.lower().replace("+", "_").replace("-", "_")
    if plain not in known:
        raise ConfigError(f"unknown algorithm {name!r}; {hint(plain, known)}")
    return known[plain]
