"""The folder a training writes to.

::

    plan.json            what is trained, and on what; the episodes that were held out, and when policies may be kept, if any
    metrics.jsonl        a line per run and log interval
    program-000.safetensors   checkpoint of a program under way, replaced as it advances
    program-000.json     in its place when the program is finished: how its runs ended
    policies/run-000.safetensors, results.json   at the end
    points/, best/       evaluation on the way (see :mod:`upweight.lab.train.points`)
    .lock                locked by the training that writes there
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from upweight.base.errors import CheckpointError, DatasetError
from upweight.base.files import atomic_target, clear_leftovers, naming, read_json, read_log, write_json
from upweight.base.locks import hold
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import fingerprint
from upweight.lab.train.checkpoint import Snapshot, Tree, damage_named, load_checkpoint, save_checkpoint
from upweight.lab.train.prepare import RunEpisodes
from upweight.lab.train.run import Run, says_all, summary
from upweight.lab.train.tracking import Record
from upweight.policies.policy import Policy, load_policy

FORMAT_VERSION = 1
_LOGGED = {"run", "updates"}  # in every line of the log


@contextmanager
def training_folder(
    path: Path, plan: dict[str, Any], programs: Sequence[Sequence[int]], *, resume: bool
) -> Iterator["TrainingFolder"]:
    """The folder, made if need be, which is this training's alone until the block ends."""
    path.mkdir(parents=True, exist_ok=True)
    with naming(path):
        lock = hold(path / ".lock")
    if lock is None:
        raise DatasetError(
            f"{path}: another training writes to this folder now; wait until it ends, or choose another folder"
        )
    with lock:
        yield TrainingFolder(path, plan, programs, resume=resume)


class TrainingFolder:
    """Reads and writes one such folder; :func:`training_folder` opens it."""

    def __init__(self, path: Path, plan: dict[str, Any], programs: Sequence[Sequence[int]], *, resume: bool) -> None:
        """``programs`` are the runs (by number) of each; a training that goes on keeps those that it began with."""
        self.path = path
        self.identity = _identity(plan)
        self.programs = [list(runs) for runs in programs]
        there = path / "plan.json"
        if there.exists():
            if not resume:
                raise DatasetError(
                    f"{path}: already holds a training; go on with resume=True (--resume), or choose another"
                )
            found = self._read(there)
            if found.get("identity") != self.identity:
                raise CheckpointError(
                    f"{path}: holds another training (other runs, data or settings); choose another folder"
                )
            self.programs = found["programs"]
            for folder in (path, path / "policies"):
                clear_leftovers(folder)
        else:
            self._write(there, {**plan, "programs": self.programs, "identity": self.identity})

    # ---- a program under way ------------------------------------------------------------------------------------
    def save_checkpoint(self, program: int, snapshot: Snapshot, num_updates: int) -> None:
        save_checkpoint(self._checkpoint(program), snapshot, num_updates=num_updates, identity=self.identity)

    def load_checkpoint(self, program: int, *likes: Tree) -> tuple[Tree, int] | None:
        """The population as it was saved and the number of updates it had had, if it was; ``likes`` are possible structures."""
        path = self._checkpoint(program)
        return load_checkpoint(path, *likes, identity=self.identity) if path.exists() else None

    # ---- a program at its end -----------------------------------------------------------------------------------
    def finish_program(self, program: int, outcomes: Sequence[Record], policies: Sequence[Policy]) -> None:
        """Keep how each of its runs ended, and its policy; then the checkpoint may go."""
        self.write_policies(dict(zip(self.programs[program], policies, strict=True)))
        self._write(self._outcomes(program), {"identity": self.identity, "runs": list(outcomes)})
        self._checkpoint(program).unlink(missing_ok=True)

    def write_policies(self, policies: Mapping[int, Policy]) -> None:
        """By the numbers of their runs; they replace what is there."""
        (self.path / "policies").mkdir(exist_ok=True)
        with ThreadPoolExecutor() as writers:  # a disk flushes many small files together faster than in turn
            list(writers.map(Policy.save, policies.values(), map(self._policy, policies)))

    def finished_program(self, program: int) -> tuple[list[Record], list[Policy]] | None:
        """What :meth:`finish_program` was told, if it was."""
        path = self._outcomes(program)
        if not path.exists():
            return None
        found = self._read(path)
        outcomes: list[Record] = found.get("runs", [])
        if found.get("identity") != self.identity or len(outcomes) != len(self.programs[program]):
            raise CheckpointError(f"{path}: damaged, or of another training; {self._begin_anew}")
        with damage_named(self._begin_anew):
            return outcomes, [load_policy(self._policy(run)) for run in self.programs[program]]

    def write_results(self, results: list[Record]) -> None:
        self._write(self.path / "results.json", {"format": FORMAT_VERSION, "runs": results})

    # ---- the log ------------------------------------------------------------------------------------------------
    def append_metrics(self, records: Sequence[Record]) -> None:
        path = self.path / "metrics.jsonl"
        with naming(path), path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def read_metrics(self, runs: Sequence[int], up_to: int) -> list[Record]:
        """What was logged for ``runs`` up to an update; later lines (of work that was lost) are removed."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        kept = [record for record in read_log(path, _LOGGED) if record["run"] not in runs or record["updates"] <= up_to]
        with atomic_target(path) as target:
            target.write_text("".join(json.dumps(record) + "\n" for record in kept))
        return [record for record in kept if record["run"] in runs]

    # ---- files --------------------------------------------------------------------------------------------------
    def _checkpoint(self, program: int) -> Path:
        return self.path / f"program-{program:03d}.safetensors"

    def _outcomes(self, program: int) -> Path:
        return self.path / f"program-{program:03d}.json"

    def _policy(self, run: int) -> Path:
        return self.path / "policies" / f"run-{run:03d}.safetensors"

    @property
    def _begin_anew(self) -> str:
        return f"remove the folder {self.path} to train from the beginning"

    def _read(self, path: Path) -> Record:
        value = read_json(path)
        if not isinstance(value, dict):
            raise CheckpointError(f"{path}: damaged; {self._begin_anew}")
        return value

    def _write(self, path: Path, value: Any) -> None:
        write_json(path, value, allow_nan=True)


def share_done(path: Path) -> float:
    """How much of the training in a folder is done, from 0 to 1, as its log says; good enough to tell a user."""
    try:
        plan: Any = read_json(path / "plan.json")
        total = len(plan["runs"]) * plan["num_updates"]
    except (FileNotFoundError, TypeError, KeyError):  # not begun, or damaged
        return 0.0
    done: dict[int, int] = {}
    for record in read_log(path / "metrics.jsonl", _LOGGED):
        done[record["run"]] = max(done.get(record["run"], 0), record["updates"])
    return min(1.0, sum(done.values()) / total)


def describe_training(
    dataset: Dataset,
    runs: Sequence[Run],
    parts: Sequence[RunEpisodes],
    num_updates: int,
    precision: str,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything that determines the outcome: of weightings that cannot be written, the weights [N] that they gave.

    ``more`` says what is held out, and when policies may be kept.
    """
    own = [
        summary(part.weights(weighting))
        for run, part in zip(runs, parts, strict=True)
        for weighting in (run.weighting, run.actor_weighting)
        if not says_all(weighting)
    ]
    return {
        **({"weights": own} if own else {}),
        **more,
        "format": FORMAT_VERSION,
        "num_updates": num_updates,
        "precision": precision,
        "dataset": {
            "source": dataset.source,
            "episodes": dataset.num_episodes,
            "steps": dataset.num_steps,
            "fingerprint": fingerprint(dataset),
        },
        "runs": [run.to_dict() for run in runs],
    }


def _identity(plan: dict[str, Any]) -> str:
    """A hash of what determines the outcome: what the data are, not where they lie."""
    dataset = {key: value for key, value in plan["dataset"].items() if key != "source"}
    return hashlib.sha256(json.dumps({**plan, "dataset": dataset}, sort_keys=True).encode()).hexdigest()
