"""The folder a training writes to.

::

    plan.json            what is trained, and on what
    metrics.jsonl        a line per run and log interval
    program-000.safetensors   checkpoint of a program under way, replaced as it advances
    program-000.json     in its place when the program is finished: how its runs ended
    policies/run-000.safetensors, results.json   at the end
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target, clear_leftovers, naming
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import fingerprint
from upweight.engine.run import Run

FORMAT_VERSION = 1
Record = dict[str, Any]


class TrainingFolder:
    """Reads and writes one such folder."""

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
            found = self._read_json(there)
            if found.get("identity") != self.identity:
                raise DatasetError(
                    f"{path}: holds another training (other runs, data or settings); choose another folder"
                )
            self.programs = found["programs"]
            clear_leftovers(path)
        else:
            path.mkdir(parents=True, exist_ok=True)
            self._write_json(there, {**plan, "programs": self.programs, "identity": self.identity})

    def checkpoint(self, program: int) -> Path:
        return self.path / f"program-{program:03d}.safetensors"

    def policy(self, run: int) -> Path:
        folder = self.path / "policies"
        folder.mkdir(exist_ok=True)
        return folder / f"run-{run:03d}.safetensors"

    def finish_program(self, program: int, outcomes: Sequence[Record]) -> None:
        """Its policies are in the folder, so the checkpoint may go."""
        self._write_json(self._outcomes(program), {"identity": self.identity, "runs": list(outcomes)})
        self.checkpoint(program).unlink(missing_ok=True)

    def finished_program(self, program: int) -> list[Record] | None:
        """What :meth:`finish_program` was told, if it was."""
        path = self._outcomes(program)
        if not path.exists():
            return None
        found = self._read_json(path)
        outcomes: list[Record] = found.get("runs", [])
        if found.get("identity") != self.identity or len(outcomes) != len(self.programs[program]):
            raise DatasetError(f"{path}: damaged, or of another training; {self._begin_anew}")
        return outcomes

    def append_metrics(self, records: Sequence[Record]) -> None:
        path = self.path / "metrics.jsonl"
        with naming(path), path.open("a") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)

    def read_metrics(self, runs: Sequence[int], up_to: int) -> list[Record]:
        """What was logged for ``runs`` up to an update; later lines (of work that was lost) are removed."""
        path = self.path / "metrics.jsonl"
        if not path.exists():
            return []
        kept, mine = [], []
        for line in path.read_text(errors="replace").splitlines():
            try:
                record = json.loads(line)
                is_later = record["run"] in runs and record["updates"] > up_to
            except (ValueError, TypeError, KeyError):  # the last line of a killed process
                continue
            if is_later:
                continue
            kept.append(line)
            if record["run"] in runs:
                mine.append(record)
        with atomic_target(path) as target:
            target.write_text("".join(line + "\n" for line in kept))
        return mine

    def write_results(self, results: list[Record]) -> None:
        self._write_json(self.path / "results.json", {"format": FORMAT_VERSION, "runs": results})

    @property
    def _begin_anew(self) -> str:
        return f"remove the folder {self.path} to train from the beginning"

    def _outcomes(self, program: int) -> Path:
        return self.path / f"program-{program:03d}.json"

    def _read_json(self, path: Path) -> Record:
        try:
            value = json.loads(path.read_text())
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise DatasetError(f"{path}: damaged; {self._begin_anew}")
        return value

    def _write_json(self, path: Path, value: Any) -> None:
        with atomic_target(path) as target:
            target.write_text(json.dumps(value, indent=1) + "\n")


def describe_training(dataset: Dataset, runs: Sequence[Run], num_updates: int, precision: str) -> dict[str, Any]:
    """Everything that determines the outcome."""
    return {
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
