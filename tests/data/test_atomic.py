"""Files are there completely or not at all, and errors name them."""

import errno
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from upweight.data.atomic import atomic_target


@pytest.fixture
def little_room() -> Iterator[None]:
    """As on a full disk: no file may grow beyond 10 kB."""
    limit, action = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    signal.signal(signal.SIGXFSZ, action)


def test_no_room(tmp_path: Path, little_room: None) -> None:
    path = tmp_path / "results.bin"
    path.write_bytes(b"before")
    with pytest.raises(OSError, match="make room and start again") as caught, atomic_target(path) as target:
        target.write_bytes(bytes(20_000))
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == str(path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_other_errors_keep_their_own_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_target(tmp_path / "here"):
        (tmp_path / "elsewhere").read_bytes()
    assert caught.value.filename == str(tmp_path / "elsewhere")
