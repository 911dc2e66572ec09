from typing import Any

import numpy as np
import pytest

import upweight as uw
from upweight.base.checks import whole_number


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
