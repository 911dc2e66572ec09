from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import upweight as uw
from support.datasets import random_dataset, with_arrays
from support.policies import linear
from upweight.lab.select import looks
from upweight.lab.select.looks import action_errors, supports


def follower(*, noise: float = 0.0, episodes: int = 40, seed: int = 0) -> uw.Dataset:
    """Ten steps each; the action is tanh(x), and a little noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (10 * episodes, 1)).astype(np.float32)
    actions = np.clip(np.tanh(x) + noise * rng.standard_normal(x.shape), -1, 1).astype(np.float32)
    ends = np.arange(len(x)) % 10 == 9
    return uw.Dataset.from_arrays(observations=x, actions=actions, rewards=x[:, 0], terminated=ends, source="log")


def chooser(*, noise: float = 0.0, seed: int = 0) -> uw.Dataset:
    """Discrete: 1 where x is above 0, but for a share of ``noise`` at random; a third action is never taken."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (400, 1)).astype(np.float32)
    actions = np.where(rng.random(400) < noise, rng.integers(0, 2, 400), x[:, 0] > 0)
    ends = np.arange(400) % 10 == 9
    return uw.Dataset.from_arrays(
        observations=x, actions=actions, rewards=x[:, 0], terminated=ends, num_actions=3, source="choices"
    )


COPY, CONTRARY, IDLE = linear([[1.0]], [0.0]), linear([[-1.0]], [0.0]), linear([[0.0]], [0.0])
HELD = np.arange(0, 40, 5)


def test_action_errors_by_hand() -> None:
    ds = uw.Dataset.from_arrays(
        observations=np.zeros((4, 1)),
        actions=[[-1.0], [1.0], [0.5], [0.5]],
        rewards=np.zeros(4),
        terminated=[0, 1, 0, 1],
    )
    (idle, copy) = action_errors(ds, [1], [IDLE, linear([[0.0]], [np.arctanh(0.5)])])
    assert (idle.error, idle.constant, idle.steps) == (0.25, 0.0, 2)
    assert copy.error == pytest.approx(0) and copy.same
    (both,) = action_errors(ds, [0, 1], [IDLE])
    assert both.error == pytest.approx((1 + 1 + 0.25 + 0.25) / 4)
    assert both.constant == pytest.approx(np.var([-1, 1, 0.5, 0.5]))


def test_weights_decide_which_steps_are_compared() -> None:
    """Of two held-out episodes the policy does as the first: agreement with the log, by weight."""
    ds = uw.Dataset.from_arrays(
        observations=np.zeros((4, 1)), actions=[0, 0, 1, 1], rewards=np.zeros(4), terminated=[0, 1, 0, 1], num_actions=2
    )
    first = linear([[0.0, 0.0]], [1.0, 0.0], kind="greedy")
    assert action_errors(ds, [0, 1], [first])[0].error == 0.5
    assert action_errors(ds, [0, 1], [first], weights=[1.0, 0.0])[0].error == 0
    assert action_errors(ds, [0, 1], [first], weights=[1.0, 3.0])[0].error == pytest.approx(0.75, abs=0.02)


def test_many_steps_are_drawn_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "STEPS", 50)
    ds = follower(noise=0.3)
    (found,), (again,) = action_errors(ds, HELD, [COPY]), action_errors(ds, HELD, [COPY])
    (other,) = action_errors(ds, HELD, [COPY], seed=1)
    assert found.steps == 50 and found == again and found.error != other.error


def test_support_by_hand() -> None:
    """Two logged neighbours with actions 0 and 2 (spread 1): what lies between is 1 away at most."""
    ds = uw.Dataset.from_arrays(
        observations=np.zeros((4, 1)),
        actions=[[0.0], [2.0], [0.5], [1.0]],
        rewards=np.zeros(4),
        terminated=[0, 1, 0, 1],
    )
    to_three = linear([[0.0]], [9.0], bound=3.0)
    (found,) = supports(ds, [1], [to_three], level=0.5)
    assert (found.limit, found.distance, found.outside, found.logged, found.states) == (1.0, 1.0, 0.0, 0.0, 2)
    to_four = linear([[0.0]], [9.0], bound=4.0)
    (found,) = supports(ds, [1], [to_four], neighbours=2)
    assert (found.distance, found.outside) == (pytest.approx(2.0), 1.0)


@pytest.mark.parametrize("level", [0.95, 0.99])
def test_logged_behaviour_itself_is_inside(level: float) -> None:
    ds = follower(noise=0.1, episodes=200)
    copy, contrary = supports(ds, np.arange(0, 200, 4), [COPY, CONTRARY], level=level)
    assert 0.7 * (1 - level) < copy.logged <= 1 - level
    assert copy.outside <= 1 - level
    assert contrary.outside > 0.7


def test_without_held_out_episodes_support_is_that_of_other_episodes() -> None:
    """In its own episode every action has itself for a neighbour."""
    ds = follower(noise=0.1)
    (all_,) = supports(ds, np.arange(40), [COPY], neighbours=1)
    assert all_.limit > 0.01
    with pytest.raises(
        uw.DatasetError, match="at least two episodes with a transition.*found one; give more of the log"
    ):
        supports(ds.subset([0]), [0], [COPY])


def test_support_of_discrete_actions() -> None:
    policies = [
        linear([[-1.0, 1.0, 0.0]], [0.0, 0.0, -9.0], kind="greedy"),
        linear([[0.0] * 3], [0, 0, 1.0], kind="greedy"),
    ]
    same, unseen = supports(chooser(noise=0.2), HELD, policies)
    assert same.outside < 0.05 and same.logged <= 0.05
    assert unseen.outside == 1 and unseen.distance == 1


def test_neighbours_are_those_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.neighbors import NearestNeighbors

    monkeypatch.setattr(looks, "_BLOCK", 7)
    ds = random_dataset(3, num_episodes=30, observation_shape=(4,))
    states, logged = ds.episodes.steps_of(np.arange(10)), ds.episodes.steps_of(np.arange(10, 30))
    found = np.sort(looks._nearest(ds, states, logged, 5), axis=1)
    rows = ds.observations[logged].astype(np.float64)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    known = NearestNeighbors(n_neighbors=5).fit(scaled)
    wanted = known.kneighbors((ds.observations[states] - rows.mean(axis=0)) / rows.std(axis=0), return_distance=False)
    np.testing.assert_array_equal(found, np.sort(wanted, axis=1))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 99), scale=st.floats(0.1, 50), shift=st.floats(-50, 50))
def test_support_does_not_depend_on_units(seed: int, scale: float, shift: float) -> None:
    ds = follower(noise=0.2, seed=seed)
    moved = with_arrays(ds, observations=(scale * ds.observations.astype(np.float64) + shift))
    there = linear([[1 / scale]], [-shift / scale])
    (one,), (other,) = supports(ds, HELD, [COPY]), supports(moved, HELD, [there])
    assert 0 <= one.outside <= 1
    assert other.distance == pytest.approx(one.distance, abs=0.02)
    assert other.outside == pytest.approx(one.outside, abs=0.03)


def test_of_packed_data_some_rows_are_gathered(tmp_path: Path) -> None:
    ds = follower(noise=0.1)
    packed = uw.pack(ds, tmp_path / "a.packed").subset(np.arange(ds.num_episodes))
    for look in (action_errors, supports):
        assert look(packed, HELD, [COPY]) == look(ds, HELD, [COPY])
    assert not packed.columns["observations"].is_loaded and not packed.columns["actions"].is_loaded
