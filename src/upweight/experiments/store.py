"""The store: a folder of results that a text editor can read, that never loses a finished run.

::

    store.json                     the format
    runs/RUN_ID.json               one finished run: its description, scores of all episodes, status, timing, versions
    policies/RUN_ID.safetensors    its policy
    datasets/NAME-SEED-STEPS.json  what each dataset is like: episodes, mean score, RPSV, a histogram of returns
    work/ID/                       trainings under way, and population.json: which runs train there

Every file is written completely or not at all, and by nobody else: two sweeps may share a store.
"""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from upweight.data.atomic import atomic_target
from upweight.errors import DatasetError
from upweight.experiments.run_spec import DataSpec

FORMAT_VERSION = 1
_POPULATION, _TIME = "population.json", "time.json"
Record = dict[str, Any]


class StoreReader(ABC):
    """Results, from wherever they are."""

    path: Path

    @abstractmethod
    def runs(self) -> Iterator[Record]:
        """All finished runs, in the order of their names."""

    @abstractmethod
    def datasets(self) -> list[Record]:
        """What each dataset is like."""

    def table(self) -> dict[str, list[Any]]:
        """One row per run, as columns: ``pandas.DataFrame(store.table())`` or ``pyarrow.table(store.table())``."""
        rows = []
        for record in self.runs():
            spec = record["spec"]
            weighting = dict(spec["weighting"])
            rows.append(
                {
                    "run_id": record["run_id"],
                    "dataset": spec["data"]["name"],
                    "dataset_seed": spec["data"]["seed"],
                    "algorithm": spec["algorithm"],
                    "weighting": weighting.pop("name"),
                    "weighting_settings": json.dumps(weighting, sort_keys=True),
                    "seed": spec["seed"],
                    "updates": spec["updates"],
                    "precision": spec["precision"],
                    "status": record["status"],
                    "score": record["score"],
                    "mean_return": record["mean_return"],
                }
            )
        names = list(rows[0]) if rows else []
        return {name: [row[name] for row in rows] for name in names}


class Store(StoreReader):
    """A folder of results: the only reader and writer of it."""

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        about = self.path / "store.json"
        if create and not about.exists():
            if self.path.exists() and any(self.path.iterdir()):
                raise DatasetError(f"{self.path}: expected a store or an empty folder, found other files in it")
            self.path.mkdir(parents=True, exist_ok=True)
            self._write(about, {"format": FORMAT_VERSION})
        try:
            found = json.loads(about.read_text()).get("format")
        except FileNotFoundError:
            raise DatasetError(
                f"{self.path}: not a store of results (no store.json); make one with upweight sweep"
            ) from None
        except ValueError:
            raise DatasetError(f"{about}: damaged; it should hold {{'format': {FORMAT_VERSION}}}") from None
        if found != FORMAT_VERSION:
            raise DatasetError(
                f"{self.path}: expected a store of format {FORMAT_VERSION}, found {found}; use the version that wrote it"
            )
        for name in ("runs", "policies", "datasets", "work"):
            if create:
                (self.path / name).mkdir(exist_ok=True)

    def pack(self, path: str | Path) -> None:
        """Write runs and datasets (not the policies) as one file with a JSON object per line; :func:`open_store` reads it."""
        with atomic_target(Path(path)) as target, target.open("w") as file:
            for kind, records in (
                ("store", [{"format": FORMAT_VERSION}]),
                ("dataset", self.datasets()),
                ("run", self.runs()),
            ):
                for record in records:
                    file.write(json.dumps({kind: record}, separators=(",", ":"), allow_nan=False) + "\n")

    def __contains__(self, run_id: str) -> bool:
        return (self.path / "runs" / f"{run_id}.json").exists()

    def write_run(self, run_id: str, record: Mapping[str, Any]) -> None:
        self._write(self.path / "runs" / f"{run_id}.json", {"run_id": run_id, **record})

    def policy_path(self, run_id: str) -> Path:
        return self.path / "policies" / f"{run_id}.safetensors"

    def work_folder(self, population_id: str) -> Path:
        return self.path / "work" / population_id

    def begin_population(self, population_id: str, specs: Sequence[Mapping[str, Any]]) -> Path:
        """A folder to train a population in; what it is made of is noted there for whoever goes on with it."""
        folder = self.work_folder(population_id)
        folder.mkdir(exist_ok=True)
        if not (folder / _POPULATION).exists():
            self._write(folder / _POPULATION, {"runs": list(specs)})
        return folder

    def add_time(self, population_id: str, seconds: float) -> float:
        """Seconds spent on training a population, with those of earlier slices."""
        path = self.work_folder(population_id) / _TIME
        with suppress(OSError, ValueError, KeyError):  # the first slice, or one whose note was cut short
            seconds += json.loads(path.read_text())["seconds"]
        self._write(path, {"seconds": seconds})
        return seconds

    def end_population(self, population_id: str) -> None:
        shutil.rmtree(self.work_folder(population_id), ignore_errors=True)

    def populations(self) -> list[list[Record]]:
        """The runs (as descriptions) of each population under way; what was cut short while being begun is cleared away."""
        found = []
        for folder in sorted((self.path / "work").glob("*/")):
            try:
                found.append(json.loads((folder / _POPULATION).read_text())["runs"])
            except (OSError, ValueError, KeyError):
                shutil.rmtree(folder, ignore_errors=True)
        return found

    @contextmanager
    def lock(self, population_id: str) -> Iterator[bool]:
        """Whether nobody else works on this population; the system takes the lock back when a process dies."""
        try:
            import fcntl
        except ImportError:  # no such thing on Windows
            yield True
            return
        with (self.path / "work" / f"{population_id}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
            Path(file.name).unlink(missing_ok=True)

    def runs(self) -> Iterator[Record]:
        """All finished runs, in the order of their names; a damaged file is an error that names it."""
        for path in sorted((self.path / "runs").glob("*.json")):
            try:
                record = json.loads(path.read_text())
                complete = {"spec", "returns", "score", "status"} <= record.keys()
            except (ValueError, AttributeError):
                complete = False
            if not complete:
                raise DatasetError(f"{path}: damaged; remove it and start the sweep again to repeat that run")
            yield record

    def has_dataset(self, data: DataSpec) -> bool:
        return self._dataset_path(data).exists()

    def write_dataset(self, data: DataSpec, record: Mapping[str, Any]) -> None:
        self._write(self._dataset_path(data), dict(record))

    def datasets(self) -> list[Record]:
        return [json.loads(path.read_text()) for path in sorted((self.path / "datasets").glob("*.json"))]

    def _dataset_path(self, data: DataSpec) -> Path:
        key = "-".join(str(part) for part in (Path(data.name).stem, data.seed, data.steps) if part is not None)
        return self.path / "datasets" / f"{key}.json"

    def _write(self, path: Path, value: Any) -> None:
        with atomic_target(path) as target:
            target.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n")


class PackedStore(StoreReader):
    """A file that :meth:`Store.pack` wrote; for reading only."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._records: dict[str, list[Record]] = {"store": [], "run": [], "dataset": []}
        for number, line in enumerate(self.path.read_text().splitlines(), 1):
            try:
                ((kind, record),) = json.loads(line).items()
                self._records[kind].append(record)
            except (ValueError, KeyError, AttributeError):
                raise DatasetError(f"{self.path}: line {number}: not a line of a packed store, or cut short") from None
        found = [record.get("format") for record in self._records["store"]]
        if found != [FORMAT_VERSION]:
            raise DatasetError(
                f"{self.path}: expected a packed store of format {FORMAT_VERSION}, found {found or 'none'}"
            )

    def runs(self) -> Iterator[Record]:
        return iter(self._records["run"])

    def datasets(self) -> list[Record]:
        return self._records["dataset"]


def open_store(path: str | Path) -> StoreReader:
    """The results in a folder, or in one file."""
    return PackedStore(path) if Path(path).is_file() else Store(path)
