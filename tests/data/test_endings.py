from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from upweight.data.endings import as_time_limits, cut_short_note, lost_rewards_note, time_limit_note


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
    found = time_limit_note(log(ends="terminated", outcome_last=False, lengths=(5,) * 20))
    assert found is not None and "20 of 20 terminal states come after exactly 5 steps" in found
    assert time_limit_note(log(ends="terminated", outcome_last=True, lengths=(5,) * 20)) is None  # their outcome
    assert time_limit_note(log(ends="terminated", outcome_last=False, lengths=(5, 4) * 20)) is None
    assert time_limit_note(log(ends="terminated", outcome_last=False, lengths=(5,) * 19)) is None  # too few to tell
    assert time_limit_note(log(ends="truncated", outcome_last=False, lengths=(5,) * 20)) is None


def test_time_limits_among_true_ends() -> None:
    """Two dozen of 200 steps in a log where others fall before; not where lengths only go up to a longest one."""
    falls = tuple(range(20, 190, 5))
    found = time_limit_note(log(ends="terminated", outcome_last=False, lengths=(*falls, *[200] * 24)))
    assert found is not None and "24 of 58 terminal states come after exactly 200 steps" in found
    for lengths in ((*falls, 200, 200), (*falls, *range(180, 200), *[200] * 24), (*[3] * 24, *[2] * 4)):
        assert time_limit_note(log(ends="terminated", outcome_last=False, lengths=lengths)) is None


def test_a_limit_that_is_flagged_is_none_of_the_data_s_mistakes() -> None:
    data = log(ends="terminated", outcome_last=False, lengths=(5,) * 48)
    flagged = replace(data.episodes, terminated=np.arange(48) < 24, truncated=np.arange(48) >= 24)
    assert time_limit_note(replace(data, episodes=flagged, columns={**data.columns})) is None
    assert time_limit_note(data.with_time_limits()) is None


def test_time_limits_are_those_of_the_longest_length() -> None:
    data = log(ends="terminated", outcome_last=False, lengths=(5, 3, 5)).with_time_limits()
    assert data.episodes.truncated.tolist() == [True, False, True]
    assert data.terminated.nonzero()[0].tolist() == [7] and data.num_transitions.tolist() == [4, 3, 4]
    with pytest.raises(uw.DatasetError, match="all 1 of these data come before 5 steps; leave it out"):
        as_time_limits(data.episodes, source="log")
    unflagged = log(ends="truncated", outcome_last=False)
    assert as_time_limits(unflagged.episodes, source="log").truncated.all()


@pytest.mark.parametrize("suffix", ["npz", "hdf5", "parquet", "packed"])
def test_files_with_flags_are_read_with_time_limits(tmp_path: Path, suffix: str) -> None:
    data, path = log(ends="terminated", outcome_last=False, lengths=(5, 3, 5)), tmp_path / f"log.{suffix}"
    uw.save(data, path)
    found = uw.load(path, ends="truncated")
    assert found.episodes.truncated.tolist() == [True, False, True]
    assert found.terminated.nonzero()[0].tolist() == [7]
    with pytest.raises(uw.DatasetError, match="ends: expected 'truncated', .* found 'terminated'; .* says itself how"):
        uw.load(path, ends="terminated")


def test_train_and_inspect_say_so() -> None:
    lost = log(ends="truncated", outcome_last=True, lengths=(5,) * 30)
    assert any("nothing is learned from them" in note for note in uw.inspect(lost).notes)
    config = uw.algorithm_config("discrete_cql", hidden_units=(4,), batch_size=4)
    with pytest.warns(uw.UpweightWarning, match="nothing is learned from them"):
        uw.train(lost, [uw.Run(config, "uniform")], num_updates=1)
    stopped = log(ends="terminated", outcome_last=False, lengths=(5,) * 30)
    assert any("a time limit?" in note for note in uw.inspect(stopped).notes)
    with pytest.warns(uw.UpweightWarning, match="a time limit?") as warned:
        uw.train(stopped, [uw.Run(config, "uniform")], num_updates=1)
    assert sum("time limit" in str(each.message) for each in warned) == 1


def test_episodes_that_were_cut_before_the_time_limit() -> None:
    data = log(ends="truncated", outcome_last=False, lengths=(5, 3, 5))
    found = cut_short_note(data.with_metadata(time_limit=5))
    assert found is not None and "1 episodes" in found and "horizon=5" in found
    assert found in uw.inspect(data.with_metadata(time_limit=5)).notes
    for other in (data, data.with_metadata(time_limit=3), data.with_metadata(time_limit="5")):
        assert cut_short_note(other) is None
    assert cut_short_note(data.with_metadata(time_limit=5).mark_incomplete([1])) is None
