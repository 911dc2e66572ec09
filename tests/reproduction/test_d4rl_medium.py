"""The study of Hopper's mixes with D4RL's medium policy, tiny."""

from pathlib import Path

import h5py
import numpy as np
import pytest

import upweight as uw
from reproduction.d4rl_medium import main, make_recipes
from reproduction.d4rl_policy import LAYERS, read_policy
from upweight.lab.recipes.make import make_shared_data

pytestmark = pytest.mark.slow


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A policy as D4RL stores it: weights are [outputs, inputs]."""
    rng, sizes = np.random.default_rng(0), ((11, 8), (8, 8), (8, 3), (8, 3))
    with h5py.File(tmp_path / "medium.hdf5", "w") as stored:
        for name, (inputs, outputs) in zip(LAYERS, sizes, strict=True):
            stored[f"metadata/policy/{name}/weight"] = rng.normal(size=(outputs, inputs))
            stored[f"metadata/policy/{name}/bias"] = np.zeros(outputs)
    return tmp_path / "medium.hdf5"


def test_all_mixes_are_trained_on_and_stored(file: Path, tmp_path: Path) -> None:
    given = [str(file), "-o", str(tmp_path / "store"), "--steps", "300", "--updates", "2", "--seeds", "1"]
    main([*given, "--precision", "float32", "--algorithms", "td3_bc"])
    table = uw.Store(tmp_path / "store").table()
    assert sorted(set(table["dataset"])) == [f"hopper-d4rl-medium-random-{sigma}" for sigma in (1, 10, 5, 50)]
    assert sorted(set(table["weighting"])) == ["rw", "top", "uniform"] and len(table["run_id"]) == 12
    assert set(table["status"]) == {"finished"}


def test_the_policy_of_the_file_plays(file: Path, tmp_path: Path) -> None:
    read_policy(file).save(tmp_path / "policy.safetensors")
    recipes = make_recipes(tmp_path / "policy.safetensors")
    shared = make_shared_data(recipes, steps=200, workers=1)
    half = shared.dataset.subset(shared.episodes["hopper-d4rl-medium-random-50"])
    assert half.labels is not None
    medium = half.subset(np.flatnonzero(half.labels == "medium"))
    assert 100 <= medium.num_steps < half.num_steps
