"""At which updates policies are evaluated on the way: every so many, or at those of a list."""

from collections.abc import Sequence

Every = int | Sequence[int]


def points_before(every: Every | None, end: int) -> Sequence[int]:
    """In order; the end itself is none of them."""
    if every is None:
        return ()
    return range(every, end, every) if isinstance(every, int) else sorted({point for point in every if point < end})
