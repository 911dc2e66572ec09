"""Where the kernels are used: the one place that knows versions, devices and shapes."""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from upweight.base.errors import ConfigError
from upweight.base.names import hint

CHOICES = ("auto", "xla", "fused")
_UNITS, _DEPTHS = 256, (2, 3)  # of hidden layers; their number
_OUTPUTS, _INPUTS = 16, 511  # of a network, at most
# With few agents the GPU is not filled and XLA is faster: with 16 by 1 to 4%, with one by half; except for CQL with its many
# rows. "auto" takes the kernels where they were timed to be faster (benchmarks/results/kernels_time*.json).
_NARROW, _MANY_AGENTS, _MANY_ROWS = 63, 24, 2**18  # inputs, at most; agents or rows, at least
_WIDE, _MANY_AGENTS_WIDE = 383, 64
_log = logging.getLogger("upweight")


def use_fused(choice: str, compute: Any) -> bool:
    """Whether products in ``compute`` go through the kernels; "fused" where they cannot is an error."""
    if choice not in CHOICES:
        raise ConfigError(f"kernels: expected one of {', '.join(CHOICES)}, found {choice!r}; {hint(choice, CHOICES)}")
    return choice != "xla" and _possible(choice, obstacle(compute))


def obstacle(compute: Any) -> str | None:
    """Why the kernels cannot be used here, or None."""
    if jnp.dtype(compute) != jnp.bfloat16:
        return f"they compute in bfloat16, and the precision is {jnp.dtype(compute)}"
    if jax.default_backend() != "gpu" or jax.devices()[0].compute_capability != "9.0":
        return f"they need a GPU of compute capability 9.0, and the device is {jax.devices()[0].device_kind}"
    if jax.__version_info__ < (0, 11):
        return f"they need jax 0.11, and this is {jax.__version__}"
    return None if _can_be_built() else "they could not be built"


@cache
def _can_be_built() -> bool:
    """Whether jax takes all of them, and compiles one: their interface is young, and a later version may have changed it."""
    try:
        from upweight.lab.train.kernels.networks import networks
        from upweight.lab.train.nn import Linear

        sizes, x = ((3, _UNITS), (_UNITS, _UNITS), (_UNITS, 1)), jnp.zeros((1, 3))
        layers = tuple(Linear(jnp.zeros((1, a, b)), jnp.zeros((1, b))) for a, b in sizes)
        jax.jit(jax.grad(lambda layers, x: networks(layers, x).sum(), argnums=(0, 1))).lower(layers, x)
        jax.jit(networks).lower(layers, x).compile()
    except Exception as error:  # of any kind: jax's internals are on the way
        _log.warning("the fused kernels cannot be built, and XLA's are used: %s: %s", type(error).__name__, error)
        return False
    return True


def worthwhile(hidden_units: Sequence[int], agents: int, rows: int, *, inputs: int = 1, choice: str = "auto") -> bool:
    """Whether so many agents, each with ``rows`` of inputs to networks per update, are faster with the kernels than without.

    Or whether the kernels were asked for; for networks that they do not know, that is an error. ``inputs``: numbers in an
    observation and an action, which is what the widest network can have.
    """
    reason = None
    if not _known(hidden_units):
        reason = f"they know two or three hidden layers of {_UNITS} units, and hidden_units is {tuple(hidden_units)}"
    elif inputs > _INPUTS:
        reason = f"they take up to {_INPUTS} inputs, and an observation and an action have {inputs:,} numbers"
    if inputs <= _NARROW:
        faster = agents >= _MANY_AGENTS or agents * rows >= _MANY_ROWS
    else:
        faster = agents >= _MANY_AGENTS_WIDE and inputs <= _WIDE
    return _possible(choice, reason) and (choice == "fused" or faster)


def fits(layers: Any, inputs: int) -> bool:
    """Whether networks (layers [..., in, out]) have a shape that the kernels know; XLA computes the others."""
    *hidden, outputs = (layer.weight.shape[-1] for layer in layers)
    return _known(hidden) and outputs <= _OUTPUTS and inputs <= _INPUTS


def _possible(choice: str, obstacle: str | None) -> bool:
    if choice == "fused" and obstacle is not None:
        raise ConfigError(f"kernels: 'fused' was asked for, but {obstacle}; use 'auto' or 'xla'")
    return obstacle is None


def _known(hidden_units: Sequence[int]) -> bool:
    return len(hidden_units) in _DEPTHS and set(hidden_units) == {_UNITS}
