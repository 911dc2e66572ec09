"""The folder of a training, seen from outside."""

import json
from pathlib import Path

import pytest

from upweight.lab.train.folder import share_done


def test_how_far_a_training_is(tmp_path: Path) -> None:
    assert share_done(tmp_path) == 0.0
    (tmp_path / "plan.json").write_text(json.dumps({"num_updates": 100, "runs": [{}, {}]}))
    assert share_done(tmp_path) == 0.0
    lines = [json.dumps({"run": run, "updates": updates}) for run, updates in ((0, 10), (1, 10), (0, 20), (1, 40))]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, "3", '{"run": 1, "upd']))
    assert share_done(tmp_path) == (20 + 40) / 200


@pytest.mark.parametrize("plan", ["{", "3", "{}", '{"runs": 3}'])
def test_how_far_a_damaged_one_is(tmp_path: Path, plan: str) -> None:
    (tmp_path / "plan.json").write_text(plan)
    (tmp_path / "metrics.jsonl").write_text('{"run": 0, "updates": 10}')
    assert share_done(tmp_path) == 0.0
