"""The one place outside a given folder where anything is ever written."""

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """``UPWEIGHT_CACHE``, or the platform's folder for caches."""
    if given := os.environ.get("UPWEIGHT_CACHE"):
        return Path(given)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "upweight"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "upweight"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "upweight"
