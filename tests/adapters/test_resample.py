"""Resampled datasets: uniform draws from them are weighted draws from the original."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import upweight as uw
from support.datasets import random_dataset
from upweight.data.statistics import episode_mass


def steps_of_two() -> uw.Dataset:
    """Four episodes of 2 steps, returns 0 to 3."""
    ended = np.tile([False, True], 4)
    rewards = np.repeat(np.arange(4.0), 2) / 2
    steps = np.arange(8.0)[:, None]
    return uw.Dataset.from_arrays(observations=steps, actions=steps, rewards=rewards, terminated=ended)


def test_copies_by_hand() -> None:
    """Weights 1, 0, 2, 5 of 8 and 16 steps: one copy per weight, whatever the seed."""
    for seed in range(5):
        made = uw.resample(steps_of_two(), [1, 0, 2, 5], steps=16, seed=seed)
        assert made.returns.tolist() == [0, 2, 3, 2, 3, 3, 3, 3]  # first copies, second ones, ...
        assert made.metadata["resample"]["effective_episodes"] == pytest.approx(64 / 30)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 400), st.lists(st.floats(0, 100), min_size=6, max_size=6))
def test_counts_are_within_one_of_their_expectation(seed: int, steps: int, given_weights: list[float]) -> None:
    ds = random_dataset(seed % 7, num_episodes=6, next_known=True)
    weights = np.array(given_weights) + 0.01
    expected = weights * steps / (weights @ ds.num_transitions)
    if expected.sum() < 1:
        return
    made = uw.resample(ds.with_labels(list("abcdef")), weights, steps=steps, seed=seed, may_lose=0.999)
    assert made.labels is not None
    counts = np.array([(made.labels == name).sum() for name in "abcdef"])
    assert (np.abs(counts - expected) < 1 + 1e-9).all()


def test_uniform_steps_follow_the_weights() -> None:
    ds = random_dataset(3, num_episodes=30, next_known=True).with_labels([str(i) for i in range(30)])
    weights = uw.ReturnWeighting(0.5)(ds)
    made = uw.resample(ds, "rw", steps=200_000)  # rw's own temperature
    of_rw = episode_mass(uw.ReturnWeighting()(ds), ds.num_transitions)
    drawn = (
        np.array([made.num_transitions[made.labels == str(i)].sum() for i in range(30)]) / made.num_transitions.sum()
    )
    np.testing.assert_allclose(drawn, of_rw, atol=2e-3)
    assert np.abs(drawn - episode_mass(weights, ds.num_transitions)).max() > 0.01  # other weights would show
    assert made.metadata["resample"]["steps"] == pytest.approx(200_000, rel=0.01)


def test_on_average_rounding_favours_nobody() -> None:
    ds, weights = steps_of_two(), np.array([1, 2, 3, 4]) / 10
    counts = np.zeros(4)
    for seed in range(2000):
        returns = uw.resample(ds, weights, steps=6, seed=seed, may_lose=0.9).returns
        counts += np.bincount(returns.astype(int), minlength=4)
    np.testing.assert_allclose(counts / 2000, 3 * weights, atol=0.05)


def test_a_size_that_loses_too_much_is_refused() -> None:
    ds = random_dataset(0, num_episodes=100, next_known=True)
    steps = int(ds.num_transitions.sum())
    with pytest.raises(uw.AdapterError, match=r"lose \d+%, more than may_lose=0.1") as refused:
        uw.resample(ds, "uniform", steps=steps // 4)
    advised = int(str(refused.value).split("Ask for about ")[1].split()[0].replace(",", ""))
    assert uw.resample(ds, "uniform", steps=advised).metadata["resample"]["effective_episodes"] >= 90
    assert uw.resample(ds, "uniform", steps=steps // 4, may_lose=0.9).num_episodes == pytest.approx(25, abs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"steps": 0}, "steps: expected a whole number"), ({"may_lose": 1.0}, "may_lose: expected a number")],
)
def test_bad_options(options: dict[str, float], message: str) -> None:
    with pytest.raises(uw.AdapterError, match=message):
        uw.resample(steps_of_two(), "uniform", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("weighting", "described"),
    [
        ("rw", {"name": "rw", "temperature": 0.1}),
        (uw.ReturnWeighting(0.5), {"name": "rw", "temperature": 0.5}),
        (uw.AdvantageWeighting(baseline=lambda starts, returns: 0 * returns), {"name": "aw"}),
        (lambda ds: ds.returns + 1, {"name": "given"}),
        ([1, 2, 3, 4], {"name": "given"}),
    ],
)
def test_its_metadata_name_the_weighting(weighting: Any, described: dict[str, Any]) -> None:
    """The same in every process: a function has an address in memory, which is nobody's name."""
    made = uw.resample(steps_of_two(), weighting, may_lose=0.99)
    assert made.metadata["resample"]["weighting"] == described


def test_incomplete_episodes_are_left_out_and_files_keep_the_copies(tmp_path: Path) -> None:
    ds = random_dataset(1, num_episodes=20, next_known=True).mark_incomplete([4, 5])
    with pytest.warns(uw.UpweightWarning, match="incomplete"):
        made = uw.resample(ds, "rw", steps=2000)
    assert made.complete.all()
    uw.save(made, tmp_path / "weighted.npz")
    np.testing.assert_array_equal(uw.load(tmp_path / "weighted.npz").observations, made.observations)
