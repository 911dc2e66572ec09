"""Runs that count as finished, without any training."""

from upweight.studies.run_spec import RunSpec
from upweight.studies.store import Store


def write_finished(store: Store, run: RunSpec, *, status: str = "finished") -> None:
    """A plausible record of a run."""
    outcome = {"status": status, "diverged_at": None if status == "finished" else 3}
    store.write_run(
        run.run_id, {"spec": run.to_dict(), **outcome, "score": 0.5, "mean_return": 250.0, "returns": [250.0]}
    )
