"""``make_dataset`` and ``load``: datasets by name, or from files."""

import difflib
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from upweight.behaviours.recipes import Part, find_recipe, recipe_names
from upweight.behaviours.streams import Chunk, Stream
from upweight.behaviours.tasks import Task
from upweight.data.combine import concat
from upweight.data.dataset import Dataset
from upweight.data.fingerprint import content_hash
from upweight.errors import DatasetError
from upweight.io.registry import load as load_file

_PLAIN_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")  # no folder, no suffix


def load(
    name: str | os.PathLike[str],
    *,
    format: str | None = None,
    horizon: int | None = None,
    steps: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    **options: Any,
) -> Dataset:
    """Read a dataset: an existing file or folder, ``minari:<id>``, or the name of a recipe such as ``hopper-expert``.

    A recipe (:func:`make_dataset`) takes ``steps``, ``seed`` and ``workers``. For files, the format is recognised by
    content; ``format`` overrides that. ``horizon`` is the environment's time limit in steps: truncated episodes shorter
    than it were cut by the collector and are marked incomplete (replay-buffer datasets flag such cuts as time-outs).
    Further ``options`` go to the format's reader.
    """
    text = os.fspath(name)
    if is_recipe(text):
        if format is not None or horizon is not None or options:
            raise DatasetError(f"{text}: is made, not read from a file; it takes steps, seed and workers only")
        return make_dataset(text, steps=steps, seed=seed or 0, workers=workers)
    if steps is not None or seed is not None or workers is not None:
        raise DatasetError(f"{text}: steps, seed and workers are for datasets made by name, such as hopper-expert")
    return load_file(text, format=format, horizon=horizon, **options)


def is_recipe(name: str) -> bool:
    """Whether a name means a recipe: one that exists, or something very like one that is no file."""
    if not _PLAIN_NAME.fullmatch(name) or Path(name).exists():
        return False
    return bool(difflib.get_close_matches(name, recipe_names(), n=1, cutoff=0.75))


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
        recipe={"name": name, "steps": total, "seed": seed, "command": command},
        env_id=recipe.task.env_id,
        parts=about,
        versions={package: version(package) for package in ("upweight", "gymnasium", "mujoco", "numpy")},
        content_sha256=content_hash(dataset),
    )


def part_steps(part: Part, total: int) -> int:
    """How many steps of a dataset of ``total`` a part must reach."""
    return max(1, round(part.share * total))


def play_part(task: Task, part: Part, steps: int, *, seed: int, workers: int | None) -> Dataset:
    """The first episodes of a part's stream that reach ``steps``, with its label."""
    chunk = Stream(task, part.rung, seed).collect(steps, workers=workers)
    return _as_dataset(chunk, part.label, f"{task.name}-{part.label}")


def _as_dataset(chunk: Chunk, label: str, source: str) -> Dataset:
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
        source=source,
    )
