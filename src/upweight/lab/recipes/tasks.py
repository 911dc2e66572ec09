"""The tasks there are behaviour policies for."""

from dataclasses import dataclass

from upweight.base.errors import DatasetError
from upweight.base.names import hint
from upweight.lab.play.ant import STATE_SIZE
from upweight.lab.play.mazes import MAZES, maze_id


@dataclass(frozen=True)
class Task:
    """An environment and what a dataset of it is by default."""

    name: str
    env_id: str
    steps: int  # of a dataset
    num_actions: int | None = None  # of discrete actions
    observation_size: int | None = None  # numbers of an observation that are kept, where a policy is told more

    @property
    def body(self) -> str:
        """What acts: tasks of one body have observations and actions of one kind, and agents of all of them train together."""
        return "antmaze" if self.name in MAZE_TASKS else self.name


TASKS = {
    task.name: task
    for task in (
        Task("hopper", "Hopper-v5", 1_000_000),
        Task("halfcheetah", "HalfCheetah-v5", 1_000_000),
        Task("walker2d", "Walker2d-v5", 1_000_000),
        Task("ant", "Ant-v5", 1_000_000),
        Task("cartpole", "upweight/StochasticCartPole-v1", 100_000, num_actions=2),
        Task("acrobot", "upweight/StochasticAcrobot-v1", 100_000, num_actions=3),
        Task("mountaincar", "upweight/StochasticMountainCar-v0", 100_000, num_actions=3),
        *(Task(f"antmaze-{maze}", maze_id(maze), 1_000_000, observation_size=STATE_SIZE) for maze in MAZES),
    )
}
MUJOCO_TASKS = ("hopper", "halfcheetah", "walker2d", "ant")
CLASSIC_TASKS = ("cartpole", "acrobot", "mountaincar")
MAZE_TASKS = tuple(f"antmaze-{maze}" for maze in MAZES)


def find_task(name: str) -> Task:
    """The task of that name; an unknown one is an error that lists the nearest."""
    if name in TASKS:
        return TASKS[name]
    raise DatasetError(f"no task {name!r}; {hint(name, TASKS, most=2)}")
