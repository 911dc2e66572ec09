"""What all benchmarks share: fair timing and honest records."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).parents[1]


def interleaved(tasks: dict[str, Callable[[], object]], *, rounds: int, seconds: float = 0.02) -> dict[str, float]:
    """Median seconds per call of each task; every round runs all tasks in turn, so that load hits them alike."""
    repeats = {}
    for name, task in tasks.items():
        task()
        began = time.perf_counter()
        task()
        repeats[name] = max(1, int(seconds / max(1e-9, time.perf_counter() - began)))
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            began = time.perf_counter()
            for _ in range(repeats[name]):
                task()
            times[name].append((time.perf_counter() - began) / repeats[name])
    return {name: float(np.median(values)) for name, values in times.items()}


def results_folder() -> Path:
    """``results`` next to the program that runs; ``UPWEIGHT_RESULTS`` names another folder."""
    folder = Path(os.environ.get("UPWEIGHT_RESULTS", Path(sys.argv[0]).resolve().parent / "results"))
    folder.mkdir(exist_ok=True)
    return folder


def record(
    name: str, packages: list[str], results: list[dict[str, Any]], *, about: dict[str, Any] | None = None
) -> Path:
    """Write results with everything needed to read them later."""
    folder, program = results_folder(), Path(sys.argv[0]).resolve()
    path = folder / f"{name}.json"
    entry = {
        "command": " ".join(["python", os.path.relpath(program, _ROOT), *sys.argv[1:]]),
        "date": date.today().isoformat(),
        "commit": _commit(),
        "hardware": {"cpu": _cpu(), "cores": os.cpu_count(), "system": platform.platform(terse=True)},
        "versions": {"python": platform.python_version(), **{package: _version(package) for package in packages}},
        **(about or {}),
        "results": results,
    }
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(entry, indent=1) + "\n")
    temporary.replace(path)
    return path


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        if find_spec(package) is None:
            return "not installed"
        return f"{getattr(import_module(package), '__version__', 'unknown')}, a copy"  # in a folder of PYTHONPATH


def _commit() -> str:
    """The commit measured, marked if the sources differ from it."""
    root = Path(__file__).parents[1]

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False).stdout.strip()

    if not git("rev-parse", "--short", "HEAD"):
        return os.environ.get("UPWEIGHT_COMMIT", "unknown")
    return git("rev-parse", "--short", "HEAD") + ("+changes" if git("status", "--porcelain", "src") else "")


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()
