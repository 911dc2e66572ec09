"""What every sampler must do; a new one is tested by being in its folder."""

import importlib
import pkgutil

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import chisquare

import upweight as uw
import upweight.samplers
from support.datasets import datasets, random_dataset
from upweight.samplers.sampler import Sampler

for module in pkgutil.iter_modules(upweight.samplers.__path__):
    importlib.import_module(f"upweight.samplers.{module.name}")
KINDS = sorted(Sampler.__subclasses__(), key=lambda kind: kind.__name__)
every = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def build(kind: type[Sampler], ds: uw.Dataset, seed: int = 0) -> Sampler:
    """A sampler with uneven weights, some of them zero."""
    count = {"episode": ds.num_episodes, "step": ds.num_steps}[kind.unit]
    rng = np.random.default_rng(seed)
    weights = rng.random(count) ** 3
    weights[rng.random(count) < 0.2] = 0
    weights[0] = 1.0
    return kind(ds, weights)


@every
def test_draws_follow_the_probabilities(kind: type[Sampler]) -> None:
    ds = random_dataset(5, num_episodes=30, max_length=12)
    sampler = build(kind, ds)
    p = sampler.probabilities()
    draws = 200_000
    counts = np.bincount(sampler.sample(np.random.default_rng(1), draws), minlength=ds.num_steps)
    assert (counts[p == 0] == 0).all()
    assert chisquare(counts[p > 0], draws * p[p > 0]).pvalue > 1e-3


@every
def test_arrays_that_were_given_may_change(kind: type[Sampler]) -> None:
    """What a sampler says of itself stays what it draws by."""
    ds = random_dataset(5, num_episodes=9)
    weights = np.ones({"episode": ds.num_episodes, "step": ds.num_steps}[kind.unit])
    sampler = kind(ds, weights)
    state = sampler.state_dict()
    again = kind.from_state_dict(state)
    expected = sampler.probabilities()
    for array in (weights, sampler.probabilities(), *state.values(), *sampler.state_dict().values()):
        array[...] = 3
    weights[0] = 100
    for each in (sampler, again):
        np.testing.assert_array_equal(each.probabilities(), expected)
        np.testing.assert_array_equal(kind.from_state_dict(each.state_dict()).probabilities(), expected)


@every
@given(ds=datasets(), seed=st.integers(0, 99))
def test_probabilities_are_a_distribution_over_trainable_steps(kind: type[Sampler], ds: uw.Dataset, seed: int) -> None:
    try:
        sampler = build(kind, ds, seed)
    except uw.WeightingError:  # all the mass fell on steps that cannot be learned from
        return
    p = sampler.probabilities()
    assert p.shape == (ds.num_steps,)
    assert p.dtype == np.float64
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    index = sampler.sample(np.random.default_rng(seed), 100)
    assert index.dtype == np.int64
    assert (p[index] > 0).all()
    ds.transitions(index)  # every drawn step has a transition


@every
def test_same_generator_same_draws_and_every_call_draws_afresh(kind: type[Sampler]) -> None:
    sampler = build(kind, random_dataset(2, num_episodes=50))
    one, two = np.random.default_rng(3), np.random.default_rng(3)
    first, second = sampler.sample(one, 64), sampler.sample(one, 64)
    assert first.tolist() == sampler.sample(two, 64).tolist()
    assert second.tolist() == sampler.sample(two, 64).tolist()
    assert first.tolist() != second.tolist()


@every
def test_state_dict_round_trip(kind: type[Sampler]) -> None:
    sampler = build(kind, random_dataset(2))
    state = sampler.state_dict()
    assert all(isinstance(value, np.ndarray) for value in state.values())
    again = kind.from_state_dict(state)
    np.testing.assert_array_equal(again.probabilities(), sampler.probabilities())
    draws = [s.sample(np.random.default_rng(0), 100).tolist() for s in (sampler, again)]
    assert draws[0] == draws[1]


@every
@pytest.mark.parametrize("spoil", ["short", "negative", "nan", "inf", "zero", "text"])
def test_bad_weights(kind: type[Sampler], spoil: str) -> None:
    ds = random_dataset(2)
    weights = np.ones({"episode": ds.num_episodes, "step": ds.num_steps}[kind.unit])
    bad = {
        "short": weights[:-1],
        "negative": -weights,
        "nan": weights * np.nan,
        "inf": weights * np.inf,
        "zero": weights * 0,
        "text": ["x"] * len(weights),
    }[spoil]
    with pytest.raises(uw.WeightingError):
        kind(ds, bad)


@every
def test_weights_of_any_size_are_taken(kind: type[Sampler]) -> None:
    ds = random_dataset(2)
    weights = np.ones({"episode": ds.num_episodes, "step": ds.num_steps}[kind.unit])
    for scale in (1e-300, 1e300):
        np.testing.assert_allclose(kind(ds, weights * scale).probabilities(), kind(ds, weights).probabilities())
