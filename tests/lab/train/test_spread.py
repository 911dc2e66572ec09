"""Agents over several devices."""

import os
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest

from upweight.lab.train.spread import Spread

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_several_devices_train_what_one_does(tmp_path: Path) -> None:
    """In a process of its own: how many devices the host plays is settled before JAX begins."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    script, path = ROOT / "tests" / "support" / "spread_training.py", os.pathsep.join([str(ROOT / "tests"), *sys.path])
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "run")],
        env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_one_device_is_left_alone() -> None:
    agents = {"seed": jnp.arange(3)}
    spread = Spread(3)
    assert spread.put(agents) is agents and spread.take(agents) is agents and spread.share(agents) is agents
    assert spread.over(len, each=1) is len
