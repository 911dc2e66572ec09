"""Several datasets of one task in one: what they share is there once, and each is some of its episodes.

Datasets by name are prefixes of streams (:mod:`upweight.recipes.streams`), so ten mixes of an expert and random actions need
no more than the longest prefix of either. An engine that trains agents on parts of a pool then trains them all together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.dataset import Dataset
from upweight.data.mix import concat
from upweight.recipes.make import part_steps, play_part
from upweight.recipes.recipe import Part, find_recipe
from upweight.recipes.streams import episodes_for


class Pool(NamedTuple):
    """``dataset.subset(episodes[name])`` is the dataset of that name, episode by episode."""

    dataset: Dataset
    episodes: dict[str, NDArray[np.int64]]


def make_pool(names: Sequence[str], *, steps: int | None = None, seed: int = 0, workers: int | None = None) -> Pool:
    """The pool of some datasets of one task; ``steps`` is the size of each dataset (default: the task's)."""
    recipes = [find_recipe(name) for name in names]
    tasks = {recipe.task.name for recipe in recipes}
    if len(tasks) != 1:
        raise DatasetError(f"expected datasets of one task, found {', '.join(sorted(tasks)) or 'none'}")
    task = recipes[0].task
    total = task.steps if steps is None else steps
    needed: dict[tuple[str, str], tuple[Part, int]] = {}  # by label and policy: the longest prefix
    for recipe in recipes:
        for part in recipe.parts:
            wanted = part_steps(part, total)
            if wanted > needed.get(_key(part), (part, 0))[1]:
                needed[_key(part)] = (part, wanted)
    played = {key: play_part(task, part, wanted, seed=seed, workers=workers) for key, (part, wanted) in needed.items()}
    counts = [dataset.num_episodes for dataset in played.values()]
    firsts = dict(zip(played, np.cumsum(counts) - counts, strict=True))
    episodes = {}
    for recipe in recipes:
        pieces = []
        for part in recipe.parts:
            key = _key(part)
            pieces.append(firsts[key] + np.arange(episodes_for(played[key].lengths, part_steps(part, total))))
        episodes[recipe.name] = np.concatenate(pieces)
    together = concat(list(played.values()), source=f"{task.name} pool")
    return Pool(together.with_metadata(env_id=task.env_id), episodes)


def _key(part: Part) -> tuple[str, str]:
    return part.label, "" if part.rung is None else part.rung.sha256
