"""Discrete actions that were stored as floats."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import tiny, with_arrays
from upweight.data.action_codes import codes_note, unused_note

CODES = np.array([0, 1, 2, 0, 1, 2, 0, 1], np.float64)


def log(actions: Any) -> uw.Dataset:
    return with_arrays(tiny(), actions=np.asarray(actions))


@pytest.mark.parametrize("shape", [(8,), (8, 1)])
def test_whole_numbers_in_floats_are_pointed_out(shape: tuple[int, ...]) -> None:
    note = codes_note(log(CODES.reshape(shape)))
    assert note is not None
    for wanted in ("whole numbers stored as float64", "0, 1, 2", "regression", "num_actions=3", "--num-actions 3"):
        assert wanted in note


@pytest.mark.parametrize(
    "actions",
    [
        CODES.astype(np.int64),  # discrete already
        CODES + 0.5,
        CODES - 1,  # not numbered from 0
        np.zeros(8),  # one value says nothing
        np.stack([CODES, CODES], axis=1),
        np.linspace(-1, 1, 8),
    ],
)
def test_other_actions_are_not(actions: Any) -> None:
    assert codes_note(log(actions)) is None


def test_gaps_in_codes_are_pointed_out() -> None:
    """Codes from 1, as a hospital numbers its treatments: a policy could choose 0, 4, 5 and 6, which nobody ever did."""
    ds = log([1, 2, 3, 7, 1, 2, 3, 7])
    note = unused_note(ds)
    assert note is not None and note in uw.inspect(ds).notes
    for wanted in ("codes up to 7, and 0, 4, 5, 6 do not occur", "8 steps", "--categories", "--num-actions 8"):
        assert wanted in note
    assert unused_note(ds.with_num_actions(9)) is None
    assert unused_note(log(CODES.astype(np.int64))) is None and unused_note(log(CODES)) is None


def test_inspect_refuses_more_actions_than_there_are() -> None:
    with pytest.raises(uw.DatasetError, match=r"expected actions below 2 \(num_actions\), found 2; .*--num-actions 3"):
        uw.inspect(log(CODES.astype(np.int64)).with_num_actions(2))


def test_many_different_numbers_are_amounts() -> None:
    ds = uw.Dataset.from_arrays(
        observations=np.zeros((200, 1)), actions=np.arange(200.0), rewards=np.ones(200), terminated=np.ones(200, bool)
    )
    assert codes_note(ds) is None


def test_the_number_of_actions_makes_them_discrete(tmp_path: Path) -> None:
    ds = log(CODES[:, None])
    assert not ds.discrete_actions
    discrete = ds.with_num_actions(4)
    assert discrete.discrete_actions and discrete.actions.dtype == np.int64 and discrete.num_actions == 4
    np.testing.assert_array_equal(discrete.actions, CODES[:, None].astype(np.int64))
    np.testing.assert_array_equal(discrete.subset([1, 0]).actions[:, 0], [0, 1, 0, 1, 2])
    uw.save(ds, tmp_path / "a.npz")
    assert uw.load(tmp_path / "a.npz", num_actions=3).actions.tolist() == discrete.actions.tolist()
    with pytest.raises(uw.DatasetError, match=r"expected actions below 2 \(num_actions\), found 2; "):
        ds.with_num_actions(2).actions  # noqa: B018


def test_numbers_that_are_no_codes_are_refused_when_they_are_read() -> None:
    ds = log(np.where(CODES == 2, 1.5, CODES)).with_num_actions(3)
    with pytest.raises(uw.DatasetError, match=r"key 'actions': num_actions needs whole numbers, found 1\.5"):
        ds.actions  # noqa: B018
    with pytest.raises(uw.DatasetError, match="num_actions: expected actions of one whole number per step"):
        log(np.stack([CODES, CODES], axis=1)).with_num_actions(3)


def test_inspect_and_train_say_so() -> None:
    ds = log(CODES)
    assert "--num-actions 3" in str(uw.inspect(ds))
    with pytest.warns(uw.UpweightWarning, match="num_actions=3"):
        uw.train(ds, [uw.Run(uw.algorithm_config("bc", hidden_units=(4,)))], num_updates=1)
    with pytest.raises(uw.ConfigError, match="discrete_bc needs discrete actions.*num_actions=3"):
        uw.train(ds, [uw.Run("discrete_bc")], num_updates=1)
    run = uw.Run(uw.algorithm_config("discrete_bc", hidden_units=(4,)))
    assert uw.train(ds.with_num_actions(3), [run], num_updates=1)[0].status == "finished"
