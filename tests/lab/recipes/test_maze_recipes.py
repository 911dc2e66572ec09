"""Antmaze by name: who walks where, and what is kept of it."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from upweight.lab.recipes.ladder import load_walker
from upweight.lab.recipes.make import _fragments
from upweight.lab.recipes.recipe import find_recipe
from upweight.lab.recipes.streams import Chunk
from upweight.lab.recipes.tasks import MAZE_TASKS
from upweight.lab.report.paper.tables import paper_rpsv

ENOUGH = {"antmaze-umaze": 0.8, "antmaze-medium": 0.6, "antmaze-large": 0.4}


def test_the_papers_six_sets_have_recipes() -> None:
    theirs = {name for name in paper_rpsv() if name.startswith("antmaze")}
    assert len(theirs) == 6 and theirs <= set(uw.recipe_names())
    assert {f"{name}-d4rl" for name in theirs} <= set(uw.recipe_names())


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("antmaze-umaze", [("expert", "umaze-goal", 1)]),
        ("antmaze-umaze-diverse", [("diverse", "umaze-diverse", 1)]),
        ("antmaze-large-play", [("play", "large-play", 1)]),
        ("antmaze-large-play-d4rl", [("play", "large-play-endless", 1)]),
        ("antmaze-umaze-d4rl", [("expert", "umaze-goal-endless", 1)]),
        ("antmaze-medium-expert-random-5", [("expert", "medium-goal", 0.05), ("random", None, 0.95)]),
        ("antmaze-medium-expert-wander-50", [("expert", "medium-goal", 0.5), ("wander", "medium-wander", 0.5)]),
    ],
)
def test_what_names_mean(name: str, parts: list[tuple[str, str | None, float]]) -> None:
    recipe = find_recipe(name)
    assert recipe.task.env_id == f"upweight/AntMaze-{name.split('-')[1]}-v0"
    shown = [(part.label, part.env_id, part.share) for part in recipe.parts]
    assert shown == [(label, env and f"upweight/AntMaze-{env}-v0", share) for label, env, share in parts]
    assert all(part.in_fragments == name.endswith("-d4rl") for part in recipe.parts)


@pytest.mark.parametrize("task", MAZE_TASKS)
def test_the_shipped_ant_reaches_the_goals(task: str) -> None:
    walker = load_walker(task)
    data = walker.path.read_bytes()
    assert hashlib.sha256(data).hexdigest() == walker.sha256 and len(data) < 300_000
    assert walker.mean_return >= ENOUGH[task]
    assert walker.load().observation_size == 36


def test_an_ant_walks_to_the_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPWEIGHT_CACHE", str(tmp_path))
    dataset = uw.load("antmaze-umaze", steps=1000, workers=1)
    assert dataset.observation_shape == (29,) and dataset.actions.shape[1:] == (8,)
    assert (dataset.returns == 1).mean() > 0.7 and dataset.lengths.min() > 50
    ended = dataset.next_observations[dataset.episodes.last_steps][dataset.returns == 1]
    assert np.all(np.hypot(*(ended[:, :2] - [0, 8]).T) <= 0.5)
    assert dataset.episodes.terminated[dataset.returns == 1].all()
    assert np.abs(dataset.observations[dataset.starts][:, :2]).max() <= 0.1
    again = uw.load("antmaze-umaze-expert", steps=300, workers=1)  # the same stream: nothing is played
    assert np.array_equal(again.observations, dataset.observations[: again.num_steps])


def test_d4rls_flags_end_an_episode_at_every_rewarded_step() -> None:
    rewards = np.array([0, 0, 1, 1, 0, 0, 0, 1, 0, 0], np.float32)  # two rollouts: of 6 and 4 steps
    flags = np.zeros(2, bool)
    chunk = Chunk(np.zeros((12, 29), np.float32), np.zeros((10, 8)), rewards, np.array([6, 4]), flags, ~flags)
    episodes = _fragments(chunk)
    assert episodes.lengths.tolist() == [3, 1, 2, 2, 2]
    assert episodes.terminated.tolist() == [True, True, False, True, False]
    assert np.array_equal(episodes.truncated, ~episodes.terminated) and not episodes.final_known.any()
    assert episodes.num_transitions.tolist() == [3, 1, 1, 2, 1]
