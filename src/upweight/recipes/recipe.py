"""Datasets by name: which policies play, and how much of each.

::

    hopper-random                uniformly random actions
    hopper-medium, -expert       one policy
    hopper-medium-expert         half the steps each
    hopper-medium-replay         the ladder from its first policy to medium, equal steps each
    hopper-full-replay           the whole ladder
    hopper-expert-random-5       5% of the steps by the expert, the rest random; also 1, 10, 50, and medium for expert
"""

from dataclasses import dataclass

from upweight.base.errors import DatasetError
from upweight.base.names import hint
from upweight.recipes.ladder import Rung, load_ladder
from upweight.recipes.tasks import CLASSIC_TASKS, MUJOCO_TASKS, TASKS, Task

SIGMAS = (1, 5, 10, 50)  # percent of good steps in a mix


@dataclass(frozen=True)
class Part:
    """One policy's part of a dataset; ``rung`` None plays uniformly random actions."""

    label: str
    rung: Rung | None
    share: float  # of the steps


@dataclass(frozen=True)
class Recipe:
    """What a name stands for."""

    name: str
    task: Task
    parts: tuple[Part, ...]


def recipe_names(tasks: tuple[str, ...] = (*MUJOCO_TASKS, *CLASSIC_TASKS)) -> list[str]:
    """All names, in a readable order."""
    names = []
    for task in tasks:
        kinds = ["random", "medium", "expert"]
        if task in MUJOCO_TASKS:
            kinds += ["medium-expert", "medium-replay", "full-replay"]
        kinds += [f"{good}-random-{sigma}" for good in ("medium", "expert") for sigma in SIGMAS]
        names += [f"{task}-{kind}" for kind in kinds]
    return names


def find_recipe(name: str) -> Recipe:
    """The recipe of a name; an unknown one is an error that lists the nearest."""
    if name not in recipe_names():
        tasks = f"tasks: {', '.join(TASKS)}; see upweight make --list"
        raise DatasetError(f"no dataset {name!r}; {hint(name, recipe_names(), most=3, otherwise=tasks)}")
    task_name, kind = name.split("-", 1)
    task = TASKS[task_name]
    if kind == "random":
        return Recipe(name, task, (Part("random", None, 1.0),))
    ladder = load_ladder(task_name)
    single = {"medium": Part("medium", ladder.medium, 1.0), "expert": Part("expert", ladder.expert, 1.0)}
    if kind in single:
        return Recipe(name, task, (single[kind],))
    if kind == "medium-expert":
        parts = tuple(Part(part.label, part.rung, 0.5) for part in single.values())
    elif kind in {"medium-replay", "full-replay"}:
        rungs = ladder.rungs if kind == "full-replay" else ladder.rungs[: ladder.medium_place + 1]
        parts = tuple(Part(f"rung-{place:02d}", rung, 1 / len(rungs)) for place, rung in enumerate(rungs))
    else:
        good, _, percent = kind.split("-")
        share = int(percent) / 100
        parts = (Part(good, single[good].rung, share), Part("random", None, 1 - share))
    return Recipe(name, task, parts)
