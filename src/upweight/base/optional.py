"""Packages that come with an extra."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from upweight.base.errors import MissingExtraError


def require(package: str, *, extra: str, purpose: str) -> Any:
    """Import an optional package, or say which extra brings it."""
    try:
        return importlib.import_module(package)
    except ImportError:
        raise MissingExtraError(purpose, package.split(".")[0], extra) from None


@contextmanager
def importing(*, extra: str, purpose: str) -> Iterator[None]:
    """Around imports of modules that need what an extra brings."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        raise MissingExtraError(purpose, str(error.name), extra) from None


def installed_versions(*packages: str) -> dict[str, str | None]:
    """The version of each package; None for one that is absent."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found
