"""Checks of what users give. Numbers and truth values of NumPy are taken too, and come back as Python's."""

import sys
from math import inf, isinf
from numbers import Integral, Real

import numpy as np

from upweight.base.errors import UpweightError
from upweight.base.text import number


def whole_number(
    name: str, value: object, *, least: int, most: int | None = None, error: type[UpweightError] = UpweightError
) -> int:
    """``value`` as an int, if it is a whole number in this range; True and 1.0 are none."""
    found = int(value) if not isinstance(value, bool) and isinstance(value, Integral) else None
    if found is None or found < least or (most is not None and found > most):
        wanted = _range(least=least, most=inf if most is None else most)
        raise error(f"{name}: expected a whole number {wanted}, found {value!r}")
    return found


def finite_number(
    name: str,
    value: object,
    *,
    least: float = -inf,
    most: float = inf,
    above: float = -inf,
    below: float = inf,
    advice: str = "",
    error: type[UpweightError] = UpweightError,
) -> float:
    """``value`` as a float, if it is a finite number with ``least <= value <= most`` and ``above < value < below``.

    A whole number stays an int, so that it is written as it was given. ``advice`` ends the message.
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        found = int(value) if isinstance(value, Integral) else float(value)
        if least <= found <= most and above < found < below and abs(found) <= sys.float_info.max:
            return found
    wanted = _range(least=least, most=most, above=above, below=below)
    raise error(
        f"{name}: expected {f'a number {wanted}' if wanted else 'a finite number'}, found {value!r}"
        + (f"; {advice}" if advice else "")
    )


def yes_or_no(name: str, value: object, *, error: type[UpweightError] = UpweightError) -> bool:
    """``value`` as a bool; words and numbers are none."""
    if not isinstance(value, bool | np.bool_):
        raise error(f"{name}: expected True or False, found {value!r}")
    return bool(value)


def _range(*, least: float, most: float, above: float = -inf, below: float = inf) -> str:
    """In words, nothing if there are no bounds."""
    if not isinf(least) and not isinf(most):
        return f"from {number(least)} to {number(most)}"
    bounds = {"of at least": least, "above": above, "at most": most, "below": below}
    return " and ".join(f"{word} {number(bound)}" for word, bound in bounds.items() if not isinf(bound))
