"""Actions that fill little of the range that policies choose in."""

import numpy as np
import pytest

import upweight as uw
from upweight.data.action_range import action_bounds, narrow_columns, narrow_note


@pytest.mark.parametrize(("reach", "narrow"), [(1, False), (0.2, False), (0.03, True), (500, False), (0, False)])
def test_actions_that_fill_little_of_their_range(reach: float, narrow: bool) -> None:
    actions = reach * np.random.default_rng(0).uniform(-1, 1, (500, 2))
    assert list(narrow_columns(actions, *action_bounds([actions]))) == ([0, 1] if narrow else [])


def test_an_outlier_makes_the_range_of_actions() -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    actions[3, 1] = 1e6
    assert list(narrow_columns(actions, *action_bounds([actions]))) == [1]


def test_inspect_says_so_of_amounts() -> None:
    rng = np.random.default_rng(0)
    rows = {
        "observations": rng.normal(size=(500, 2)),
        "rewards": rng.normal(size=500),
        "terminated": np.arange(500) % 7 == 6,
    }
    narrow = uw.Dataset.from_arrays(actions=rng.uniform(-0.01, 0.01, (500, 2)), **rows)
    note = narrow_note(narrow)
    assert note is not None and "Column 1: 90% within [-0.009" in note and "go beyond 1" in note
    assert note in uw.inspect(narrow).notes
    assert narrow_note(uw.Dataset.from_arrays(actions=rng.integers(0, 2, 500), **rows)) is None
