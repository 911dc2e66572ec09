"""Trainings under way in a store: a folder each, and at most one process in it.

::

    work/ID/population.json   the runs that train there; the folder appears together with this file
    work/ID/lock              locked by who works there
    work/ID/time.json         seconds spent on it
    work/ID/...               what the engine keeps: checkpoints, metrics

Whoever wants to train takes the runs first, one process at a time in the whole store: so no run is in two folders, and none that
is finished is trained again, however differently two sweeps pack their runs. A folder is a cache of work: it may be removed at
any time when nobody works in it.
"""

import logging
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from upweight.base.files import atomic_target, clear_leftovers, read_json, remove_folder, write_json
from upweight.base.locks import hold, locked
from upweight.lab.study.run_spec import FORMAT_VERSION, run_spec_from_dict
from upweight.lab.study.store import Store
from upweight.lab.sweep.packing import Population
from upweight.lab.train.folder import share_done

_POPULATION, _LOCK, _TIME = "population.json", "lock", "time.json"
_ABANDONED_SECONDS = 24 * 3600  # nobody takes so long to write a file
_log = logging.getLogger("upweight")


@dataclass(frozen=True)
class Workplace:
    """The folder of a population that is ours to train, until it is released."""

    population: Population
    folder: Path
    lock: IO[str]

    def add_time(self, seconds: float) -> float:
        """Seconds spent on training it, with those of earlier slices."""
        before: Any = read_json(self.folder / _TIME) if (self.folder / _TIME).exists() else None
        with suppress(TypeError, KeyError):  # the first slice, or one whose note is damaged
            seconds += before["seconds"]
        write_json(self.folder / _TIME, {"seconds": seconds})
        return seconds

    def forget_progress(self) -> None:
        """Empty the folder, so that the training starts again."""
        for entry in self.folder.iterdir():
            if entry.name not in {_POPULATION, _LOCK}:  # the time is spent on what is forgotten
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def release(self) -> None:
        """Let others go on with it."""
        self.lock.close()


class Work:
    """The trainings under way in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._path = store.path / "work"
        self._gate = store.path / ".lock"  # held for moments, by who takes or ends something

    def begun(self) -> list[Population]:
        """Every population that was begun and has not ended; folders that are damaged are left out, and left alone."""
        return [population for _, population in self._begun()]

    def share_done(self, population: Population) -> float:
        """How much of a training is done, from 0 to 1."""
        return share_done(self._folder(population))

    def take(self, population: Population) -> Workplace | None:
        """The population if it was begun before, else what of it nobody has done or begun; None if that is nothing.

        Nobody else gets any of these runs before the workplace is released.
        """
        with locked(self._gate):
            self._clear_leftovers()
            if _read_population(self._folder(population)) is None:
                taken = {run.run_id for other in self.begun() for run in other.runs}
                free = [run for run in population.runs if run.run_id not in taken and run.run_id not in self._store]
                if not free:
                    return None
                population = Population(tuple(free))
            folder = self._folder(population)
            if _read_population(folder) is None and not self._begin(population, folder):
                return None
            lock = hold(folder / _LOCK)
            return None if lock is None else Workplace(population, folder, lock)

    def end(self, workplace: Workplace) -> None:
        """Release it and clear it away: all its runs are in the store, or none was begun."""
        with locked(self._gate):
            workplace.release()
            remove_folder(workplace.folder)

    def _begin(self, population: Population, folder: Path) -> bool:
        """A folder with the note what trains there, both at once; False if somebody works in a damaged one."""
        if folder.exists():
            if not _is_free(folder):
                return False
            _log.warning("%s: damaged; the training starts again", folder)
            remove_folder(folder)
        with atomic_target(folder) as made:
            made.mkdir()
            write_json(made / _POPULATION, {"runs": [run.to_dict() for run in population.runs]})
        return True

    def _clear_leftovers(self) -> None:
        """What somebody left who died: folders half made or half removed, and those whose runs are all in the store."""
        clear_leftovers(self._path)  # folders are made and removed by who holds the gate
        for folder, population in self._begun():
            if all(run.run_id in self._store for run in population.runs) and _is_free(folder):
                remove_folder(folder)
        for place in ("", "runs", "policies", "best", "datasets"):
            clear_leftovers(self._store.path / place, older_than_seconds=_ABANDONED_SECONDS)

    def _begun(self) -> list[tuple[Path, Population]]:
        folders = sorted(self._path.glob("[!.]*"))
        return [(folder, found) for folder in folders if (found := _read_population(folder)) is not None]

    def _folder(self, population: Population) -> Path:
        return self._path / population.population_id


def _is_free(folder: Path) -> bool:
    """Whether nobody works in a folder; who holds the gate may rely on it."""
    lock = hold(folder / _LOCK)
    if lock is not None:
        lock.close()
    return lock is not None


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
