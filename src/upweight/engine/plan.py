"""How runs are packed into programs: grouped by what shapes the program, split by what fits into memory."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from upweight.base.checks import whole_number
from upweight.base.errors import ConfigError
from upweight.base.text import size
from upweight.data.dataset import Dataset
from upweight.engine.algorithm import Setup
from upweight.engine.device import device_is_host, device_memory
from upweight.engine.kernels.choice import worthwhile
from upweight.engine.run import Run, program_key
from upweight.engine.schedule import BLOCK_UPDATES

USABLE_SHARE = 0.8  # of the device's memory
_STATE_COPIES = 3  # the state, its successor, and where the block began
_HOST_BYTES_PER_STEP = 24  # of rewards, flags, and counts in float64
_ACTIVATION_COPIES = 4  # forward, backward and what lies between


@dataclass(frozen=True)
class ProgramPlan:
    """Runs (by number) that train in one compiled program."""

    runs: tuple[int, ...]
    description: str
    bytes_per_agent: int
    bytes_of_data: int  # on each device
    most_devices: int = 1
    fused: bool = False  # whether the fused kernels compute its networks

    @property
    def num_devices(self) -> int:
        """That the agents are spread over: no more than there are agents."""
        return min(self.most_devices, len(self.runs))

    @property
    def spare_places(self) -> int:
        """Where the devices have equal shares of the agents, and nobody trains."""
        return -len(self.runs) % self.num_devices

    @property
    def total_bytes(self) -> int:
        """On all devices."""
        return self.num_devices * self.bytes_of_data + (len(self.runs) + self.spare_places) * self.bytes_per_agent

    def __str__(self) -> str:
        text = f"{self.description} x {len(self.runs)}: about {size(self.total_bytes)} "
        text += f"({size(self.bytes_of_data)} data, {size(self.bytes_per_agent)} per agent), "
        text += f"networks by {'fused kernels' if self.fused else 'XLA'}"
        if self.num_devices > 1:
            text += f", over {self.num_devices} devices, the data on each"
            text += f"; {self.spare_places} more agents would take no longer" if self.spare_places else ""
        return text


@dataclass(frozen=True)
class Plan:
    """All programs of a training."""

    programs: tuple[ProgramPlan, ...]
    memory_limit: int

    def repacked(self, programs: Sequence[Sequence[int]]) -> "Plan":
        """The same runs in other programs, as they were begun in."""
        like = {run: part for part in self.programs for run in part.runs}
        parts = [replace(like[runs[0]], runs=tuple(runs)) for runs in programs]
        return replace(self, programs=tuple(parts))

    def __str__(self) -> str:
        several = f" each of {most}" if (most := self.programs[0].most_devices) > 1 else ""
        return "\n".join([*map(str, self.programs), f"device memory: {size(self.memory_limit)}{several}"])


def make_plan(
    dataset: Dataset,
    runs: Sequence[Run],
    setup: Setup,
    *,
    max_agents: int | None,
    num_devices: int = 1,
    kernels: str = "auto",
) -> Plan:
    """Group runs that can share a program and split groups that would not fit."""
    if max_agents is not None:
        whole_number("max_agents", max_agents, least=1, error=ConfigError)
    groups: dict[Any, list[int]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(program_key(run), []).append(number)
    limit = device_memory() // (num_devices if device_is_host() else 1)  # which share what the host has
    programs = []
    for members in groups.values():
        first = runs[members[0]]
        per_agent, shared = agent_bytes(dataset, first, setup), data_bytes(dataset, first, setup)
        fits = num_devices * int((USABLE_SHARE * limit - shared) // per_agent)
        if fits < 1:
            raise ConfigError(
                f"{first.method.name}: one agent needs about {size(shared + per_agent)} with its data, "
                f"and the device has {size(limit)}; use a smaller dataset, batch or network"
            )
        most = min(fits, max_agents or fits)
        parts = math.ceil(len(members) / most)
        each = math.ceil(len(members) / parts)
        for first_place in range(0, len(members), each):
            chosen = tuple(members[first_place : first_place + each])
            work = first.config.hidden_units, len(chosen) // num_devices, first.method.network_rows(first.config)
            fused = setup.compute.fused and (kernels == "fused" or worthwhile(*work))
            programs.append(ProgramPlan(chosen, first.method.name, per_agent, shared, num_devices, fused))
    return Plan(tuple(programs), limit)


def agent_bytes(dataset: Dataset, run: Run, setup: Setup) -> int:
    """Estimate of what one agent takes on the device."""
    method, config = run.method, run.config
    shapes = jax.eval_shape(lambda: method.init(jax.random.key(0), setup, config))
    state = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    widths = sum(config.hidden_units) + setup.observation_size + setup.action_size
    activations = method.network_rows(config) * widths * setup.compute.dtype.itemsize
    tables = dataset.num_episodes * 12 * (2 if run.actor_weighting is not None else 1)
    draws = 8 * BLOCK_UPDATES * config.batch_size
    return int(_STATE_COPIES * state + _ACTIVATION_COPIES * activations + tables + draws)


def data_bytes(dataset: Dataset, run: Run, setup: Setup) -> int:
    """What the dataset takes on the device, once for all agents; on a CPU, with the arrays that it is made of."""
    action_width = 1 if run.method.discrete else setup.action_size
    width = setup.observation_size + action_width + (setup.observation_size + 2 if run.method.uses_rewards else 0)
    on_host = 0
    if device_is_host():
        # the columns are asked, not read: what is too large should be refused first
        observation = dataset._observations.dtype.itemsize * setup.observation_size
        on_host = observation + dataset._actions.dtype.itemsize * action_width + _HOST_BYTES_PER_STEP
        on_host += observation if run.method.uses_rewards else 0  # the next one
    return int(dataset.num_steps * (width * setup.dtype.itemsize + on_host))
