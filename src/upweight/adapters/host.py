"""Whether the library an adapter is for is there, in a version it fits."""

import re
from importlib.metadata import PackageNotFoundError, version

from upweight.base.errors import AdapterError, MissingExtraError


def check_host(package: str, *, extra: str, oldest: str, below: str) -> None:
    """Refuse a missing library with the line that installs it, and a version outside [``oldest``, ``below``)."""
    try:
        found = version(package)
    except PackageNotFoundError:
        raise MissingExtraError(f"the {package} adapter", package, extra) from None
    if not _numbers(oldest) <= _numbers(found) < _numbers(below):
        raise AdapterError(
            f"the {package} adapter expects {package} >= {oldest} and < {below}, found {found}: "
            f'run  pip install "upweight[{extra}]"'
        )


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: "2.13.0+cpu" is (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
