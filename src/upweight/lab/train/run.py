"""What to train: a run is one agent."""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import whole_number, yes_or_no
from upweight.base.errors import ConfigError, WeightingError
from upweight.data.action_codes import codes_note
from upweight.data.dataset import Dataset
from upweight.data.success import NO_REWARDS
from upweight.data.validate import as_episode_index
from upweight.lab.train.algorithm import Algorithm, algorithms, find_algorithm
from upweight.lab.train.config import Config, paper_temperature
from upweight.weightings.boltzmann import SHARPNESS
from upweight.weightings.registry import find_weighting, make_weighting
from upweight.weightings.weighting import Weighting

AUTO = "auto"  # as a weighting: what is suggested for the algorithm, once the data are known
Function = Callable[[Dataset], ArrayLike]  # of the user's own, to episode weights


def algorithm_config(name: str, *, preset: str = "paper", **changes: Any) -> Config:
    """Settings of an algorithm: a preset ("paper", for some "official") with some of them changed.

    Examples:
        >>> uw.algorithm_config("iql", preset="official", expectile=0.9).expectile
        0.9
    """
    return find_algorithm(name).config.preset(preset, **changes)


def named_weighting(name: str, algorithm: str, **settings: Any) -> Weighting:
    """The weighting that a name means beside an algorithm: "rw" and "aw" alone have the paper's temperature for it."""
    if find_weighting(name).name in {"rw", "aw"} and not settings.keys() & set(SHARPNESS):
        settings = {**settings, "temperature": paper_temperature(find_algorithm(algorithm).name)}
    return make_weighting(name, **settings)


@dataclass(frozen=True, eq=False)
class Run:
    """One agent: what it learns with, what it learns from, and its seed.

    ``algorithm``: a name ("bc", "td3_bc", "iql", "cql", "discrete_...") for the paper's settings, or a config.
    ``weighting``: a weighting, its name ("rw" and "aw" at the paper's temperature for the algorithm), an array [N], or a function
    of the dataset that gives one: a training puts the array in its place. "auto" is what :func:`upweight.suggest` says for the
    algorithm and the run's episodes, the actor's weighting included; results and records tell what that was.
    ``episodes`` restricts the agent to part of the dataset, possibly with repetitions; weights and normalisers then come from
    that part alone. ``actor_weighting`` lets the actor draw its own batches, while critics (and IQL's V) use ``weighting``.
    ``reweight=True`` draws uniformly and multiplies losses by :math:`M w_{i,t}` instead; copies of an episode have the mean of
    theirs.

    Examples:
        >>> runs = [uw.Run("td3_bc", weighting, seed) for weighting in ("uniform", "rw") for seed in range(5)]
        >>> runs[-1].weighting, runs[-1].seed
        (ReturnWeighting(temperature=0.1), 4)
    """

    algorithm: str | Config = "bc"
    weighting: Weighting | Function | ArrayLike | str = "uniform"
    seed: int = 0
    episodes: ArrayLike | None = None
    actor_weighting: Weighting | Function | ArrayLike | str | None = None
    reweight: bool = False

    def __post_init__(self) -> None:
        seed = whole_number("seed", self.seed, least=0, most=2**32 - 1, error=ConfigError)
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "reweight", yes_or_no("reweight", self.reweight, error=ConfigError))
        if self.reweight and self.actor_weighting is not None:
            raise ConfigError(
                "reweight and actor_weighting cannot be combined: reweighted losses share one uniform batch"
            )
        object.__setattr__(self, "algorithm", self.config)  # resolved once, so that a wrong name fails here
        if self.actor_weighting is not None and not (self.method.has_actor and self.method.has_critic):
            lacks = "critic, its actor learns alone" if self.method.has_actor else "actor, its critics are the policy"
            raise ConfigError(f"actor_weighting: {self.method.name} has no {lacks}; give it a weighting only")
        if isinstance(self.weighting, str) and self.weighting.lower() == AUTO:
            object.__setattr__(self, "weighting", AUTO)
            if self.reweight or self.actor_weighting is not None:
                what = "reweight" if self.reweight else "actor_weighting"
                raise ConfigError(
                    f"weighting: 'auto' also says by what the actor draws; leave {what} out, or name a weighting"
                )
        for field in ("weighting", "actor_weighting"):
            if isinstance(value := getattr(self, field), str) and value != AUTO:
                object.__setattr__(self, field, named_weighting(value, self.method.name))

    @property
    def wants_advice(self) -> bool:
        """Whether the data are to say what it draws by; every other name became a weighting."""
        return isinstance(self.weighting, str)

    @property
    def config(self) -> Config:
        return algorithm_config(self.algorithm) if isinstance(self.algorithm, str) else self.algorithm

    @property
    def method(self) -> Algorithm:
        """The algorithm that the config belongs to."""
        for algorithm in algorithms().values():
            if type(self.config) is algorithm.config:
                return algorithm
        raise ConfigError(f"no algorithm has settings of type {type(self.config).__name__}")

    def index(self, dataset: Dataset) -> NDArray[np.int64] | None:
        """[n] its episodes in the dataset; None: all."""
        if self.episodes is None:
            return None
        return as_episode_index(self.episodes, num_episodes=dataset.num_episodes, source=dataset.source)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able description; arrays are summarised, not spelled out."""
        return {
            "algorithm": self.method.name,
            "config": self.config.to_dict(),
            "weighting": _describe(self.weighting),
            "actor_weighting": None if self.actor_weighting is None else _describe(self.actor_weighting),
            "seed": self.seed,
            "episodes": None if self.episodes is None else summary(_as_index(self.episodes)),
            "reweight": self.reweight,
        }


def without_episodes(run: Run, held: NDArray[np.int64], dataset: Dataset) -> Run:
    """The run on those of its episodes that are not held out, with their part of weights that were given."""
    own = np.arange(dataset.num_episodes) if (index := run.index(dataset)) is None else index
    stays = ~np.isin(own, held)
    if not stays.any():
        raise ConfigError(
            f"{dataset.source}: holdout: all {len(own)} episodes of a run are held out; hold out others, or fewer"
        )

    def kept(weighting: Any) -> Any:
        is_given = weighting is not None and not isinstance(weighting, Weighting)
        return np.asarray(weighting)[stays] if is_given and np.shape(weighting) == own.shape else weighting

    weightings = {"weighting": kept(run.weighting), "actor_weighting": kept(run.actor_weighting)}
    return replace(run, episodes=own[stays], **weightings)


def program_key(run: Run) -> tuple[Any, ...]:
    """What shapes its compiled program: runs with the same key can train in one."""
    return (run.method.name, run.config.compile_key(), run.actor_weighting is not None, run.reweight)


def _describe(weighting: Any) -> dict[str, Any]:
    """Name and settings; of what cannot be written (a function of the user's own), where it was defined."""
    if isinstance(weighting, str):
        return {"name": AUTO}
    if callable(weighting) and not isinstance(weighting, Weighting):
        return {"name": "given", "function": _plain(weighting)}
    if not isinstance(weighting, Weighting):
        return {"name": "given", **summary(np.asarray(weighting, np.float64))}
    if says_all(weighting):
        return weighting.to_dict()
    settings = {each.name: value for each in fields(weighting) if (value := getattr(weighting, each.name)) is not None}
    return {"name": weighting.name, **{name: _plain(value) for name, value in settings.items()}}


def weighting_key(weighting: Any) -> Hashable:
    """The same for weightings that are."""
    if not callable(weighting):
        array = np.asarray(weighting)
        return array.dtype.str, array.shape, array.tobytes()
    try:
        hash(weighting)
    except TypeError:  # it has an array, say
        return id(weighting)
    return weighting


def says_all(weighting: Any) -> bool:
    """Whether what is written of a weighting determines it."""
    try:
        json.dumps(weighting.to_dict() if isinstance(weighting, Weighting) else None)
    except (WeightingError, TypeError):
        return False
    return True


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray):
        return summary(value)
    kind = value if hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _as_index(episodes: ArrayLike) -> NDArray[np.int64]:
    """A mask [N] as the indices of its episodes, so that the same episodes have one summary."""
    array = np.asarray(episodes)
    return np.flatnonzero(array) if array.dtype == bool else array.astype(np.int64)


def summary(array: NDArray[Any]) -> dict[str, Any]:
    """An array that is too long to be written. Callers choose its dtype: the hash is of the bytes alone."""
    return {"count": array.size, "hash": hashlib.sha256(array.tobytes()).hexdigest()[:16]}


def check_runs(dataset: Dataset, runs: Iterable[Run]) -> list[Run]:
    """The runs as a list; what cannot work is refused before anything is compiled."""
    listed = list(runs) if isinstance(runs, Iterable) else None
    if listed is None or not all(isinstance(run, Run) for run in listed):
        raise ConfigError(f"runs: expected a list of uw.Run(algorithm, weighting, seed), found {runs!r}")
    if not listed:
        raise ConfigError("expected at least one run, found none")
    for number, run in enumerate(listed):
        method = run.method
        if method.discrete != dataset.discrete_actions:
            have, need = ("discrete", "continuous") if dataset.discrete_actions else ("continuous", "discrete")
            twin = method.name.removeprefix("discrete_") if method.discrete else f"discrete_{method.name}"
            hint = f"; use {twin!r}" if twin in algorithms() else ""
            if method.discrete and (note := codes_note(dataset)) is not None:
                hint = f". {note}"
            raise ConfigError(
                f"run {number}: {method.name} needs {need} actions, but {dataset.source} has {have} ones{hint}"
            )
        if len(dataset.observation_shape) > 1:
            raise ConfigError(
                f"run {number}: expected vector observations, found shape {dataset.observation_shape}; "
                "encode images first (the engine has no convolutions)"
            )
        draws_by_return = run.wants_advice or any(
            isinstance(weighting, Weighting) and weighting.uses_returns
            for weighting in (run.weighting, run.actor_weighting)
        )
        if (method.uses_rewards or draws_by_return) and not dataset.has_rewards:
            what = f"{method.name} learns from" if method.uses_rewards else "its weighting follows"
            raise ConfigError(f"run {number}: {what} rewards, but {dataset.source}: {NO_REWARDS}")
    return listed
