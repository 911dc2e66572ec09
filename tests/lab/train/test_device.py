"""Memory that packing may count on, and where compiled programs are kept."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from upweight.base.cache import cache_entries
from upweight.lab.train import device as device_module
from upweight.lab.train.device import compilation_cache, device_memory, total_memory

GIB = 2**30


def computer(monkeypatch: pytest.MonkeyPatch, *, pages: int, free: int) -> None:
    """One of that many pages of a GiB."""
    sizes = {"SC_PHYS_PAGES": pages, "SC_AVPHYS_PAGES": free, "SC_PAGE_SIZE": GIB}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(device_module, "_GROUP_LIMITS", ())


def test_packing_does_not_depend_on_what_is_free_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel keeps files in memory that it would give back."""
    assert jax.default_backend() == "cpu"
    limits = []
    for free in (1, 60):
        computer(monkeypatch, pages=64, free=free)
        limits.append(device_memory())
    assert limits == [32 * GIB, 32 * GIB]


def test_memory_of_a_control_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    computer(monkeypatch, pages=64, free=1)
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "limit").write_text(f"{2 * GIB}\n")
    for names, found in ((["max", "missing"], 64 * GIB), (["max", "limit"], 2 * GIB)):
        monkeypatch.setattr(device_module, "_GROUP_LIMITS", [str(tmp_path / name) for name in names])
        assert total_memory() == found


def test_a_system_that_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no os.sysconf, others know not all of its names."""
    computer(monkeypatch, pages=64, free=1)

    def unknown(name: str) -> Any:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    assert total_memory() == 8 * GIB
    monkeypatch.delattr(os, "sysconf")
    assert total_memory() == 8 * GIB


@pytest.fixture
def user_folder() -> Iterator[Any]:
    """A function that sets where the user keeps compiled programs, as the suite's own setting is put back at the end."""
    settings: Any = jax.config
    before = settings.jax_compilation_cache_dir

    def keep_in(folder: Path | None) -> None:
        settings.update("jax_compilation_cache_dir", None if folder is None else str(folder))
        jax_cache.reset_cache()

    yield keep_in
    keep_in(None if before is None else Path(before))


def compile_named(name: str) -> None:
    def program(x: jax.Array) -> jax.Array:
        return jnp.sin(x) + len(name)

    program.__name__ = name
    jax.jit(program)(jnp.zeros(3))


def programs_in(folder: Path) -> set[str]:
    """Which of the programs below are kept there."""
    names = {path.name for path in folder.glob("*-cache")}
    return {name for name in ("before", "ours", "after") if any(file.startswith(f"jit_{name}-") for file in names)}


def test_only_our_own_programs_go_to_our_folder(
    tmp_path: Path, user_folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the second time: what JAX remembers of its cache is forgotten on both sides."""
    user_folder(None)
    for place in ("first", "second"):
        monkeypatch.setenv("UPWEIGHT_CACHE", str(tmp_path / place))
        jax.clear_caches()  # type: ignore[no-untyped-call]
        compile_named("before")
        with compilation_cache():
            compile_named("ours")
        compile_named("after")
        assert programs_in(tmp_path / place / "xla") == {"ours"}
        assert [(entry.name, entry.size > 0) for entry in cache_entries()] == [("xla", True)]
        assert jax.config.jax_compilation_cache_dir is None  # type: ignore[attr-defined]


def test_a_cache_of_the_users_own_is_kept(tmp_path: Path, user_folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPWEIGHT_CACHE", str(tmp_path / "of_upweight"))
    user_folder(tmp_path / "of_the_user")
    jax.clear_caches()  # type: ignore[no-untyped-call]
    compile_named("before")
    with compilation_cache():
        compile_named("ours")
    compile_named("after")
    assert programs_in(tmp_path / "of_the_user") == {"before", "ours", "after"}
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "of_the_user")  # type: ignore[attr-defined]
    assert not (tmp_path / "of_upweight").exists()
