"""Names, ladders and what they promise."""

import hashlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from upweight.base.errors import DatasetError
from upweight.lab.recipes.ladder import Rung, load_ladder
from upweight.lab.recipes.recipe import find_recipe
from upweight.lab.recipes.tasks import CLASSIC_TASKS, MUJOCO_TASKS, TASKS, find_task
from upweight.lab.report.paper.tables import paper_rpsv, paper_scores

RETURNS = {
    "hopper": {"medium": 1422, "expert": 3511},
    "halfcheetah": {"medium": 4770, "expert": 10_656},
    "walker2d": {"medium": 2852, "expert": 4920},
    "ant": {"medium": 3084, "expert": 4900},
    "cartpole": {"medium": 261, "expert": 500},
    "acrobot": {"medium": -296, "expert": -94},
    "mountaincar": {"medium": -161, "expert": -122},
}


def test_every_mujoco_dataset_of_the_paper_has_a_recipe() -> None:
    names = uw.recipe_names((*MUJOCO_TASKS, *CLASSIC_TASKS))
    assert len(names) == len(set(names)) == 4 * (6 + 8) + 3 * (3 + 8)
    ours = {name for name in names if name.split("-")[0] in MUJOCO_TASKS}
    theirs = {name for name in paper_rpsv() if not name.startswith("antmaze")}
    assert ours == theirs
    assert {name for _, name in paper_scores()} == set(paper_rpsv())


@pytest.mark.parametrize("name", uw.recipe_names())
def test_parts_make_a_whole(name: str) -> None:
    recipe = find_recipe(name)
    assert recipe.name == name and name.startswith(recipe.task.name)
    assert math.isclose(sum(part.share for part in recipe.parts), 1)
    assert len({part.label for part in recipe.parts}) == len(recipe.parts)
    assert all((part.rung is None) == (part.label == "random") for part in recipe.parts)


def test_what_names_mean() -> None:
    ladder = load_ladder("hopper")
    mix = find_recipe("hopper-expert-random-5").parts
    assert [(part.label, part.rung, part.share) for part in mix] == [
        ("expert", ladder.expert, 0.05),
        ("random", None, 0.95),
    ]
    replay = find_recipe("hopper-medium-replay").parts
    assert [part.rung for part in replay] == list(ladder.rungs[: ladder.medium_rungs])
    assert {part.share for part in replay} == {1 / ladder.medium_rungs}
    both = find_recipe("hopper-medium-expert").parts
    assert [(part.rung, part.share) for part in both] == [(ladder.medium, 0.5), (ladder.expert, 0.5)]


def test_a_full_replay_follows_the_training() -> None:
    def rung(steps: int) -> Rung:
        return Rung(Path("p"), 0.0, 0.0, 0.0, "", steps)

    ladder = load_ladder("hopper")
    climbed = replace(ladder, rungs=(rung(100), rung(700), rung(300), rung(300), rung(900)))
    # Of 800 steps: nearest to 100 are 0 to 200, to 300 (two of them) 200 to 500, to 700 500 to 800; 900 is too late.
    assert climbed.training_shares(800) == [200 / 800, 300 / 800, 150 / 800, 150 / 800, 0.0]
    parts = find_recipe("hopper-full-replay").parts
    assert all(part.rung is not None and (part.rung.steps or 0) < 800_000 for part in parts)
    assert max(part.share for part in parts) > 0.1 > min(part.share for part in parts)


def test_editions_tell_data_of_one_name_apart() -> None:
    assert find_recipe("hopper-random").edition == find_recipe("cartpole-medium").edition == 1
    assert find_recipe("hopper-expert").edition == find_recipe("hopper-expert-random-5").edition == 1
    assert find_recipe("hopper-medium").edition == find_recipe("hopper-medium-random-5").edition == 2
    assert find_recipe("hopper-medium-expert").edition == find_recipe("ant-full-replay").edition == 2


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("hopper-exprt", "did you mean 'hopper-expert"),
        ("hopper-expert-random-7", "did you mean 'hopper-expert-random"),
        ("cartpole-medium-replay", "did you mean"),
        ("x", "tasks: hopper, "),
    ],
)
def test_unknown_names_list_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(DatasetError, match=f"no dataset '{name}'; {hint}"):
        find_recipe(name)


def test_unknown_tasks_list_the_nearest() -> None:
    with pytest.raises(DatasetError, match="no task 'hoper'; did you mean 'hopper"):
        find_task("hoper")
    with pytest.raises(DatasetError, match="known: hopper, halfcheetah"):
        find_task("zzz")


@pytest.mark.parametrize("task", (*MUJOCO_TASKS, *CLASSIC_TASKS))
def test_shipped_ladders(task: str) -> None:
    ladder = load_ladder(task)
    returns = [rung.mean_return for rung in ladder.rungs]
    assert returns == sorted(returns) and len(returns) >= (12 if task in MUJOCO_TASKS else 4)
    assert 1 < ladder.medium_rungs < len(returns)
    for name, mean in RETURNS[task].items():
        assert getattr(ladder, name).mean_return == pytest.approx(mean, rel=0.1)
    environment = uw.make_environment(TASKS[task].env_id)
    for rung in {*ladder.rungs, ladder.medium, ladder.expert}:
        data = rung.path.read_bytes()
        assert hashlib.sha256(data).hexdigest() == rung.sha256
        assert len(data) < 200_000
        policy = rung.load()
        assert policy.metadata["env_id"] == TASKS[task].env_id
        action = policy.act(environment.reset(seed=0)[0], np.random.default_rng(0))
        assert environment.action_space.contains(action)


@pytest.mark.slow
def test_the_stored_return_is_what_the_policy_reaches() -> None:
    rung = load_ladder("hopper").expert
    played = uw.evaluate(rung.path, "Hopper-v5", episodes=10, seed=7, stochastic=True)
    assert abs(played.mean_return - rung.mean_return) < 4 * rung.std_return / math.sqrt(10)
