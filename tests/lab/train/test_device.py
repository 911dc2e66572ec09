"""Memory that packing may count on."""

import os
from pathlib import Path
from typing import Any

import jax
import pytest

from upweight.lab.train import device as device_module
from upweight.lab.train.device import device_memory, total_memory

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
