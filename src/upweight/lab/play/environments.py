"""The one place that builds environments, and that knows what goes into them and comes out."""

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from upweight.base.errors import RolloutError, UpweightWarning
from upweight.base.names import hint
from upweight.base.optional import require
from upweight.lab.play.mazes import COMMANDS, MAZES, maze_id

REPLACED_ACTIONS = 0.1  # probability that a stochastic environment plays a random action instead
STOCHASTIC = {
    "upweight/StochasticCartPole-v1": "CartPole-v1",
    "upweight/StochasticAcrobot-v1": "Acrobot-v1",
    "upweight/StochasticMountainCar-v0": "MountainCar-v0",
}
_MAZE_ENTRY = "upweight.lab.play.ant_maze:AntMaze"
_FORCES = "include_cfrc_ext_in_observation"
_KNOWN_WARNINGS = ("settotalmass",)  # of HalfCheetah's model file, since MuJoCo 4


class _Build(NamedTuple):
    """One way to build an environment."""

    settings: dict[str, Any]
    zeros: int  # numbers after its own observations, all of them 0


_USUAL = _Build({}, 0)
# Environments that have several kinds of observations, by how many numbers these are; the usual one is the first. Ant has 27
# without contact forces and 105 with them, as Gymnasium builds it. D4RL's ant has 111: the same 27, and 84 contact forces that
# its version of MuJoCo left at zero.
_BUILDS = {
    "Ant-v5": {27: _Build({_FORCES: False}, 0), 105: _Build({_FORCES: True}, 0), 111: _Build({_FORCES: False}, 84)}
}


def register_environments() -> None:
    """Make our environments known to ``gymnasium.make``: ``upweight/StochasticCartPole-v1``, ``upweight/AntMaze-umaze-v0`` ...

    Examples:
        >>> import gymnasium
        >>> uw.register_environments()
        >>> gymnasium.make("upweight/StochasticCartPole-v1").action_space
        Discrete(2)
    """
    gymnasium = _gymnasium()
    for env_id, original in STOCHASTIC.items():
        if env_id in gymnasium.registry:
            continue
        base = gymnasium.spec(original)
        noise = gymnasium.envs.registration.WrapperSpec(
            "RandomActions", "upweight.lab.play.action_noise:RandomActions", {"probability": REPLACED_ACTIONS}
        )
        gymnasium.register(
            env_id,
            entry_point=base.entry_point,
            reward_threshold=base.reward_threshold,
            max_episode_steps=base.max_episode_steps,
            kwargs=dict(base.kwargs),
            additional_wrappers=(noise,),
        )

    for maze, settings in MAZES.items():
        for command, ends in product((None, *COMMANDS), (True, False)):
            if (env_id := maze_id(maze, command, ends=ends)) not in gymnasium.registry:
                own = {"maze": maze, "command": command, "ends": ends}
                gymnasium.register(env_id, _MAZE_ENTRY, max_episode_steps=settings.max_steps, kwargs=own)


def make_environment(env_id: str, observation_size: int | None = None) -> Any:
    """A ``gymnasium.Env`` with its time limit, as every part of this package sees it.

    An id may be one of Gymnasium's, ``module:EnvId`` (the module registers it), or ``module:function`` (which builds it).

    ``observation_size``: how many numbers an observation must have. ``Ant-v5`` is built with 27 unless this is 105 (with contact
    forces, as Gymnasium builds it) or 111 (D4RL's files: the 27, then zeros); others have the number that they have.

    Examples:
        >>> uw.make_environment("upweight/StochasticCartPole-v1").action_space
        Discrete(2)
    """
    spec = find_spec(env_id)
    builds, gymnasium = _BUILDS.get(spec.id, {}), _gymnasium()
    build = builds.get(observation_size or next(iter(builds), 0), _USUAL)
    try:
        with _known_warnings_silenced(spec):
            environment = gymnasium.make(spec, disable_env_checker=True, **build.settings)
    except gymnasium.error.DependencyNotInstalled as error:
        if "mujoco" in str(error).lower():
            require("mujoco", extra="mujoco", purpose=f"the environment {env_id}")
        raise RolloutError(f"{env_id}: {error}") from error
    except Exception as error:
        raise RolloutError(f"{env_id}: cannot be built ({type(error).__name__}: {error})") from error
    if build.zeros:
        environment = _with_zeros(environment, build.zeros)
    shape = environment.observation_space.shape
    if observation_size is not None and shape != (observation_size,):
        close_environment(environment)
        has = " or ".join(map(str, builds)) if builds else f"shape {shape}"
        raise RolloutError(f"{env_id}: expected {observation_size} numbers in an observation, but it has {has}")
    return environment


def _with_zeros(environment: Any, count: int) -> Any:
    """The environment with so many zeros after its observations."""
    gymnasium, own, zeros = (
        _gymnasium(),
        environment.observation_space,
        np.zeros(count, environment.observation_space.dtype),
    )
    space = gymnasium.spaces.Box(np.append(own.low, zeros), np.append(own.high, zeros), dtype=own.dtype)
    return gymnasium.wrappers.TransformObservation(environment, lambda seen: np.concatenate((seen, zeros)), space)


def close_environment(environment: Any) -> None:
    """Close it; what is played does not depend on it, so an environment that fails there is only told of."""
    try:
        environment.close()
    except Exception as error:
        warnings.warn(
            f"{environment} could not be closed: {type(error).__name__}: {error}", UpweightWarning, stacklevel=2
        )


def has_time_limit(environment: Any) -> bool:
    """Whether its registration or one of its wrappers declares one; it may still end its episodes by itself."""
    return (environment.spec.max_episode_steps or 0) > 0


def find_spec(env_id: str) -> Any:
    """What is registered under an id, after the import of the module in ``module:EnvId``; or what ``module:function`` builds.

    It is a ``gymnasium.EnvSpec``.
    """
    gymnasium = _gymnasium()
    register_environments()
    try:
        return gymnasium.spec(env_id)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        module, _, name = str(env_id).partition(":")
        imported = _imported(module, env_id) if name else None
        if imported is not None and name in gymnasium.registry:
            return gymnasium.spec(name)
        if imported is not None and callable(getattr(imported, name, None)):
            return gymnasium.envs.registration.EnvSpec(env_id, entry_point=env_id)
        expected = f"expected an id such as Hopper-v5, module:EnvId, or module:function of your own ({error})"
        meant = hint(str(env_id), gymnasium.registry, most=3, otherwise=expected)
        raise RolloutError(f"unknown environment {env_id!r}; {meant}") from None


def _imported(module: str, env_id: str) -> Any:
    """The module that an id names, if there is one; its import may register environments."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        return None
    except Exception as error:  # somebody else's code
        raise RolloutError(f"{env_id}: cannot be imported ({type(error).__name__}: {error})") from error


class Spaces(NamedTuple):
    """What a policy must know of an environment."""

    observation_sizes: tuple[int, ...]  # numbers in an observation: the usual one, and others that it can be built with
    action_size: int  # numbers per action or, if discrete, actions to choose from: 0, 1, ...
    is_discrete: bool


def environment_spaces(env_id: str) -> Spaces:
    """The spaces of an environment for vectors and actions of one kind; others are refused."""
    environment = make_environment(env_id)
    observations, actions = environment.observation_space, environment.action_space
    close_environment(environment)
    if type(observations).__name__ != "Box" or len(observations.shape) != 1:
        raise RolloutError(f"{env_id}: expected vector observations, found {observations}")
    is_discrete = type(actions).__name__ == "Discrete"
    if not is_discrete and (type(actions).__name__ != "Box" or len(actions.shape) != 1):
        raise RolloutError(f"{env_id}: expected discrete actions or vectors, found {actions}")
    if is_discrete and actions.start != 0:
        raise RolloutError(
            f"{env_id}: expected actions numbered from 0, found {actions}; register it with "
            f"gymnasium.wrappers.TransformAction, which can add {actions.start}"
        )
    size = int(actions.n) if is_discrete else actions.shape[0]
    return Spaces(tuple(_BUILDS.get(find_spec(env_id).id, observations.shape)), size, is_discrete)


def num_zeros(env_id: str, observation_size: int) -> int:
    """How many zeros stand at the end of an environment's observations of this size."""
    return _BUILDS.get(find_spec(env_id).id, {}).get(observation_size, _USUAL).zeros


def random_action(space: Any, rng: np.random.Generator) -> Any:
    """An action drawn uniformly from a bounded box (an array of its shape) or a discrete space (an int)."""
    if hasattr(space, "n"):
        return int(space.start) + int(rng.integers(space.n))
    draw = rng.random(space.shape, np.float32)
    return (space.low + draw * (space.high - space.low)).astype(space.dtype)


def check_can_be_random(env_id: str, space: Any) -> None:
    """Refuse spaces without a uniform distribution."""
    kind = type(space).__name__
    if kind != "Discrete" and not (kind == "Box" and np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise RolloutError(f"{env_id}: random actions need a discrete space or a bounded box, found {space}")


def _gymnasium() -> Any:
    return require("gymnasium", extra="mujoco", purpose="playing episodes")


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
