"""Small trainings for the tests."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import upweight as uw
from support.datasets import random_dataset
from upweight.lab.select.fqe import FQEConfig
from upweight.lab.train.algorithm import algorithms
from upweight.lab.train.population import Program
from upweight.lab.train.prepare import make_agents, make_data, make_parts, make_setup

SMALL: dict[str, Any] = {"hidden_units": (8, 8), "batch_size": 8}


def small_config(name: str, **changes: Any) -> Any:
    extra = {"action_samples": 2} if name == "cql" else {}
    return uw.algorithm_config(name, **{**SMALL, **extra, **changes})


def dataset_for(name: str, **options: Any) -> uw.Dataset:
    """Data with the kind of actions the algorithm needs."""
    options = {"num_episodes": 30, "next_known": True, **options}
    return random_dataset(0, discrete=algorithms()[name].discrete, **options)


def parameters(result: uw.RunResult) -> np.ndarray:
    """All numbers of a policy in one vector."""
    return np.concatenate([array.ravel() for layer in result.policy.layers for array in layer])


def build(runs: list[uw.Run], dataset: uw.Dataset, precision: str = "float32", num_updates: int = 100) -> Any:
    """Program, agents and data of runs that share a program."""
    setup = make_setup(dataset, precision)
    method = runs[0].method
    agents = make_agents(runs, make_parts(dataset, runs), setup, num_updates)
    return Program(method, runs[0].config, setup), agents, make_data(dataset, method, setup)


def draws(built: Any, count: int) -> np.ndarray:
    """[A, count * B] the steps that each agent of what :func:`build` gives learns from in its first updates."""
    program, agents, data = built
    steps = jax.jit(jax.vmap(lambda update: program.draw(agents, data, update)))(np.arange(count))  # [count, A, B]
    return np.concatenate(np.asarray(steps), axis=1)


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def fqe_hyper(**values: float) -> dict[str, Any]:
    """What a critic's update is told: by default Q is the network's output, and targets are not clipped."""
    plain = {"reward_mean": 0.0, "reward_std": 1 - 0.99, "value_low": -np.inf, "value_high": np.inf}
    return {name: jnp.asarray(number) for name, number in {**FQEConfig().traced_values(1), **plain, **values}.items()}
