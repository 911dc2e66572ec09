"""The one place that builds environments."""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from upweight.base.errors import MissingExtraError, RolloutError
from upweight.base.names import hint

REPLACED_ACTIONS = 0.1  # probability that a stochastic environment plays a random action instead
STOCHASTIC = {
    "upweight/StochasticCartPole-v1": "CartPole-v1",
    "upweight/StochasticAcrobot-v1": "Acrobot-v1",
    "upweight/StochasticMountainCar-v0": "MountainCar-v0",
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "Ant-v5": {"include_cfrc_ext_in_observation": False},  # 27 numbers, as in D4RL, instead of 105
}
_KNOWN_WARNINGS = ("settotalmass",)  # of HalfCheetah's model file, since MuJoCo 4


def register_environments() -> None:
    """Make our environments known to ``gymnasium.make``: ``upweight/StochasticCartPole-v1`` and its like."""
    gymnasium = _gymnasium()
    for env_id, original in STOCHASTIC.items():
        if env_id in gymnasium.registry:
            continue
        base = gymnasium.spec(original)
        noise = gymnasium.envs.registration.WrapperSpec(
            "RandomActions", "upweight.rollout.action_noise:RandomActions", {"probability": REPLACED_ACTIONS}
        )
        gymnasium.register(
            env_id,
            entry_point=base.entry_point,
            reward_threshold=base.reward_threshold,
            max_episode_steps=base.max_episode_steps,
            kwargs=dict(base.kwargs),
            additional_wrappers=(noise,),
        )


def make_environment(env_id: str) -> Any:
    """A ``gymnasium.Env``: the environment with its time limit, as every part of this package sees it."""
    spec = find_spec(env_id)
    gymnasium = _gymnasium()
    try:
        with _known_warnings_silenced(spec):
            return gymnasium.make(spec, disable_env_checker=True, **_SETTINGS.get(spec.id, {}))
    except gymnasium.error.DependencyNotInstalled as error:
        if "mujoco" in str(error).lower():
            raise MissingExtraError(f"the environment {env_id}", "mujoco", "mujoco") from None
        raise RolloutError(f"{env_id}: {error}") from None
    except Exception as error:
        raise RolloutError(f"{env_id}: cannot be built ({type(error).__name__}: {error})") from error


def find_spec(env_id: str) -> Any:
    """What is registered under an id (a ``gymnasium.EnvSpec``)."""
    gymnasium = _gymnasium()
    register_environments()
    try:
        return gymnasium.spec(env_id)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        meant = hint(str(env_id), gymnasium.registry, most=3, otherwise=f"({error})")
        raise RolloutError(f"unknown environment {env_id!r}; {meant}") from None


def _gymnasium() -> Any:
    try:
        return importlib.import_module("gymnasium")
    except ImportError:
        raise MissingExtraError("playing episodes", "gymnasium", "mujoco") from None


@contextmanager
def _known_warnings_silenced(spec: Any) -> Iterator[None]:
    """MuJoCo prints warnings about models itself; pass on, as Python warnings, those that say something new."""
    if "mujoco" not in str(spec.entry_point):
        yield
        return
    try:
        mujoco = importlib.import_module("mujoco")
    except ImportError:
        yield  # gymnasium will say so
        return
    messages: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(messages.append)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
    for message in messages:
        if not any(known in message for known in _KNOWN_WARNINGS):
            warnings.warn(f"{spec.id}: {message}", stacklevel=4)
