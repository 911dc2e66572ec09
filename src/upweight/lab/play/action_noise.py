"""An environment that sometimes does something else. Imports Gymnasium, so it is only loaded with an environment."""

from typing import Any

import gymnasium
import numpy as np

from upweight.lab.play.environments import random_action

_STREAM = 0x6E6F6973  # keeps the noise apart from everything else that is seeded with the same number


class RandomActions(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):  # type: ignore[misc]
    """With ``probability``, plays a uniformly random action instead of the given one.

    The noise has a stream of its own: it is reproducible from ``reset(seed=...)``, and the environment inside starts and
    behaves as it would with that seed without noise.
    """

    def __init__(self, env: Any, probability: float) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, probability=probability)
        super().__init__(env)
        self._probability = probability
        self._noise = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self._noise = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        if self._noise.random() < self._probability:
            action = random_action(self.action_space, self._noise)
        return super().step(action)
