"""Discrete actions: how many there are, and logs that store them as floats.

Whole numbers in floats (0.0, 1.0, 2.0) may be codes of choices or amounts. That is the user's to say, with ``num_actions``; until
then they are amounts, and whoever may take codes for amounts says so (:func:`codes_note`).
"""

from typing import TYPE_CHECKING

import numpy as np

from upweight.base.checks import whole_number
from upweight.base.errors import DatasetError
from upweight.data.columns import Array, Column, Index

if TYPE_CHECKING:
    from upweight.data.dataset import Dataset

_LOOKED_AT = 10_000  # steps
_MOST_CODES = 50  # more different numbers than this are amounts


class CodesColumn(Column):
    """Whole numbers that another column stores as floats."""

    def __init__(self, parent: Column, source: str) -> None:
        super().__init__(parent.shape, np.dtype(np.int64))
        self._parent, self._source = parent, source
        self._comes_from(parent)

    def _read(self) -> Array:
        return self._whole(self._parent.read())

    def _read_rows(self, index: Index) -> Array:
        return self._whole(self._parent.rows(index))

    def _whole(self, values: Array) -> Array:
        odd = values[~(np.isfinite(values) & (values == np.rint(values)))]
        if odd.size:
            raise DatasetError(f"{self._source}: key 'actions': num_actions needs whole numbers, found {odd[0]}")
        return values.astype(np.int64)


def check_codes(actions: Array, num_actions: int | None, *, source: str) -> None:
    """Refuse actions beyond the last of ``num_actions`` (None: not known)."""
    if num_actions is not None and (highest := int(actions.max())) >= num_actions:
        raise DatasetError(
            f"{source}: key 'actions': expected actions below {num_actions} (num_actions), found {highest}; there are at least "
            f"{highest + 1}: --num-actions {highest + 1}, or leave it out"
        )


def as_discrete(num_actions: int | None, actions: Column, *, source: str) -> tuple[int | None, Column]:
    """How many actions there are (None: not known), and the actions as whole numbers.

    A number that cannot be is refused; whether all actions are whole numbers below it shows when they are read.
    """
    if num_actions is None:
        return None, actions
    count = whole_number(f"{source}: num_actions", num_actions, least=1, error=DatasetError)
    if actions.shape[1:] not in {(), (1,)}:
        raise DatasetError(
            f"{source}: num_actions: expected actions of one whole number per step, found {actions.dtype} of shape "
            f"{actions.shape[1:]}; leave it out for others"
        )
    return count, CodesColumn(actions, source) if actions.dtype.kind == "f" else actions


def unused_note(dataset: "Dataset") -> str | None:
    """What to say of codes with gaps, where nobody said how many there are; refuses those beyond ``num_actions``."""
    if not dataset.discrete_actions:
        return None
    seen = np.unique(dataset.columns["actions"].rows(np.arange(looked := min(dataset.num_steps, _LOOKED_AT))))
    check_codes(seen, dataset.num_actions, source=dataset.source)
    unused = np.setdiff1d(np.arange(min(int(seen[-1]), _MOST_CODES)), seen)
    if dataset.num_actions is not None or not unused.size:
        return None
    return (
        f"Actions are codes up to {seen[-1]}, and {', '.join(map(str, unused))} do not occur in the first "
        f"{looked:,} steps: policies may choose those all the same. In a table, name the column in categories (--categories) "
        "and codes are numbered without gaps; where all of them can be chosen, say how many there are, e.g. "
        f"num_actions={seen[-1] + 1} (--num-actions {seen[-1] + 1})"
    )


def codes_note(dataset: "Dataset") -> str | None:
    """What to say of actions that may be codes stored as floats, as the first steps show; None of others."""
    if dataset.discrete_actions or dataset.action_shape not in {(), (1,)}:
        return None
    actions = dataset.columns["actions"]
    values = np.unique(actions.rows(np.arange(min(dataset.num_steps, _LOOKED_AT))))
    if not 2 <= len(values) <= _MOST_CODES or values[0] < 0 or (values != np.rint(values)).any():
        return None
    shown = ", ".join(f"{value:g}" for value in values[:3]) + (", ..." if len(values) > 3 else "")
    count = int(values[-1]) + 1
    return (
        f"The actions are whole numbers stored as {actions.dtype} ({shown}), which are taken as "
        "amounts: policies are fitted by regression. If they are codes of choices, say how many there are, e.g. "
        f"num_actions={count} (--num-actions {count}), and take an algorithm for discrete actions"
    )
