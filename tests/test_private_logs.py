"""What docs/private_logs.md says: no connection is opened, and what ends up in the files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.datasets import cartpole_log, with_arrays

# Loaded by every Python process that is started with it on its path, workers and the guard of HDF5 files too.
NO_NETWORK = """
import os, sys

def forbid(event, arguments):
    local = event == "socket.connect" and isinstance(arguments[1], (str, bytes))  # between processes of one machine
    if event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"} and not local:
        with open(os.environ["ATTEMPTS"], "a") as file:
            file.write(f"{event} {arguments}\\n")
        raise OSError("no network here")

sys.addaudithook(forbid)
"""
COMMANDS = """
import sys
from upweight.cli.main import main

for line in sys.stdin:
    if main(line.split()) != 0:
        sys.exit(line)
"""
LINES = """
inspect secret_folder/log.hdf5 --plot plot.svg
explore secret_folder/log.hdf5 -o explore.html
weights secret_folder/log.hdf5 -o weights.npz
train secret_folder/log.hdf5 --algorithm discrete_bc --set hidden_units=[4] --set normalize_observations=true --updates 2 -o runs
evaluate runs --env CartPole-v1 --episodes 2 --workers 2
sweep study.toml -o results
report results -o report.html
"""
STUDY = """
datasets = ["secret_folder/log.hdf5"]
env = "CartPole-v1"
algorithms = [{name = "discrete_bc", hidden_units = [4]}]
weightings = ["uniform", "rw"]
seeds = [0, 1]
updates = 2
episodes = 2
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, uw.Dataset]:
    """A folder in which the commands have worked on a log, without network."""
    folder = tmp_path_factory.mktemp("private")
    (folder / "secret_folder").mkdir()
    (folder / "path").mkdir()
    (folder / "path" / "sitecustomize.py").write_text(NO_NETWORK)
    (folder / "study.toml").write_text(STUDY)
    labels = np.repeat(["secret_label", "other"], 5)
    log = with_arrays(cartpole_log(), labels=labels, metadata={"ward": "secret_metadata"})
    uw.save(log, folder / "secret_folder" / "log.hdf5")
    path = os.pathsep.join([str(folder / "path"), *filter(None, sys.path)])
    subprocess.run(
        [sys.executable, "-c", COMMANDS],
        input=LINES.strip(),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "ATTEMPTS": str(folder / "attempts")},
        text=True,
        check=True,
        capture_output=True,
    )
    return folder, log


def files_with(folder: Path, secret: str | bytes) -> set[str]:
    """Where in the folder a text or some bytes are found: names at the top of it."""
    sought = secret.encode() if isinstance(secret, str) else secret
    names = ("runs", "results", "report", "report.html", "weights.npz", "plot.svg", "explore.html")
    files = [file for name in names for file in [folder / name, *(folder / name).rglob("*")] if file.is_file()]
    assert len(files) > 20
    return {file.relative_to(folder).parts[0] for file in files if sought in file.read_bytes()}


@pytest.mark.slow
def test_no_connection_is_opened(written: tuple[Path, uw.Dataset]) -> None:
    assert not (written[0] / "attempts").exists()


@pytest.mark.slow
def test_what_is_written(written: tuple[Path, uw.Dataset]) -> None:
    folder, log = written
    assert files_with(folder, "log.hdf5") == {"runs", "results", "report", "report.html", "explore.html"}
    assert files_with(folder, "secret_folder") == {"runs", "results", "explore.html"}
    assert files_with(folder, str(folder)) == {"results"}
    assert files_with(folder, "secret_label") == {"explore.html"}
    for secret in ("secret_metadata", os.uname().nodename):
        assert files_with(folder, secret) == set(), secret
    for row in (0, 17):
        assert files_with(folder, log.observations[row].tobytes()) == set()
    assert files_with(folder, log.returns.tobytes()) == {"weights.npz"}
    (about,) = (folder / "results" / "datasets").iterdir()
    assert files_with(folder, json.loads(about.read_text())["data_sha256"]) == {"results"}
    with np.load(folder / "weights.npz") as members:
        assert set(members) == {"weights", "lengths", "returns"}
    (policy, *_) = (folder / "runs" / "policies").iterdir()
    assert uw.load_policy(policy).metadata["dataset"] == "secret_folder/log.hdf5"


def test_the_test_notices_a_connection(tmp_path: Path) -> None:
    """Its hook is at work in processes that are started, and lets nothing out."""
    (tmp_path / "sitecustomize.py").write_text(NO_NETWORK)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "ATTEMPTS": str(tmp_path / "attempts")}
    code = "import socket; socket.create_connection(('127.0.0.1', 9), timeout=1)"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=False)
    assert b"no network here" in done.stderr
    assert (tmp_path / "attempts").read_text().startswith("socket.")
