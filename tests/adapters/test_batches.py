"""Batches for any loop."""

from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.adapters import Adapted, check_actor_apart, check_adapter, numbered_dataset, steps_of
from support.datasets import rows_only


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("arrays", ["numpy", "torch", "jax"])
def test_contract(arrays: str, prefetch: int) -> None:
    def make(dataset: uw.Dataset, weights: np.ndarray, seed: int) -> Adapted:
        hidden = rows_only(dataset)  # nothing is read as a whole
        batches = uw.batches(hidden, weights, 128, seed=seed, arrays=arrays, prefetch=prefetch)

        def draw(count: int) -> np.ndarray:
            return np.concatenate([steps_of(next(batches).observations) for _ in range(count // 128)])

        return Adapted(draw, batches.state_dict, batches.load_state_dict)

    check_adapter(make, numbered_dataset(), draws=20_000)


@pytest.mark.parametrize(("arrays", "prefetch"), [("numpy", 0), ("torch", 2)])
def test_an_actor_apart(arrays: str, prefetch: int) -> None:
    def make(dataset: uw.Dataset, weighting: Any, actor_weighting: Any, seed: int) -> Adapted:
        how = {"seed": seed, "arrays": arrays, "prefetch": prefetch}
        batches = uw.batches(rows_only(dataset), weighting, 256, actor_weighting=actor_weighting, **how)

        def draw(_: int) -> np.ndarray:
            batch = next(batches)
            if actor_weighting is None:
                return steps_of(batch.observations)
            critic, actor = batch
            return np.stack([steps_of(critic.observations), steps_of(actor.observations)])

        return Adapted(draw, batches.state_dict, batches.load_state_dict)

    check_actor_apart(make, numbered_dataset(), draws=20_000)


@pytest.mark.parametrize("discrete", [False, True])
def test_batches_are_the_datasets_transitions(discrete: bool) -> None:
    dataset = numbered_dataset(discrete=discrete)
    made = {arrays: next(uw.batches(dataset, "rw", 32, arrays=arrays)) for arrays in ("numpy", "torch", "jax")}
    expected = dataset.transitions(steps_of(made["numpy"].observations))
    for arrays, batch in made.items():
        assert type(batch.rewards).__module__.split(".")[0] in {arrays, "jaxlib"}
        for name, values in expected._asdict().items():
            found = np.asarray(getattr(batch, name))
            np.testing.assert_array_equal(found, values)
            assert arrays == "jax" or found.dtype == values.dtype  # JAX keeps whole numbers in 32 bits


def test_what_was_made_ahead_does_not_count_as_drawn() -> None:
    ahead, plain = (uw.batches(numbered_dataset(), "rw", 8, prefetch=prefetch) for prefetch in (5, 0))
    for _ in range(3):
        next(ahead), next(plain)
    assert ahead.state_dict()["generator"] == plain.state_dict()["generator"]
    np.testing.assert_array_equal(next(ahead).observations, next(plain).observations)


@pytest.mark.parametrize("arrays", ["numpy", "torch", "jax"])
def test_a_log_without_rewards_can_be_drawn_from(arrays: str) -> None:
    """Its rewards are NaN: who needs them notices, and who copies actions does not look."""
    ds = uw.Dataset.from_arrays(
        observations=np.arange(8.0)[:, None], actions=np.arange(8.0), rewards=None, terminated=np.arange(8) % 4 == 3
    )
    batch = next(uw.batches(ds, "uniform", 32, arrays=arrays))
    np.testing.assert_array_equal(batch.actions, batch.observations[:, 0])
    assert np.isnan(np.asarray(batch.rewards)).all() and batch.rewards.shape == (32,)
    for weighting in ("rw", "aw", "top"):
        with pytest.raises(uw.DatasetError, match=r"no rewards, so there are no returns to weight by.*success=NAME"):
            uw.batches(ds, weighting, arrays=arrays)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected a whole number of at least 1, found 0"),
        ({"prefetch": 1.5}, "prefetch: expected a whole number of at least 0, found 1.5"),
        ({"arrays": "tensorflow"}, "arrays: expected one of numpy, torch, jax, found 'tensorflow'"),
        ({"device": "cuda"}, "NumPy arrays have none, found 'cuda'; ask for arrays=\"torch\""),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(uw.AdapterError, match=message):
        uw.batches(numbered_dataset(), "rw", **options)
    with pytest.raises(uw.WeightingError, match="20"):
        uw.batches(numbered_dataset(), np.ones(3))
