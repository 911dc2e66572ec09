import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, strategies as st
from safetensors.numpy import load_file, save_file

import upweight as uw
from support.policies import random_policy
from upweight.policies.policy import KINDS
from upweight.policies.safetensors_file import read_safetensors, write_safetensors

every = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, seed: int = 0) -> uw.Policy:
    if kind in {"categorical", "greedy"}:
        return replace(random_policy(kind, seed, observation=5, action=3), metadata={"note": "ünï"})
    bounds = {"action_low": np.array([-1, -3], np.float32), "action_high": np.array([1, 5], np.float32)}
    return replace(random_policy(kind, seed, observation=5), **bounds, metadata={"note": "ünï"})


@every
def test_round_trip(kind: str, tmp_path: Path) -> None:
    policy = make(kind)
    policy.save(tmp_path / "p.safetensors")
    back = uw.load_policy(tmp_path / "p.safetensors")
    observations = np.random.default_rng(1).normal(size=(20, 5))
    np.testing.assert_array_equal(back.act(observations), policy.act(observations))
    draws = [p.act(observations, np.random.default_rng(3)) for p in (policy, back)]
    np.testing.assert_array_equal(*draws)
    assert back.metadata == {"note": "ünï"}


@every
def test_onnx_agrees(kind: str, tmp_path: Path) -> None:
    policy = make(kind)
    uw.export_onnx(policy, tmp_path / "p.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "p.onnx", providers=["CPUExecutionProvider"])
    observations = np.random.default_rng(1).normal(size=(50, 5)).astype(np.float32)
    (actions,) = session.run(None, {"observations": observations})
    np.testing.assert_allclose(actions, policy.act(observations), rtol=1e-4, atol=1e-4)


def test_deterministic_action_by_hand() -> None:
    policy = uw.Policy(
        kind="deterministic",
        layers=((np.array([[2.0]]), np.array([1.0])),),
        observation_mean=np.array([1.0]),
        observation_scale=np.array([2.0]),
        action_low=np.array([0.0]),
        action_high=np.array([10.0]),
    )
    expected = 5 * (1 + np.tanh(2 * (3 - 1) / 2 + 1))
    np.testing.assert_allclose(policy.act([3.0]), [expected], rtol=1e-6)
    np.testing.assert_allclose(policy.act([[3.0], [3.0]]), [[expected]] * 2, rtol=1e-6)


def test_sampled_actions_follow_their_distribution() -> None:
    observations = np.zeros((20_000, 5))
    gaussian = make("gaussian")
    spread = gaussian.act(observations, np.random.default_rng(0)) - gaussian.act(observations)
    assert np.abs(spread).max() > 0.1
    categorical = make("categorical")
    logits = categorical._outputs(np.zeros((1, 5), np.float32))[0]
    p = np.exp(logits - logits.max())
    counts = np.bincount(categorical.act(observations, np.random.default_rng(0)), minlength=3) / 20_000
    np.testing.assert_allclose(counts, p / p.sum(), atol=0.02)
    greedy = make("greedy")
    assert len(set(greedy.act(observations, np.random.default_rng(0)))) == 1


@every
def test_rows_with_generators_of_their_own(kind: str) -> None:
    """A row's action is what it would be alone with its generator; the generators go on from step to step."""
    policy = make(kind)
    observations = np.random.default_rng(1).normal(size=(4, 5))
    together, alone = ([np.random.default_rng(seed) for seed in range(4)] for _ in range(2))
    for _ in range(3):
        expected = [policy.act(row, rng) for row, rng in zip(observations, alone, strict=True)]
        np.testing.assert_allclose(policy.act(observations, together), expected, rtol=1e-5, atol=1e-5)


def test_wrong_observations() -> None:
    with pytest.raises(ValueError, match=r"expected observations \[E, 5\]"):
        make("greedy").act(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="one for each of 3 rows, found 2"):
        make("gaussian").act(np.zeros((3, 5)), [np.random.default_rng(0)] * 2)


def test_the_file_is_plain_safetensors(tmp_path: Path) -> None:
    make("gaussian").save(tmp_path / "p.safetensors")
    theirs = load_file(tmp_path / "p.safetensors")
    ours, _ = read_safetensors(tmp_path / "p.safetensors")
    assert theirs.keys() == ours.keys()
    for name in theirs:
        np.testing.assert_array_equal(theirs[name], ours[name])
    arrays = {"a": np.arange(6, dtype=np.int64).reshape(2, 3), "b": np.array(1.5, np.float32), "c": np.zeros((0, 2))}
    save_file(arrays, tmp_path / "q.safetensors", metadata={"x": "y"})
    back, metadata = read_safetensors(tmp_path / "q.safetensors")
    assert metadata == {"x": "y"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].shape == array.shape


@pytest.mark.parametrize(
    ("starts", "message"),
    [((0, 8), "share bytes"), ((8, 0), "share bytes"), ((0, 16), None), ((0, 24), "does not fit the data")],
)
def test_arrays_of_a_file_share_nothing(starts: tuple[int, int], message: str | None, tmp_path: Path) -> None:
    """Many names for the same bytes would take more memory than the file is long."""
    entries = {
        name: {"dtype": "F32", "shape": [4], "data_offsets": [start, start + 16]}
        for name, start in zip("ab", starts, strict=True)
    }
    text = json.dumps(entries).encode()
    (tmp_path / "p.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(32))
    if message is None:
        assert read_safetensors(tmp_path / "p.safetensors")[0].keys() == {"a", "b"}
        return
    with pytest.raises(uw.DatasetError, match=message):
        read_safetensors(tmp_path / "p.safetensors")


@given(edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1), cut=st.floats(0, 1))
def test_damaged_files(edits: list[tuple[float, int]], cut: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("p") / "p.safetensors"
    make("gaussian").save(path)
    data = bytearray(path.read_bytes())
    for where, value in edits:
        data[int(where * (len(data) - 1))] = value
    path.write_bytes(data[: int(cut * len(data)) + 1])
    try:
        policy = uw.load_policy(path)
    except uw.DatasetError:
        return
    assert policy.act(np.zeros((1, 5))).shape == (1, 2)


@pytest.mark.parametrize(
    ("arrays", "about", "message"),
    [
        ({}, {}, "expected a policy file of version 1, found none"),
        ({}, {"upweight_policy": "9"}, "found 9"),
        ({}, {"upweight_policy": "1"}, "lacks"),
    ],
)
def test_other_safetensors_files(tmp_path: Path, arrays: Any, about: Any, message: str) -> None:
    write_safetensors(tmp_path / "p.safetensors", arrays, about)
    with pytest.raises(uw.DatasetError, match=message):
        uw.load_policy(tmp_path / "p.safetensors")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action_low": None}, "action_low of a gaussian policy: expected 2 numbers, found none"),
        ({"log_std": np.zeros(3)}, r"log_std of a gaussian policy: expected 2 numbers, found shape \(3,\)"),
        ({"kind": "gausian"}, "unknown kind of policy 'gausian'"),
        ({"layers": ()}, "no layers"),
        ({"observation_mean": np.zeros(4), "observation_scale": np.ones(4)}, "layer 0 of the policy has shape"),
    ],
)
def test_parts_that_do_not_fit(changes: Any, message: str) -> None:
    with pytest.raises(uw.ConfigError, match=message):
        replace(make("gaussian"), **changes)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(uw.DatasetError, match="no such file"):
        uw.load_policy(tmp_path / "none.safetensors")


@every
def test_the_deterministic_policy_acts_as_without_randomness(kind: str) -> None:
    policy = make(kind)
    observations = np.random.default_rng(0).normal(size=(40, 5))
    plain = policy.deterministic()
    np.testing.assert_array_equal(plain.act(observations, np.random.default_rng(1)), policy.act(observations))
    assert plain.kind in {"deterministic", "greedy"}


@every
def test_probabilities_are_of_discrete_actions(kind: str) -> None:
    policy, observations = make(kind), np.random.default_rng(0).standard_normal((4, 5))
    if not policy.is_discrete:
        with pytest.raises(uw.ConfigError, match=f"discrete actions, found a {kind} one"):
            policy.probabilities(observations)
        return
    found = policy.probabilities(observations)
    assert found.shape == (4, 3) and np.allclose(found.sum(axis=1), 1)
    assert found.argmax(axis=1).tolist() == policy.act(observations).tolist()
