"""Names that were mistyped: what was meant?"""

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The known names most like ``name``, the best first; capital and small letters are alike."""
    spelled = {each.lower(): each for each in known}
    return [spelled[each] for each in difflib.get_close_matches(name.lower(), spelled, n=most, cutoff=cutoff)]


def hint(name: str, known: Iterable[str], *, most: int = 1, otherwise: str | None = None) -> str:
    """For the end of a message: "did you mean 'iql'?", or, where nothing is near, all there are (or ``otherwise``)."""
    known = list(known)
    near = closest(name, known, most=most)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return otherwise if otherwise is not None else f"known: {', '.join(known)}"
