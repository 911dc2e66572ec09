"""Whether the parts of a run fit together: found out before anything is trained."""

import warnings
from functools import cache
from typing import Any

import numpy as np

from upweight.base.errors import RolloutError, UpweightWarning
from upweight.data.dataset import Dataset
from upweight.engine.prepare import action_space
from upweight.engine.run import Run, check_runs
from upweight.recipes.recipe import find_recipe
from upweight.recipes.tasks import CLASSIC_TASKS
from upweight.rollout.environments import make_environment
from upweight.weightings.weighting import Weighting


@cache
def recipe_outline(name: str) -> Dataset:
    """What is known of a recipe before it is played: its labels and the kind of its actions; one episode per label."""
    recipe = find_recipe(name)
    labels = sorted({part.label for part in recipe.parts})
    discrete = recipe.task.name in CLASSIC_TASKS
    count = len(labels)
    return Dataset.from_arrays(
        observations=np.zeros((count, 1), np.float32),
        actions=np.zeros(count, np.int64) if discrete else np.zeros((count, 1), np.float32),
        rewards=np.zeros(count),
        terminated=np.ones(count, bool),
        labels=labels,
        source=name,
    )


def check_algorithm(run: Run, dataset: Dataset) -> None:
    """Whether the algorithm can learn from such data."""
    check_runs(dataset, [run])


def check_weighting(weighting: Weighting, dataset: Dataset, *, is_outline: bool) -> None:
    """Whether there are weights for the dataset; an outline knows labels, but no returns."""
    if is_outline and weighting.uses_returns:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpweightWarning)  # the training will say it
        weighting(dataset)


def check_environment(env_id: str, dataset: Dataset) -> None:
    """Whether policies trained on the dataset can play in the environment."""
    environment = make_environment(env_id)
    observations, actions = environment.observation_space, environment.action_space
    environment.close()
    _compare("observations", _shape(observations), dataset.observation_shape or (1,), env_id, dataset)
    kinds = {True: "discrete", False: "continuous"}
    is_discrete = type(actions).__name__ == "Discrete"
    _compare("kind of actions", kinds[is_discrete], kinds[dataset.discrete_actions], env_id, dataset)
    size = int(actions.n) if is_discrete else _shape(actions)
    found = action_space(dataset).size
    _compare("actions", size, found if is_discrete else (found,), env_id, dataset)


def _shape(space: Any) -> tuple[int, ...]:
    if type(space).__name__ != "Box":
        raise RolloutError(f"expected an environment of vectors, found {space}")
    return tuple(space.shape)


def _compare(what: str, wanted: object, found: object, env_id: str, dataset: Dataset) -> None:
    if wanted != found:
        raise RolloutError(f"{what}: {env_id} has {wanted}, but {dataset.source} has {found}; is it of another task?")
