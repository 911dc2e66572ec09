"""What every adapter must do, as one check: batches that come out of it tell which steps were drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

import upweight as uw


def numbered_dataset(*, episodes: int = 20, discrete: bool = False, terminated: bool | None = None) -> uw.Dataset:
    """Episodes of 3 to 12 steps; ``observations[m, 0] == m + 1``, so a batch shows its steps (0 is what padding looks like).

    Ends are mixed unless ``terminated`` says how all end.
    """
    rng = np.random.default_rng(3)
    lengths = rng.integers(3, 13, episodes)
    total = int(lengths.sum())
    last = np.cumsum(lengths) - 1
    done = rng.random(episodes) < 0.5 if terminated is None else np.full(episodes, terminated)
    ends, cuts = np.zeros(total, bool), np.zeros(total, bool)
    ends[last[done]], cuts[last[~done]] = True, True
    observations = rng.normal(size=(total, 3)).astype(np.float32)
    observations[:, 0] = np.arange(total) + 1
    return uw.Dataset.from_arrays(
        observations=observations,
        actions=rng.integers(0, 3, total) if discrete else rng.uniform(-1, 1, (total, 2)).astype(np.float32),
        rewards=rng.normal(1, 1, total).astype(np.float32),
        terminated=ends,
        truncated=cuts,
    )


def steps_of(observations: Any) -> NDArray[np.int64]:
    """The steps that a batch of observations [B, 3] of a numbered dataset holds."""
    return np.asarray(observations)[..., 0].round().astype(np.int64) - 1


OTHER_SEEDS = (-1, 0.5, True, None, "0", np.random.SeedSequence(0), np.random.default_rng(0))  # that no adapter takes


@dataclass(frozen=True)
class Adapted:
    """An adapter on a numbered dataset, made for a weighting and a seed."""

    draw: Callable[[int], NDArray[np.int64]]  # the steps of that many more rows, in order, as real batches show them
    state: Callable[[], Any]
    restore: Callable[[Any], None]


def check_adapter(
    make: Callable[[uw.Dataset, NDArray[np.float64], Any], Adapted], dataset: uw.Dataset, *, draws: int = 40_000
) -> None:
    """The histogram is the core sampler's; the seed, a whole number, decides the draws; a saved state continues them."""
    weights = np.random.default_rng(5).random(dataset.num_episodes) ** 3
    weights[1] = 0.0
    expected = uw.EpisodeSampler(dataset, weights).probabilities()
    adapted = make(dataset, weights, 0)
    drawn = np.concatenate([adapted.draw(256) for _ in range(draws // 256)])
    counts = np.bincount(drawn, minlength=dataset.num_steps)
    assert (counts[expected == 0] == 0).all()
    assert chisquare(counts[expected > 0], len(drawn) * expected[expected > 0]).pvalue > 1e-3
    np.testing.assert_array_equal(make(dataset, weights, 0).draw(256), drawn[:256])
    np.testing.assert_array_equal(make(dataset, weights, np.int64(0)).draw(256), drawn[:256])
    assert (make(dataset, weights, 1).draw(256) != drawn[:256]).any()
    for seed in OTHER_SEEDS:
        with pytest.raises(uw.AdapterError, match="seed: expected a whole number of at least 0, found"):
            make(dataset, weights, seed)
    adapted = make(dataset, weights, 0)
    adapted.draw(256)
    state = adapted.state()
    following = adapted.draw(256)
    other = make(dataset, weights, 7)
    other.restore(state)
    np.testing.assert_array_equal(other.draw(256), following)


def check_actor_apart(
    make: Callable[[uw.Dataset, Any, Any, int], Adapted], dataset: uw.Dataset, *, draws: int = 40_000
) -> None:
    """With a weighting of its own the actor draws by that, independently, and the critics draw what they draw without.

    ``make`` takes the critics' weighting, the actor's and a seed; rows are then [2, count], the critics' first.
    """
    weights = np.random.default_rng(5).random(dataset.num_episodes) ** 3
    weights[1] = 0.0

    def drawn(adapted: Adapted) -> NDArray[np.int64]:
        return np.concatenate([adapted.draw(256) for _ in range(draws // 256)], axis=-1)

    rows = drawn(make(dataset, "uniform", weights, 0))
    for found, given in zip(rows, (uw.Uniform()(dataset), weights), strict=True):
        expected = uw.EpisodeSampler(dataset, given).probabilities()
        counts = np.bincount(found, minlength=dataset.num_steps)
        assert (counts[expected == 0] == 0).all()
        assert chisquare(counts[expected > 0], len(found) * expected[expected > 0]).pvalue > 1e-3
    np.testing.assert_array_equal(drawn(make(dataset, "uniform", None, 0)), rows[0])
    np.testing.assert_array_equal(make(dataset, "uniform", weights, 0).draw(256), rows[:, :256])
    assert (make(dataset, "uniform", weights, 1).draw(256) != rows[:, :256]).any(axis=1).all()

    critic, actor = drawn(make(dataset, weights, weights, 0))  # by the same weights, and yet other rows
    chance = (uw.EpisodeSampler(dataset, weights).probabilities() ** 2).sum()
    for shift in range(-1, 2):
        assert abs((critic == np.roll(actor, shift)).mean() - chance) < 5 * (chance / len(critic)) ** 0.5

    adapted = make(dataset, "uniform", weights, 0)
    adapted.draw(256)
    state = adapted.state()
    following = adapted.draw(256)
    (other := make(dataset, weights, "uniform", 7)).restore(state)
    np.testing.assert_array_equal(other.draw(256), following)
    alone = make(dataset, "uniform", None, 0)
    with pytest.raises(uw.AdapterError, match="draws without an actor_weighting, found one with"):
        alone.restore(state)
    with pytest.raises(uw.AdapterError, match="draws with an actor_weighting, found one without"):
        adapted.restore(alone.state())
