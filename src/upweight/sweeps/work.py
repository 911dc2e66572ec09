"""Trainings under way in a store: a folder each, and at most one process in it.

::

    work/ID/population.json   the runs that train there; the folder appears together with this file
    work/ID/lock              locked by who works there
    work/ID/time.json         seconds spent on it
    work/ID/...               what the engine keeps: checkpoints, metrics

Whoever wants to train claims the runs first. Claims are made one at a time in the whole store, so no run is in two folders, and
none that is finished is trained again, however differently two sweeps pack their runs. A folder is a cache of work: it may be
removed at any time when nobody works in it.
"""

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upweight.base.files import atomic_target, clear_leftovers, read_json, remove_folder, write_json
from upweight.base.locks import locked
from upweight.studies.run_spec import FORMAT_VERSION, run_spec_from_dict
from upweight.studies.store import Store
from upweight.sweeps.packing import Population

_POPULATION, _LOCK, _TIME = "population.json", "lock", "time.json"
_ABANDONED_SECONDS = 24 * 3600  # nobody takes so long to write a file
_log = logging.getLogger("upweight")


@dataclass(frozen=True)
class Claim:
    """A population that is ours to train, and its folder."""

    population: Population
    folder: Path

    def add_time(self, seconds: float) -> float:
        """Seconds spent on training it, with those of earlier slices."""
        before: Any = read_json(self.folder / _TIME) if (self.folder / _TIME).exists() else None
        with suppress(TypeError, KeyError):  # the first slice, or one whose note is damaged
            seconds += before["seconds"]
        write_json(self.folder / _TIME, {"seconds": seconds})
        return seconds

    def forget_progress(self) -> None:
        """So that the training begins anew."""
        for entry in self.folder.iterdir():
            if entry.name not in {_POPULATION, _LOCK}:  # the time is spent on what is forgotten
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


class Work:
    """The trainings under way in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path = store.path / "work"

    def begun(self) -> list[Population]:
        """Every population that was begun and has not ended; folders that are damaged are left out, and left alone."""
        folders = sorted(self._path.glob("[!.]*"))
        return [population for folder in folders if (population := _read_population(folder)) is not None]

    def share_done(self, population: Population) -> float:
        """How much of a training is done, from 0 to 1, as its log says; good enough to tell a user."""
        done: dict[int, int] = {}
        with suppress(FileNotFoundError):
            for line in (self._folder(population) / "metrics.jsonl").read_text(errors="replace").splitlines():
                with suppress(ValueError, KeyError, TypeError):  # the last line of a killed process
                    record = json.loads(line)
                    done[record["run"]] = max(done.get(record["run"], 0), record["updates"])
        return min(1.0, sum(done.values()) / sum(run.updates for run in population.runs))

    @contextmanager
    def claim(self, population: Population) -> Iterator[Claim | None]:
        """The population if it was begun before, else what of it nobody has done or begun; None if that is nothing.

        Nobody else gets any of these runs inside the block.
        """
        with ExitStack() as holding:
            with self._alone():
                claim = self._take(population, holding)
            yield claim

    def end(self, claim: Claim) -> None:
        """All its runs are in the store."""
        with self._alone():
            remove_folder(claim.folder)

    def _take(self, population: Population, holding: ExitStack) -> Claim | None:
        self._clear_leftovers()
        if _read_population(self._folder(population)) is None:
            taken = {run.run_id for other in self.begun() for run in other.runs}
            free = tuple(run for run in population.runs if run.run_id not in taken and run.run_id not in self._store)
            if not free:
                return None
            population = Population(free)
        folder = self._folder(population)
        if _read_population(folder) is None and not self._begin(population, folder):
            return None
        if not holding.enter_context(locked(folder / _LOCK, wait=False)):
            return None
        return Claim(population, folder)

    def _begin(self, population: Population, folder: Path) -> bool:
        """A folder with the note what trains there, both at once; False if somebody works in a damaged one."""
        if folder.exists():
            with locked(folder / _LOCK, wait=False) as mine:
                if not mine:
                    return False
                _log.warning("%s: damaged; the training begins anew", folder)
                remove_folder(folder)
        with atomic_target(folder) as made:
            made.mkdir()
            write_json(made / _POPULATION, {"runs": [run.to_dict() for run in population.runs]})
        return True

    def _clear_leftovers(self) -> None:
        """What somebody left who died: folders half made or half removed, and those whose runs are all in the store."""
        clear_leftovers(self._path)  # folders are made and removed under the lock that we hold
        for folder in self._path.glob("[!.]*"):
            population = _read_population(folder)
            if population is not None and all(run.run_id in self._store for run in population.runs):
                with locked(folder / _LOCK, wait=False) as mine:
                    if mine:
                        remove_folder(folder)
        for place in ("", "runs", "policies", "datasets"):
            clear_leftovers(self._store.path / place, older_than_seconds=_ABANDONED_SECONDS)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Nobody else claims or ends anything; for moments only."""
        with locked(self._store.path / ".lock", wait=True):
            yield

    def _folder(self, population: Population) -> Path:
        return self._path / population.population_id


def _read_population(folder: Path) -> Population | None:
    """The population that trains in a folder; None if there is none, or if its note is damaged or of another version."""
    path = folder / _POPULATION
    try:
        content: Any = read_json(path)
        runs = content["runs"]
        population = Population(tuple(run_spec_from_dict(run) for run in runs))
        whole = all(run["format"] == FORMAT_VERSION for run in runs) and population.population_id == folder.name
    except (OSError, KeyError, TypeError, AttributeError, ValueError):
        return None
    return population if whole and population.runs else None
