"""Datasets by name: which policies play, and how much of each.

::

    hopper-random                uniformly random actions
    hopper-medium, -expert       one policy
    hopper-medium-expert         half the steps each
    hopper-medium-replay         the ladder from its first policy to medium, equal steps each
    hopper-full-replay           the ladder as the training climbed it: every policy for the time it stands for
    hopper-expert-random-5       5% of the steps by the expert, the rest random; also 1, 10, 50, and medium for expert

    antmaze-umaze                an ant is led from the start to the goal; antmaze-large-expert is the same in another maze
    antmaze-large-play           from anywhere to cells that D4RL picked by hand, one after the other, until it comes to the goal
    antmaze-large-diverse        from anywhere to anywhere
    antmaze-large-play-d4rl      the same, flagged as D4RL does: it goes on after the goal, and each step there ends an episode
    antmaze-large-wander         from anywhere to anywhere but the goal
    antmaze-large-expert-wander-5   5% of the steps led to the goal, the rest wandering (or random)
"""

from dataclasses import dataclass

from upweight.base.errors import DatasetError
from upweight.base.names import hint
from upweight.lab.play.mazes import maze_id
from upweight.lab.recipes.ladder import Rung, load_ladder, load_walker
from upweight.lab.recipes.tasks import CLASSIC_TASKS, MAZE_TASKS, MUJOCO_TASKS, TASKS, Task

SIGMAS = (1, 5, 10, 50)  # percent of good steps in a mix
_REPLAY_STEPS = 800_000  # of the training, that a full replay shows


@dataclass(frozen=True)
class PolicyShare:
    """One policy's part of a dataset; ``rung`` None plays uniformly random actions."""

    label: str
    rung: Rung | None
    share: float  # of the steps
    env_id: str | None = None  # where it is played, if not where the task's policies are evaluated
    in_fragments: bool = False  # whether each step with a reward ends an episode, though it was played on


@dataclass(frozen=True)
class Recipe:
    """What a name stands for."""

    name: str
    task: Task
    parts: tuple[PolicyShare, ...]
    edition: int = 1  # of the data that go by the name: more where other policies, or other shares, play in it now


def recipe_names(tasks: tuple[str, ...] = (*MUJOCO_TASKS, *CLASSIC_TASKS, *MAZE_TASKS)) -> list[str]:
    """All names, in a readable order.

    Examples:
        >>> uw.recipe_names(("hopper",))[:3]
        ['hopper-random', 'hopper-medium', 'hopper-expert']
    """
    names = []
    for task in tasks:
        if task in MAZE_TASKS:
            names += [f"{task}{kind}" for kind in _maze_kinds(task)]
            continue
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
    task_name = max((task for task in TASKS if f"{name}-".startswith(f"{task}-")), key=len)
    task, kind = TASKS[task_name], name.removeprefix(task_name).removeprefix("-")
    if kind == "random":
        return Recipe(name, task, (PolicyShare("random", None, 1.0),))
    if task_name in MAZE_TASKS:
        return Recipe(name, task, _maze_parts(task, kind))
    ladder = load_ladder(task_name)
    named = {"medium": ladder.medium, "expert": ladder.expert}
    if kind in named:
        parts: tuple[PolicyShare, ...] = (PolicyShare(kind, named[kind], 1.0),)
    elif kind == "medium-expert":
        parts = tuple(PolicyShare(label, rung, 0.5) for label, rung in named.items())
    elif kind == "medium-replay":
        rungs = ladder.rungs[: ladder.medium_rungs]
        parts = tuple(PolicyShare(f"rung-{place:02d}", rung, 1 / len(rungs)) for place, rung in enumerate(rungs))
    elif kind == "full-replay":
        shares = ladder.training_shares(_REPLAY_STEPS)
        every = enumerate(zip(ladder.rungs, shares, strict=True))
        parts = tuple(PolicyShare(f"rung-{place:02d}", rung, share) for place, (rung, share) in every if share > 0)
        return Recipe(name, task, parts, edition=2)  # once the rungs had equal shares
    else:
        good, _, percent = kind.split("-")
        share = int(percent) / 100
        parts = (PolicyShare(good, named[good], share), PolicyShare("random", None, 1 - share))
    return Recipe(name, task, parts, edition=max(part.rung.edition for part in parts if part.rung is not None))


def _maze_kinds(task: str) -> list[str]:
    regular = ["", "-diverse"] if task == "antmaze-umaze" else ["-play", "-diverse"]
    mixes = [f"-expert-{poor}-{sigma}" for poor in ("random", "wander") for sigma in SIGMAS]
    return [*regular, *(f"{kind}-d4rl" for kind in regular), "-random", "-wander", "-expert", *mixes]


def _maze_parts(task: Task, kind: str) -> tuple[PolicyShare, ...]:
    """An ant that is led about; where to, the kind says."""
    in_fragments = kind.endswith("d4rl")
    kind = kind.removesuffix("d4rl").removesuffix("-") or "expert"
    maze = task.name.removeprefix("antmaze-")

    def led(label: str, share: float) -> PolicyShare:
        command = "goal" if label == "expert" else label
        return PolicyShare(
            label, load_walker(task.name), share, maze_id(maze, command, ends=not in_fragments), in_fragments
        )

    good, *rest = kind.split("-")
    if not rest:
        return (led(good, 1.0),)
    poor, share = rest[0], int(rest[1]) / 100
    return led(good, share), PolicyShare("random", None, 1 - share) if poor == "random" else led(poor, 1 - share)
