"""At which updates policies are evaluated on the way: every so many, or at those of a list."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from upweight.base.checks import whole_number
from upweight.base.errors import ConfigError

Every = int | Sequence[int]


def as_every(given: Any) -> Every:
    """Between two points, or those of a list, as Python's numbers."""
    if np.ndim(given) == 0:
        return whole_number("evaluate_every", given, least=1, error=ConfigError)
    return tuple(whole_number("evaluate_every", each, least=1, error=ConfigError) for each in given)


def points_before(every: Every | None, end: int) -> Sequence[int]:
    """In order; the end itself is none of them."""
    if every is None:
        return ()
    return range(every, end, every) if isinstance(every, int) else sorted({point for point in every if point < end})
