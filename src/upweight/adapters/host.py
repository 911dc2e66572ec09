"""The library an adapter is for: is it there, in a version that fits, with what the adapter needs of it?"""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from upweight.base.errors import AdapterError, MissingExtraError, UpweightWarning


@contextmanager
def imports_from(package: str, *, extra: str, oldest: str, below: str) -> Iterator[None]:
    """Around an adapter's imports from its library, which is tested in versions from ``oldest`` on and ``below`` the other.

    A library that is missing or too old, or that fails to import, is refused with the line that installs the right one. A newer
    one may well do: a warning says what was tested.
    """
    try:
        found = version(package)
    except PackageNotFoundError:
        raise MissingExtraError(f"the {package} adapter", package, extra) from None
    tested = f'"{package}>={oldest},<{below}"'
    if _numbers(found) < _numbers(oldest):
        raise AdapterError(
            f"the {package} adapter expects {package} {oldest} or newer, found {found}: run  pip install {tested}"
        )
    if _numbers(found) >= _numbers(below):
        warnings.warn(
            f"the {package} adapter is tested with {package} from {oldest} to below {below}, found {found}; if something does "
            f"not work, run  pip install {tested}",
            UpweightWarning,
            stacklevel=3,
        )
    try:
        yield
    except ImportError as error:
        raise AdapterError(
            f"the {package} adapter cannot import what it needs from {package} {found}, which is installed ({error}): "
            f"run  pip install {tested}"
        ) from error


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: "2.13.0+cpu" is (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
