"""Groups of policies, from wherever they are."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.policies import linear
from support.training import SMALL, dataset_for
from upweight.data.fingerprint import content_hash
from upweight.lab.select.candidates import find_candidates

DATA = dataset_for("bc")


def policy(seed: int | None, weighting: dict[str, Any], **more: Any) -> uw.Policy:
    run = {"algorithm": "bc", "config": {"batch_size": 8, **more}, "weighting": weighting, "seed": seed}
    return replace(linear(np.zeros((3, 2)), [0.0, 0.1]), metadata={"run": run, "num_updates": 10, "dataset": "log"})


def test_policies_that_differ_in_their_seed_are_one_candidate() -> None:
    rw, uniform = {"name": "rw", "temperature": 0.1}, {"name": "uniform"}
    given = [policy(0, rw), policy(0, uniform), policy(1, rw), policy(0, rw, batch_size=16)]
    found, notes = find_candidates(given, DATA)
    assert [each.name for each in found] == [
        "bc rw temperature=0.1 (batch_size=8)",
        "bc uniform",
        "bc rw temperature=0.1 (batch_size=16)",
    ]
    assert [[member.seed for member in each.members] for each in found] == [[0, 1], [0], [0]]
    assert [each.clones_all for each in found] == [False, True, False] and notes == []


def test_cloning_whose_actor_drew_by_weights_is_not_cloning_of_all_data() -> None:
    """Files of earlier versions may hold such policies."""
    old = policy(0, {"name": "uniform"})
    run = {**old.metadata["run"], "actor_weighting": {"name": "rw", "temperature": 0.1}}
    ((found,), _) = find_candidates([replace(old, metadata={**old.metadata, "run": run})], DATA)
    assert not found.clones_all


def test_files_that_say_nothing_are_candidates_of_their_own(tmp_path: Path) -> None:
    for name in ("first", "second"):
        linear(np.zeros((3, 2)), [0.0, 0.1]).save(tmp_path / f"{name}.safetensors")
    odd = replace(linear(np.zeros((3, 2)), [0.0, 0.1]), metadata={"run": {"algorithm": 3}})
    paths = [tmp_path / "first.safetensors", str(tmp_path / "second.safetensors"), tmp_path / "first.safetensors"]
    found, _ = find_candidates([*paths, odd], DATA)
    assert [each.name for each in found] == ["first", "second", "a policy"]  # the first was given twice
    assert not any(each.clones_all for each in found)


def test_every_candidate_has_a_name_of_its_own(tmp_path: Path) -> None:
    """Where nothing else tells them apart, the path, or the place among the candidates."""
    paths = [tmp_path / folder / "policy.safetensors" for folder in ("old", "new")]
    for path in paths:
        path.parent.mkdir()
        linear(np.zeros((3, 2)), [0.0, 0.1]).save(path)
    unsaid = [linear(np.zeros((3, 2)), [0.0, number]) for number in (0.1, 0.2)]
    found, _ = find_candidates([*paths, *unsaid], DATA)
    assert [each.name for each in found] == [*map(str, paths), "a policy (2)", "a policy (3)"]


def test_a_training(tmp_path: Path) -> None:
    runs = [uw.Run(uw.algorithm_config("bc", **SMALL), name, seed) for name in ("uniform", "rw") for seed in (0, 1)]
    results = uw.train(DATA, runs, num_updates=2, output=tmp_path / "runs", holdout=0.2)
    found, notes = find_candidates(tmp_path / "runs", DATA)
    assert not notes
    for member in (member for each in (*found, *find_candidates(results, DATA)[0]) for member in each.members):
        np.testing.assert_array_equal(member.holdout, results[0].holdout)
    other, notes = find_candidates(tmp_path / "runs", DATA.subset(range(20)))  # whose episodes have other numbers
    assert len(notes) == 1 and "trained on other data than" in notes[0] and "columns in another order" in notes[0]
    assert other[0].members[0].holdout is None
    assert [each.name for each in found] == ["bc uniform", "bc rw temperature=0.1"]
    assert [member.path.name for member in found[1].members if member.path] == [
        "run-002.safetensors",
        "run-003.safetensors",
    ]
    assert [each.name for each in find_candidates(results, DATA)[0]] == ["bc uniform", "bc rw temperature=0.1"]
    ends = json.loads((tmp_path / "runs" / "results.json").read_text())
    ends["runs"][2]["status"] = "diverged"
    (tmp_path / "runs" / "results.json").write_text(json.dumps(ends))
    found, notes = find_candidates([tmp_path / "runs"], DATA)
    assert [len(each.members) for each in found] == [2, 1]
    assert "1 of 4 trainings diverged" in notes[0]


def test_a_store_of_several_datasets(tmp_path: Path) -> None:
    store = uw.Store(tmp_path / "store", create=True)
    for number, (name, content) in enumerate((("a", content_hash(DATA)), ("b", "other"))):
        data = {"name": name, "steps": 1, "seed": 0, "env_id": "Hopper-v5", "content": None}
        spec = {"format": 1, "data": data, "algorithm": "bc", "config": {}, "weighting": {"name": "rw"}, "seed": 0}
        spec |= {"updates": 1, "precision": "float32", "episodes": 1}
        record = {"spec": spec, "status": "finished", "score": None, "returns": [], "data_sha256": content}
        store.write_run(f"run{number}", record)
        policy(0, {"name": "rw"}).save(store.policy_path(f"run{number}"))
    found, _ = find_candidates(tmp_path / "store", DATA)
    assert [[member.path.stem for member in each.members if member.path] for each in found] == [["run0"]]
    with pytest.raises(uw.DatasetError, match=r"policies of 2 datasets \(a, b\), none of which is"):
        find_candidates(tmp_path / "store", dataset_for("bc", num_episodes=5))


def test_nothing_to_choose_from(tmp_path: Path) -> None:
    with pytest.raises(uw.DatasetError, match="expected policies/run-000"):
        find_candidates(tmp_path, DATA)
    with pytest.raises(uw.DatasetError, match="expected trained policies to choose from"):
        find_candidates([], DATA)
