"""Can policies have been trained on such data?"""

from collections.abc import Sequence

import numpy as np

from upweight.base.errors import DatasetError
from upweight.data.action_range import action_bounds
from upweight.data.dataset import Dataset
from upweight.lab.train.prepare import action_size, blocks
from upweight.policies.policy import Policy

_INSIDE = 0.5  # share of logged actions that must lie within a policy's bounds, or the bounds are of something else
_REACH = 2.0  # times the data's range that a policy's bounds may span
_LOOKED_AT = 10_000  # logged actions, evenly spaced
_SHOWN = 8  # categories in a message


def check_fit(dataset: Dataset, policies: Sequence[Policy], names: Sequence[str] | None = None) -> None:
    """Refuse policies that cannot have been trained on such data; ``names`` are for the message."""
    kinds = {True: "discrete", False: "continuous"}
    features, shown = int(np.prod(dataset.observation_shape, initial=1)), action_size(dataset)
    for place, policy in enumerate(policies):
        name = f"policy {place}" if names is None else names[place]
        outputs = policy.layers[-1][1].shape[0]
        size = outputs // 2 if policy.kind == "tanh_gaussian" else outputs
        unknown = dataset.discrete_actions and dataset.num_actions is None  # there may be more than the log shows
        for what, found, expected in (
            ("numbers in an observation", policy.observation_size, features),
            ("kind of actions", kinds[policy.is_discrete], kinds[dataset.discrete_actions]),
            ("number of actions", size, max(size, shown) if unknown else shown),
        ):
            if found != expected:
                raise DatasetError(
                    f"{name}: {what}: {dataset.source} has {expected}, the policy {found}; was it trained on other data?"
                )
        if not policy.is_discrete:
            _check_bounds(dataset, policy, name)
        _check_categories(dataset, policy, name)


def _check_categories(dataset: Dataset, policy: Policy, name: str) -> None:
    """Of columns that both know: what 0, 1, ... stand for."""
    learned, given = (each.get("categories", {}) for each in (policy.metadata, dataset.metadata))
    for column in learned.keys() & given.keys():
        first, second = ([str(value) for value in each[column]] for each in (learned, given))
        if first != second and list(learned[column]) != list(given[column]):  # 1 is 1.0 where cells are empty
            raise DatasetError(
                f"{name}: column {column!r}: {dataset.source} has the categories {_some(second)}, the policy learned with "
                f"{_some(first)}; give the data the policy's list (categories in a TOML file next to the table)"
            )


def _some(values: Sequence[str]) -> str:
    more = f", ... ({len(values)} in all)" if len(values) > _SHOWN else ""
    return f"{', '.join(values[:_SHOWN])}{more}"


def _check_bounds(dataset: Dataset, policy: Policy, name: str) -> None:
    """The log may go a little beyond the bounds of a policy that learned from part of it; not with most of its actions."""
    assert policy.action_low is not None and policy.action_high is not None
    low, high = action_bounds(blocks(dataset, "actions"))
    reach = (policy.action_high - policy.action_low) / (high - low)
    if (widest := reach.max()) > _REACH:
        column = int(reach.argmax())
        raise DatasetError(
            f"{name}: its action {column} is bounded by [{policy.action_low[column]:g}, {policy.action_high[column]:g}], "
            f"{widest:.3g} times the range in {dataset.source}, [{low[column]:g}, {high[column]:g}]; "
            "was it trained on other data, or in another unit?"
        )
    steps = np.linspace(0, dataset.num_steps - 1, min(dataset.num_steps, _LOOKED_AT)).astype(np.int64)
    logged = dataset.rows("actions", steps).reshape(len(steps), -1)
    slack = 1e-6 + 1e-3 * (policy.action_high - policy.action_low)
    inside = (logged >= policy.action_low - slack) & (logged <= policy.action_high + slack)
    if (worst := inside.mean(axis=0).min()) < _INSIDE:
        column = int(inside.mean(axis=0).argmin())
        bounds = f"[{policy.action_low[column]:g}, {policy.action_high[column]:g}]"
        raise DatasetError(
            f"{name}: its action {column} is bounded by {bounds}, but {1 - worst:.0%} of those in {dataset.source} lie beyond; "
            "was it trained on other data, or in another unit?"
        )
