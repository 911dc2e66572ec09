"""Files on which libhdf5 or Arrow crashes, hangs or fills the memory become one DatasetError."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset
from support.files import save_quietly, write_minari_arrow
from upweight.cli.main import main
from upweight.io import guard
from upweight.io.registry import formats

# Where the bytes are, in an attribute of one string: its name [16], type [16], shape [16], value (length [4], place of the
# heap [8], index [4]); then the heap's header [16] and, for the string and for the free space, a header [16] and the bytes.
TYPE, VALUE, HEAP = 16, 48, 64


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A file in D4RL's layout, still whole."""
    path = tmp_path / "damaged.hdf5"
    uw.save(random_dataset(num_episodes=3), path)
    return path


def overwrite(path: Path, place: int, new: bytes) -> None:
    """Change bytes that lie ``place`` after the beginning of the name of the attribute ``metadata``."""
    data = bytearray(path.read_bytes())
    here = data.index(b"metadata\0") + place
    assert data.count(b"metadata\0") == 1
    data[here : here + len(new)] = new
    path.write_bytes(data)


def test_a_crash_of_libhdf5(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overwrite(damaged, TYPE + 1, b"\x53")  # a kind of string that does not exist
    with pytest.raises(uw.DatasetError, match=r"damaged\.hdf5: .*(reads it crashes \(exit code -|cannot read)"):
        uw.load(damaged, guard=True)
    assert main(["inspect", str(damaged)]) == 2
    error = capsys.readouterr().err
    assert "damaged.hdf5" in error
    assert error.count("\n") == 1


def test_a_loop_without_end_in_libhdf5(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SILENCE_SECONDS", 1.0)
    overwrite(damaged, HEAP + 16 + 16, bytes(256))  # free space of no size: libhdf5 never gets past it
    with pytest.raises(uw.DatasetError, match=r"damaged\.hdf5: .*(no progress for 1 s\); it is damaged|cannot read)"):
        uw.load(damaged, guard=True)


def test_a_damaged_length_does_not_fill_the_memory(damaged: Path) -> None:
    overwrite(damaged, VALUE, (0xFD000000).to_bytes(4, "little"))
    code = (
        "import resource, sys, upweight as uw\n"
        "try: uw.load(sys.argv[1], guard=True)\n"
        "except uw.DatasetError as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"  # of the look, which is its only child
    )
    found = subprocess.run([sys.executable, "-c", code, damaged], capture_output=True, text=True, check=True)
    error, kib = found.stdout.splitlines()
    assert "damaged.hdf5" in error and int(kib) < 3 << 20


def test_a_crash_of_arrow(tmp_path: Path) -> None:
    path = write_minari_arrow(tmp_path)
    assert uw.load(tmp_path, guard=True).num_steps == 2
    data = bytearray(path.read_bytes())
    data[data.rindex(b"\x01\x06\x10\0\0\0") + 1] = 14  # flags that claim to be a union of types
    path.write_bytes(data)
    with pytest.raises(uw.DatasetError, match=r"the library that reads it crashes \(exit code -|cannot read"):
        uw.load(tmp_path, guard=True)


@pytest.mark.parametrize("name", list(formats()))
def test_whole_files_pass(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save_quietly(random_dataset(num_episodes=3), tmp_path / "data-v0", name)
    assert_same(uw.load(tmp_path / "data-v0", guard=True), uw.load(tmp_path / "data-v0"))
    if name == "minari":
        monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
        assert uw.load("minari:data-v0", guard=True).num_episodes == 3


def test_a_refusal_is_the_same_with_the_guard(tmp_path: Path) -> None:
    path = tmp_path / "größe.hdf5"
    uw.save(random_dataset(), path)
    for options in ({"colour": "red"}, {"format": "d3rlpy"}):
        with pytest.raises(uw.DatasetError) as plain:
            uw.load(path, **options)
        with pytest.raises(uw.DatasetError) as guarded:
            uw.load(path, guard=True, **options)
        assert str(guarded.value) == str(plain.value)


def test_progress_puts_the_alarm_off(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    set_at: list[float] = []

    def dump_traceback_later(seconds: float, **_: Any) -> None:
        set_at.append(clock[0] + seconds)

    monkeypatch.setattr(guard.faulthandler, "dump_traceback_later", dump_traceback_later)
    monkeypatch.setattr(guard.time, "monotonic", lambda: clock[0])
    alarm = guard._Alarm(10.0)
    for clock[0] in np.arange(0.0, 30.0, 0.25):
        alarm("reading", 0, 1, "")
        assert set_at[-1] - clock[0] > 8
    assert len(set_at) < 30
