"""Settings for the whole suite."""

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

folder = tempfile.mkdtemp(prefix="upweight-tests-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
os.environ["UPWEIGHT_CACHE"] = f"{folder}/cache"

# Most of what engine tests take is compiling; XLA's optimiser multiplies that, and is not what they test. What one test
# compiled, others and the processes they start take over.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ["JAX_COMPILATION_CACHE_DIR"] = f"{folder}/compiled"
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# A shell's background ignores interrupts, for children too, and some tests send one.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    """An empty store of results."""
    from upweight.lab.study.store import Store

    return Store(tmp_path / "results", create=True)


@pytest.fixture(scope="session")
def browser_path() -> str:
    """The browser that is installed."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        message = f"no browser: install one of {', '.join(BROWSERS)}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="module")
def browser(browser_path: str) -> Iterator[Any]:
    """The same, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"]) as it,
    ):
        yield it
