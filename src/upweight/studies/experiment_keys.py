"""What may stand in an experiment file: keys, their types and their ranges."""

from typing import Any

from upweight.base.names import hint
from upweight.engine.prepare import PRECISIONS

_TYPES: dict[str, tuple[type, ...]] = {  # of what may stand in a grid, or at the top
    "datasets": (list,),
    "algorithms": (list,),
    "weightings": (list,),
    "env": (str,),
    "updates": (int,),
    "seeds": (int, list),
    "episodes": (int,),
    "precision": (str,),
    "dataset_steps": (int,),
    "dataset_seed": (int,),
}
_RANGES = {  # lowest and highest
    "updates": (1, 2**31 - 1),
    "episodes": (1, 2**31 - 1),
    "dataset_steps": (1, 2**31 - 1),
    "dataset_seed": (0, 2**32 - 1),
}
TOP_ONLY = ("name", "description", "grid", "scale")
_MOST_SEEDS = 100_000
DEFAULTS: dict[str, Any] = {
    "seeds": 1,
    "episodes": 20,
    "precision": "float32",
    "dataset_seed": 0,
    "weightings": ["uniform"],
}


def find_mistake(key: str, value: Any, *, at_the_top: bool = False) -> str | None:
    """What is wrong with a value, looked at alone."""
    if key not in _TYPES:
        if key in TOP_ONLY:
            return "belongs at the top of the file"
        known = [*(TOP_ONLY if at_the_top else ()), *_TYPES]
        return f"unknown key; {hint(key, known)}"
    if not _is_a(value, _TYPES[key]):
        return f"expected {' or '.join(kind.__name__ for kind in _TYPES[key])}, found {value!r}"
    if key in _RANGES and value < _RANGES[key][0]:
        return f"expected at least {_RANGES[key][0]}, found {value}"
    if key in _RANGES and value > _RANGES[key][1]:
        return f"expected at most {_RANGES[key][1]:,}, found {value:,}"
    if key == "precision" and value not in PRECISIONS:
        return f"expected one of {', '.join(PRECISIONS)}, found {value!r}"
    if key == "seeds":
        return _mistake_in_seeds(value)
    if value == []:
        return "expected at least one, found an empty list: no runs would be left"
    return None


def _mistake_in_seeds(seeds: Any) -> str | None:
    if isinstance(seeds, int):
        seeds = range(min(seeds, _MOST_SEEDS + 1))
    if len(seeds) > _MOST_SEEDS:
        return f"expected at most {_MOST_SEEDS:,} seeds; a list names other seeds than the first ones"
    if not seeds or any(not _is_a(seed, (int,)) or not 0 <= seed < 2**32 for seed in seeds):
        shown = seeds if isinstance(seeds, list) else len(seeds)
        return f"expected a number of seeds above 0, or a list of seeds from 0 to 2^32 - 1, found {shown!r}"
    return None


def _is_a(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
