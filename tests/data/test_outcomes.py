"""Returns that are no outcomes are named, with what helps; those of usual logs are not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from upweight.data.notes import data_notes
from upweight.data.outcomes import length_note, one_step_note, repeated_outcome_note

RNG = np.random.default_rng(0)
LENGTHS = RNG.integers(2, 30, 60)


def log(lengths: Any, rewards: Any, *, ends: str = "terminated") -> uw.Dataset:
    """Episodes with ``rewards`` [M], or [N] for all rows of each."""
    lengths = np.asarray(lengths)
    rewards = np.asarray(rewards, np.float64)
    steps = int(lengths.sum())
    last = np.zeros(steps, bool)
    last[np.cumsum(lengths) - 1] = True
    return uw.Dataset.from_arrays(
        observations=np.random.default_rng(1).normal(size=(steps, 2)),
        actions=np.random.default_rng(2).normal(size=(steps, 1)),
        rewards=rewards if len(rewards) == steps else np.repeat(rewards, lengths),
        terminated=last if ends == "terminated" else np.zeros(steps, bool),
        truncated=last if ends == "truncated" else None,
    )


def test_an_outcome_in_every_row() -> None:
    died = RNG.integers(0, 2, 60)
    dataset = log(LENGTHS, died)
    note = repeated_outcome_note(dataset)
    assert note is not None and "--score last_reward" in note and data_notes(dataset)["repeated outcome"] == note
    assert dataset.with_score("last_reward").returns.tolist() == died.tolist()


@pytest.mark.parametrize(
    "dataset",
    [
        log(LENGTHS, np.ones(60)),  # one per step that it lives
        log(np.full(60, 7), RNG.integers(0, 2, 60)),  # counted seven times in all
        log(np.ones(60, int), RNG.normal(size=60)),  # single decisions
        log(LENGTHS, RNG.normal(size=LENGTHS.sum())),
        log(LENGTHS, np.append(np.repeat(RNG.integers(0, 2, 60), LENGTHS)[:-1], 5.0)),  # one row differs
    ],
    ids=["alive", "one length", "one step", "rewards", "one row"],
)
def test_other_rewards_are_not_taken_for_one(dataset: uw.Dataset) -> None:
    assert repeated_outcome_note(dataset) is None


def test_returns_that_measure_the_recording() -> None:
    dataset = log(LENGTHS, 2.0 + 0.05 * RNG.normal(size=LENGTHS.sum()), ends="truncated")
    note = length_note(dataset)
    assert note is not None and "--score mean_reward" in note and data_notes(dataset)["length"] == note
    means = [part.mean() for part in np.split(dataset.rewards, dataset.starts[1:])]
    np.testing.assert_allclose(dataset.with_score("mean_reward").returns, means)


@pytest.mark.parametrize(
    "dataset",
    [
        log(LENGTHS, np.ones(60)),  # terminal states end them: how long it lives is the outcome
        log(np.full(60, 9), np.ones(60), ends="truncated"),
        log(LENGTHS, RNG.normal(size=60), ends="truncated"),  # some are better per step
        log(LENGTHS, np.zeros(60), ends="truncated"),
    ],
    ids=["alive", "one length", "better", "nothing"],
)
def test_other_returns_are_not_taken_for_lengths(dataset: uw.Dataset) -> None:
    assert length_note(dataset) is None


def test_single_decisions() -> None:
    lengths = np.ones(60, int)
    lengths[:3] = 2
    note = one_step_note(log(lengths, np.ones(60)))
    assert note is not None and "95% of the episodes have one step" in note
    assert one_step_note(log(LENGTHS, np.ones(60))) is None


@pytest.mark.parametrize("suffix", ["npz", "hdf5", "parquet", "csv"])
def test_scores_of_rewards_are_read_from_every_format(tmp_path: Path, suffix: str) -> None:
    dataset, path = log([2, 3], [1.0, 2.0, 3.0, 5.0, 7.0]), tmp_path / f"log.{suffix}"
    if suffix == "csv":
        rows = zip([0, 0, 1, 1, 1], dataset.rewards, dataset.terminated, strict=True)
        lines = [f"{episode},0,0,{reward},{int(end)}" for episode, reward, end in rows]
        path.write_text("\n".join(["episode,observation,action,reward,terminated", *lines]))
    else:
        uw.save(dataset, path)
    assert uw.load(path, score="mean_reward").returns.tolist() == [1.5, 5.0]
    assert uw.load(path, score="last_reward").returns.tolist() == [2.0, 7.0]
