"""What d3rlpy does inside and is repeated or relied on here. The tests compare it with d3rlpy itself."""

from typing import Any

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


def learns_apart(algorithm: Any) -> bool:
    """Does its policy learn in ``update_actor`` alone, which gets a batch of its own?

    Not where actor or critics are missing, and not where a behaviour model is part of the policy (BCQ, BEAR, PLAS).
    """
    config = algorithm.config
    return hasattr(config, "actor_learning_rate") and not hasattr(config, "imitator_learning_rate")


def torch_batch(algorithm: Any, batch: Any) -> Any:
    """The ``TorchMiniBatch`` that ``update`` of an algorithm makes of a ``TransitionMiniBatch``, scaled as it asks for."""
    from d3rlpy.torch_utility import TorchMiniBatch

    return TorchMiniBatch.from_batch(
        batch=batch,
        gamma=algorithm.gamma,
        compute_returns_to_go=algorithm.need_returns_to_go,
        device=algorithm.impl.device,
        observation_scaler=algorithm.observation_scaler,
        action_scaler=algorithm.action_scaler,
        reward_scaler=algorithm.reward_scaler,
    )
