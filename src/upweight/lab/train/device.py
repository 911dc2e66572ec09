"""What surrounds work on the device: its memory, types of numbers, and compiled programs that are kept."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from upweight.base.cache import cache_folder, mark_used
from upweight.base.errors import ConfigError
from upweight.lab.train.prepare import PRECISIONS

_UNKNOWN_MEMORY = 8 * 2**30  # of a computer that does not say
_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def device_memory() -> int:
    """Bytes on the device; where that is the computer itself, half of its own: data, and other programs, live there too.

    What happens to be free is no measure: it changes from moment to moment, and packing should not.
    """
    stats = jax.devices()[0].memory_stats()
    return total_memory() // 2 if device_is_host() or stats is None else int(stats["bytes_limit"])


def device_is_host() -> bool:
    """Whether the device has no memory of its own (that it tells of)."""
    return "bytes_limit" not in (jax.devices()[0].memory_stats() or {})


def total_memory() -> int:
    """Bytes of the computer, or what its control group may have of them."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has none of it
        found = _UNKNOWN_MEMORY
    for limit in _GROUP_LIMITS:
        with suppress(OSError, ValueError):  # no such group, or "max"
            found = min(found, int(Path(limit).read_text()))
    return found


@contextmanager
def number_types(precision: str) -> Iterator[None]:
    """64-bit numbers only while they are asked for."""
    if precision not in PRECISIONS:
        raise ConfigError(f"precision: expected one of {', '.join(PRECISIONS)}, found {precision!r}")
    if precision != "float64":
        yield
        return
    with jax.enable_x64(True):
        yield


@contextmanager
def compilation_cache() -> Iterator[None]:
    """Keep the programs compiled here between processes, unless the user has set up a cache of their own."""
    settings: Any = jax.config  # has no types
    if settings.jax_compilation_cache_dir is not None:
        yield
        return
    folder = cache_folder() / "xla"
    with suppress(OSError):  # a read-only home is no reason to fail
        folder.mkdir(parents=True, exist_ok=True)
        mark_used(folder)
        _keep_programs_in(str(folder))
    try:
        yield
    finally:
        _keep_programs_in(None)


def _keep_programs_in(folder: str | None) -> None:
    """JAX opens the folder at the next program; the one that is open now would stay so whatever the setting says."""
    jax.config.update("jax_compilation_cache_dir", folder)  # type: ignore[no-untyped-call]
    reset_cache()
