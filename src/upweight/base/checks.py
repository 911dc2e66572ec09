"""Checks of what users give."""

from numbers import Integral

from upweight.base.errors import UpweightError


def whole_number(
    name: str, value: object, *, least: int, most: int | None = None, error: type[UpweightError] = UpweightError
) -> int:
    """``value`` as an int, if it is a whole number in this range; True and 1.0 are none."""
    number = None if isinstance(value, bool) or not isinstance(value, Integral) else int(value)
    if number is None or number < least or (most is not None and number > most):
        wanted = f"of at least {least}" if most is None else f"from {least} to {most:,}"
        raise error(f"{name}: expected a whole number {wanted}, found {value!r}")
    return number
