"""Datasets of several: laid one after the other (:func:`concat`), or the paper's mixes (:func:`mix`)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import finite_number, whole_number, yes_or_no
from upweight.base.errors import DatasetError
from upweight.data.columns import Column, ConcatenatedColumn, ShiftedColumn
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.segment import join

# Metadata that say what one dataset is made of: they would be wrong of several together.
_MADE_OF = {"mix", "resample", "recipe", "parts", "content_sha256", "minari"}


def concat(datasets: Sequence[AnyDataset], *, source: str | None = None) -> Dataset:
    """One dataset with the episodes of all, in order. Labels are kept if every part has them, metadata where all parts agree.

    Examples:
        >>> uw.concat([ds, ds]).num_episodes
        16
    """
    if not datasets:
        raise DatasetError("concat: expected at least one dataset, found none")
    parts = [as_dataset(each) for each in datasets]
    first = parts[0]
    for other in parts[1:]:
        for what in ("observation_shape", "action_shape", "discrete_actions", "has_rewards"):
            if getattr(other, what) != getattr(first, what):
                raise DatasetError(
                    f"cannot join {first.source!r} and {other.source!r}: expected the same {what}, "
                    f"found {getattr(first, what)} and {getattr(other, what)}"
                )
    num_actions, metadata = agree([each.num_actions for each in parts], [each.metadata for each in parts])
    labels = [dataset.labels for dataset in parts if dataset.labels is not None]
    has_next = any("next_observations" in dataset.columns for dataset in parts)
    has_returns = any(dataset._returns is not None for dataset in parts)
    return Dataset.assemble(
        episodes=join([dataset.episodes for dataset in parts]),
        observations=_joined([dataset.columns["observations"] for dataset in parts]),
        actions=_joined([dataset.columns["actions"] for dataset in parts]),
        rewards=_joined([dataset.columns["rewards"] for dataset in parts]) if first.has_rewards else None,
        next_observations=_joined([_next_column(dataset) for dataset in parts]) if has_next else None,
        returns=np.concatenate([dataset.returns for dataset in parts]) if has_returns else None,
        labels=np.concatenate(labels) if len(labels) == len(parts) else None,
        num_actions=num_actions,
        metadata=metadata,
        source=source or " + ".join(dict.fromkeys(dataset.source for dataset in parts)),
    )


def agree(
    num_actions: Iterable[int | None], metadata: Sequence[Mapping[str, Any]]
) -> tuple[int | None, dict[str, Any]]:
    """How many actions there are, and the metadata of all together: what all of them say, and what categories are numbered by."""
    numbers = {number for number in num_actions if number is not None}
    if len(numbers) > 1:
        raise DatasetError(f"cannot join datasets of different num_actions: found {sorted(numbers)}")
    encodings = [each["categories"] for each in metadata if "categories" in each]
    if any(each != encodings[0] for each in encodings):
        raise DatasetError(
            f"cannot join datasets whose columns have other categories: found {encodings[0]} and "
            f"{next(each for each in encodings if each != encodings[0])}; give each the same list of all of them"
        )
    joined = {
        key: value
        for key, value in metadata[0].items()
        if key not in _MADE_OF and all(key in each and each[key] == value for each in metadata)
    }
    return next(iter(numbers), None), joined | ({"categories": encodings[0]} if encodings else {})


def mix(
    good: AnyDataset,
    poor: AnyDataset,
    *,
    fraction: float,
    num_steps: int,
    seed: int,
    replace: bool = False,
    labels: tuple[str, str] | None = None,
) -> Dataset:
    r"""The paper's :math:`\sigma\%` datasets: whole episodes, ``fraction`` of ``num_steps`` *steps* from ``good``.

    Each part stops at the first episode that reaches its target, so it overshoots by less than one episode; the good one
    comes first. Incomplete episodes are never drawn. The counts, distinct episodes included, are in ``metadata["mix"]``.

    Args:
        good: the dataset with the good episodes, or anything that :func:`upweight.load` makes one of.
        poor: the dataset that the other episodes come from.
        fraction: share of the steps that come from ``good``, from 0 to 1.
        num_steps: steps of the mix, which has a few more.
        seed: a whole number from 0 that decides which episodes are drawn.
        replace: whether episodes may be drawn again, as in the paper's code. The mix is then less diverse than it looks.
        labels: of both parts. Without them, a source keeps the labels that it has, or is labelled "good" or "poor".

    Examples:
        >>> good, poor = ds.subset(ds.returns > 5), ds.subset(ds.returns <= 5)
        >>> uw.mix(good, poor, fraction=0.25, num_steps=12, seed=0).labels
        array(['expert', 'expert', 'novice', 'novice'], dtype='<U6')
    """
    fraction = finite_number("fraction", fraction, least=0, most=1, error=DatasetError)
    num_steps = whole_number("num_steps", num_steps, least=1, error=DatasetError)
    seed = whole_number("seed", seed, least=0, error=DatasetError)
    replace = yes_or_no("replace", replace, error=DatasetError)
    good, poor = as_dataset(good), as_dataset(poor)
    rng_good, rng_poor = np.random.default_rng(seed).spawn(2)
    good_target = round(fraction * num_steps)
    parts, counts = [], {}
    plan = (("good", good, good_target, rng_good), ("poor", poor, num_steps - good_target, rng_poor))
    for place, (role, source, target, rng) in enumerate(plan):
        if target == 0:
            continue
        drawn = _draw_episodes(source, target, rng, replace)
        part = source.subset(drawn)
        if labels is not None or part.labels is None:
            part = part.with_labels(labels[place] if labels is not None else role)
        parts.append(part)
        counts[role] = {
            "source": source.source,
            "target_steps": target,
            "steps": part.num_steps,
            "episodes": len(drawn),
            "distinct_episodes": len(np.unique(drawn)),
        }
    mixed = concat(parts, source=f"mix of {good.source} and {poor.source}")
    return mixed.with_metadata(
        mix={"fraction": fraction, "num_steps": num_steps, "seed": seed, "replace": replace, **counts}
    )


def _draw_episodes(source: Dataset, target: int, rng: np.random.Generator, replace: bool) -> NDArray[np.int64]:
    """Random whole episodes up to and including the first that brings their steps to ``target``."""
    whole = np.flatnonzero(source.complete)
    if len(whole) == 0:
        raise DatasetError(f"{source.source}: expected complete episodes to mix, found none")
    lengths = source.lengths[whole]
    if replace:
        order = np.empty(0, np.int64)
        while lengths[order].sum() < target:
            missing = target - lengths[order].sum()
            block = int(missing / lengths.mean()) + 16
            order = np.append(order, rng.integers(0, len(whole), block))
    else:
        if lengths.sum() < target:
            raise DatasetError(
                f"{source.source}: expected at least {target} steps in complete episodes to draw from, "
                f"found {int(lengths.sum())}; ask for fewer steps, bring more data, or allow repeats with replace=True "
                "(--replace)"
            )
        order = rng.permutation(len(whole))
    reached = np.cumsum(lengths[order])
    return whole[order[: int(np.searchsorted(reached, target)) + 1]]


def _joined(columns: Sequence[Column]) -> Column:
    return columns[0] if len(columns) == 1 else ConcatenatedColumn(columns)


def _next_column(dataset: Dataset) -> Column:
    """The dataset's own next observations, or its observations shifted."""
    stored = dataset.columns.get("next_observations")
    return stored or ShiftedColumn(dataset.columns["observations"], dataset.episodes.last_steps)
