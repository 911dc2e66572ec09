"""A training can be stopped and gone on with, and leaves no environment open."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reproduction.policies.training import Plan, Training, task_sizes
from support.rollout import Counted, register_counted
from upweight.base.errors import DatasetError


def tiny(**changes: Any) -> Plan:
    settings: dict[str, Any] = {
        "tasks": ("hopper", "halfcheetah"),
        "environments": 4,
        "capacity": 200,
        "warmup": 40,
        "snapshot_every": 40,
        "hidden_units": (8,),
        "batch_size": 8,
    }
    return Plan(**(settings | changes))


@pytest.mark.slow
def test_a_training_stops_and_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "training"
    for steps in (100, 260):
        training = Training(tiny(), folder, workers=2)
        try:
            assert training.run(steps)
        finally:
            training.close()
    assert training.steps == 260  # more than the replay holds: it wraps around
    lines = [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]
    assert [line["steps"] for line in lines] == [40, 80, 120, 160, 200, 240]
    assert lines[-1]["mean_returns"][0] > 0  # hopper falls soon; half a cheetah runs for 1,000 steps
    assert lines[-1]["mean_returns"][1] is None
    snapshots = sorted(path.stem for path in (folder / "snapshots").iterdir())
    assert snapshots == [f"{line['steps']:09d}" for line in lines]
    again = Training(tiny(), folder, workers=1)
    again.close()
    assert again.state.replay.shape == (2, 200, 2 * 17 + 6 + 2)
    assert np.all(np.abs(np.asarray(again.state.replay)).sum(axis=-1) > 0)  # no hole where the training was stopped
    with pytest.raises(DatasetError, match="other settings"):
        Training(tiny(batch_size=16), folder, workers=1)


@pytest.mark.slow
def test_what_the_replay_holds_is_what_happened(tmp_path: Path) -> None:
    """Rows are consecutive where no episode ended, real dimensions are filled and padded ones are zero."""
    training = Training(tiny(warmup=10_000), tmp_path / "training", workers=1)
    try:
        training.run(100)
        again = Training(tiny(warmup=10_000), tmp_path / "training", workers=1)
        again.close()
    finally:
        training.close()
    rows = np.asarray(again.state.replay)[:, :100].reshape(2, 25, 4, -1)  # [agent, round, environment, row]
    settings = training.settings
    observations, actions = rows[..., : settings.observation_size], rows[..., 17 : 17 + 6]
    nexts, ended = rows[..., -17:], rows[..., 17 + 6 + 1] > 0
    assert np.all(observations[0, ..., 11:] == 0) and np.all(actions[0, ..., 3:] == 0)
    assert np.all(observations[1] != 0) and np.all(np.abs(actions[1]) <= 1) and np.all(actions[1] != 0)
    same = np.all(nexts[:, :-1] == observations[:, 1:], axis=-1)
    assert np.array_equal(~same, ended[:, :-1])


def test_sizes_of_a_task() -> None:
    assert task_sizes("Hopper-v5") == (11, 3)
    before = Counted.open_ones
    with pytest.raises(DatasetError, match=r"expected actions in \[-1, 1\], found Discrete"):
        task_sizes(register_counted())
    assert Counted.open_ones == before
