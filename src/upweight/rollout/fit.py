"""Whether a policy and an environment fit."""

from typing import Any

from upweight.base.errors import RolloutError
from upweight.policies.policy import Policy


def check_fit(policy: Policy, environment: Any, env_id: str, name: str) -> None:
    """Refuse a policy that cannot read the environment's observations or give its actions."""
    observations, actions = environment.observation_space, environment.action_space
    if type(observations).__name__ != "Box" or len(observations.shape) != 1:
        raise RolloutError(f"{env_id}: expected vector observations, found {observations}")
    if observations.shape[0] != policy.observation_size:
        raise RolloutError(
            f"{name} expects {policy.observation_size} observations, but {env_id} has {observations.shape[0]}; "
            "was it trained on another task?"
        )
    discrete = type(actions).__name__ == "Discrete"
    if not discrete and (type(actions).__name__ != "Box" or len(actions.shape) != 1):
        raise RolloutError(f"{env_id}: expected discrete actions or vectors, found {actions}")
    if discrete != policy.is_discrete:
        have, need = ("discrete", "continuous") if policy.is_discrete else ("continuous", "discrete")
        raise RolloutError(
            f"{name} gives {have} actions, but {env_id} takes {need} ones; was it trained on another task?"
        )
    outputs = policy.layers[-1][1].shape[0]
    size = outputs // 2 if policy.kind == "tanh_gaussian" else outputs
    wanted = int(actions.n) if discrete else actions.shape[0]
    if size != wanted:
        what = "to choose from" if discrete else "numbers per action"
        raise RolloutError(f"{name} has {size} {what}, but {env_id} has {wanted}; was it trained on another task?")
