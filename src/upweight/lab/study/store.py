"""The store: a folder of results that a text editor can read, that never loses a finished run.

::

    store.json                     the format
    runs/RUN_ID.json               one finished run: its description, scores of all episodes, status, timing, versions; returns
                                   at points on the way, if it was evaluated there; episodes that were held out, if any
    policies/RUN_ID.safetensors    its policy
    best/RUN_ID.safetensors        the policy of a point on the way that did better: chosen with the simulator
    datasets/NAME-SEED-STEPS.json  what each dataset is like: hash, episodes, mean score, RPSV, a histogram of returns; of a file
    datasets/NAME-CONTENT.json     there is one for every content it had
    work/                          trainings under way (see :mod:`upweight.lab.sweep.work`)

Every file is written completely or not at all: two sweeps may share a store.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from upweight.base.checks import yes_or_no
from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target, read_json, write_json
from upweight.base.text import Shown
from upweight.lab.study.run_spec import FORMAT_VERSION as RUN_VERSION, DataSpec, run_spec_from_dict

FORMAT_VERSION = 1
Record = dict[str, Any]
_RUN_KEYS = {"run_id", "spec", "status", "score", "returns"}
_POINT_KEYS = {"updates", "score", "mean_return", "returns"}
_DATASET_KEYS = {"name", "steps", "seed", "normalized", "episodes", "total_steps", "mean", "rpsv", "histogram"}
_AGAIN = "remove it and start the sweep again to repeat that run"


class StoreReader(Shown, ABC):
    """Results, from wherever they are."""

    path: Path

    @abstractmethod
    def runs(self) -> Iterator[Record]:
        """All finished runs, in the order of their names."""

    @abstractmethod
    def datasets(self) -> list[Record]:
        """What each dataset is like."""

    def _facts(self) -> dict[str, Any]:
        return {"path": str(self.path), "runs": self._num_runs()}

    def _num_runs(self) -> int:
        return sum(1 for _ in self.runs())

    def table(self) -> dict[str, list[Any]]:
        """One row per run, as columns: ``pandas.DataFrame(store.table())`` or ``pyarrow.table(store.table())``.

        Columns: ``run_id``; ``dataset``, ``dataset_steps``, ``dataset_seed``, ``dataset_content`` (of a file),
        ``dataset_edition``, ``dataset_holdout`` (the share kept back) and ``env_id``;
        ``algorithm`` and ``algorithm_settings`` (JSON); ``weighting`` and ``weighting_settings`` (JSON); ``seed``; ``updates``
        and ``updates_auto`` (whether that was the most, and the policy may have had fewer); ``precision`` and ``episodes`` (of
        the evaluation); ``status`` ("finished" or "diverged"), ``score`` (None where the environment has no reference
        scores) and ``mean_return``; ``data_sha256`` (of the dataset; None in old records).
        """
        rows = [_row(record) for record in self.runs()]
        names = list(rows[0]) if rows else []
        return {name: [row[name] for row in rows] for name in names}


class Store(StoreReader):
    """A folder of results: the only reader and writer of its runs, policies and datasets.

    Examples:
        >>> table = uw.Store("results").table()  # pandas.DataFrame(table)
        >>> sorted(set(table["weighting"]))
        ['rw', 'uniform']
    """

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        about = self.path / "store.json"
        if yes_or_no("create", create, error=DatasetError) and not about.exists():
            _refuse_other_files(self.path)
            self.path.mkdir(parents=True, exist_ok=True)
            write_json(about, {"format": FORMAT_VERSION})
        if not about.exists():
            raise DatasetError(
                f"{self.path}: not a store of results (no store.json), nor a training; make one with upweight sweep, or train"
            )
        content = read_json(about)
        if not isinstance(content, dict):
            raise DatasetError(f"{about}: damaged; it should hold {{'format': {FORMAT_VERSION}}}")
        if content.get("format") != FORMAT_VERSION:
            raise DatasetError(
                f"{self.path}: expected a store of format {FORMAT_VERSION}, found {content.get('format')}; "
                "use the version that wrote it"
            )
        for name in ("runs", "policies", "best", "datasets", "work"):
            if create:
                (self.path / name).mkdir(exist_ok=True)

    @classmethod
    def find(cls, path: str | Path) -> Self | None:
        """The store at a path; None where there is none, but one could be made."""
        if (Path(path) / "store.json").exists():
            return cls(path)
        _refuse_other_files(Path(path))
        return None

    def pack(self, path: str | Path) -> None:
        """Write runs and datasets, not policies, as one file, a JSON object per line (:func:`upweight.open_store` reads it)."""
        with atomic_target(Path(path)) as target, target.open("w") as file:
            for kind, records in (
                ("store", [{"format": FORMAT_VERSION}]),
                ("dataset", self.datasets()),
                ("run", self.runs()),
            ):
                for record in records:
                    file.write(json.dumps({kind: record}, separators=(",", ":"), allow_nan=False) + "\n")

    def __contains__(self, run_id: str) -> bool:
        """Whether a run is finished; one whose file is damaged is not."""
        try:
            self.run(run_id)
        except (DatasetError, FileNotFoundError):
            return False
        return True

    def run(self, run_id: str) -> Record:
        """The record of a finished run."""
        return self._read_run(self._run_path(run_id))

    def is_damaged(self, run_id: str) -> bool:
        """Whether there is a file of the run that cannot be used."""
        return self._run_path(run_id).exists() and run_id not in self

    def write_run(self, run_id: str, record: Mapping[str, Any]) -> None:
        write_json(self._run_path(run_id), {"run_id": run_id, **record})

    def policy_path(self, run_id: str) -> Path:
        """Where the policy of a finished run is, for :func:`upweight.load_policy`."""
        return self.path / "policies" / f"{run_id}.safetensors"

    def best_policy_path(self, run_id: str) -> Path:
        """Where the best policy of a run is that had a better one on its way than at its end: chosen with the simulator."""
        return self.path / "best" / f"{run_id}.safetensors"

    def runs(self) -> Iterator[Record]:
        """All finished runs, in the order of their names; a damaged file is an error that names it."""
        for path in _json_files(self.path / "runs"):
            yield self._read_run(path)

    def _num_runs(self) -> int:
        return len(_json_files(self.path / "runs"))

    def has_dataset(self, data: DataSpec) -> bool:
        path = self._dataset_path(data)
        return path.exists() and read_json(path) is not None

    def write_dataset(self, data: DataSpec, record: Mapping[str, Any]) -> None:
        write_json(self._dataset_path(data), dict(record))

    def datasets(self) -> list[Record]:
        return [_check_dataset(read_json(path), str(path)) for path in _json_files(self.path / "datasets")]

    def _read_run(self, path: Path) -> Record:
        return _check_run(read_json(path), str(path))

    def _run_path(self, run_id: str) -> Path:
        return self.path / "runs" / f"{run_id}.json"

    def _dataset_path(self, data: DataSpec) -> Path:
        edition = None if data.edition == 1 else f"edition{data.edition}"
        holdout = None if data.holdout is None else f"holdout{data.holdout:g}"
        about = (Path(data.name).stem.replace(":", "-"), data.seed, data.steps, data.content, edition, holdout)
        return self.path / "datasets" / f"{'-'.join(str(part) for part in about if part is not None)}.json"


class PackedStore(StoreReader):
    """A file that :meth:`Store.pack` wrote; for reading only."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._records: dict[str, list[Record]] = {"store": [], "run": [], "dataset": []}
        try:
            lines = self.path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise DatasetError(f"{self.path}: expected a packed store (lines of JSON), found binary content") from None
        for number, line in enumerate(lines, 1):
            where = f"{self.path}: line {number}"
            try:
                ((kind, record),) = json.loads(line).items()
                known = self._records[kind]
            except (ValueError, KeyError, AttributeError, RecursionError):
                raise DatasetError(f"{where}: not a line of a packed store, or cut short") from None
            known.append(_CHECKS[kind](record, where))
        found = [record["format"] for record in self._records["store"]]
        if found != [FORMAT_VERSION]:
            raise DatasetError(
                f"{self.path}: expected a packed store of format {FORMAT_VERSION}, found {found or 'none'}"
            )

    def runs(self) -> Iterator[Record]:
        return iter(self._records["run"])

    def datasets(self) -> list[Record]:
        return self._records["dataset"]


def _refuse_other_files(path: Path) -> None:
    """A store is begun in a new or empty folder; hidden files are the system's, or left by who was stopped at it."""
    if path.exists() and not path.is_dir():
        raise DatasetError(f"{path}: expected a folder for results, found a file; choose another place")
    others = [entry for entry in path.iterdir() if not entry.name.startswith(".")] if path.exists() else []
    if others and not (path / "store.json").exists():  # asked last: somebody may be making the store just now
        raise DatasetError(f"{path}: expected a store or an empty folder, found other files in it")


def _check_head(record: Any, where: str) -> Record:
    if not isinstance(record, dict) or "format" not in record:
        raise DatasetError(f"{where}: expected the format of the packed store, found {record!r}")
    return record


def _check_run(record: Any, where: str) -> Record:
    """The record of a run, if it is whole and this version can read it."""
    if not isinstance(record, dict) or not record.keys() >= _RUN_KEYS or not _are_points(record.get("points", [])):
        raise DatasetError(f"{where}: damaged; {_AGAIN}")
    try:
        run_spec_from_dict(record["spec"])
    except (KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{where}: run {record['run_id']}: expected the description of a run, found something else ({error}); {_AGAIN}"
        ) from None
    found = record["spec"].get("format")
    if found != RUN_VERSION:
        raise DatasetError(
            f"{where}: expected a run of format {RUN_VERSION}, found {found!r}; use the version that wrote it, or {_AGAIN}"
        )
    return record


def _are_points(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and each.keys() >= _POINT_KEYS for each in value)


def _check_dataset(record: Any, where: str) -> Record:
    """The description of a dataset, if it is whole."""
    if not isinstance(record, dict) or not record.keys() >= _DATASET_KEYS:
        raise DatasetError(f"{where}: damaged, or not a dataset's description; remove it, a report can do without")
    return record


_CHECKS = {"store": _check_head, "run": _check_run, "dataset": _check_dataset}


def _json_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.json") if not path.name.startswith("."))


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    spec = record["spec"]
    data, weighting = spec["data"], dict(spec["weighting"])
    return {
        "run_id": record["run_id"],
        "dataset": data["name"],
        "dataset_steps": data["steps"],
        "dataset_seed": data["seed"],
        "dataset_content": data["content"],
        "dataset_edition": data.get("edition", 1),
        "dataset_holdout": data.get("holdout"),
        "env_id": data["env_id"],
        "algorithm": spec["algorithm"],
        "algorithm_settings": json.dumps(spec["config"], sort_keys=True),
        "weighting": weighting.pop("name"),
        "weighting_settings": json.dumps(weighting, sort_keys=True),
        "seed": spec["seed"],
        "updates": spec["updates"],
        "updates_auto": spec.get("auto", False),
        "precision": spec["precision"],
        "episodes": spec["episodes"],
        "status": record["status"],
        "score": record["score"],
        "mean_return": record.get("mean_return"),
        "data_sha256": record.get("data_sha256"),
    }
