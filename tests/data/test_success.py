"""Logs without rewards that say which episodes succeeded."""

import numpy as np
import pytest

import upweight as uw
from support.datasets import tiny


def rewardless(**changes: object) -> uw.Dataset:
    """Three episodes of 3, 2 and 3 steps: terminated, truncated (its last step cannot be learned from), terminated."""
    given = {name: getattr(tiny(), name) for name in ("observations", "actions", "terminated", "truncated")}
    return uw.Dataset.from_arrays(**{**given, "rewards": None, **changes})


def test_flags_of_episodes_become_returns_of_0_and_1() -> None:
    ds = rewardless().with_success([False, True, False])
    assert ds.returns.tolist() == [0.0, 1.0, 0.0]
    assert ds.rewards.tolist() == [0, 0, 0, 0, 1, 0, 0, 0]  # with the last step


def test_an_episode_has_succeeded_if_a_flag_of_its_steps_is_set() -> None:
    flags = np.array([0, 1, 0, 0, 0, 1, 1, 1])
    assert rewardless().with_success(flags).returns.tolist() == [1.0, 0.0, 1.0]


def test_success_ends_an_episode_so_its_reward_can_be_learned_from() -> None:
    before = rewardless()
    ds = before.with_success([True, True, False])
    assert before.num_transitions.tolist() == [3, 1, 3]
    assert ds.num_transitions.tolist() == [3, 2, 3]
    assert ds.episodes.terminated.tolist() == [True, True, True]
    assert not ds.episodes.truncated.any()


def test_success_makes_a_fragment_complete_and_failure_does_not() -> None:
    ends = {"terminated": [0, 0, 1, 0, 0, 0, 0, 0], "truncated": None}
    assert rewardless(**ends).complete.tolist() == [True, False]
    assert rewardless(**ends).with_success([False, True]).complete.tolist() == [True, True]
    assert rewardless(**ends).with_success([True, False]).complete.tolist() == [True, False]


def test_rewards_that_are_there_give_way() -> None:
    assert tiny().with_success([True, False, False]).returns.tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([True, False], r"success: expected a flag for each of 3 episodes or of 8 steps, found shape \(2,\)"),
        ([0, 1, 2], "success.*expected only 0 and 1"),
        ([0.0, 1.0, np.nan], "success.*expected only 0 and 1"),
        (["yes", "no", "no"], "success.*expected numbers"),
    ],
)
def test_other_flags_are_refused(flags: list[object], message: str) -> None:
    with pytest.raises(uw.DatasetError, match=message):
        rewardless().with_success(flags)


def test_without_rewards_the_error_names_the_option() -> None:
    for ask in (uw.ReturnWeighting(), uw.suggest, lambda ds: ds.returns):
        with pytest.raises(uw.DatasetError, match=r"no rewards.*success=NAME.*--success NAME.*with_success"):
            ask(rewardless())
