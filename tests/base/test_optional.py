"""Packages that may be absent."""

import pytest

from upweight.base.errors import MissingExtraError
from upweight.base.optional import installed_versions, require


def test_a_package_that_is_absent_has_no_version() -> None:
    found = installed_versions("numpy", "no-such-package")
    assert list(found) == ["numpy", "no-such-package"]
    assert found["numpy"] and found["no-such-package"] is None


def test_the_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"a test needs .*'no_such_package'.*upweight\[all\]"):
        require("no_such_package.part", extra="all", purpose="a test")
