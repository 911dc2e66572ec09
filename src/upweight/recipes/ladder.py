"""The behaviour policies that travel with the package: for each task a ladder from poor to expert."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from upweight.base.errors import DatasetError
from upweight.base.files import read_json
from upweight.data.reference_scores import normalize_returns, reference_scores
from upweight.policies.policy import Policy, load_policy
from upweight.recipes.tasks import Task, find_task

INDEX = "ladder.json"
FOLDER = Path(__file__).parent / "policies"


@dataclass(frozen=True)
class Rung:
    """A policy and what it reached over many stochastic episodes."""

    path: Path
    mean_return: float
    std_return: float
    score: float  # normalised mean return
    sha256: str

    def load(self) -> Policy:
        return load_policy(self.path)


@dataclass(frozen=True)
class Ladder:
    """The policies of a task, by rising return."""

    task: Task
    rungs: tuple[Rung, ...]

    @property
    def expert(self) -> Rung:
        """The best."""
        return self.rungs[-1]

    @property
    def medium(self) -> Rung:
        """The one whose normalised return is nearest to that of the task's medium datasets."""
        return self.rungs[self.medium_place]

    @property
    def medium_place(self) -> int:
        distances = [abs(rung.score - self.task.medium) for rung in self.rungs]
        return distances.index(min(distances))


@cache
def load_ladder(task_name: str) -> Ladder:
    """The shipped ladder of a task."""
    task = find_task(task_name)
    folder = FOLDER / task.name
    index = read_json(folder / INDEX) if (folder / INDEX).exists() else None
    if index is None:
        raise DatasetError(f"{task.name}: its behaviour policies are missing or damaged; install the package again")
    reference = reference_scores(task.name)
    rungs = tuple(
        Rung(
            path=folder / entry["file"],
            mean_return=entry["mean_return"],
            std_return=entry["std_return"],
            score=float(normalize_returns(entry["mean_return"], reference)),
            sha256=entry["sha256"],
        )
        for entry in index["rungs"]
    )
    return Ladder(task, rungs)
