"""Datasets by name: the same numbers from the same name and seed, whatever happens on the way."""

import errno
import json
import os
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from upweight.base.cache import cache_entries
from upweight.base.errors import DatasetError, MissingExtraError
from upweight.cli.main import main
from upweight.data.fingerprint import content_hash
from upweight.io.loading import is_recipe
from upweight.lab.play.block import episode_streams
from upweight.lab.play.processes import run_tasks
from upweight.lab.recipes import streams
from upweight.lab.recipes.make import make_shared_data


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPWEIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def chunk_files(cache: Path) -> list[Path]:
    return sorted((cache / "datasets").glob("*/*/[0-9]*.npz"))


def same(first: uw.Dataset, second: uw.Dataset) -> bool:
    return content_hash(first) == content_hash(second)


def test_a_mix_has_its_parts(cache: Path) -> None:
    dataset = uw.load("cartpole-expert-random-10", steps=3000)
    assert dataset.labels is not None
    steps = {label: int(dataset.lengths[dataset.labels == label].sum()) for label in ("expert", "random")}
    assert 300 <= steps["expert"] < 300 + 500 and 2700 <= steps["random"] < 2700 + 200
    assert dataset.num_actions == 2
    about = dataset.metadata
    assert about["recipe"]["command"] == "upweight make cartpole-expert-random-10 --steps 3000 --seed 0"
    assert about["env_id"] == "upweight/StochasticCartPole-v1"
    assert [part["steps"] for part in about["parts"]] == list(steps.values())
    assert set(about["versions"]) == {"upweight", "gymnasium", "mujoco", "numpy"}
    assert about["content_sha256"] == content_hash(dataset)
    assert dataset.returns[dataset.labels == "expert"].mean() > 5 * dataset.returns[dataset.labels == "random"].mean()


def test_classic_control_needs_no_mujoco(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> Distribution:
        if name == "mujoco":
            raise PackageNotFoundError(name)
        return Distribution.from_name(name)

    monkeypatch.setattr("importlib.metadata.distribution", distribution)
    dataset = uw.load("cartpole-random", steps=100)
    assert dataset.metadata["versions"]["mujoco"] is None and dataset.metadata["versions"]["numpy"] == np.__version__


def test_recorded_steps_are_those_of_the_simulator() -> None:
    """Replaying the actions of an episode in a fresh environment gives its numbers, bit for bit."""
    dataset = uw.load("hopper-random", steps=150, seed=3)
    environment = uw.make_environment("Hopper-v5")
    for episode, start in enumerate(dataset.starts[:4]):
        reset_seed, _ = episode_streams((0x64617461, 3, 0, episode))
        observation = environment.reset(seed=reset_seed)[0]
        for step in range(start, start + dataset.lengths[episode]):
            np.testing.assert_array_equal(dataset.observations[step], observation.astype(np.float32))
            observation, reward, terminated, truncated, _ = environment.step(dataset.actions[step])
            np.testing.assert_array_equal(dataset.next_observations[step], observation.astype(np.float32))
            assert dataset.rewards[step] == np.float32(reward)
            assert (dataset.terminated[step], dataset.truncated[step]) == (terminated, truncated)
        assert terminated
    actions = dataset.actions
    assert np.abs(actions).max() <= 1 and actions.min() < -0.8 and actions.max() > 0.8


def test_what_was_collected_is_listed_and_may_be_removed(cache: Path) -> None:
    before = uw.load("cartpole-expert-random-10", steps=1000)
    assert cache_entries() and {entry.kind for entry in cache_entries()} == {"episodes"}
    assert sum(entry.size for entry in cache_entries()) == sum(path.stat().st_size for path in cache.rglob("*.*"))
    for entry in cache_entries():
        os.utime(entry.folder, (0, 0))
    uw.load("cartpole-random", steps=500)
    assert sorted(entry.last_used > 0 for entry in cache_entries()) == [False, True]
    for entry in cache_entries():
        entry.remove()
    assert cache_entries() == [] and same(before, uw.load("cartpole-expert-random-10", steps=1000))


@pytest.mark.slow
def test_workers_cache_and_size_do_not_matter(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = uw.make_dataset("acrobot-medium-random-50", steps=3000, workers=1)
    files = {path: path.stat().st_mtime_ns for path in chunk_files(cache)}
    assert same(one, uw.make_dataset("acrobot-medium-random-50", steps=3000, workers=2))
    assert {path: path.stat().st_mtime_ns for path in chunk_files(cache)} == files  # from the cache
    monkeypatch.setenv("UPWEIGHT_CACHE", str(cache / "other"))
    assert same(one, uw.make_dataset("acrobot-medium-random-50", steps=3000, workers=2))
    monkeypatch.setenv("UPWEIGHT_CACHE", str(cache / "third"))
    uw.make_dataset("acrobot-medium", steps=100)  # a shorter collection is gone on with
    assert same(one, uw.make_dataset("acrobot-medium-random-50", steps=3000, workers=2))
    longer = uw.make_dataset("acrobot-random", steps=4000)
    shorter = uw.make_dataset("acrobot-random", steps=2000)
    np.testing.assert_array_equal(longer.observations[: shorter.num_steps], shorter.observations)
    assert shorter.num_steps - shorter.lengths[-1] < 2000 <= shorter.num_steps


def test_a_new_stream_begins_with_as_many_blocks_as_it_needs_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that all workers have something to do at once; how many more, the length of the episodes says then."""
    asked: list[int] = []

    def counted(function: Any, blocks: Any, **options: Any) -> Any:
        asked.append(len(found := list(blocks)))
        return run_tasks(function, found, **options)

    monkeypatch.setattr(streams, "run_tasks", counted)
    uw.make_dataset("cartpole-random", steps=20_001, workers=1)
    assert asked[0] == 5 < asked[1]  # of ten episodes, with at most 500 steps each


def test_seeds_matter_and_are_not_those_of_evaluations() -> None:
    first, second = (uw.load("cartpole-random", steps=200, seed=seed) for seed in (0, 1))
    assert not np.array_equal(first.initial_observations[:5], second.initial_observations[:5])
    starts = {tuple(row) for row in first.initial_observations[:10]}
    played = [uw.make_environment("CartPole-v1").reset(seed=episode_streams((0, k))[0])[0] for k in range(10)]
    assert not starts & {tuple(row) for row in played}


@pytest.mark.parametrize("damage", ["cut", "edit", "remove", "index", "foreign"])
def test_damage_is_noticed_and_mended(cache: Path, damage: str) -> None:
    whole = uw.load("cartpole-random", steps=2000)
    files = chunk_files(cache)
    data, index = files[-1].read_bytes(), files[-1].parent / "index.json"
    if damage == "cut":
        files[-1].write_bytes(data[: len(data) // 2])
    elif damage == "edit":
        files[-1].write_bytes(data[:-500] + bytes(100) + data[-400:])
    elif damage == "remove":
        files[-1].unlink()
    elif damage == "index":
        index.write_text(index.read_text()[:-40])
    else:
        index.write_text(json.dumps({"stream": {}, "chunks": [{"file": "../../x.npz", "blocks": "many"}]}))
    again = uw.load("cartpole-random", steps=2000)
    assert same(whole, again)
    assert files[-1].read_bytes() == data or damage in {"index", "foreign"}


def test_a_full_disk_leaves_no_half_file(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = os.replace

    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(os, "replace", full)
    assert main(["make", "cartpole-random", "--steps", "100", "-o", str(cache.parent / "out.npz")]) == 2
    assert "No space left on device" in capsys.readouterr().err
    assert not (cache.parent / "out.npz").exists()
    assert not [path for path in cache.rglob("*") if path.is_file()]
    monkeypatch.setattr(os, "replace", real)
    assert main(["make", "cartpole-random", "--steps", "100", "-o", str(cache.parent / "out.npz")]) == 0


def test_from_the_command_line(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = cache.parent / "mixed.npz"
    assert main(["make", "cartpole-expert-random-5", "--steps", "1000", "--seed", "2", "-o", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "expert" in printed and "RPSV" in printed and f"wrote {output}" in printed
    saved = uw.load(output)
    assert same(saved, uw.load("cartpole-expert-random-5", steps=1000, seed=2))
    assert saved.metadata["recipe"]["seed"] == 2
    assert main(["make", "--list"]) == 0
    listed = capsys.readouterr().out.split()
    assert [word for word in listed if not word.endswith(":")] == uw.recipe_names()
    assert listed[0] == "hopper:" and "cartpole:" in listed
    again = ["make", "cartpole-random", "--steps", "50", "-o", str(output), "--overwrite", "--json"]
    assert main(again) == 0
    assert json.loads(capsys.readouterr().out)["steps"] >= 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["make", "hopper-exprt", "-o", "x.npz"], "did you mean 'hopper-expert"),
        (["make", "cartpole-random"], "expected the name of a dataset and -o FILE"),
        (["make", "cartpole-random", "--steps", "0", "-o", "x.npz"], "steps: expected a whole number of at least 1"),
        (
            ["make", "cartpole-random", "--steps", "9", "--seed", "-1", "-o", "x.npz"],
            "seed: expected a whole number from 0",
        ),
        (["inspect", "hoper-expert"], "no dataset 'hoper-expert'; did you mean 'hopper-expert"),
    ],
)
def test_bad_input(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_names_and_files_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_recipe("hopper-expert") and is_recipe("hoper-expert") and is_recipe("halfcheetah-meduim-replay")
    assert not any(
        map(is_recipe, ["hopper-expert.hdf5", "data/hopper-expert", "minari:hopper-expert", "logs", "my-logs"])
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hopper-expert").mkdir()
    assert not is_recipe("hopper-expert")  # what is there comes first
    with pytest.raises(DatasetError, match="steps, seed and workers only"):
        uw.load("hopper-random", horizon=10)
    with pytest.raises(DatasetError, match="are for datasets made by name"):
        uw.load("logs.npz", steps=10)


def test_a_missing_simulator_gives_the_line_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtraError, match=r'pip install "upweight\[mujoco\]"'):
        uw.load("hopper-random", steps=10)


@pytest.mark.slow
def test_a_killed_collection_goes_on(cache: Path) -> None:
    """Kill -9 after the first chunks; the rest is collected, and nothing differs from an undisturbed collection."""
    code = """
import upweight.lab.recipes.streams as streams
from upweight import load
streams._STEPS_PER_CHUNK = 500
load("cartpole-random", steps=10_000_000)
"""
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        while len(chunk_files(cache)) < 3:
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    kept = len(chunk_files(cache))
    broken = uw.load("cartpole-random", steps=5000)
    assert kept >= 3
    for file in chunk_files(cache):
        file.unlink()
    assert same(broken, uw.load("cartpole-random", steps=5000))


def test_every_dataset_is_a_part_of_what_they_share() -> None:
    names = ["cartpole-expert-random-5", "cartpole-expert-random-50", "cartpole-random", "cartpole-medium-random-10"]
    shared = make_shared_data(names, steps=2000, seed=1)
    apart = [uw.load(name, steps=2000, seed=1) for name in names]
    for name, dataset in zip(names, apart, strict=True):
        part = shared.dataset.subset(shared.episodes[name])
        assert content_hash(part) == content_hash(dataset)
        assert part.labels is not None and dataset.labels is not None
        np.testing.assert_array_equal(part.labels, dataset.labels)
    assert shared.dataset.num_steps < sum(dataset.num_steps for dataset in apart) - 2000


def test_datasets_of_one_task_share() -> None:
    with pytest.raises(uw.DatasetError, match="expected datasets of one task, or of mazes, found acrobot, cartpole"):
        make_shared_data(["cartpole-random", "acrobot-random"])
    with pytest.raises(uw.DatasetError, match="found none"):
        make_shared_data([])
