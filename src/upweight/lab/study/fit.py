"""Whether the parts of a run fit together: found out before anything is trained."""

import warnings
from functools import cache

import numpy as np

from upweight.base.errors import RolloutError, UpweightWarning
from upweight.data.action_codes import codes_note
from upweight.data.dataset import Dataset
from upweight.lab.play.environments import environment_spaces, num_zeros
from upweight.lab.recipes.recipe import find_recipe
from upweight.lab.recipes.tasks import CLASSIC_TASKS
from upweight.lab.train.prepare import action_size
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


def check_weighting(weighting: Weighting, dataset: Dataset, *, is_outline: bool) -> None:
    """Whether there are weights for the dataset; an outline knows labels, but no returns."""
    if is_outline and weighting.uses_returns:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpweightWarning)  # the training will say it
        weighting(dataset)


def check_environment(env_id: str, dataset: Dataset) -> None:
    """Whether policies trained on the dataset can play in the environment."""
    spaces = environment_spaces(env_id)
    shape = dataset.observation_shape or (1,)
    shapes = [(size,) for size in spaces.observation_sizes]
    _compare("observations", shape if shape in shapes else " or ".join(map(str, shapes)), shape, env_id, dataset)
    if count := num_zeros(env_id, shape[0]):
        _check_zeros(env_id, dataset, shape[0] - count)
    kinds = {True: "discrete", False: "continuous"}
    if spaces.is_discrete and (note := codes_note(dataset)) is not None:
        raise RolloutError(f"kind of actions: {env_id} has discrete ones. {note}")
    _compare("kind of actions", kinds[spaces.is_discrete], kinds[dataset.discrete_actions], env_id, dataset)
    found = action_size(dataset)
    if spaces.is_discrete and dataset.num_actions is None:  # there may be more than the data show
        found = max(found, spaces.action_size)
    _compare("actions", spaces.action_size, found, env_id, dataset)


def with_actions_of(env_id: str, dataset: Dataset) -> Dataset:
    """The dataset of an environment, told how many discrete actions that has: the data may not show them all."""
    spaces = environment_spaces(env_id)
    if spaces.is_discrete and dataset.num_actions is None:
        return dataset.with_num_actions(spaces.action_size)
    return dataset


def _check_zeros(env_id: str, dataset: Dataset, first: int) -> None:
    """Columns from ``first`` on must be the zeros of D4RL's files, as far as a thousand steps show."""
    steps = np.flatnonzero(dataset.trainable)
    some = steps[np.linspace(0, len(steps) - 1, min(1000, len(steps))).astype(np.int64)]
    if dataset.transitions(some).observations[:, first:].any():
        raise RolloutError(
            f"observations: {env_id} has {first}, and zeros stand for what D4RL's files have beyond them, but "
            f"{dataset.source} has other numbers there; leave those columns out"
        )


def _compare(what: str, wanted: object, found: object, env_id: str, dataset: Dataset) -> None:
    if wanted != found:
        raise RolloutError(f"{what}: {env_id} has {wanted}, but {dataset.source} has {found}; is it of another task?")
