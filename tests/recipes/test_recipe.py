"""Names, ladders and what they promise."""

import hashlib
import math

import numpy as np
import pytest

import upweight as uw
from upweight.base.errors import DatasetError
from upweight.paper.tables import paper_rpsv, paper_scores
from upweight.recipes.ladder import load_ladder
from upweight.recipes.recipe import find_recipe
from upweight.recipes.tasks import CLASSIC_TASKS, MUJOCO_TASKS, TASKS, find_task

EXPERT_RETURNS = {"hopper": 3200, "halfcheetah": 10_500, "walker2d": 4500, "ant": 4500}


def test_every_mujoco_dataset_of_the_paper_has_a_recipe() -> None:
    names = uw.recipe_names()
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
    full = find_recipe("hopper-full-replay").parts
    assert [part.rung for part in full] == list(ladder.rungs)
    replay = find_recipe("hopper-medium-replay").parts
    assert [part.rung for part in replay] == list(ladder.rungs[: ladder.medium_place + 1])
    assert replay[-1].rung == ladder.medium
    both = find_recipe("hopper-medium-expert").parts
    assert [(part.rung, part.share) for part in both] == [(ladder.medium, 0.5), (ladder.expert, 0.5)]


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


@pytest.mark.parametrize("task", TASKS)
def test_shipped_ladders(task: str) -> None:
    ladder = load_ladder(task)
    returns = [rung.mean_return for rung in ladder.rungs]
    assert returns == sorted(returns) and len(returns) >= (12 if task in MUJOCO_TASKS else 4)
    assert abs(ladder.medium.score - TASKS[task].medium) < 0.1
    assert 0 < ladder.medium_place < len(returns) - 1
    if task in MUJOCO_TASKS:
        assert ladder.expert.mean_return >= EXPERT_RETURNS[task]
    else:
        assert task in CLASSIC_TASKS and ladder.expert.score == pytest.approx(1, abs=0.05)
    environment = uw.make_environment(TASKS[task].env_id)
    for rung in ladder.rungs:
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
