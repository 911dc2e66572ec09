"""What the page is told of a dataset."""

from base64 import b64decode
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import with_arrays, with_returns
from upweight.explorer.facts import Flag, gather_facts


def column(facts: dict[str, Any], name: str) -> np.ndarray:
    return np.frombuffer(b64decode(facts["columns"][name]["base64"]), facts["columns"][name]["type"])


def flags(facts: dict[str, Any], flag: Flag) -> list[int]:
    return np.flatnonzero(column(facts, "flags") & flag).tolist()


def test_flags() -> None:
    """An episode that is there twice, one with the same return but another start, one far out, one cut short."""
    returns = [*np.linspace(0, 1, 20), 0.5, 0.5, 40.0, 0.7]
    starts = np.arange(24.0)[:, None]
    ds = with_returns(returns, observations=starts)
    ds = ds.subset([*range(24), 3]).mark_incomplete([23])
    facts = gather_facts(ds, env=None)
    assert flags(facts, Flag.DUPLICATE) == [24]
    assert flags(facts, Flag.TIE) == [3, 20, 21]
    assert flags(facts, Flag.OUTLIER) == [22]
    assert flags(facts, Flag.CUT_SHORT) == [23]
    assert flags(facts, Flag.USABLE) == [*range(23), 24]
    assert flags(facts, Flag.GOOD) == [22]


def test_episodes_that_begin_and_pay_alike_but_go_elsewhere_are_no_duplicates() -> None:
    ds = with_returns([1.0, 1.0, 1.0, 2.0], lengths=[9, 9, 9, 9])
    ds = with_arrays(ds, actions=np.zeros_like(ds.actions))
    observations = ds.observations.copy()
    observations[13] = 5.0  # in the middle of the second
    changed = uw.Dataset.from_arrays(
        observations=observations, actions=ds.actions, rewards=ds.rewards, terminated=ds.terminated
    )
    assert flags(gather_facts(ds, env=None), Flag.DUPLICATE) == [1, 2]
    assert flags(gather_facts(changed, env=None), Flag.DUPLICATE) == [2]


def test_the_first_component_of_the_start() -> None:
    rng = np.random.default_rng(0)
    along = rng.normal(size=60)
    starts = np.outer(along, [1.0, -2.0]) + 1e-3 * rng.normal(size=(60, 2))
    facts = gather_facts(with_returns(rng.normal(size=60), observations=starts), env=None)
    assert abs(np.corrcoef(column(facts, "start"), along)[0, 1]) > 0.999
    assert facts["start"] == "This component has 100% of the differences between starts."
    alike = gather_facts(with_returns([1.0, 2.0, 3.0]), env=None)
    assert alike["start"] == "All episodes start alike." and "start" not in alike["columns"]


def test_warnings_become_notes() -> None:
    facts = gather_facts(with_returns([1.0, 2.0], observations=[[1.0, 2.0], [3.0, 4.0]]), env=None)
    assert any("too few to fit" in note for note in facts["notes"])


def test_nothing_to_weight() -> None:
    with pytest.raises(uw.WeightingError, match="expected a complete episode"):
        gather_facts(with_returns([1.0, 2.0]).mark_incomplete([0, 1]), env=None)
