"""Readers under fire: whatever the bytes or the structure, a dataset or a clean DatasetError."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import upweight as uw
from support.datasets import random_dataset
from support.files import save_quietly
from upweight.io.registry import formats

EXAMPLES = settings(max_examples=150)


def attempt(path: Path) -> None:
    """Load and use everything; only a DatasetError (or an unusable weighting) may come out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ds = uw.load(path)
            ds.check()
            uw.inspect(ds)
            uw.EpisodeSampler(ds, uw.Uniform()).sample(np.random.default_rng(0), 8)
        except (uw.DatasetError, uw.WeightingError):
            return
    assert ds.num_steps == len(ds.observations) == len(ds.actions) == ds.lengths.sum()
    assert not ds.has_rewards or len(ds.rewards) == ds.num_steps
    assert not (ds.terminated & ds.truncated).any()


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A small valid dataset in every format."""
    folder = tmp_path_factory.mktemp("originals")
    ds = random_dataset(0, num_episodes=4, max_length=4, next_known=True, labels=True)
    for name in formats():
        save_quietly(ds, folder / name, name)
    return {name: folder / name for name in formats()}


@pytest.mark.slow
def test_mutated_bytes(tmp_path: Path) -> None:
    """In watched processes, since libraries crash and hang on some; reproduction/results/fuzz.json has greater numbers."""
    subprocess.run(
        [sys.executable, "-m", "reproduction.fuzz", "--tries", "150", "--minutes", "1"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "UPWEIGHT_RESULTS": str(tmp_path)},
        check=True,
        capture_output=True,
    )
    results = json.loads((tmp_path / "fuzz.json").read_text())["results"]
    assert {result["format"] for result in results} >= formats().keys()
    for result in results:
        assert result["accepted"] > 0, result
        assert result["refused"] > 0, result
        assert result["other_exceptions"] == result["past_guard"] == 0, result
        if result["format"] not in {
            "d4rl",
            "d3rlpy",
            "minari",
            "minari-arrow",
            "robomimic",
        }:  # there the guard meets crashes and hangs
            assert result["crashes"] == result["hangs"] == 0, result


odd_arrays = st.sampled_from(
    [
        np.zeros(0),
        np.zeros((0, 3)),
        np.zeros((14, 0)),
        np.float32(3),
        np.full(14, np.nan),
        np.full((14, 1), 1e300),
        np.full(14, -1),
        np.arange(14),
        np.zeros((14, 2, 2, 2)),
        np.array([b"a", b"bc"]),
        np.zeros(14, complex),
        np.ones(14, bool),
        np.ones((14, 1), bool),
        np.zeros(14, bool),
        np.zeros(14, np.uint64),
        np.full(14, 2**63 - 1),
        np.zeros(3),
    ]
)


def fuzz_hdf5(path: Path, key_choice: int, array: Any, action: str) -> None:
    with h5py.File(path, "a") as file:
        keys: list[str] = []
        file.visit(keys.append)
        key = keys[key_choice % len(keys)]
        attributes = dict(file[key].attrs)
        del file[key]
        if action == "replace":
            file[key] = array
        elif action == "group":
            file.create_group(key)
        if key in file and action != "group":
            file[key].attrs.update(attributes)


def fuzz_npz(path: Path, key_choice: int, array: Any, action: str) -> None:
    with np.load(path) as members:
        arrays = dict(members)
    key = sorted(arrays)[key_choice % len(arrays)]
    del arrays[key]
    if action != "remove":
        arrays[key] = array
    with path.open("wb") as file:
        np.savez(file, **arrays)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "fuzz"),
    [
        ("d4rl", fuzz_hdf5),
        ("d3rlpy", fuzz_hdf5),
        ("minari", fuzz_hdf5),
        ("robomimic", fuzz_hdf5),
        ("npz", fuzz_npz),
        ("arrays", fuzz_npz),
        ("ogbench", fuzz_npz),
    ],
)
@EXAMPLES
@given(key=st.integers(0, 1000), array=odd_arrays, action=st.sampled_from(["replace", "remove", "group"]))
def test_mutated_structures(
    originals: dict[str, Path], name: str, fuzz: Callable[..., None], key: int, array: Any, action: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data"
        if originals[name].is_dir():
            shutil.copytree(originals[name], path)
            fuzz(path / "data" / "main_data.hdf5", key, array, action)
        else:
            shutil.copy(originals[name], path)
            fuzz(path, key, array, action)
        attempt(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(-5, 5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@EXAMPLES
@given(
    columns=st.dictionaries(
        st.sampled_from(
            ["episode_index", "observation", "action", "reward", "terminated", "truncated", "next.done", "label"]
        ),
        st.lists(json_values, min_size=3, max_size=3) | st.lists(st.integers(0, 1), min_size=3, max_size=3),
        min_size=1,
    )
)
def test_any_parquet_table(columns: dict[str, list[Any]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        try:
            pq.write_table(pa.table(columns), path)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return
        attempt(path)
