"""From runs to populations: what can train together is put together."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upweight.base.checks import whole_number
from upweight.base.errors import ConfigError
from upweight.lab.recipes.recipe import find_recipe
from upweight.lab.study.run_spec import ACTOR, DataSpec, RunSpec, agent_of
from upweight.lab.train.run import program_key


@dataclass(frozen=True)
class Population:
    """Runs that one program trains: same pool of data, same shapes, same number of updates."""

    runs: tuple[RunSpec, ...]

    @property
    def population_id(self) -> str:
        """By its runs, so that an interrupted one is found again."""
        return hashlib.sha256(" ".join(run.run_id for run in self.runs).encode()).hexdigest()[:16]

    @property
    def data(self) -> tuple[DataSpec, ...]:
        """The datasets of its runs. Those follow from the population alone, whatever else a sweep has to do: the checkpoints of
        a training fit its data only."""
        return tuple(dict.fromkeys(run.data for run in self.runs))

    @property
    def title(self) -> str:
        """The algorithm, the tasks of its recipes or the names of its files, and whether its actors have draws of their own."""
        names = {
            find_recipe(each.name).task.name if each.content is None else Path(each.name).name for each in self.data
        }
        apart = ", actors drawing apart" if ACTOR in self.runs[0].weighting else ""
        return f"{self.runs[0].algorithm} on {', '.join(sorted(names))}{apart}"


def pack(runs: Sequence[RunSpec], *, max_agents: int | None = None) -> list[Population]:
    """Populations of runs that can share a program, of at most ``max_agents`` each."""
    if max_agents is not None:
        max_agents = whole_number("max_agents (--max-agents)", max_agents, least=1, error=ConfigError)
    groups: dict[object, list[RunSpec]] = {}
    for run in runs:
        groups.setdefault(_key(run), []).append(run)
    populations = []
    for members in groups.values():
        size = max_agents or len(members)
        populations += [Population(tuple(members[first : first + size])) for first in range(0, len(members), size)]
    return populations


def _key(run: RunSpec) -> object:
    data = run.data
    body = data.env_id if data.content is not None else find_recipe(data.name).task.body
    pool = (body, data.steps, data.seed, data.content)  # recipes of a body share one
    return (pool, program_key(agent_of(run)), run.updates, run.auto, run.precision, run.evaluate_every)
