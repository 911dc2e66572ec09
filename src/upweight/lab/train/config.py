"""Settings of an algorithm: frozen, checked, JSON-able.

A field made with :func:`traced` is a number the compiled program takes as data: agents that differ only in such fields, in
their seed or in their weighting train together, and a new value never recompiles. All other fields shape the program.
"""

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, Self

from upweight.base.checks import finite_number, whole_number, yes_or_no
from upweight.base.errors import ConfigError
from upweight.base.names import hint

SCHEMES = ("torch", "orthogonal", "lecun")  # how weights begin: see upweight.lab.train.nn.init_mlp


def paper_temperature(algorithm: str) -> float:
    """For RW and AW: the paper's 0.2 for CQL, 0.1 for IQL and TD3+BC, and 0.1 where it states none (BC)."""
    return 0.2 if algorithm in {"cql", "discrete_cql"} else 0.1


def traced(default: float, *, low: float = 0.0, high: float = math.inf) -> Any:
    """A number that is data to the compiled program, within [low, high]."""
    return field(default=default, metadata={"traced": True, "low": low, "high": high})


def added(default: float) -> Any:
    """A number that once was no setting: descriptions leave out its default, so that runs keep their names."""
    return field(default=default, metadata={"added": True})


@dataclass(frozen=True)
class Config:
    """What all algorithms have in common."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {"paper": {}}

    batch_size: int = 256
    hidden_units: tuple[int, ...] = (256, 256)
    initialization: str = "torch"  # or another of SCHEMES
    normalize_observations: bool = False  # by the agent's own dataset, unweighted
    scale_rewards_by_return: bool = False  # r * 1000 / (max G - min G), by the agent's own dataset
    reward_shift: float = added(0.0)  # what is added to rewards after that; weights come from the raw ones

    def __post_init__(self) -> None:
        if not isinstance(self.hidden_units, tuple | list) or not self.hidden_units:
            raise ConfigError(
                f"hidden_units: expected a list of widths, such as [256, 256], found {self.hidden_units!r}"
            )
        widths = (whole_number("hidden_units", width, least=1, error=ConfigError) for width in self.hidden_units)
        object.__setattr__(self, "hidden_units", tuple(widths))
        for entry in fields(self):
            object.__setattr__(self, entry.name, _checked(entry, getattr(self, entry.name)))
        if self.initialization not in SCHEMES:
            raise ConfigError(f"initialization: expected one of {', '.join(SCHEMES)}, found {self.initialization!r}")

    @classmethod
    def preset(cls, name: str = "paper", **changes: Any) -> Self:
        """Settings of a preset with some of them changed."""
        if name not in cls.presets:
            raise ConfigError(f"unknown preset {name!r}; {cls.__name__} has {', '.join(cls.presets)}")
        known = [entry.name for entry in fields(cls)]
        for key in changes:
            if key not in known:
                raise ConfigError(f"{cls.__name__} has no setting {key!r}; {hint(key, known)}")
        return cls(**{**cls.presets[name], **changes})

    @classmethod
    def traced_names(cls) -> list[str]:
        return [entry.name for entry in fields(cls) if entry.metadata.get("traced")]

    def traced_values(self, num_updates: int) -> dict[str, float]:
        """What is data to the compiled program, in a run of ``num_updates``."""
        return {name: float(getattr(self, name)) for name in self.traced_names()}

    def compile_key(self) -> tuple[Any, ...]:
        """What shapes the compiled program."""
        data = set(self.traced_names())
        return tuple((entry.name, getattr(self, entry.name)) for entry in fields(self) if entry.name not in data)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; :meth:`from_dict` is the way back."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for entry in fields(self):
            if entry.metadata.get("added") and values[entry.name] == entry.default:
                del values[entry.name]
        return {**values, "hidden_units": list(self.hidden_units)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls.preset(next(iter(cls.presets)), **values)


def _checked(entry: Field[Any], value: Any) -> Any:
    """The value of a setting, if it has the field's type and is within the field's range."""
    if entry.type is bool:
        return yes_or_no(entry.name, value, error=ConfigError)
    if entry.type is int:
        return whole_number(entry.name, value, least=entry.metadata.get("low", 1), error=ConfigError)
    if entry.type is float:
        low, high = entry.metadata.get("low", -math.inf), entry.metadata.get("high", math.inf)
        return finite_number(entry.name, value, least=low, most=high, error=ConfigError)
    return value
