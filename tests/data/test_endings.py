import numpy as np
import pytest

import upweight as uw
from upweight.data.endings import cut_short_note, lost_rewards_note, time_limit_note


def log(*, ends: str, outcome_last: bool, lengths: tuple[int, ...] = (5, 5, 5)) -> uw.Dataset:
    """Episodes whose reward is an outcome in the last step, or the same in every step."""
    steps = sum(lengths)
    last = np.zeros(steps, bool)
    last[np.cumsum(lengths) - 1] = True
    return uw.Dataset.from_arrays(
        observations=(np.arange(steps) % 3 - 1.0)[:, None],
        actions=np.zeros(steps, np.int64),
        rewards=np.where(last, 10.0, 0.0) if outcome_last else np.ones(steps),
        terminated=last if ends == "terminated" else np.zeros(steps, bool),
        truncated=last if ends == "truncated" else np.zeros(steps, bool),
    )


def test_outcomes_that_nothing_is_learned_from() -> None:
    found = lost_rewards_note(log(ends="truncated", outcome_last=True))
    assert found is not None and "100% of the rewards are of the last steps of 3 episodes" in found
    assert lost_rewards_note(log(ends="terminated", outcome_last=True)) is None
    assert lost_rewards_note(log(ends="truncated", outcome_last=False)) is None  # a fifth of them


def test_lengths_that_look_like_a_time_limit() -> None:
    found = time_limit_note(log(ends="terminated", outcome_last=False))
    assert found is not None and "3 episodes end in a terminal state after exactly 5 steps" in found
    assert time_limit_note(log(ends="terminated", outcome_last=True)) is None  # cutting them would lose the outcome
    assert time_limit_note(log(ends="terminated", outcome_last=False, lengths=(5, 4, 5))) is None
    assert time_limit_note(log(ends="truncated", outcome_last=False)) is None


def test_train_and_inspect_say_so() -> None:
    lost = log(ends="truncated", outcome_last=True, lengths=(5,) * 30)
    assert any("nothing is learned from them" in note for note in uw.inspect(lost).notes)
    config = uw.algorithm_config("discrete_cql", hidden_units=(4,), batch_size=4)
    with pytest.warns(uw.UpweightWarning, match="nothing is learned from them"):
        uw.train(lost, [uw.Run(config, "uniform")], num_updates=1)


def test_episodes_that_were_cut_before_the_time_limit() -> None:
    data = log(ends="truncated", outcome_last=False, lengths=(5, 3, 5))
    found = cut_short_note(data.with_metadata(time_limit=5))
    assert found is not None and "1 episodes" in found and "horizon=5" in found
    assert found in uw.inspect(data.with_metadata(time_limit=5)).notes
    for other in (data, data.with_metadata(time_limit=3), data.with_metadata(time_limit="5")):
        assert cut_short_note(other) is None
    assert cut_short_note(data.with_metadata(time_limit=5).mark_incomplete([1])) is None
