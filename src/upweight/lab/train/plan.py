"""How runs are packed into programs: grouped by what shapes the program, split by what fits into memory."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax

from upweight.base.checks import whole_number, yes_or_no
from upweight.base.errors import ConfigError
from upweight.base.text import size
from upweight.data.dataset import Dataset
from upweight.lab.train.algorithm import Setup
from upweight.lab.train.device import device_is_host, device_memory
from upweight.lab.train.kernels.choice import worthwhile
from upweight.lab.train.prepare import row_width
from upweight.lab.train.run import Run, program_key
from upweight.lab.train.schedule import BLOCK_UPDATES, choose_piece

USABLE_SHARE = 0.8  # of the device's memory
_MOST_STEPS = 2**31 - 1
CAUTION = 2  # times what an agent takes, when agents are packed: what was measured is BC and TD3+BC in float32
_FLAG_BYTES_PER_STEP = 4
_DRAW_BYTES = 40  # of a step that is drawn ahead: random words, and what is made of them
_PIECES_ON_HOST = 2  # of rows that stream: one is learned from, the next is gathered


class _Taken(NamedTuple):
    """As measured with benchmarks/streaming.py, on two cores and on an H200."""

    state_copies: int  # the state, where the block began and, unless it can be written in place, its successor
    pieces: int  # of rows that stream, at a time on the device
    workspace: int  # bytes on the device, of its libraries
    program: tuple[int, int]  # bytes on the host, to compile and run a program without and with critics
    streaming: tuple[int, int]  # the same, where rows stream


_ON_HOST = _Taken(3, 2, 0, (150_000_000, 300_000_000), (150_000_000, 300_000_000))
_ON_GPU = _Taken(2, 1, 130_000_000, (180_000_000, 180_000_000), (360_000_000, 540_000_000))


@dataclass(frozen=True)
class ProgramPlan:
    """Runs (by number) that train in one compiled program."""

    runs: tuple[int, ...]
    description: str
    bytes_per_agent: int
    bytes_of_data: int  # on each device
    bytes_on_host: int = 0  # in addition to what is on the device
    most_devices: int = 1
    fused: bool = False  # whether the fused kernels compute its networks
    streams: bool = False  # rows stay where the dataset is, and come batch by batch

    @property
    def num_devices(self) -> int:
        """That the agents are spread over: no more than there are agents."""
        return min(self.most_devices, len(self.runs))

    @property
    def spare_places(self) -> int:
        """Where the devices have equal shares of the agents, and nobody trains."""
        return -len(self.runs) % self.num_devices

    def fits(self, limit: int) -> int:
        """How many agents do, on devices of so many bytes."""
        return self.most_devices * int((USABLE_SHARE * limit - self.bytes_of_data) // (CAUTION * self.bytes_per_agent))

    @property
    def total_bytes(self) -> int:
        """On all devices."""
        return self.num_devices * self.bytes_of_data + (len(self.runs) + self.spare_places) * self.bytes_per_agent

    def __str__(self) -> str:
        text = f"{self.description} x {len(self.runs)}: about {size(self.total_bytes)} "
        text += f"({size(self.bytes_of_data)} data, {size(self.bytes_per_agent)} per agent), "
        text += f"{size(self.bytes_on_host)} on the host, " if self.bytes_on_host else ""
        text += f"networks by {'fused kernels' if self.fused else 'XLA'}"
        text += "; rows do not fit and are gathered from their files batch by batch" if self.streams else ""
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
    stream: bool | None = None,
) -> Plan:
    """Group runs that can share a program and split groups that would not fit.

    Rows of a packed dataset that do not fit themselves stream (``stream``: always, or never), to one device.
    """
    if max_agents is not None:
        max_agents = whole_number("max_agents", max_agents, least=1, error=ConfigError)
    stream = None if stream is None else yes_or_no("stream", stream, error=ConfigError)
    if dataset.num_steps > _MOST_STEPS:
        raise ConfigError(
            f"{dataset.source}: training numbers steps in 32 bits and takes at most {_MOST_STEPS:,} of them, found "
            f"{dataset.num_steps:,}; train on some of the episodes (Dataset.subset), or in a loop of your own (uw.batches)"
        )
    groups: dict[Any, list[int]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(program_key(run), []).append(number)
    limit = device_memory() // (num_devices if device_is_host() else 1)  # which share what the host has
    programs = []
    for members in groups.values():
        first = runs[members[0]]
        way = _resident(dataset, first, setup, num_devices)
        if stream or (stream is None and way.fits(limit) < 1 and dataset.is_out_of_core):
            way = _streamed(dataset, first, setup, 1)
        if (fits := way.fits(limit)) < 1:
            needed = size(way.bytes_of_data + CAUTION * way.bytes_per_agent)
            raise ConfigError(
                f"{first.method.name}: one agent needs about {needed} with its data, "
                f"and the device has {size(limit)}; use a smaller dataset, batch or network, or pack the data (`upweight pack`): "
                "from a packed folder batches are gathered as they are needed"
            )
        most = min(fits, max_agents or fits)
        parts = math.ceil(len(members) / most)
        each = math.ceil(len(members) / parts)
        for first_place in range(0, len(members), each):
            chosen = tuple(members[first_place : first_place + each])
            work = first.config.hidden_units, len(chosen) // way.most_devices, first.method.network_rows(first.config)
            fused = setup.compute.fused and worthwhile(
                *work, inputs=setup.observation_size + setup.action_size, choice=kernels
            )
            here = _streamed(dataset, first, setup, len(chosen)) if way.streams else way
            programs.append(replace(here, runs=chosen, fused=fused))
    return Plan(tuple(programs), limit)


def _taken() -> _Taken:
    return _ON_HOST if device_is_host() else _ON_GPU


def _resident(dataset: Dataset, run: Run, setup: Setup, num_devices: int) -> ProgramPlan:
    """All rows on every device."""
    shared, on_host = data_bytes(dataset, run, setup), _taken().program[run.method.uses_rewards]
    if not device_is_host():  # where rows are made
        on_host += shared + _column_bytes(dataset, run)
    per_agent, on_device = agent_bytes(dataset, run, setup), shared + _taken().workspace
    return ProgramPlan((), run.method.name, per_agent, on_device, on_host, num_devices)


def _streamed(dataset: Dataset, run: Run, setup: Setup, num_agents: int) -> ProgramPlan:
    """The rows of some pieces of updates, for each agent and on the host too, and where the episodes lie."""
    drawn = choose_piece(BLOCK_UPDATES, run.method, run.config, num_agents) * run.config.batch_size
    drawn *= 1 if run.actor_weighting is None else 2
    rows = drawn * row_width(run.method, setup) * setup.dtype.itemsize
    on_host = num_agents * _PIECES_ON_HOST * rows + _taken().streaming[run.method.uses_rewards]
    per_agent = agent_bytes(dataset, run, setup) + _taken().pieces * rows
    on_device = 8 * dataset.num_episodes + _taken().workspace
    return ProgramPlan((), run.method.name, per_agent, on_device, on_host, streams=True)


def agent_bytes(dataset: Dataset, run: Run, setup: Setup) -> int:
    """Estimate of what one agent takes on the device."""
    method, config = run.method, run.config
    shapes = jax.eval_shape(lambda: method.init(jax.random.key(0), setup, config))
    state = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    widths = sum(config.hidden_units) + setup.observation_size + setup.action_size
    activations = method.network_rows(config) * widths * setup.compute.dtype.itemsize
    tables = dataset.num_episodes * 12 * (2 if run.actor_weighting is not None else 1)
    draws = _DRAW_BYTES * BLOCK_UPDATES * config.batch_size
    return int(_taken().state_copies * state + activations + tables + draws)


def data_bytes(dataset: Dataset, run: Run, setup: Setup) -> int:
    """What the dataset takes on the device, once for all agents; on a CPU, with the arrays that it is made of."""
    rows = dataset.num_steps * row_width(run.method, setup) * setup.dtype.itemsize
    return rows + (_column_bytes(dataset, run) if device_is_host() else 0)


def _column_bytes(dataset: Dataset, run: Run) -> int:
    """In memory; the columns are asked, not read: what is too large should be refused first."""
    unused = {"flags"} if run.method.uses_rewards else {"flags", "next_observations"}
    read = [column for name, column in dataset.columns.items() if name not in unused and not column.is_mapped]
    sizes = [math.prod(column.shape) * column.dtype.itemsize for column in read]
    has_flags = "flags" in dataset.columns and dataset.columns["flags"].is_mapped
    return sum(sizes) + (0 if has_flags else _FLAG_BYTES_PER_STEP * dataset.num_steps)
