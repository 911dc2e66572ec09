"""Libraries that adapters are for: missing, too old, newer than what was tested."""

import subprocess
import sys
import textwrap
import tomllib
import warnings
from importlib.metadata import version
from pathlib import Path

import pytest

import upweight as uw
from upweight.adapters.host import imports_from

ROOT = Path(__file__).parents[2]


def test_a_version_that_was_tested_is_taken_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with imports_from("numpy", extra="torch", oldest="2.0", below="3"):
            import numpy  # noqa: F401


def test_a_missing_library() -> None:
    with (
        pytest.raises(uw.MissingExtraError, match=r'pip install "upweight\[torch\]"'),
        imports_from("nowhere", extra="torch", oldest="1", below="2"),
    ):
        pass


def test_an_old_version_is_refused_with_the_line_that_helps() -> None:
    with (
        pytest.raises(uw.AdapterError, match=r'numpy 90 or newer, found .*pip install "numpy>=90,<91"'),
        imports_from("numpy", extra="torch", oldest="90", below="91"),
    ):
        pass


def test_a_newer_version_is_tried() -> None:
    reached = False
    with (
        pytest.warns(uw.UpweightWarning, match=rf"tested with numpy from 1.0 to below 1.5, found {version('numpy')}"),
        imports_from("numpy", extra="torch", oldest="1.0", below="1.5"),
    ):
        reached = True
    assert reached


def test_what_a_version_does_not_have_is_named() -> None:
    with (
        pytest.raises(uw.AdapterError, match=r'cannot import name .infinite_array.*pip install "numpy>=1,<90"'),
        imports_from("numpy", extra="torch", oldest="1", below="90"),
    ):
        from numpy import infinite_array  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adapter", "package"),
    [("d3rlpy", "d3rlpy"), ("torchrl", "torchrl"), ("minari", "minari"), ("pytorch", "torch")],
)
def test_a_host_newer_than_tested_imports_with_one_warning(adapter: str, package: str) -> None:
    """What our own extras install is never refused: they have no upper bounds."""
    code = f"""
        import importlib.metadata as metadata, warnings
        real = metadata.version
        metadata.version = lambda name: "99.0" if name == {package!r} else real(name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import upweight.adapters.{adapter}
        print([str(w.message) for w in caught if w.category.__name__ == "UpweightWarning"])
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, timeout=120
    )
    assert f"the {package} adapter is tested with {package} from" in run.stdout
    assert run.stdout.count("adapter is tested with") == 1


def test_extras_bring_what_the_adapters_expect() -> None:
    """An adapter's oldest version is the extra's lower bound."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for adapter, extra in {
        "d3rlpy": "d3rlpy",
        "torchrl": "torchrl",
        "minari": "minari",
        "pytorch": "torch",
    }.items():
        text = (ROOT / "src" / "upweight" / "adapters" / f"{adapter}.py").read_text()
        oldest = text.split('oldest="')[1].split('"')[0]
        assert f">={oldest}" in extras[extra][0], adapter
