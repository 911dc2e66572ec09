"""Datasets by name: one (:func:`make_dataset`), or several that share what they can (:func:`make_shared_data`)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import whole_number
from upweight.base.errors import DatasetError
from upweight.base.optional import installed_versions
from upweight.data.columns import ArrayColumn
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import content_hash
from upweight.data.mix import concat
from upweight.data.segment import Episodes
from upweight.lab.recipes.recipe import PolicyShare, Recipe, find_recipe
from upweight.lab.recipes.streams import Chunk, Stream, episodes_for
from upweight.lab.recipes.tasks import Task


def make_dataset(name: str, *, steps: int | None = None, seed: int = 0, workers: int | None = None) -> Dataset:
    """Let behaviour policies play until their parts of ``steps`` are reached, in whole episodes.

    The episodes follow from ``name`` and ``seed``; ``workers`` (processes, default: one per core) does not matter, and more
    steps only add episodes. What was collected is kept in the cache folder (``UPWEIGHT_CACHE``). On another machine, or with
    other versions of MuJoCo or NumPy, numbers may round differently: ``metadata["content_sha256"]`` tells.

    Examples:
        >>> mixed = uw.make_dataset("cartpole-expert-random-50", steps=1000)
        >>> mixed.num_steps >= 1000, mixed.num_actions
        (True, 2)
    """
    recipe = find_recipe(name)
    total = whole_number("steps", recipe.task.steps if steps is None else steps, least=1, error=DatasetError)
    seed = whole_number("seed", seed, least=0, most=2**32 - 1, error=DatasetError)
    parts, about = [], []
    for part in recipe.parts:
        played = _play(recipe.task, part, total, seed=seed, workers=workers)
        policy = {} if part.rung is None else {"mean_return": part.rung.mean_return, "sha256": part.rung.sha256}
        counts = {"target_steps": _steps_of(part, total), "steps": played.num_steps, "episodes": played.num_episodes}
        parts.append(played)
        about.append({"label": part.label, "policy": policy or "uniformly random actions", **counts})
    dataset = concat(parts, source=name)
    command = f"upweight make {name} --steps {total} --seed {seed}"
    return dataset.with_metadata(
        recipe={"name": name, "edition": recipe.edition, "steps": total, "seed": seed, "command": command},
        parts=about,
        versions=installed_versions("upweight", "gymnasium", "mujoco", "numpy"),
        content_sha256=content_hash(dataset),
    )


class SharedData(NamedTuple):
    """Several datasets in one: ``dataset.subset(episodes[name])`` is the one of that name, episode by episode."""

    dataset: Dataset
    episodes: dict[str, NDArray[np.int64]]


def make_shared_data(
    wanted: Sequence[str | Recipe], *, steps: int | None = None, seed: int = 0, workers: int | None = None
) -> SharedData:
    """Some datasets of one body, with what they share there once; ``steps`` is the size of each (default: the task's).

    They are given by name, or as recipes of one's own.

    Datasets by name are prefixes of streams, so ten mixes of an expert and random actions need no more than the longest prefix
    of either. An engine that trains agents on parts of such data trains them all together.
    """
    recipes = [find_recipe(each) if isinstance(each, str) else each for each in wanted]
    tasks, bodies = {recipe.task.name: recipe.task for recipe in recipes}, {recipe.task.body for recipe in recipes}
    if len(bodies) != 1:
        raise DatasetError(f"expected datasets of one task, or of mazes, found {', '.join(sorted(tasks)) or 'none'}")
    total = recipes[0].task.steps if steps is None else steps
    longest: dict[_StreamKey, PolicyShare] = {}  # of the parts that are prefixes of one stream
    for task, part in ((recipe.task, part) for recipe in recipes for part in recipe.parts):
        key = _stream(task, part)
        longest[key] = max(longest.get(key, part), part, key=lambda each: each.share)
    played = {key: _play(tasks[key[0]], part, total, seed=seed, workers=workers) for key, part in longest.items()}
    counts = [dataset.num_episodes for dataset in played.values()]
    firsts = dict(zip(played, np.cumsum(counts) - counts, strict=True))

    def episodes_of(task: Task, part: PolicyShare) -> NDArray[np.int64]:
        key = _stream(task, part)
        return firsts[key] + np.arange(episodes_for(played[key].lengths, _steps_of(part, total)))

    episodes = {
        recipe.name: np.concatenate([episodes_of(recipe.task, part) for part in recipe.parts]) for recipe in recipes
    }
    together = concat(list(played.values()), source=f"{', '.join(tasks)} datasets")
    return SharedData(together, episodes)


_StreamKey = tuple[str, str, str, str | None]


def _stream(task: Task, part: PolicyShare) -> _StreamKey:
    return task.name, part.label, "" if part.rung is None else part.rung.sha256, part.env_id


def _steps_of(part: PolicyShare, total: int) -> int:
    """How many steps of a dataset of ``total`` a part must reach."""
    return max(1, round(part.share * total))


def _play(task: Task, part: PolicyShare, total: int, *, seed: int, workers: int | None) -> Dataset:
    """The first episodes of a part's stream that reach its share of ``total`` steps, with its label."""
    stream = Stream(task, part.rung, seed, part.env_id or task.env_id)
    chunk = stream.collect(_steps_of(part, total), workers=workers)
    last_visited = np.cumsum(chunk.lengths + 1) - 1  # [n] place in visited of each episode's last observation
    is_first, is_last = np.zeros(len(chunk.visited), bool), np.zeros(len(chunk.visited), bool)
    is_first[last_visited - chunk.lengths] = is_last[last_visited] = True
    visited = chunk.visited[:, : task.observation_size]
    episodes = _fragments(chunk) if part.in_fragments else _episodes(chunk)
    return Dataset.assemble(
        episodes=episodes,
        observations=ArrayColumn(visited[~is_last]),
        next_observations=None if part.in_fragments else ArrayColumn(visited[~is_first]),
        actions=ArrayColumn(chunk.actions),
        rewards=chunk.rewards,
        labels=[part.label] * len(episodes),
        num_actions=task.num_actions,
        metadata={"env_id": task.env_id},
        source=f"{task.name}-{part.label}",
    )


def _episodes(chunk: Chunk) -> Episodes:
    truncated = chunk.truncated & ~chunk.terminated
    ended = chunk.terminated | truncated
    return Episodes(chunk.lengths, chunk.terminated, truncated, ended, np.ones(len(ended), bool))


def _fragments(chunk: Chunk) -> Episodes:
    """D4RL's antmaze: every step at the goal is flagged as terminal, and the ant goes on; so most "episodes" have one step.

    As in its files, what came after the last step of a rollout is not kept.
    """
    rewarded = chunk.rewards > 0
    ends = np.union1d(np.flatnonzero(rewarded), np.cumsum(chunk.lengths) - 1)
    terminated = rewarded[ends]
    return Episodes(
        np.diff(ends, prepend=-1), terminated, ~terminated, np.ones(len(ends), bool), np.zeros(len(ends), bool)
    )
