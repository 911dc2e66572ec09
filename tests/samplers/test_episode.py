import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chisquare

import upweight as uw
from support.datasets import tiny, with_returns


@given(st.lists(st.tuples(st.integers(1, 50), st.floats(0.001, 1)), min_size=1, max_size=30))
def test_step_probability_is_the_papers(pairs: list[tuple[int, float]]) -> None:
    r"""w_{i,t} = w_i / sum_j T_j w_j: it sums to 1 and is proportional to w_i per step, whatever the length."""
    lengths, weights = np.array([length for length, _ in pairs]), np.array([weight for _, weight in pairs])
    p = uw.EpisodeSampler.from_lengths(lengths, weights).probabilities()
    assert p.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(p, np.repeat(weights, lengths) / (lengths * weights).sum(), rtol=1e-9)


def test_drawing_episodes_by_weight_alone_would_be_wrong() -> None:
    """The chi-square test that passes for the sampler fails for the scheme that forgets the lengths."""
    lengths, weights = np.array([1, 100]), np.array([0.5, 0.5])
    p = uw.EpisodeSampler.from_lengths(lengths, weights).probabilities()
    rng = np.random.default_rng(0)
    draws = 20_000

    def pvalue(index: np.ndarray) -> float:
        return float(chisquare(np.bincount(index, minlength=101), draws * p).pvalue)

    right = uw.EpisodeSampler.from_lengths(lengths, weights).sample(rng, draws)
    episode = rng.choice(2, draws, p=weights)
    wrong = np.where(episode == 0, 0, 1 + rng.integers(0, 100, draws))
    assert pvalue(right) > 1e-3
    assert pvalue(wrong) < 1e-6


def test_only_trainable_steps_are_drawn() -> None:
    ds = tiny()  # step 4 ends a truncated episode whose next observation is unknown
    p = uw.EpisodeSampler(ds, uw.Uniform()).probabilities()
    np.testing.assert_allclose(p, np.array([1, 1, 1, 1, 0, 1, 1, 1]) / 7)


def test_an_episode_without_transitions_is_tolerated_but_cannot_be_all() -> None:
    sampler = uw.EpisodeSampler.from_lengths([0, 3], [0.9, 0.1])
    assert set(sampler.sample(np.random.default_rng(0), 100)) <= {0, 1, 2}
    with pytest.raises(uw.WeightingError, match="no mass"):
        uw.EpisodeSampler.from_lengths([0, 3], [1.0, 0.0])


def test_a_weighting_or_an_array_is_accepted() -> None:
    ds = with_returns([0.0, 1.0])
    weighting = uw.ReturnWeighting(0.5)
    np.testing.assert_array_equal(
        uw.EpisodeSampler(ds, weighting).probabilities(), uw.EpisodeSampler(ds, weighting(ds)).probabilities()
    )


@pytest.mark.parametrize("lengths", [[], [1.5], [-1], [[1]]])
def test_bad_lengths(lengths: list[float]) -> None:
    with pytest.raises(uw.WeightingError, match="lengths"):
        uw.EpisodeSampler.from_lengths(lengths, np.ones(len(lengths)))


def test_no_draw_leaves_its_episode_in_a_hundred_million_steps() -> None:
    lengths = np.full(100_000, 1000)
    weights = np.zeros(100_000)
    weights[[0, 77_777, 99_999]] = 1.0
    index = uw.EpisodeSampler.from_lengths(lengths, weights).sample(np.random.default_rng(0), 300_000)
    episodes, counts = np.unique(index // 1000, return_counts=True)
    assert episodes.tolist() == [0, 77_777, 99_999]
    assert chisquare(counts).pvalue > 1e-3
    assert len(np.unique(index)) == 3000


def test_steps_beyond_what_32_bits_count() -> None:
    lengths = np.array([6 * 10**9, 3, 4 * 10**9 - 3])
    drawn = uw.EpisodeSampler.from_lengths(lengths, [1.0, 1e9, 1.0]).sample(np.random.default_rng(0), 4000)
    assert drawn.dtype == np.int64 and drawn.min() >= 0 and drawn.max() < 10**10
    short = (drawn >= 6 * 10**9) & (drawn < 6 * 10**9 + 3)
    assert abs(short.mean() - 3e9 / 13e9) < 0.03 and len(np.unique(drawn[short])) == 3
    assert len(np.unique(drawn[~short] % 2**16)) > 2800  # the last digits too are drawn


def test_a_name_is_no_weights() -> None:
    with pytest.raises(uw.WeightingError, match=r"weights, found 'rw'; .* uw\.ReturnWeighting\(0\.1\)"):
        uw.EpisodeSampler(tiny(), "rw")


def test_lengths_and_weights_that_were_given_may_change() -> None:
    lengths, weights = np.array([2, 3]), np.array([0.25, 0.75])
    sampler = uw.EpisodeSampler.from_lengths(lengths, weights)
    expected = sampler.probabilities()
    lengths[:], weights[:] = 1, [1, 0]
    np.testing.assert_array_equal(sampler.probabilities(), expected)
    assert sampler.state_dict()["weights"].tolist() == [0.25, 0.75]
