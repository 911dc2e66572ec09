import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import with_returns
from upweight.base.checks import finite_number, whole_number, yes_or_no
from upweight.data.holdout import held_out_episodes


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers(value: Any) -> None:
    found = whole_number("count", value, least=3, most=3)
    assert found == 3 and type(found) is int


@pytest.mark.parametrize("value", [2, 6, 3.0, True, "3", None, np.nan, np.True_])
def test_others(value: Any) -> None:
    with pytest.raises(uw.RolloutError, match="count: expected a whole number from 3 to 5, found "):
        whole_number("count", value, least=3, most=5, error=uw.RolloutError)


def test_without_an_upper_end() -> None:
    assert whole_number("count", 10**30, least=0) == 10**30
    with pytest.raises(uw.UpweightError, match="count: expected a whole number of at least 0, found -1"):
        whole_number("count", -1, least=0)


@pytest.mark.parametrize("value", [0.5, np.float64(0.5), np.float32(0.5), np.float16(0.5)])
def test_numbers(value: Any) -> None:
    found = finite_number("share", value, above=0, below=1)
    assert found == 0.5 and type(found) is float


@pytest.mark.parametrize("value", [1, np.int64(1), np.uint8(1)])
def test_a_whole_number_is_written_as_it_was_given(value: Any) -> None:
    assert json.dumps(finite_number("share", value, least=1, most=1)) == "1"


@pytest.mark.parametrize("value", [-0.5, 0, 1.5, True, np.True_, "0.5", None, np.nan, np.inf, 10**400, [0.5], 1j])
def test_no_numbers_of_the_range(value: Any) -> None:
    with pytest.raises(uw.RolloutError, match="share: expected a number above 0 and at most 1, found .*; say which"):
        finite_number("share", value, above=0, most=1, advice="say which", error=uw.RolloutError)


@pytest.mark.parametrize("value", [np.nan, -np.inf, 10**400, -(10**400), np.float32("inf")])
def test_numbers_are_finite(value: Any) -> None:
    with pytest.raises(uw.UpweightError, match="share: expected a finite number, found"):
        finite_number("share", value)
    with pytest.raises(uw.UpweightError, match="share: expected a number of at least 0, found"):
        finite_number("share", value, least=0)


@pytest.mark.parametrize("value", [True, np.True_, False, np.False_])
def test_yes_and_no(value: Any) -> None:
    found = yes_or_no("wanted", value)
    assert found is bool(value)


@pytest.mark.parametrize("value", ["false", "true", 0, 1, np.int64(1), 1.0, None, [True]])
def test_neither_yes_nor_no(value: Any) -> None:
    with pytest.raises(uw.ConfigError, match="wanted: expected True or False, found"):
        yes_or_no("wanted", value, error=uw.ConfigError)


def test_public_arguments_take_numbers_of_numpy() -> None:
    dataset = with_returns(np.arange(6))
    fields = {  # what is kept of what was given -> a Python number
        "temperature": uw.ReturnWeighting(np.float32(0.5)).to_dict()["temperature"],
        "fraction": uw.TopFraction(np.float32(0.5)).to_dict()["fraction"],
        "threshold": uw.Half(threshold=np.float32(0.5)).to_dict()["threshold"],
        "mix": uw.mix(dataset, dataset, fraction=np.float32(0.5), num_steps=np.int64(4), seed=np.int64(0)).metadata[
            "mix"
        ],
    }
    assert json.loads(json.dumps(fields)) == fields
    assert dataset.split(np.float32(0.5), seed=0)[0].num_episodes == 3
    assert len(held_out_episodes(dataset, np.float32(0.5))) == 3


def test_actions_counted_by_numpy() -> None:
    flat = {"observations": np.zeros((3, 1)), "rewards": np.ones(3), "terminated": np.array([False, False, True])}
    dataset = uw.Dataset.from_arrays(**flat, actions=np.arange(3), num_actions=np.int64(4))
    again = dataset.with_num_actions(np.int64(5))  # as env.action_space.n is
    assert (type(dataset.num_actions), dataset.num_actions) == (int, 4)
    assert (type(again.num_actions), again.num_actions) == (int, 5)


DATA = with_returns(np.arange(6))
LAYER = (np.zeros((1, 1), np.float32), np.zeros(1, np.float32))
ONE = np.ones(1)
POLICY = uw.Policy(
    "deterministic", (LAYER,), observation_mean=0 * ONE, observation_scale=ONE, action_low=-ONE, action_high=ONE
)


@pytest.mark.parametrize(
    "ask",
    [
        lambda no, path: uw.mix(DATA, DATA, fraction=0.5, num_steps=4, seed=0, replace=no),
        lambda no, path: uw.pack(DATA, path / "packed", overwrite=no),
        lambda no, path: uw.pack(DATA, path / "packed", verify=no),
        lambda no, path: uw.load(DATA, guard=no),
        lambda no, path: uw.train(DATA, [uw.Run()], num_updates=1, resume=no),
        lambda no, path: uw.train(DATA, [uw.Run()], num_updates=1, progress=no),
        lambda no, path: uw.plan_training(DATA, [uw.Run()], stream=no),
        lambda no, path: uw.evaluate(POLICY, "Hopper-v5", stochastic=no),
        lambda no, path: uw.select([POLICY], DATA, stochastic=no),
        lambda no, path: uw.RayExecutor(keep_policies=no),
        lambda no, path: uw.Store(path / "store", create=no),
        lambda no, path: uw.Evaluator("Hopper-v5", last=no).check(1, 11, 3, is_discrete=False),
    ],
)
def test_no_word_counts_as_true(ask: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    with pytest.raises(uw.UpweightError, match="expected True or False, found 'no'"):
        ask("no", tmp_path)
    assert not list(tmp_path.iterdir())


def test_seeds_are_checked_before_any_work() -> None:
    with pytest.raises(uw.DatasetError, match="seed: expected a whole number of at least 0, found -1"):
        DATA.split(0.5, seed=-1)
    with pytest.raises(uw.ConfigError, match="seed: expected a whole number of at least 0, found 'x'"):
        uw.select([POLICY], DATA, seed="x")  # type: ignore[arg-type]
