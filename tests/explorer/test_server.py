"""The server answers those who know the address, and nobody else."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from support.datasets import random_dataset
from upweight import save
from upweight.explorer.page import explore


def test_it_answers_its_own_address_only() -> None:
    ds = random_dataset()
    with explore(ds).serve() as server:
        host, port = server.server_address[:2]
        assert host == "127.0.0.1"
        token = server.address.split("/")[-2]
        assert len(token) >= 32

        def get(path: str, host: str = f"127.0.0.1:{port}") -> tuple[int, bytes]:
            connection = HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            return answer.status, answer.read()

        status, page = get(f"/{token}/")
        assert status == 200 and b"connect-src 'self'" in page
        status, curves = get(f"/{token}/episode/2")
        assert status == 200
        assert len(json.loads(curves)["rewards"]) == ds.lengths[2]
        for path in (
            "/",
            "/wrong/",
            f"/{token[:-1]}/",
            f"/{token}/episode/12",
            f"/{token}/episode/-1",
            f"/{token}/../",
        ):
            assert get(path)[0] == 404, path
        assert get(f"/{token}/", host="evil.example")[0] == 404
    assert explore(ds).serve().address != server.address


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        ("log.npz", Path.unlink, "the file is no longer there"),
        ("log.npz", lambda file: file.write_bytes(b"no zip"), "changed since it was loaded"),
        ("log.packed/observations.bin", lambda file: os.truncate(file, 8), "changed since it was loaded"),
        ("log.packed/observations.bin", lambda file: fill(file, np.nan), "expected finite numbers"),
    ],
)
def test_of_an_episode_that_cannot_be_read_it_says_why_and_goes_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, harm: Callable[[Path], object], said: str
) -> None:
    log = tmp_path / Path(name).parts[0]
    save(random_dataset(), log)
    with explore(log).serve() as server:
        harm(tmp_path / name)
        with urlopen(f"{server.address}episode/2") as answer:
            problem = json.load(answer)["problem"]
        assert said in problem and str(log) in problem and "\n" not in problem
        with urlopen(server.address) as answer:
            assert answer.status == 200
    assert capfd.readouterr().err == ""


def test_it_notices_that_the_index_of_a_packed_folder_was_cut_off(tmp_path: Path) -> None:
    """In a process of its own: who reads a map beyond the end of its file is ended by the system."""
    log = tmp_path / "log.packed"
    save(random_dataset(), log)
    ask = """
import os, sys, urllib.request
from upweight.explorer.page import explore
with explore(sys.argv[1]).serve() as server:
    for name in ("", "lengths", "terminated", "returns", "initial_observations"):
        if name:
            os.truncate(f"{sys.argv[1]}/{name}.bin", 0)
        with urllib.request.urlopen(f"{server.address}episode/2") as answer:
            print(answer.read().decode())
"""
    done = subprocess.run([sys.executable, "-c", ask, str(log)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == 5 and "rewards" in answers[0]
    assert all(".bin: changed since it was loaded" in answer for answer in answers[1:])


def fill(file: Path, value: float) -> None:
    """As a disk that fails does: in the place where the numbers are, and with no trace."""
    before = file.stat()
    with file.open("r+b") as opened:
        opened.write(np.full(before.st_size // 8, value).tobytes())
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
