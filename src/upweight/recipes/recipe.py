"""Datasets by name: which policies play, and how much of each.

::

    hopper-random                uniformly random actions
    hopper-medium, -expert       one policy
    hopper-medium-expert         half the steps each
    hopper-medium-replay         the ladder from its first policy to medium, equal steps each
    hopper-full-replay           the ladder as the training climbed it: every policy for the time it stands for
    hopper-expert-random-5       5% of the steps by the expert, the rest random; also 1, 10, 50, and medium for expert
"""

from dataclasses import dataclass

from upweight.base.errors import DatasetError
from upweight.base.names import hint
from upweight.recipes.ladder import Rung, load_ladder
from upweight.recipes.tasks import CLASSIC_TASKS, MUJOCO_TASKS, TASKS, Task

SIGMAS = (1, 5, 10, 50)  # percent of good steps in a mix
_REPLAY_STEPS = 800_000  # of the training, that a full replay shows


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
    edition: int = (
        1  # of the data that go by the name: more than 1 where other policies, or other shares, play in it now
    )


def recipe_names(tasks: tuple[str, ...] = (*MUJOCO_TASKS, *CLASSIC_TASKS)) -> list[str]:
    """All names, in a readable order.

    Example:
        >>> uw.recipe_names(("hopper",))[:3]
        ['hopper-random', 'hopper-medium', 'hopper-expert']
    """
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
    named = {"medium": ladder.medium, "expert": ladder.expert}
    if kind in named:
        parts: tuple[Part, ...] = (Part(kind, named[kind], 1.0),)
    elif kind == "medium-expert":
        parts = tuple(Part(label, rung, 0.5) for label, rung in named.items())
    elif kind == "medium-replay":
        rungs = ladder.rungs[: ladder.medium_rungs]
        parts = tuple(Part(f"rung-{place:02d}", rung, 1 / len(rungs)) for place, rung in enumerate(rungs))
    elif kind == "full-replay":
        shares = ladder.training_shares(_REPLAY_STEPS)
        every = enumerate(zip(ladder.rungs, shares, strict=True))
        parts = tuple(Part(f"rung-{place:02d}", rung, share) for place, (rung, share) in every if share > 0)
        return Recipe(name, task, parts, edition=2)  # once the rungs had equal shares
    else:
        good, _, percent = kind.split("-")
        share = int(percent) / 100
        parts = (Part(good, named[good], share), Part("random", None, 1 - share))
    return Recipe(name, task, parts, edition=max(part.rung.edition for part in parts if part.rung is not None))
