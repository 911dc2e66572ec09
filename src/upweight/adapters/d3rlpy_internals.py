"""d3rlpy's arithmetic that is repeated here for speed. The tests compare it with d3rlpy itself."""

import numpy as np
from numpy.typing import NDArray

from upweight.data.dataset import Dataset


def picked(dataset: Dataset, rows: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    """The arrays of a ``TransitionMiniBatch`` of ``rows`` [B]; ``BasicTransitionPicker`` would pick them one after the other.

    Bit for bit: zeros follow a terminal step.
    """

    def float32(name: str, index: NDArray[np.int64]) -> NDArray[np.float32]:
        return dataset.rows(name, index).astype(np.float32, copy=False)

    terminal = dataset.terminated[rows]  # [B]
    following = rows + ~terminal  # [B] a step that is not terminal is drawn only if its episode goes on
    next_observations = float32("observations", following)  # [B, ...]
    next_actions = float32("actions", following)  # [B, A]
    next_observations[terminal] = 0.0
    next_actions[terminal] = 0.0
    return {
        "observations": float32("observations", rows),
        "actions": float32("actions", rows),
        "rewards": float32("rewards", rows)[:, None],
        "next_observations": next_observations,
        "next_actions": next_actions,
        "terminals": terminal[:, None].astype(np.float32),
        "intervals": np.ones((len(rows), 1), np.float32),
    }
