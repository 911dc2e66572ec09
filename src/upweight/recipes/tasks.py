"""The tasks there are behaviour policies for."""

from dataclasses import dataclass

from upweight.base.errors import DatasetError
from upweight.base.names import hint


@dataclass(frozen=True)
class Task:
    """An environment and what a dataset of it is by default."""

    name: str
    env_id: str
    steps: int  # of a dataset
    medium: float  # normalised return that counts as medium
    expert: float | None = None  # the one that counts as expert; None: the best there is
    num_actions: int | None = None  # of discrete actions


TASKS = {
    task.name: task
    for task in (
        # What D4RL's medium and expert sets reach: datasets of better policies would not compare with published results.
        Task("hopper", "Hopper-v5", 1_000_000, medium=0.44, expert=1.09),
        Task("halfcheetah", "HalfCheetah-v5", 1_000_000, medium=0.41, expert=0.88),
        Task("walker2d", "Walker2d-v5", 1_000_000, medium=0.62, expert=1.07),
        Task("ant", "Ant-v5", 1_000_000, medium=0.75, expert=1.19),
        Task("cartpole", "upweight/StochasticCartPole-v1", 100_000, medium=0.5, num_actions=2),
        Task("acrobot", "upweight/StochasticAcrobot-v1", 100_000, medium=0.5, num_actions=3),
        Task("mountaincar", "upweight/StochasticMountainCar-v0", 100_000, medium=0.5, num_actions=3),
    )
}
MUJOCO_TASKS = ("hopper", "halfcheetah", "walker2d", "ant")
CLASSIC_TASKS = ("cartpole", "acrobot", "mountaincar")


def find_task(name: str) -> Task:
    """The task of that name; an unknown one is an error that lists the nearest."""
    if name in TASKS:
        return TASKS[name]
    raise DatasetError(f"no task {name!r}; {hint(name, TASKS, most=2)}")
