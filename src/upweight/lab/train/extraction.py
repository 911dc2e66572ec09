"""From a population to policies that NumPy can run."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from upweight.lab.train.algorithm import PolicyParts
from upweight.lab.train.population import Agents, Program, Progress
from upweight.lab.train.run import Run
from upweight.policies.policy import Policy


def extract_policies(
    program: Program, progress: Progress, agents: Agents, runs: Sequence[Run], about: Mapping[str, Any]
) -> list[Policy]:
    """The policy of each agent as it is now; ``about`` goes into the metadata of all."""
    states = jax.device_get(progress.states)
    found = []
    for place, run in enumerate(runs):
        state = jax.tree.map(lambda leaf, place=place: leaf[place], states)
        metadata = {"run": run.to_dict(), **about}
        found.append(_policy(program.algorithm.policy(state, program.config), agents, place, metadata))
    return found


def _policy(parts: PolicyParts, agents: Agents, place: int, metadata: Mapping[str, Any]) -> Policy:
    def single(array: Any) -> Any:
        return None if array is None else np.asarray(array, np.float32)

    def own(column: Any) -> Any:
        return None if column is None else single(column[place])

    return Policy(
        kind=parts.kind,
        layers=tuple((single(layer.weight), single(layer.bias)) for layer in parts.layers),
        observation_mean=own(agents.observation_mean),
        observation_scale=own(agents.observation_scale),
        log_std=single(parts.log_std),
        action_low=own(agents.action_low),
        action_high=own(agents.action_high),
        metadata=metadata,
    )
