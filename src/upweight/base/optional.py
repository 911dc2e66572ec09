"""Packages that come with an extra."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from upweight.base.errors import MissingExtraError


def require(package: str, *, extra: str, purpose: str) -> Any:
    """Import an optional package, or say which extra brings it, or why it fails to import."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise _explained(error, package, extra, purpose) from error


@contextmanager
def importing(*, extra: str, purpose: str) -> Iterator[None]:
    """Around imports of modules that need what an extra brings."""
    try:
        yield
    except MissingExtraError:
        raise
    except ImportError as error:
        raise _explained(error, error.name or f"upweight[{extra}]", extra, purpose) from error


def _explained(error: ImportError, module: str, extra: str, purpose: str) -> MissingExtraError:
    """A package is absent only if Python does not find the package itself: what it imports may be absent or damaged too."""
    package = module.split(".")[0]
    is_absent = isinstance(error, ModuleNotFoundError) and error.name == package
    return MissingExtraError(purpose, package, extra, None if is_absent else error)


def installed_versions(*packages: str) -> dict[str, str | None]:
    """The version of each package; None for one that is absent."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found
