"""Files are there completely or not at all, and errors name them."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from upweight.base.files import atomic_target

WITH_LITTLE_ROOM = """
    import resource, signal, sys
    from pathlib import Path
    from upweight.base.files import atomic_target
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))  # as on a full disk: no file may grow beyond
    try:
        with atomic_target(Path(sys.argv[1])) as target:
            target.write_bytes(bytes(20_000))
    except OSError as error:
        print(error.filename, error.strerror, sep="\\n")
"""


def test_no_room(tmp_path: Path) -> None:
    """In a process of its own: the limit holds for all that a process writes."""
    path = tmp_path / "results.bin"
    path.write_bytes(b"before")
    command = [sys.executable, "-c", textwrap.dedent(WITH_LITTLE_ROOM), str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == [str(path), "File too large; make room and start again: what was complete before is kept"]
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_other_errors_keep_their_own_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_target(tmp_path / "here"):
        (tmp_path / "elsewhere").read_bytes()
    assert caught.value.filename == str(tmp_path / "elsewhere")
