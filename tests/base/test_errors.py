"""Errors that a caller can tell apart; memory that there is not, on one line with what was needed and what to do."""

import errno
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset
from support.training import small_config
from upweight.base.errors import collecting_warnings, naming_memory
from upweight.cli.main import main


def test_errors_are_siblings() -> None:
    """Who catches one kind does not catch another: a missing package says nothing about the data."""
    kinds = [uw.DatasetError, uw.WeightingError, uw.ConfigError, uw.MissingExtraError, uw.RolloutError, uw.AdapterError]
    for kind in kinds:
        assert issubclass(kind, uw.UpweightError)
        assert not any(issubclass(kind, other) for other in kinds if other is not kind)
        assert issubclass(kind, ImportError if kind is uw.MissingExtraError else ValueError)
    with pytest.raises(ImportError, match=r'it needs the package .x.*pip install "upweight\[train\]"'):
        raise uw.MissingExtraError("it", "x", "train")


def test_our_warnings_are_collected_and_those_of_others_are_not() -> None:
    with pytest.warns(DeprecationWarning, match="theirs"), collecting_warnings() as found:
        warnings.warn("ours", uw.UpweightWarning, stacklevel=1)
        warnings.warn("theirs", DeprecationWarning, stacklevel=1)
    assert found == ["ours"]


def no_memory(*_: Any, **__: Any) -> Any:
    np.empty((1 << 45, 8))  # NumPy's own error, of a shape that no machine has


def load(ds: uw.Dataset, path: Path) -> object:
    return uw.load(path)


def inspect(ds: uw.Dataset, path: Path) -> object:
    return uw.inspect(ds)


def batches(ds: uw.Dataset, path: Path) -> object:
    return next(uw.batches(path, "rw", prefetch=0))


def train(ds: uw.Dataset, path: Path) -> object:
    return uw.train(ds, [uw.Run("bc")], num_updates=1)


@pytest.mark.parametrize(
    ("work", "where", "said"),
    [
        (load, "upweight.io.npz.read_member", "a.npz: reading"),
        (inspect, "upweight.inspection.report.look_at_starts", "inspecting"),
        (batches, "upweight.weightings.return_weighting.ReturnWeighting.weigh", "weighting"),
        (batches, "upweight.samplers.alias.build_alias_table", "a sampler over the episodes"),
        (train, "upweight.lab.train.train.make_data", "training"),
    ],
)
def test_what_was_needed_and_what_to_do(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[uw.Dataset, Path], object],
    where: str,
    said: str,
) -> None:
    ds = random_dataset(num_episodes=30)
    uw.save(ds, tmp_path / "a.npz")
    monkeypatch.setattr(where, no_memory)
    with pytest.raises(
        uw.DatasetError, match=rf"{said}.*: not enough memory \(Unable to allocate .*\)\. Pack the data"
    ):
        work(ds, tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("error", "is_of_memory"),
    [
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),  # a memory map
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes."), True),  # XLA
        (OSError(errno.ENOENT, "No such file"), False),
        (RuntimeError("something else"), False),
    ],
)
def test_memory_is_short_in_many_words(error: Exception, is_of_memory: bool) -> None:
    with pytest.raises(uw.DatasetError if is_of_memory else type(error)) as caught, naming_memory("work"):
        raise error
    assert str(caught.value).startswith("work: not enough memory (") == is_of_memory


_LIMITED = """
import resource, sys
import upweight as uw
import upweight.inspection.report, upweight.lab.recipes.make
grown = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) * 1024
resource.setrlimit(resource.RLIMIT_AS, (grown + (60 << 20),) * 2)
work = {
    "check": lambda path: uw.load(path).check(),
    "inspect": uw.inspect,
    "batches": lambda path: next(uw.batches(path, "rw", prefetch=0)),
}
for path in sys.argv[1:]:
    for name, call in work.items():
        try:
            call(path)
        except uw.UpweightError as error:
            print(name, error)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc and limits address space")
def test_data_that_do_not_fit_are_said_not_to(tmp_path: Path) -> None:
    """100 MB where 60 may be had; the packed data are more than may be mapped, but for their index."""
    steps = 100_000
    rng = np.random.default_rng(0)
    ds = uw.Dataset.from_arrays(
        observations=rng.standard_normal((steps, 250), np.float32),
        actions=np.zeros((steps, 1), np.float32),
        rewards=np.zeros(steps, np.float32),
        terminated=np.arange(steps) % 1000 == 999,
    )
    paths = [str(tmp_path / name) for name in ("a.npz", "a.packed")]
    for path in paths:
        uw.save(ds, path)
    done = subprocess.run([sys.executable, "-c", _LIMITED, *paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert [line.split()[0] for line in said] == ["check", "inspect", "batches", "check", "batches"]
    assert all("not enough memory" in line for line in said[:3])
    assert all("cannot be mapped" in line and "ulimit -v" in line for line in said[3:])


def test_a_column_that_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uw.save(random_dataset(), tmp_path / "a.npz")
    ds = uw.load(tmp_path / "a.npz")
    monkeypatch.setattr("upweight.io.npz_members.NpzColumn._read", no_memory)
    with pytest.raises(
        uw.DatasetError, match=r"a\.npz: observations: not enough memory \(Unable to allocate .*\)\. Pack"
    ):
        ds.transitions(np.array([0]))


def test_warnings_still_name_the_line_that_asked() -> None:
    ds = random_dataset(num_episodes=30, fragment=True)
    with pytest.warns(uw.UpweightWarning, match="incomplete") as caught:
        uw.ReturnWeighting()(ds)
    assert caught[0].filename == __file__
    with pytest.warns(uw.UpweightWarning, match="learned nothing|incomplete") as caught:
        uw.train(ds, [uw.Run(small_config("bc"), "rw")], num_updates=1)
    assert {Path(each.filename).name for each in caught} <= {Path(__file__).name, "weighting.py"}


def test_the_command_line_says_it_on_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    uw.save(random_dataset(), tmp_path / "a.npz")
    monkeypatch.setattr("upweight.cli.inspect.print_report", no_memory)
    assert main(["inspect", str(tmp_path / "a.npz")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "inspect: not enough memory (Unable to allocate 2.00 PiB" in error
