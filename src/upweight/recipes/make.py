"""``make_dataset``: datasets by name."""

import numpy as np

from upweight.base.errors import DatasetError
from upweight.base.optional import installed_versions
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import content_hash
from upweight.data.mix import concat
from upweight.recipes.recipe import Part, find_recipe
from upweight.recipes.streams import Chunk, Stream
from upweight.recipes.tasks import Task


def make_dataset(name: str, *, steps: int | None = None, seed: int = 0, workers: int | None = None) -> Dataset:
    """Let behaviour policies play until their parts of ``steps`` are reached, in whole episodes.

    The episodes follow from ``name`` and ``seed``; ``workers`` (processes, default: one per core) does not matter, and more
    steps only add episodes. What was collected is kept in the cache folder (``UPWEIGHT_CACHE``). On another machine, or with
    other versions of MuJoCo or NumPy, numbers may round differently: ``metadata["content_sha256"]`` tells.
    """
    recipe = find_recipe(name)
    total = recipe.task.steps if steps is None else steps
    if not isinstance(total, int) or total < 1 or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise DatasetError(
            f"{name}: expected at least one step and a seed from 0 to 2^32 - 1, found {total} and {seed}"
        )
    parts, about = [], []
    for part in recipe.parts:
        target = part_steps(part, total)
        played = play_part(recipe.task, part, target, seed=seed, workers=workers)
        policy = {} if part.rung is None else {"mean_return": part.rung.mean_return, "sha256": part.rung.sha256}
        counts = {"target_steps": target, "steps": played.num_steps, "episodes": played.num_episodes}
        parts.append(played)
        about.append({"label": part.label, "policy": policy or "uniformly random actions", **counts})
    dataset = concat(parts, source=name)
    command = f"upweight make {name} --steps {total} --seed {seed}"
    return dataset.with_metadata(
        recipe={"name": name, "edition": recipe.edition, "steps": total, "seed": seed, "command": command},
        env_id=recipe.task.env_id,
        parts=about,
        versions=installed_versions("upweight", "gymnasium", "mujoco", "numpy"),
        content_sha256=content_hash(dataset),
    )


def part_steps(part: Part, total: int) -> int:
    """How many steps of a dataset of ``total`` a part must reach."""
    return max(1, round(part.share * total))


def play_part(task: Task, part: Part, steps: int, *, seed: int, workers: int | None) -> Dataset:
    """The first episodes of a part's stream that reach ``steps``, with its label."""
    chunk = Stream(task, part.rung, seed).collect(steps, workers=workers)
    return _as_dataset(chunk, task, part.label)


def _as_dataset(chunk: Chunk, task: Task, label: str) -> Dataset:
    ends = np.cumsum(chunk.lengths)
    last_visited = ends + np.arange(len(ends))  # place in visited of each episode's last observation
    is_start, is_end = np.ones(len(chunk.visited), bool), np.ones(len(chunk.visited), bool)
    is_start[last_visited] = False
    is_end[np.append(0, last_visited[:-1] + 1)] = False
    terminated, truncated = np.zeros(len(chunk.rewards), bool), np.zeros(len(chunk.rewards), bool)
    terminated[ends - 1] = chunk.terminated
    truncated[ends - 1] = chunk.truncated & ~chunk.terminated
    return Dataset.from_arrays(
        observations=chunk.visited[is_start],
        next_observations=chunk.visited[is_end],
        actions=chunk.actions,
        rewards=chunk.rewards,
        terminated=terminated,
        truncated=truncated,
        labels=[label] * len(ends),
        num_actions=task.num_actions,
        source=f"{task.name}-{label}",
    )
