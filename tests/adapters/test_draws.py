"""The draws that all adapters share, and the check that their library is there."""

from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.adapters import Adapted, check_actor_apart, check_adapter, numbered_dataset
from upweight.adapters.draws import Draws, episode_weights


def test_draws() -> None:
    def make(dataset: uw.Dataset, weights: np.ndarray, seed: int) -> Adapted:
        draws = Draws.of(dataset, weights, seed)
        return Adapted(draws.rows, draws.state_dict, draws.load_state_dict)

    check_adapter(make, numbered_dataset())


def test_an_actor_apart() -> None:
    def make(dataset: uw.Dataset, weighting: Any, actor_weighting: Any, seed: int) -> Adapted:
        draws = Draws.of(dataset, weighting, seed, actor_weighting)
        return Adapted(draws.rows, draws.state_dict, draws.load_state_dict)

    check_actor_apart(make, numbered_dataset())


def test_a_state_is_not_changed_by_later_draws() -> None:
    draws = Draws.of(numbered_dataset(), "rw", 0)
    state = draws.state_dict()
    first = draws.rows(10)
    for _ in range(2):
        draws.load_state_dict(state)
        np.testing.assert_array_equal(draws.rows(10), first)


def test_a_state_of_other_episodes() -> None:
    state = Draws.of(numbered_dataset(episodes=5), "uniform", 0).state_dict()
    with pytest.raises(uw.AdapterError, match="these 20 episodes .* found 5 episodes"):
        Draws.of(numbered_dataset(), "uniform", 0).load_state_dict(state)


def test_weightings_by_any_name() -> None:
    dataset = numbered_dataset()
    expected = uw.ReturnWeighting()(dataset)
    for given in ("rw", uw.ReturnWeighting(), expected, lambda ds: uw.ReturnWeighting()(ds)):
        np.testing.assert_allclose(episode_weights(dataset, given), expected)
    with pytest.raises(uw.WeightingError, match="did you mean 'rw'"):
        episode_weights(dataset, "rww")
    with pytest.raises(uw.WeightingError, match="20"):
        episode_weights(dataset, np.ones(3))
