"""Packages that come with an extra."""

import importlib
from typing import Any

from upweight.base.errors import MissingExtraError


def require(package: str, *, extra: str, purpose: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingExtraError(purpose, package.split(".")[0], extra) from None
