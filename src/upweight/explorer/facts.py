"""What the page is told: some numbers of each episode as columns, and facts about all of them.

The page computes weights by itself, from the min-max scaled returns and advantages of :mod:`upweight.weightings`.
"""

import math
from base64 import b64encode
from enum import IntFlag
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight import __version__
from upweight.base.errors import WeightingError, collecting_warnings
from upweight.data.baseline import centred_features, triangle
from upweight.data.dataset import Dataset
from upweight.inspection.effect import good_episodes
from upweight.inspection.learners import learners_of
from upweight.inspection.starts import look_at_starts
from upweight.inspection.suggestion import suggest_from
from upweight.weightings.advantage_weighting import AdvantageWeighting
from upweight.weightings.return_weighting import ReturnWeighting

MAX_EPISODES = 100_000  # of more, some stand for others
MAX_REWARDS = 1_000_000  # that are part of the page; of more, curves are read when asked for
_MAX_FEATURES = 1000  # of an initial observation that is looked at
_MAX_COMPARED = 1 << 28  # numbers of observations that are read to tell whether episodes are the same
_PLACES = 32  # steps of an episode that are compared
_FENCE = 3.0  # interquartile ranges beyond the quartiles, from which on a return is far out


class Flag(IntFlag):
    """Of an episode; the page knows these numbers."""

    CUT_SHORT = 1  # by the collector: its return means nothing
    DUPLICATE = 2  # of an earlier episode
    OUTLIER = 4  # return far from the others
    TIE = 8  # another has the same return
    GOOD = 16  # counts as good in the share of first steps
    USABLE = 32  # complete, with a transition: what RW, AW and Top-x% weight


def gather_facts(dataset: Dataset, *, env: str | None) -> dict[str, Any]:
    """Everything but the code to copy, as JSON can say it; columns are base64 of little-endian numbers."""
    usable = dataset.complete & (dataset.num_transitions > 0)
    if not usable.any():
        raise WeightingError(f"{dataset.source}: expected a complete episode with a transition to weight, found none")
    with collecting_warnings() as notes:
        starts = look_at_starts(dataset, usable)
        suggestion = suggest_from(dataset, learners_of(None), env=env, starts=starts)
        advantage = AdvantageWeighting(baseline=starts.baseline or "linear")
        columns, about_start = _columns(dataset, usable, advantage, notes)
    chosen, stands = _sample(usable, columns)
    complete, good = dataset.returns[dataset.complete], good_episodes(dataset)
    embedded = stands is None and dataset.num_steps <= MAX_REWARDS
    return {
        "version": __version__,
        "source": dataset.source,
        "episodes": dataset.num_episodes,
        "steps": dataset.num_steps,
        "usable": int(usable.sum()),
        "cut_short": int((~dataset.complete).sum()),
        "returns": {"low": float(complete.min()), "high": float(complete.max())},
        "labels": [] if dataset.labels is None else [str(name) for name in np.unique(dataset.labels)],
        "good": None if good is None else good.text,
        "baseline": advantage.to_dict().get("baseline", "linear"),
        "start": about_start,
        "suggestion": suggestion.to_dict(),
        "notes": list(dict.fromkeys(notes)),
        "sampled": stands is not None,
        "columns": {name: _encode(values[chosen]) for name, values in columns.items()}
        | ({} if stands is None else {"stands": _encode(stands)}),
        "rewards": _encode(dataset.rewards.astype(np.float32)) if embedded else None,
    }


def _columns(
    dataset: Dataset, usable: NDArray[np.bool_], advantage: AdvantageWeighting, notes: list[str]
) -> tuple[dict[str, NDArray[Any]], str]:
    """[N] each, and what is to say of the column ``start``; values of episodes that are not usable are 0."""
    count, eligible = dataset.num_episodes, np.flatnonzero(usable)

    def of_all(values: NDArray[np.float64], kind: type) -> NDArray[Any]:
        column: NDArray[Any] = np.zeros(count, kind)
        column[eligible] = values
        return column

    advantages = advantage.advantages(dataset, eligible)
    start, about_start = _first_component(dataset)
    labels = np.zeros(count, int) if dataset.labels is None else np.unique(dataset.labels, return_inverse=True)[1]
    columns: dict[str, NDArray[Any]] = {
        "number": np.arange(count).astype(np.uint32),
        "returns": dataset.returns,
        "rw": of_all(ReturnWeighting().scaled(dataset, eligible), np.float64),
        "aw": of_all(advantage.scaled(dataset, eligible, advantages), np.float64),
        "advantages": of_all(advantages, np.float64),
        "lengths": dataset.lengths.astype(np.uint32),
        "transitions": dataset.num_transitions.astype(np.uint32),
        "labels": labels.astype(np.uint32),
        "flags": _flags(dataset, usable, notes),
    }
    if start is not None:
        columns["start"] = start.astype(np.float32)
    return columns, about_start


def _first_component(dataset: Dataset) -> tuple[NDArray[np.float64] | None, str]:
    r"""[N] :math:`Z v`; :math:`v` is the first right singular vector of the centred initial observations :math:`Z` [N, d]."""
    if math.prod(dataset.observation_shape) > _MAX_FEATURES:
        return None, "Initial observations are too large to look at."
    features, rounding = centred_features(dataset.initial_observations)
    _, sizes, right = np.linalg.svd(triangle(features), full_matrices=False)
    if sizes.max(initial=0.0) <= rounding:
        return None, "All episodes start alike."
    direction = right[0] * np.sign(right[0][np.argmax(np.abs(right[0]))])
    return (
        features @ direction,
        f"This component has {sizes[0] ** 2 / (sizes**2).sum():.0%} of the differences between starts.",
    )


def _flags(dataset: Dataset, usable: NDArray[np.bool_], notes: list[str]) -> NDArray[np.uint8]:
    returns, complete, good = dataset.returns, dataset.complete, good_episodes(dataset)
    low, high = np.quantile(returns[complete], [0.25, 0.75])
    reach = _FENCE * (high - low)
    outlier = complete & (reach > 0) & ((returns < low - reach) | (returns > high + reach))
    _, places, counts = np.unique(returns, return_inverse=True, return_counts=True)
    duplicate = _duplicates(dataset, notes)
    found = {
        Flag.CUT_SHORT: ~complete,
        Flag.DUPLICATE: duplicate,
        Flag.OUTLIER: outlier,
        Flag.TIE: complete & (counts[places] > 1) & ~duplicate,
        Flag.GOOD: np.zeros(len(returns), bool) if good is None else good.episodes,
        Flag.USABLE: usable,
    }
    return sum((flag * mask for flag, mask in found.items()), np.zeros(len(returns), np.int64)).astype(np.uint8)


def _duplicates(dataset: Dataset, notes: list[str]) -> NDArray[np.bool_]:
    """[N] Same length, return, and observations and actions at up to 32 places as an earlier episode."""
    found = np.zeros(dataset.num_episodes, bool)
    sizes, features = dataset.num_transitions, math.prod(dataset.observation_shape)
    if features * dataset.num_episodes > _MAX_COMPARED:
        notes.append("Observations are too large to look for duplicates.")
        return found
    alike = np.flatnonzero(sizes > 0)
    rows = [sizes[alike], dataset.returns[alike], dataset.initial_observations[alike]]
    alike = alike[_groups(rows)[1] > 1]
    if len(alike) == 0:
        return found
    if features * dataset.num_steps > _MAX_COMPARED:
        notes.append(f"{len(alike):,} episodes may be duplicates: they have start, length and return of another one.")
        return found
    places = np.linspace(0, 1, _PLACES) * (sizes[alike, None] - 1)
    steps = dataset.transitions((dataset.starts[alike, None] + places.round().astype(np.int64)).ravel())
    rows = [each.reshape(len(alike), -1) for each in (steps.observations, steps.actions)]
    first, _ = _groups([sizes[alike], dataset.returns[alike], *rows])
    found[alike] = ~first
    return found


def _groups(rows: list[NDArray[Any]]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Of rows [K, ...] that are compared byte by byte: whether one is the first of its kind, and how many are like it."""
    count = len(rows[0])
    parts = [np.ascontiguousarray(part).reshape(count, -1) for part in rows]
    bytes_ = np.concatenate([part.view(np.uint8) for part in parts], axis=1)  # [K, bytes]
    whole = bytes_.view(f"V{bytes_.shape[1]}").ravel()
    _, first, places, counts = np.unique(whole, return_index=True, return_inverse=True, return_counts=True)
    is_first = np.zeros(count, bool)
    is_first[first] = True
    return is_first, counts[places]


def _sample(
    usable: NDArray[np.bool_], columns: dict[str, NDArray[Any]]
) -> tuple[NDArray[np.int64], NDArray[np.float64] | None]:
    """The episodes to show, and for how many each stands: the best for themselves, a random part for all others."""
    count = len(usable)
    if count <= MAX_EPISODES:
        return np.arange(count), None
    kept = np.zeros(count, bool)
    for name in ("returns", "advantages"):
        order = np.argsort(np.where(usable, columns[name], -np.inf), kind="stable")
        kept[order[-(MAX_EPISODES // 3) :]] = True
    others = np.flatnonzero(~kept)
    drawn = np.random.default_rng(0).choice(others, MAX_EPISODES - int(kept.sum()), replace=False)
    stands = kept.astype(np.float64)
    stands[drawn] = len(others) / len(drawn)
    chosen = np.flatnonzero(stands)
    return chosen, stands[chosen]


def _encode(values: NDArray[Any]) -> dict[str, str]:
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return {"type": f"{values.dtype.kind}{values.dtype.itemsize}", "base64": b64encode(little.tobytes()).decode()}
