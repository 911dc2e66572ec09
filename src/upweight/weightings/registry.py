"""Find the weightings in this folder by name."""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

import upweight.weightings as folder
from upweight.base.errors import WeightingError
from upweight.base.names import hint
from upweight.weightings.weighting import Weighting


@cache
def weighting_classes() -> dict[str, type[Weighting]]:
    """All weightings by short name ("uniform", "rw", ...)."""
    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{folder.__name__}.{module.name}")
    kinds = [kind for kind in _descendants(Weighting) if kind.__module__.startswith(f"{folder.__name__}.")]
    return {kind.name: kind for kind in sorted(kinds, key=lambda kind: kind.name)}


def _descendants(kind: type[Any]) -> list[type[Weighting]]:
    """Those with a name of their own: what weightings share has none."""
    below = [each for child in kind.__subclasses__() for each in _descendants(child)]
    return [kind, *below] if "name" in vars(kind) else below


def find_weighting(name: str) -> type[Weighting]:
    """The weighting called ``name``, in small letters or capitals, or an error that suggests the nearest."""
    classes = weighting_classes()
    plain = name.lower()
    if plain not in classes:
        raise WeightingError(f"unknown weighting {plain!r}; {hint(plain, classes)}")
    return classes[plain]


def make_weighting(name: str, **settings: Any) -> Weighting:
    """A weighting by its short name, e.g. ``make_weighting("rw", temperature=0.1)``.

    Examples:
        >>> uw.make_weighting("rw", temperature=0.2)
        ReturnWeighting(temperature=0.2)
    """
    kind = find_weighting(name)
    known = [field.name for field in fields(kind)]
    unknown = set(settings) - set(known)
    if unknown:
        raise WeightingError(
            f"weighting {kind.name!r} has no setting {sorted(unknown)[0]!r}; it has {', '.join(known) or 'none'}"
        )
    return kind(**settings)


def weighting_from_dict(description: Mapping[str, Any]) -> Weighting:
    """The weighting that :meth:`Weighting.to_dict` described.

    Examples:
        >>> uw.weighting_from_dict({"name": "top", "fraction": 0.5})
        TopFraction(fraction=0.5)
    """
    settings = dict(description)
    return make_weighting(settings.pop("name"), **settings)
