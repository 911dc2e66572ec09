"""The look at luck: silent where returns are noise, loud where good episodes act otherwise."""

import numpy as np
import pytest
from numpy.typing import NDArray

import upweight as uw
from upweight.inspection.luck import look_at_luck


def log(
    seed: int, *, count: int = 100, length: int = 15, shift: float = 0.0, discrete: bool = False, pull: float = 0.0
) -> tuple[uw.Dataset, NDArray[np.bool_]]:
    """Episodes of one policy with a curve in it, and which are good: a fifth, whose actions are shifted, whose states drift."""
    rng = np.random.default_rng(seed)
    good = rng.permutation(count) < count // 5
    states = rng.normal(size=(count, length, 3)) + pull * good[:, None, None]
    actions = np.tanh(states[..., :2]) + np.sin(2 * states[..., 2:]) + 0.3 * rng.normal(size=(count, length, 2))
    actions += shift * good[:, None, None]
    ends = np.zeros((count, length), bool)
    ends[:, -1] = True
    rewards = np.where(ends, good[:, None] + 0.1 * rng.normal(size=(count, 1)), 0.0)
    dataset = uw.Dataset.from_arrays(
        observations=states.reshape(-1, 3),
        actions=((actions > 0) @ [1, 2]).reshape(-1) if discrete else actions.reshape(-1, 2),
        rewards=rewards.reshape(-1),
        terminated=ends.reshape(-1),
    )
    return dataset, good


@pytest.mark.parametrize(
    "options",
    [{}, {"discrete": True}, {"length": 1, "count": 300}, {"pull": 0.7}],
    ids=["noise", "discrete", "one step", "other states"],
)
def test_luck_alone_seldom_alarms(options):
    """Also where good episodes see other states, to which the same policy answers otherwise."""
    found = [look_at_luck(log(seed, **options)[0], seed=seed) for seed in range(20)]
    assert None not in [each.p_value for each in found]
    assert sum(each.actions_differ is True for each in found) <= 4  # 5% of 20 is 1; more than 4 has a chance of 0.3%


@pytest.mark.parametrize(
    "options",
    [{}, {"discrete": True}, {"length": 1, "count": 300}, {"pull": 0.7}],
    ids=["noise", "discrete", "one step", "other states"],
)
def test_better_actions_are_seen(options):
    found = [look_at_luck(log(seed, shift=0.5, **options)[0], seed=seed) for seed in range(10)]
    assert sum(each.actions_differ is True for each in found) >= 9
    assert "act otherwise" in found[0].text


def test_actions_are_compared_at_like_observations_only():
    """Good episodes elsewhere, where nobody else was, say nothing."""
    dataset, good = log(0)
    apart = uw.Dataset.from_arrays(
        observations=dataset.observations + 100.0 * np.repeat(good, 15)[:, None],
        actions=dataset.actions,
        rewards=dataset.rewards,
        terminated=dataset.terminated,
    )
    assert look_at_luck(apart).p_value is None
    assert "like observations" in look_at_luck(apart).text


def test_what_shifts_and_scales_returns_or_columns_changes_nothing():
    dataset, _ = log(0, shift=0.1)
    scaled = uw.Dataset.from_arrays(
        observations=dataset.observations * [8.0, 0.5, 2.0],
        actions=dataset.actions * 4.0,
        rewards=dataset.rewards * 1024.0,
        terminated=dataset.terminated,
    )
    assert look_at_luck(scaled).p_value == pytest.approx(look_at_luck(dataset).p_value, abs=0.005)


def test_good_episodes_are_those_above_the_middle_of_the_range():
    dataset, good = log(0, shift=0.5)
    assert f"the {good.sum()} episodes" in look_at_luck(dataset).text


def test_one_outlier_among_the_returns_leaves_enough_episodes_to_compare():
    dataset, _ = log(0, shift=0.5)
    returns = dataset.returns.copy()
    returns[3] = 1e6
    assert "the 8 episodes" in look_at_luck(dataset.with_score(returns)).text


@pytest.mark.parametrize(
    "dataset, why",
    [
        (lambda: log(0, count=15)[0], "it takes 8 episodes"),
        (lambda: log(0)[0].with_score(np.ones(100)), "it takes 8 episodes"),
        (lambda: log(0)[0].with_score(np.arange(100) < 7), "it takes 8 episodes"),
        (
            lambda: uw.Dataset.from_arrays(
                observations=np.zeros((40, 32, 32, 1), np.uint8),
                actions=np.zeros((40, 1)),
                rewards=np.arange(40),
                terminated=np.ones(40),
            ),
            "observations have 1,024 numbers",
        ),
        (
            lambda: uw.Dataset.from_arrays(
                observations=np.zeros((40, 2)), actions=np.zeros((40, 1)), rewards=np.arange(40), terminated=np.ones(40)
            ),
            "like observations",
        ),
    ],
    ids=["few", "equal", "seven", "images", "one action"],
)
def test_what_cannot_be_checked_says_why(dataset, why):
    found = look_at_luck(dataset())
    assert (found.p_value, found.actions_differ) == (None, None)
    assert why in found.text


def test_an_observation_that_never_moves_leaves_actions_to_compare():
    """A bandit without a context."""
    rng = np.random.default_rng(0)
    taken = rng.integers(0, 3, 400)
    arms = {
        "observations": np.zeros((400, 1)),
        "actions": taken,
        "terminated": np.ones(400),
    }
    better = uw.Dataset.from_arrays(rewards=(rng.random(400) < np.array([0.2, 0.2, 0.6])[taken]), **arms)
    same = uw.Dataset.from_arrays(rewards=(rng.random(400) < 0.4), **arms)
    assert look_at_luck(better).actions_differ is True
    assert look_at_luck(same).actions_differ is False


def test_incomplete_episodes_count_as_neither():
    dataset, good = log(0, shift=0.5)
    marked = dataset.mark_incomplete(np.flatnonzero(good)[:3])
    assert f"the {good.sum() - 3} episodes" in look_at_luck(marked).text
