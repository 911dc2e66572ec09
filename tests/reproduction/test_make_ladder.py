"""Choosing the policies that are shipped."""

import json
from pathlib import Path

import numpy as np
import pytest

from reproduction.policies.make_ladder import GOALS, Goal, choose_rungs, distance, update_index, write_policy
from upweight.base.errors import DatasetError
from upweight.lab.play.evaluate import Evaluation
from upweight.lab.recipes.ladder import load_ladder
from upweight.lab.recipes.tasks import CLASSIC_TASKS, MUJOCO_TASKS
from upweight.policies.policy import load_policy


def evaluation(*returns: float) -> Evaluation:
    return Evaluation("Hopper-v5", np.array(returns), np.full(len(returns), 3), np.zeros(len(returns), bool))


def test_rungs_are_even_up_to_the_expert() -> None:
    means = np.array([0.0, 0.1, 0.11, 0.12, 0.3, 0.42, 0.5, 0.6, 0.88, 0.97, 1.3])
    assert sorted(means[choose_rungs(means, 0.9, 4)]) == [0.0, 0.3, 0.6, 0.88]  # levels 0, 0.29, 0.59, 0.88
    assert sorted(choose_rungs(means[:3], 0.9, 16)) == [0, 1, 2]  # no more than there are
    with pytest.raises(DatasetError, match="at least two"):
        choose_rungs(means, 0.9, 1)


def test_mean_and_spread_count_alike() -> None:
    assert distance(evaluation(7.0, 13.0), Goal(10, 3)) == pytest.approx(0)
    assert distance(evaluation(10.0, 10.0), Goal(6, 3)) == pytest.approx(5)


def test_every_task_has_goals() -> None:
    assert GOALS.keys() == {*MUJOCO_TASKS, *CLASSIC_TASKS}
    assert all(goals.keys() == {"medium", "expert"} for goals in GOALS.values())


def test_a_policy_that_takes_anothers_place_is_a_new_edition(tmp_path: Path) -> None:
    ladder = load_ladder("hopper")
    one, other = (rung.load() for rung in ladder.rungs[:2])
    folder = tmp_path / "hopper"
    entry = write_policy(one, evaluation(1.0, 3.0), folder / "medium.safetensors")
    assert (entry["mean_return"], entry["std_return"], entry["mean_length"]) == (2.0, 1.0, 3.0)
    np.testing.assert_array_equal(load_policy(folder / entry["file"]).layers[0][0], one.layers[0][0])
    update_index(ladder.task, folder, medium=entry, expert=dict(entry))
    update_index(ladder.task, folder, medium=dict(entry))
    index = json.loads((folder / "ladder.json").read_text())
    assert "edition" not in index["medium"] and index["env_id"] == "Hopper-v5"
    update_index(ladder.task, folder, medium=write_policy(other, evaluation(2.0), folder / "medium.safetensors"))
    index = json.loads((folder / "ladder.json").read_text())
    assert index["medium"]["edition"] == 2 and index["expert"] == entry
