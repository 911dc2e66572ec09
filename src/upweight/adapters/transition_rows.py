"""The transitions of a dataset as rows of another library, gathered when they are asked for."""

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import AdapterError
from upweight.data.dataset import Transitions
from upweight.data.given import AnyDataset, as_dataset


class TransitionRows:
    """R rows, episode after episode: all steps of a dataset but those that lead to an unknown observation."""

    def __init__(self, dataset: AnyDataset) -> None:
        self.dataset = dataset = as_dataset(dataset)
        self._ends = np.cumsum(dataset.num_transitions)  # [N] the row after each episode
        self._shifts = dataset.starts - (self._ends - dataset.num_transitions)  # [N] from a row to its step
        if len(self) == 0:
            raise AdapterError(f"{dataset.source}: expected transitions that can be learned from, found none")

    def __len__(self) -> int:
        return int(self._ends[-1])

    def gather(self, rows: NDArray[np.integer]) -> tuple[Transitions, NDArray[np.int64], NDArray[np.bool_]]:
        """Of ``rows`` [B]: the transitions, their episodes [B], and which are the last row of theirs [B]."""
        episode = np.searchsorted(self._ends, rows, side="right")
        return self.dataset.transitions(rows + self._shifts[episode]), episode, rows + 1 == self._ends[episode]
