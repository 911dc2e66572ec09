"""Packages that may be absent."""

from pathlib import Path

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


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages that are there and cannot be imported."""
    for name, code in {
        "lacks_another": "import no_such_package",
        "lacks_a_part": "import lacks_a_part.no_such_part",
        "lacks_a_name": "from json import no_such_name",
        "lacks_a_library": "raise ImportError('libGL.so.1: cannot open shared object file', name='lacks_a_library')",
    }.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("lacks_another", "No module named 'no_such_package'"),
        ("lacks_a_part", "No module named 'lacks_a_part.no_such_part'"),
        ("lacks_a_name", "cannot import name 'no_such_name'"),
        ("lacks_a_library", "libGL.so.1"),
    ],
)
def test_a_package_that_fails_to_import_is_not_called_absent(name: str, cause: str) -> None:
    with pytest.raises(MissingExtraError, match=f"a test needs .*{name}.*is installed .*{cause}") as found:
        require(name, extra="all", purpose="a test")
    assert isinstance(found.value.__cause__, ImportError) and "not installed" not in str(found.value)


def test_what_fails_to_import_among_several() -> None:
    with (
        pytest.raises(MissingExtraError, match="training needs .*'jax'.*is installed .*broken") as found,
        importing(extra="train", purpose="training"),
    ):
        raise ImportError("broken", name="jax.numpy")
    assert "not installed" not in str(found.value)
    with (
        pytest.raises(MissingExtraError, match="training needs .*requires jaxlib"),
        importing(extra="train", purpose="training"),
    ):
        raise ModuleNotFoundError("jax requires jaxlib")  # says no name


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
