"""Small datasets for the tests, made by hand, by seed or by hypothesis."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

import upweight as uw
from upweight.data.columns import Array, Column, Index


def tiny() -> uw.Dataset:
    """Three episodes whose every number can be checked by eye.

    steps 0-2 terminated, return 6; steps 3-4 truncated, return 9; steps 5-7 terminated, return -3.
    """
    return uw.Dataset.from_arrays(
        observations=np.arange(16, dtype=np.float32).reshape(8, 2),
        actions=np.linspace(-1, 1, 8, dtype=np.float32)[:, None],
        rewards=np.array([1, 2, 3, 4, 5, -1, -1, -1], np.float32),
        terminated=np.array([0, 0, 1, 0, 0, 0, 0, 1], bool),
        truncated=np.array([0, 0, 0, 0, 1, 0, 0, 0], bool),
    )


def with_returns(returns: Any, *, lengths: Any = None, observations: Any = None, labels: Any = None) -> uw.Dataset:
    """One terminated episode per return; the whole return comes with the last step, and better episodes act otherwise.

    ``observations`` [N, d] are the initial ones.
    """
    returns = np.asarray(returns, np.float64)
    count = len(returns)
    lengths = np.full(count, 2) if lengths is None else np.asarray(lengths)
    ends = np.cumsum(lengths) - 1
    total = int(lengths.sum())
    rewards = np.zeros(total)
    rewards[ends] = returns
    terminated = np.zeros(total, bool)
    terminated[ends] = True
    initial = np.zeros((count, 1)) if observations is None else np.asarray(observations, np.float64)
    obs = np.zeros((total, initial.shape[1]))
    obs[np.cumsum(lengths) - lengths] = initial
    actions = np.repeat(np.argsort(np.argsort(returns)) / count, lengths)[:, None]
    return uw.Dataset.from_arrays(
        observations=obs, actions=actions, rewards=rewards, terminated=terminated, labels=labels
    )


def with_arrays(dataset: uw.Dataset, **changes: Any) -> uw.Dataset:
    """The same steps with some arrays changed or added."""
    names = ("observations", "actions", "rewards", "terminated", "truncated")
    return uw.Dataset.from_arrays(**{name: getattr(dataset, name) for name in names} | changes)


def cartpole_log(seed: int = 0, *, width: int = 4, actions: int = 2) -> uw.Dataset:
    """Ten episodes of four steps, as of CartPole, or of another width and another number of actions."""
    rng = np.random.default_rng(seed)
    return uw.Dataset.from_arrays(
        observations=rng.standard_normal((40, width)).astype(np.float32),
        actions=np.arange(40) % actions,
        rewards=rng.random(40),
        terminated=np.arange(40) % 4 == 3,
    )


def random_dataset(
    seed: int = 0,
    *,
    num_episodes: int = 12,
    max_length: int = 9,
    observation_shape: tuple[int, ...] = (3,),
    observation_dtype: Any = np.float32,
    discrete: bool = False,
    num_actions: int | None = None,
    next_known: bool = False,
    fragment: bool = False,
    labels: bool = False,
    reward_shift: float = 0.0,
) -> uw.Dataset:
    """Random episodes of random lengths and ends, all from ``seed``."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, max_length + 1, num_episodes)
    total = int(lengths.sum())
    ends = np.cumsum(lengths) - 1
    terminated = np.zeros(total, bool)
    truncated = np.zeros(total, bool)
    ended = rng.random(num_episodes) < 0.5
    terminated[ends[ended]] = True
    truncated[ends[~ended]] = True
    if fragment:
        terminated[-1] = truncated[-1] = False

    def observations() -> np.ndarray:
        shape = (total, *observation_shape)
        if np.dtype(observation_dtype).kind == "f":
            return rng.normal(size=shape).astype(observation_dtype)
        return rng.integers(0, 255, shape).astype(observation_dtype)

    obs, following = observations(), observations()
    inside = np.setdiff1d(np.arange(total), ends)
    following[inside] = obs[inside + 1]  # only what comes after an episode is news
    return uw.Dataset.from_arrays(
        observations=obs,
        actions=rng.integers(0, 4, total) if discrete else rng.uniform(-1, 1, (total, 2)).astype(np.float32),
        rewards=(rng.normal(size=total) + reward_shift).astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        next_observations=following if next_known else None,
        labels=[("good", "poor")[i % 2] for i in range(num_episodes)] if labels else None,
        num_actions=num_actions,
        metadata={"made_by": "test", "seed": seed},
    )


@st.composite
def datasets(draw: st.DrawFn, *, labels: bool | None = None, min_episodes: int = 1) -> uw.Dataset:
    """Any small valid dataset."""
    return random_dataset(
        draw(st.integers(0, 2**32 - 1)),
        num_episodes=draw(st.integers(max(2, min_episodes), 15)),
        max_length=draw(st.integers(1, 8)),
        observation_shape=draw(st.sampled_from([(), (1,), (3,), (2, 3), (4, 4, 2)])),
        observation_dtype=draw(st.sampled_from([np.float32, np.float64, np.uint8])),
        discrete=draw(st.booleans()),
        next_known=draw(st.booleans()),
        fragment=draw(st.booleans()),
        labels=draw(st.booleans()) if labels is None else labels,
    )


def assert_same(a: uw.Dataset, b: uw.Dataset, *, metadata: bool = True) -> None:
    """Bit for bit the same dataset."""
    for name in ("observations", "actions", "rewards", "next_observations", "terminated", "truncated", "returns"):
        left, right = getattr(a, name), getattr(b, name)
        assert left.dtype == right.dtype, name
        assert left.shape == right.shape, name
        assert left.tobytes() == right.tobytes(), name
    for name in ("lengths", "complete", "num_transitions"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    np.testing.assert_array_equal(a.episodes.final_known, b.episodes.final_known)
    assert (a.labels is None) == (b.labels is None)
    if a.labels is not None:
        np.testing.assert_array_equal(a.labels, b.labels)
    assert a.num_actions == b.num_actions
    if metadata:
        assert dict(a.metadata) == dict(b.metadata)


def far_log(*, discrete: bool = False) -> uw.Dataset:
    """Actions follow the observations and lie within 0.03; observations are offset by thousands, on scales from 1e-3 to 1e3."""
    rng = np.random.default_rng(0)
    state = rng.normal(size=(1000, 6))
    wanted = np.tanh(state @ rng.normal(size=(6, 2)) / 2)
    scale, offset = np.array([1e-3, 0.1, 1, 10, 100, 1000]), np.array([0, 1000, 1000, -1000, 1000, 5000])
    return uw.Dataset.from_arrays(
        observations=(offset + scale * state).astype(np.float32),
        actions=wanted.argmax(axis=1) if discrete else (0.03 * wanted).astype(np.float32),
        rewards=state[:, 0],
        terminated=np.arange(1000) % 50 == 49,
        source="far.csv",
    )


class RowsOnly(Column):
    """A mapped column whose rows can be had and counted, and which nobody may read as a whole."""

    is_mapped = True

    def __init__(self, shape: tuple[int, ...], dtype: Any, rows: Callable[[Index], Array]) -> None:
        super().__init__(shape, np.dtype(dtype))
        self._take, self.gathered, self.most = rows, 0, 0  # rows that were had: all in all, and at a time

    def _read(self) -> Array:
        raise AssertionError(f"a column of {len(self)} rows was read as a whole")

    def _read_rows(self, index: Index) -> Array:
        self.gathered, self.most = self.gathered + len(index), max(self.most, len(index))
        return self._take(index)


def rows_only(dataset: uw.Dataset) -> uw.Dataset:
    """The same, of which the index of episodes lies in memory and the steps do not: as of a packed folder."""
    arrays = {name: column.read() for name, column in dataset.columns.items()}
    arrays["flags"] = dataset.episodes.flags(0, dataset.num_episodes)
    hidden = {name: RowsOnly(array.shape, array.dtype, array.__getitem__) for name, array in arrays.items()}
    starts = dataset.observations[dataset.starts]
    return replace(dataset, columns=hidden, _returns=dataset.returns, _initial_observations=starts)
