"""d3rlpy's inside: the arithmetic that is repeated here for speed, and the one private attribute that is read.

The tests compare both with d3rlpy itself. Nothing else in the adapter depends on how d3rlpy does things.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import AdapterError
from upweight.data.dataset import Dataset


class PickedColumns(NamedTuple):
    """Arrays of all M steps, from which d3rlpy's ``BasicTransitionPicker`` would take one transition after the other."""

    observations: NDArray[Any]  # [M, ...]
    actions: NDArray[Any]  # [M, A]
    rewards: NDArray[Any]  # [M, 1]
    terminal: NDArray[np.bool_]  # [M]

    @classmethod
    def of(cls, dataset: Dataset) -> "PickedColumns":
        return cls(dataset.observations, dataset.actions, dataset.rewards[:, None], dataset.terminated)

    def gather(self, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
        """The arrays of a ``TransitionMiniBatch`` of ``rows`` [B], bit for bit: zeros follow a terminal step."""
        terminal = self.terminal[rows]  # [B]
        following = rows + ~terminal  # [B] a step that is not terminal is drawn only if its episode goes on
        next_observations = _float32_rows(self.observations, following)  # [B, ...]
        next_actions = _float32_rows(self.actions, following)  # [B, A]
        next_observations[terminal] = 0.0
        next_actions[terminal] = 0.0
        return {
            "observations": _float32_rows(self.observations, rows),
            "actions": _float32_rows(self.actions, rows),
            "rewards": _float32_rows(self.rewards, rows),
            "next_observations": next_observations,
            "next_actions": next_actions,
            "terminals": terminal[:, None].astype(np.float32),
            "intervals": np.ones((len(rows), 1), np.float32),
        }


def _float32_rows(array: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    return array[rows].astype(np.float32, copy=False)


def episode_being_written(buffer: Any) -> Any:
    """The episode that a ``ReplayBuffer`` would still add to; it is listed among the others from its first transition on."""
    try:
        return buffer._writer._active_episode
    except AttributeError as error:
        raise AdapterError(
            f"expected a {type(buffer).__name__} that knows which episode it is still writing, as in d3rlpy 2.8 ({error}): "
            "pass an object with the finished ones as its `episodes`"
        ) from None
