"""Environments that play side by side, kept for the next block."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from upweight.rollout.environments import find_spec, make_environment

_idle: dict[str, tuple[Any, list[Any]]] = {}  # what the last block left: {id: (its registration, environments)}


@contextmanager
def borrow_environments(env_id: str, count: int) -> Iterator[list[Any]]:
    """``count`` environments, taken from those of an earlier block where possible: building one takes as long as
    hundreds of steps. Every episode starts with a seeded reset, which leaves nothing of the episode before."""
    spec = find_spec(env_id)
    registered, environments = _idle.pop(env_id, (spec, []))
    if registered != spec:  # the id has a new meaning
        environments = []
    environments += [make_environment(env_id) for _ in range(count - len(environments))]
    yield environments[:count]
    _idle.clear()
    _idle[env_id] = (spec, environments)
