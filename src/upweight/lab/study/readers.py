"""Where results are read from: a store, packed or not, or the folder of one training, as if a sweep had kept its runs."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upweight.base.errors import DatasetError
from upweight.base.files import read_json, read_log
from upweight.lab.study.run_spec import DataSpec, RunSpec, draws_of
from upweight.lab.study.store import PackedStore, Record, Store, StoreReader

_NOT_PLAYED: Record = {"score": None, "mean_return": None, "returns": []}


def open_store(path: str | Path) -> StoreReader:
    """The results in a folder of ``upweight sweep`` or ``upweight train``, or in a file that :meth:`Store.pack` wrote.

    Examples:
        >>> len(list(uw.open_store("results").runs()))
        10
    """
    if Path(path).is_file():
        return PackedStore(path)
    return TrainedRuns(path) if (Path(path) / "plan.json").exists() else Store(path)


class TrainedRuns(StoreReader):
    """Runs with their losses; scores are those of ``upweight evaluate``, or of the evaluation on the way, if there was any."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not (self.path / "results.json").exists():
            raise DatasetError(
                f"{self.path}: the training is not finished; go on with it (upweight train ... --resume)"
            )
        files = [self.path / f"{name}.json" for name in ("plan", "results", "evaluation")]
        plan, results, evaluation = (read_json(file) if file.exists() else {} for file in files)
        losses: dict[int, list[Record]] = {}
        for record in read_log(self.path / "metrics.jsonl", {"run", "updates"}):
            losses.setdefault(record["run"], []).append(record)
        try:
            played = {each["policy"]: each for each in evaluation.get("policies", [])}
            self._records = [
                {
                    "run_id": str(self.path / (name := f"run-{number:03d}")),
                    "losses": losses.get(number, []),
                    **_record(plan, run, played.get(f"{name}.safetensors", _NOT_PLAYED), evaluation.get("env_id", "")),
                }
                for number, run in enumerate(results["runs"])
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise DatasetError(
                f"{self.path}: expected the folder of a training, found its plan.json, results.json or evaluation.json "
                f"damaged ({error}); evaluate it again, or train in another folder"
            ) from None

    def runs(self) -> Iterator[Record]:
        return iter(self._records)

    def datasets(self) -> list[Record]:
        return []


def _record(plan: Mapping[str, Any], run: Mapping[str, Any], played: Mapping[str, Any], env_id: str) -> Record:
    """What a sweep would have kept; of evaluation on the way, the last point is that of the policy."""
    *points, last = run.get("points") or [played]
    part = run["episodes"]
    content = plan["dataset"]["fingerprint"] if part is None else part["hash"]
    spec = RunSpec(
        data=DataSpec(plan["dataset"]["source"], None, None, env_id, content=content),
        algorithm=run["algorithm"],
        config=run["config"],
        weighting=draws_of(run),
        seed=run["seed"],
        updates=plan["num_updates"],
        precision=plan["precision"],
        episodes=len(last["returns"]),
        auto="kept" in run,
    )
    returns = {key: last[key] for key in _NOT_PLAYED}
    if "holdout" in plan:
        returns["holdout"] = {"episodes": plan["holdout"], "fingerprint": plan["dataset"]["fingerprint"]}
    return {
        "spec": spec.to_dict(),
        "status": run["status"],
        "diverged_at": run["diverged_at"],
        **returns,
        "points": points,
    }
