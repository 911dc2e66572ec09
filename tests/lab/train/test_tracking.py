import sys
import types
from pathlib import Path
from typing import Any

import pytest

from upweight.base.errors import ConfigError
from upweight.lab.train.tracking import tensorboard_callback, wandb_callback

RECORDS = [{"run": 0, "updates": 100, "loss": 0.5}, {"run": 12, "updates": 100, "loss": 0.25}]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_tensorboard_files_can_be_read_back(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    tensorboard_callback(tmp_path)(RECORDS)
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert set(events.Tags()["tensors"]) == {"run-000/loss", "run-012/loss"}
    assert events.Tensors("run-012/loss")[0].step == 100


def test_wandb_gets_one_row_per_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service cannot be reached from a test: its module is replaced by one that writes down what it is told."""
    logged: list[Any] = []
    run = types.SimpleNamespace(log=logged.append)
    monkeypatch.setitem(
        sys.modules, "wandb", types.SimpleNamespace(init=lambda **options: logged.append(options) or run)
    )
    wandb_callback(project="p")(RECORDS)
    assert logged == [{"project": "p"}, {"run-000/loss": 0.5, "updates": 100}, {"run-012/loss": 0.25, "updates": 100}]


def test_a_missing_tracker_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match="pip install wandb"):
        wandb_callback()
