"""All that a dataset must say of itself before anybody weights it or learns from it."""

import warnings
from collections.abc import Callable

from upweight.base.errors import UpweightWarning
from upweight.data.action_codes import codes_note, unused_note
from upweight.data.action_range import narrow_note
from upweight.data.dataset import Dataset
from upweight.data.endings import cut_short_note, lost_rewards_note, time_limit_note
from upweight.data.outcomes import length_note, one_step_note, repeated_outcome_note
from upweight.data.pieces import pieces_note

Look = Callable[[Dataset], str | None]  # what to say, with what helps; None: nothing
_NARROW = "narrow actions"
LOOKS: dict[str, Look] = {
    "codes": codes_note,
    "unused actions": unused_note,
    "lost rewards": lost_rewards_note,
    "cut short": cut_short_note,
    "time limit": time_limit_note,
    "pieces": pieces_note,
    "one step": one_step_note,
    "repeated outcome": repeated_outcome_note,
    "length": length_note,
    _NARROW: narrow_note,
}


def data_notes(dataset: Dataset) -> dict[str, str]:
    """What the looks found, by topic."""
    found = {topic: look(dataset) for topic, look in LOOKS.items()}
    return {topic: note for topic, note in found.items() if note is not None}


def warn_of_data(dataset: Dataset, *, stacklevel: int) -> None:
    """All notes in one warning, before a training; which looks at the range of actions by itself, of what its runs learn from."""
    notes = data_notes(dataset)
    notes.pop(_NARROW, None)
    if notes:
        warnings.warn(f"{dataset.source}: {'. '.join(notes.values())}", UpweightWarning, stacklevel=stacklevel + 1)
