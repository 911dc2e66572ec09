"""A run of a study: everything that determines its result, and its name."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from upweight.lab.train.config import Config
from upweight.lab.train.point_list import points_before
from upweight.weightings.registry import weighting_from_dict

if TYPE_CHECKING:
    from upweight.lab.train.run import Run

ACTOR = "actor"
FORMAT_VERSION = 1  # of everything below that turns a description into numbers; a new one means new runs


@dataclass(frozen=True)
class DataSpec:
    """A dataset: a recipe by name, steps and seed, or a file by its content."""

    name: str  # of the recipe, or the file's path: where to find that content
    steps: int | None  # of the recipe
    seed: int | None  # of the recipe
    env_id: str  # where policies trained on it are evaluated
    content: str | None = None  # hash of a file's numbers
    # How to read the file so that it has this content.
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    edition: int = 1  # of the recipe: a name whose policies were replaced stands for other data
    holdout: float | None = None  # share of its episodes that is kept back from the training


@dataclass(frozen=True)
class RunSpec:
    """One agent: trained on a dataset with a weighting and a seed, then evaluated.

    ``algorithm`` and ``weighting`` are descriptions, complete with all settings, so that a changed default is another run. Where
    the actor draws by weights of its own, their description is the ``weighting``'s setting :data:`ACTOR`.
    """

    data: DataSpec
    algorithm: str
    config: Mapping[str, Any]
    weighting: Mapping[str, Any]
    seed: int
    updates: int
    precision: str
    episodes: int  # of the evaluation; they start alike for all runs of one seed
    # When it is evaluated on the way, which changes neither the training nor its result, and so not the name.
    evaluate_every: int | tuple[int, ...] | None = field(default=None, compare=False)
    auto: bool = (
        False  # whether its policy is kept at one of the points up to ``updates`` that upweight.lab.train.length names
    )

    @property
    def num_points(self) -> int:
        """How often it is evaluated before its end."""
        return len(points_before(self.evaluate_every, self.updates))

    def to_dict(self) -> dict[str, Any]:
        described = asdict(self)
        if self.evaluate_every is None:
            del described["evaluate_every"]
        if not self.auto:  # so that runs of so many updates keep the names they had
            del described["auto"]
        if not self.data.options:
            del described["data"]["options"]
        if self.data.edition == 1:  # so that runs keep the names they had before there were editions
            del described["data"]["edition"]
        if self.data.holdout is None:
            del described["data"]["holdout"]
        return {"format": FORMAT_VERSION, **described}

    @cached_property
    def run_id(self) -> str:
        """A hash of what determines the result: of a file what it holds, not where it lies or how it is read."""
        described = self.to_dict()
        described.pop("evaluate_every", None)
        described["data"].pop("options", None)
        if self.data.content is not None:
            del described["data"]["name"]
        text = json.dumps(described, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_spec_from_dict(values: Mapping[str, Any]) -> RunSpec:
    """The way back from :meth:`RunSpec.to_dict`."""
    rest = {name: value for name, value in values.items() if name not in {"format", "data"}}
    if isinstance(every := rest.get("evaluate_every"), list):
        rest["evaluate_every"] = tuple(every)
    return RunSpec(data=DataSpec(**values["data"]), **rest)


def draws_of(described: Mapping[str, Any]) -> dict[str, Any]:
    """The ``weighting`` of a run, from what :meth:`upweight.Run.to_dict` says; reweighting, which no study asks for, included."""
    actor = {} if described["actor_weighting"] is None else {ACTOR: dict(described["actor_weighting"])}
    return {**described["weighting"], **({"reweight": True} if described["reweight"] else {}), **actor}


def agent_of(run: RunSpec, episodes: NDArray[np.int64] | None = None) -> "Run":
    """The run as the engine takes it, on some episodes of its data."""
    from upweight.lab.train.run import Run  # needs JAX, which reading results does not

    own = {name: value for name, value in run.weighting.items() if name != ACTOR}
    actor = weighting_from_dict(run.weighting[ACTOR]) if ACTOR in run.weighting else None
    return Run(config_of(run), weighting_from_dict(own), run.seed, episodes=episodes, actor_weighting=actor)


def config_of(run: RunSpec) -> Config:
    """The algorithm's settings."""
    from upweight.lab.train.run import algorithm_config  # likewise

    return type(algorithm_config(run.algorithm)).from_dict(run.config)
