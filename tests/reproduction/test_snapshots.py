"""From snapshots to candidates to a ladder."""

import json
from pathlib import Path

import numpy as np
import pytest

from reproduction.policies.snapshots import choose_candidates, export_candidates, read_candidates, read_progress
from upweight.base.errors import DatasetError
from upweight.policies.safetensors_file import write_safetensors


@pytest.fixture
def training(tmp_path: Path) -> Path:
    """Two agents of hopper and one of ant, five snapshots, padded to ant's sizes (27 and 8)."""
    (tmp_path / "plan.json").write_text(json.dumps({"tasks": ["hopper", "ant"], "seeds": 2, "seed": 5}))
    means = [[None, None, 1.0, 1.0], [10, 0, 1, 1], [10, 5, 2, 1], [30, 8, 3, 1], [40, 9, 2, 1]]
    (tmp_path / "snapshots").mkdir()
    with (tmp_path / "progress.jsonl").open("w") as file:
        for number, row in enumerate(means):
            file.write(json.dumps({"steps": 100 * number, "mean_returns": row}) + "\n")
            rng = np.random.default_rng(number)
            shapes = {"layer0.weight": (27, 4), "layer0.bias": (4,), "layer1.weight": (4, 16), "layer1.bias": (16,)}
            arrays = {name: rng.normal(size=(4, *shape)).astype(np.float16) for name, shape in shapes.items()}
            write_safetensors(tmp_path / "snapshots" / f"{100 * number:09d}.safetensors", arrays, {})
    return tmp_path


def test_means_that_stand_still_become_a_line(training: Path) -> None:
    agents, steps, means = read_progress(training)
    assert agents == [("hopper", 5), ("hopper", 6), ("ant", 5), ("ant", 6)]
    assert steps.tolist() == [0, 100, 200, 300, 400]
    np.testing.assert_array_equal(means[:, 0], [np.nan, 10, 20, 30, 40])  # 10 at 100 and 200 is really a rise
    np.testing.assert_array_equal(means[:, 2], [1, 1.5, 2, 3, 2])


def test_candidates_are_spread_over_the_returns_of_the_best_agent(training: Path) -> None:
    chosen = choose_candidates(training, "hopper", levels=4, best=1)
    assert [(c.steps, c.seed, c.mean_return) for c in chosen] == [
        (100, 5, 10),
        (200, 5, 20),
        (300, 5, 30),
        (400, 5, 40),
    ]
    best = choose_candidates(training, "ant", levels=2, best=2)
    assert [(c.steps, c.seed) for c in best] == [(0, 5), (200, 5), (300, 5)]
    with pytest.raises(DatasetError, match="no snapshots of 'walker2d'; trained: ant, hopper"):
        choose_candidates(training, "walker2d", levels=2, best=1)


def test_candidates_lose_their_padding(training: Path, tmp_path: Path) -> None:
    task, candidates, policies = read_candidates(export_candidates(training, "hopper", tmp_path / "out"))
    assert task == "hopper" and len(candidates) == len(policies) == len({(c.steps, c.seed) for c in candidates}) > 3
    from upweight.policies.safetensors_file import read_safetensors

    arrays, _ = read_safetensors(training / "snapshots" / f"{candidates[0].steps:09d}.safetensors")
    policy = policies[0]
    own = candidates[0].agent
    np.testing.assert_array_equal(policy.layers[0][0], arrays["layer0.weight"][own, :11].astype(np.float32))
    np.testing.assert_array_equal(
        policy.layers[1][1], arrays["layer1.bias"][own, [0, 1, 2, 8, 9, 10]].astype(np.float32)
    )
    assert policy.act(np.zeros((5, 11))).shape == (5, 3)
    assert policy.metadata["env_id"] == "Hopper-v5"
