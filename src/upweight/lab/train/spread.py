"""A population over several devices: each has a share of the agents, and all of the data.

::

    agents    0 1 2 | 3 4 5 | 6 6 6     seven over three devices: the places that are left repeat the last one,
    device      0       1       2       and what they come to is dropped

An agent draws and learns by itself, so that devices have nothing to say to each other (``shard_map``).
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from upweight.base.checks import whole_number
from upweight.base.errors import ConfigError

Devices = int | Sequence[jax.Device] | None  # the first so many, or these; None: all of this process
Tree = TypeVar("Tree")  # a pytree of arrays
_EACH, _SHARED = PartitionSpec("agents"), PartitionSpec()  # type: ignore[no-untyped-call]


def choose_devices(wanted: Devices) -> list[jax.Device]:
    """Those that a training is spread over; where JAX has a default device (``jax.default_device``), that one."""
    settings: Any = jax.config  # has no types
    found = jax.local_devices()
    if wanted is None:
        return found if settings.jax_default_device is None else found[:1]
    if not isinstance(wanted, Sequence):
        return found[: whole_number("devices", wanted, least=1, most=len(found), error=ConfigError)]
    if not wanted or not all(isinstance(device, jax.Device) for device in wanted):
        raise ConfigError(f"devices: expected a number, or some of jax.local_devices(), found {wanted!r}")
    return list(wanted)


class Spread:
    """Where the agents of one program are; on one device, the default one, nothing is done to them."""

    def __init__(self, num_agents: int, devices: Sequence[jax.Device] = ()) -> None:
        used = list(devices)[:num_agents]
        self._num_agents = num_agents
        self._places = num_agents + -num_agents % max(1, len(used))  # a multiple of the devices
        self._mesh = None if used in ([], jax.local_devices()[:1]) else Mesh(np.array(used), ("agents",))

    def put(self, agents: Tree) -> Tree:
        """[A, ...] -> [places, ...], each device's share on it."""
        return agents if self._mesh is None else self._on(_EACH, jax.tree.map(self._fill, agents))

    def share(self, data: Tree) -> Tree:
        """Everything on every device."""
        return data if self._mesh is None else self._on(_SHARED, data)

    def take(self, agents: Tree) -> Tree:
        """[places, ...] -> [A, ...]; also of shapes."""
        if self._places == self._num_agents:
            return agents
        return jax.tree.map(lambda leaf: leaf[: self._num_agents], agents)

    def over(self, function: Callable[..., Any], *, each: int, shared: int = 0) -> Callable[..., Any]:
        """A function of ``each`` trees over the agents and then ``shared`` others, on every device of its own agents."""
        if self._mesh is None:
            return function
        inputs = (_EACH,) * each + (_SHARED,) * shared
        return jax.shard_map(function, mesh=self._mesh, in_specs=inputs, out_specs=_EACH, check_vma=False)

    def _on(self, where: PartitionSpec, tree: Tree) -> Tree:
        assert self._mesh is not None
        return jax.device_put(tree, NamedSharding(self._mesh, where))

    def _fill(self, leaf: Any) -> Any:
        return jnp.concatenate([leaf, jnp.repeat(leaf[-1:], self._places - len(leaf), axis=0)])
