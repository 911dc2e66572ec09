"""Packages that may be absent."""

import pytest

from upweight.base.errors import MissingExtraError
from upweight.base.optional import importing, installed_versions, require


def test_a_package_that_is_absent_has_no_version() -> None:
    found = installed_versions("numpy", "no-such-package")
    assert list(found) == ["numpy", "no-such-package"]
    assert found["numpy"] and found["no-such-package"] is None


def test_the_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"a test needs .*'no_such_package'.*upweight\[all\]"):
        require("no_such_package.part", extra="all", purpose="a test")


def test_imports_that_need_an_extra() -> None:
    with importing(extra="train", purpose="training"):
        import json  # noqa: F401
    with (
        pytest.raises(MissingExtraError, match=r"training needs the package 'nowhere'.*upweight\[train\]"),
        importing(extra="train", purpose="training"),
    ):
        import nowhere.at_all  # type: ignore[import-not-found]  # noqa: F401
    with (
        pytest.raises(MissingExtraError, match="reading needs the package 'h5py'"),
        importing(extra="train", purpose="training"),
    ):
        raise MissingExtraError("reading", "h5py", "hdf5")  # says more than we could
