"""Whole updates with the kernels (written out in plain JAX) and without."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import upweight as uw
from support import kernels as written_out
from support.training import build, dataset_for
from upweight.lab.train.algorithm import algorithms
from upweight.lab.train.kernels import choice, networks as module
from upweight.lab.train.population import Program
from upweight.lab.train.schedule import Piece

pytestmark = pytest.mark.slow


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many each pass through the kernels had."""
    seen: list[int] = []

    def forward(x: Any, *arrays: Any, **options: Any) -> Any:
        seen.append(x.shape[1])
        return written_out.forward(x, *arrays, **options)

    monkeypatch.setattr(module, "forward", forward)
    for each in ("backward", "weight_gradient"):
        monkeypatch.setattr(module, each, getattr(written_out, each))
    return seen


def programs(name: str) -> tuple[Program, Program, Any, Any]:
    changes = {"action_samples": 2} if name == "cql" else {}
    config = uw.algorithm_config(name, batch_size=8, **changes)
    runs = [uw.Run(config, "rw", seed) for seed in range(2)]
    plain, agents, data = build(runs, dataset_for(name, num_episodes=5), "bfloat16")
    return plain, Program(plain.algorithm, plain.config, plain.setup.with_kernels(True)), agents, data


@pytest.mark.parametrize("name", sorted(algorithms()))
def test_all_algorithms_use_them(name: str, rows: list[int]) -> None:
    """Every network of theirs passes through the kernels, each batch in one tile."""
    _, fused, agents, data = programs(name)
    jax.make_jaxpr(lambda progress: fused.advance(progress, agents, data, Piece(0, 2)))(fused.start(agents))
    assert set(rows) == {128}


def test_a_result_says_what_computed_it(rows: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also one that is read back, and its folder."""
    monkeypatch.setattr(choice, "obstacle", lambda compute: None)
    runs, how = [uw.Run(uw.algorithm_config("bc", batch_size=8))], {"num_updates": 2, "precision": "bfloat16"}
    for kernels in ("xla", "fused", "fused"):
        folder = tmp_path / kernels
        (result,) = uw.train(
            dataset_for("bc", num_episodes=5), runs, kernels=kernels, output=folder, resume=True, **how
        )
        assert result.kernels == kernels
        assert json.loads((folder / "results.json").read_text())["runs"][0]["kernels"] == kernels
    assert rows


@pytest.mark.parametrize("name", ["iql"])
def test_losses_agree(name: str, rows: list[int]) -> None:
    """Over four updates, as roundings allow."""
    plain, fused, agents, data = programs(name)
    found = []
    for program in (plain, fused):
        progress = program.advance(program.start(agents), agents, data, Piece(0, 4))
        assert (np.asarray(progress.diverged_at) < 0).all()
        found.append(jax.device_get(progress.interval.sums))
    for metric, sums in found[0].items():
        np.testing.assert_allclose(found[1][metric], sums, rtol=0.03, atol=0.02, err_msg=metric)
