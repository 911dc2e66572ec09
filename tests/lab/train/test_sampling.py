import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chisquare

import upweight as uw
from upweight.lab.train.sampling import EpisodeLayout, EpisodeTable, _high_product, _scale, draw_steps, make_table


def draw(lengths: np.ndarray, weights: np.ndarray, count: int, seed: int = 0) -> np.ndarray:
    table = EpisodeTable(*map(jnp.asarray, make_table(weights, lengths, np.arange(len(lengths)), len(lengths))))
    starts = (np.cumsum(lengths) - lengths).astype(np.uint32)
    layout = EpisodeLayout(jnp.asarray(starts), jnp.asarray(lengths.astype(np.uint32)))
    steps, episodes = jax.jit(draw_steps, static_argnums=3)(jax.random.key(seed), table, layout, count)
    np.testing.assert_array_equal(np.searchsorted(np.cumsum(lengths), steps, side="right"), episodes)
    return np.asarray(steps)


def test_the_same_distribution_as_the_core_sampler() -> None:
    rng = np.random.default_rng(0)
    lengths, weights = rng.integers(0, 9, 50), rng.random(50) ** 3
    weights[::7] = 0
    p = uw.EpisodeSampler.from_lengths(lengths, weights).probabilities()
    count = 400_000
    counts = np.bincount(draw(lengths, weights, count), minlength=len(p))
    assert (counts[p == 0] == 0).all()
    assert chisquare(counts[p > 0], count * p[p > 0]).pvalue > 1e-3


def test_many_episodes_are_all_reached_evenly() -> None:
    """45,000 equal episodes: a float32 uniform would favour some of them."""
    lengths = np.full(45_000, 3)
    count = 4_000_000
    counts = np.bincount(draw(lengths, np.ones(45_000), count), minlength=135_000)
    assert counts.min() > 0
    assert chisquare(counts).pvalue > 1e-3


def test_one_episode_takes_all() -> None:
    weights = np.zeros(1000)
    weights[123] = 1e-12
    assert set(draw(np.full(1000, 5), weights, 5000)) == set(range(615, 620))


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_whole_number_arithmetic(high: int, low: int, factor: int) -> None:
    a, b = jnp.uint32(high), jnp.uint32(factor)
    assert int(_high_product(a, b)) == (high * factor) >> 32
    product = ((high << 32) + low) * factor
    whole, fraction = _scale(a, jnp.uint32(low), b)
    assert int(whole) == product >> 64
    assert int(fraction) == (product >> 32) & 0xFFFFFFFF


@pytest.mark.parametrize("count", [1, 2, 3, 1000])
def test_table_resolution(count: int) -> None:
    rng = np.random.default_rng(count)
    weights, lengths = rng.random(count), rng.integers(1, 9, count)
    _, threshold, owner, alias = make_table(weights, lengths, np.arange(count), count)
    np.testing.assert_array_equal(owner, np.arange(count))
    owned = np.where((threshold == 0) & (alias == np.arange(count)), 2.0**32, threshold) / 2.0**32
    drawn = owned + np.bincount(alias, weights=1 - owned, minlength=count)
    np.testing.assert_allclose(drawn / count, weights * lengths / (weights * lengths).sum(), atol=1e-9)


def test_a_pool_and_padding_change_nothing() -> None:
    """Episodes 7, 3 and 5 of a pool of nine are drawn as 0, 1 and 2 of a dataset of their own, step for step."""
    rng = np.random.default_rng(0)
    pool, chosen = rng.integers(1, 9, 9), np.array([7, 3, 5])
    lengths, weights = pool[chosen], np.array([0.2, 0.5, 0.3])
    starts = (np.cumsum(pool) - pool).astype(np.uint32)
    layout = EpisodeLayout(jnp.asarray(starts), jnp.asarray(pool.astype(np.uint32)))
    table = EpisodeTable(*map(jnp.asarray, make_table(weights, lengths, chosen, 20)))
    steps, episodes = draw_steps(jax.random.key(0), table, layout, 1000)
    alone = draw(lengths, weights, 1000)
    local = np.searchsorted(np.cumsum(lengths), alone, side="right")
    np.testing.assert_array_equal(episodes, chosen[local])
    offsets = alone - (np.cumsum(lengths) - lengths)[local]
    np.testing.assert_array_equal(steps, starts[chosen[local]] + offsets)
