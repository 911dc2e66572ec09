"""How long populations may take, before anything is measured: good to a factor of two."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax

from upweight.base.cores import usable_cores
from upweight.lab.play.environments import find_spec
from upweight.lab.study.run_spec import RunSpec, config_of
from upweight.lab.sweep.packing import Population
from upweight.lab.train.algorithm import find_algorithm
from upweight.lab.train.kernels.choice import obstacle, worthwhile
from upweight.lab.train.schedule import operations_per_update

# Of matrix products, per core or device, as training reaches them: on a GPU by number type, or with fused kernels. So many rows
# of inputs to networks in one update bring a GPU (an H200) to half of it: fewer do not fill it.
_OPERATIONS_PER_SECOND = {"cpu": 55e9, "float64": 10e12, "float32": 60e12, "bfloat16": 90e12, "fused": 160e12}
_ROWS_OF_HALF_SPEED = {"fused": 32_000, "": 16_000}
_COMPILE_SECONDS = 10
_SECONDS_PER_STEP = {"Ant": 450e-6, "": 120e-6}  # of a simulator on one core, by what the id of the environment holds
_SHARE_PLAYED, _USUAL_LIMIT = 0.8, 1000  # of an episode's time limit; the limit where there is none


@dataclass(frozen=True)
class Estimate:
    """How long it may take on this machine."""

    training: float  # seconds
    evaluation: float  # seconds
    device: str  # that trains: "2 CPU cores", "NVIDIA H200"

    def __str__(self) -> str:
        work = f"{_duration(self.training)} of training and {_duration(self.evaluation)} of evaluation"
        return f"{work} on {self.device} (give or take a factor of two), beside making datasets"


def estimate_time(populations: Sequence[Population], done: Mapping[str, float]) -> Estimate:
    """``done``, by population_id, is the share that is done of those that were begun."""
    on_cpu, cores = jax.default_backend() == "cpu", usable_cores()
    training = 0.0
    for population in populations:
        first, agents = population.runs[0], len(population.runs)
        kind = "cpu" if on_cpu else _kind(first, agents)
        rate = updates_per_second(kind, first, agents) * (cores if on_cpu else 1)
        training += (1.0 - done.get(population.population_id, 0.0)) * agents * first.updates / rate
    runs = [run for population in populations for run in population.runs]
    episodes: Counter[str] = Counter()
    for run in runs:
        episodes[run.data.env_id] += run.episodes * (1 + run.num_points)
    return Estimate(
        training=training + _COMPILE_SECONDS * len(populations),
        evaluation=sum(count * _episode_seconds(env_id) for env_id, count in episodes.items()) / cores,
        device=f"{cores} CPU core{'' if cores == 1 else 's'}" if on_cpu else jax.devices()[0].device_kind,
    )


def updates_per_second(kind: str, run: RunSpec, agents: int) -> float:
    """Of all agents of such runs together, on one core or GPU."""
    method, config = find_algorithm(run.algorithm), config_of(run)
    rows = agents * method.network_rows(config)
    filled = 1.0 if kind == "cpu" else rows / (rows + _ROWS_OF_HALF_SPEED.get(kind, _ROWS_OF_HALF_SPEED[""]))
    return filled * _OPERATIONS_PER_SECOND[kind] / operations_per_update(method, config)


def _kind(run: RunSpec, agents: int) -> str:
    """What computes the networks of such a population on a GPU."""
    config = config_of(run)
    fills = worthwhile(config.hidden_units, agents, find_algorithm(run.algorithm).network_rows(config))
    return "fused" if fills and obstacle(run.precision) is None else run.precision


def _episode_seconds(env_id: str) -> float:
    limit = find_spec(env_id).max_episode_steps or _USUAL_LIMIT
    return _SHARE_PLAYED * limit * next(seconds for name, seconds in _SECONDS_PER_STEP.items() if name in env_id)


def _duration(seconds: float) -> str:
    """In seconds, minutes up to 90, hours up to 48, or days; a decimal only below 10."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    number, unit = (seconds / 3600, "h") if seconds < 48 * 3600 else (seconds / 86400, "days")
    return f"{number:.1f} {unit}" if number < 9.95 else f"{number:,.0f} {unit}"
