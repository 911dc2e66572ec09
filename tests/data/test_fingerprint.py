"""Whether two datasets are the same."""

import hashlib
import tracemalloc

import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset
from upweight.data.fingerprint import content_hash, fingerprint


def test_any_change_shows() -> None:
    arrays = {
        "observations": np.arange(80, dtype=np.float32).reshape(40, 2),
        "actions": np.zeros((40, 1), np.float32),
        "rewards": np.ones(40, np.float32),
        "terminated": np.arange(40) % 10 == 9,
        "next_observations": np.arange(3, 83, dtype=np.float32).reshape(40, 2),
    }
    hashes = {content_hash(uw.Dataset.from_arrays(**arrays)) for _ in range(2)}
    assert len(hashes) == 1
    same = {fingerprint(uw.Dataset.from_arrays(**arrays)) for _ in range(2)}
    assert len(same) == 1
    for name, array in arrays.items():
        for row in (0, 13, 38):
            changed = array.copy()
            changed[row] = ~changed[row] if changed.dtype == bool else changed[row] + 0.5
            other = uw.Dataset.from_arrays(**{**arrays, name: changed})
            assert fingerprint(other) not in same and content_hash(other) not in hashes, (name, row)
    labelled = uw.Dataset.from_arrays(**arrays, labels=["a", "a", "b", "b"])
    assert fingerprint(labelled) not in same
    assert fingerprint(labelled) != fingerprint(labelled.with_labels(["a", "a", "b", "a"]))
    one, two = (uw.Dataset.from_arrays(**arrays, complete=np.arange(4) < last) for last in (4, 3))
    assert fingerprint(one) != fingerprint(two)
    ends = {**arrays, "terminated": np.arange(40) == 0, "truncated": arrays["terminated"]}
    known = [uw.Dataset.from_arrays(**ends, final_known=np.arange(5) < count) for count in (3, 4, 5)]
    assert [ds.num_transitions.sum() for ds in known] == [38, 39, 40]
    assert len({fingerprint(ds) for ds in known}) == 3
    assert fingerprint(known[-1]) == fingerprint(uw.Dataset.from_arrays(**ends))
    choices = {**arrays, "actions": np.arange(40) % 3}
    counted = [fingerprint(uw.Dataset.from_arrays(**choices, num_actions=number)) for number in (None, 3, 4, 5)]
    assert counted[0] == counted[1] and len(set(counted)) == 3
    without = fingerprint(uw.Dataset.from_arrays(**{**arrays, "rewards": None}))
    assert without not in same


def test_the_width_of_labels_does_not_count() -> None:
    """Numbers that runs are stored under: those of labels in the narrowest type have always been these."""
    arrays = {
        "observations": np.arange(6, dtype=np.float32)[:, None],
        "actions": np.zeros((6, 1), np.float32),
        "rewards": np.ones(6, np.float32),
        "terminated": np.arange(6) % 2 == 1,
    }
    for given, expected in (
        (["a", "bc", "ü"], "c64527255af9ce7a"),
        (["", "", ""], "55c11163e63203cf"),
        (None, "99e867254cde377c"),
    ):
        for labels in (given, None if given is None else np.array(given, "<U20")):
            assert fingerprint(uw.Dataset.from_arrays(**arrays, labels=labels)) == expected
    two, wide = (uw.Dataset.from_arrays(**arrays, labels=["a", "bc", last]).subset([0, 1]) for last in ("x", "x" * 9))
    assert fingerprint(two) == fingerprint(wide)


@pytest.mark.parametrize("piece", [1, 100, 1 << 22])
def test_next_observations_that_are_not_stored_are_hashed_in_pieces(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if they were there as a whole, which this asks for after the hash."""
    monkeypatch.setattr("upweight.data.fingerprint._BLOCK_BYTES", piece)
    for ds in (random_dataset(num_episodes=7), random_dataset(num_episodes=7).subset([3, 1, 1])):
        found, digest = content_hash(ds), hashlib.sha256()
        for array in (ds.observations, ds.actions, ds.rewards, ds.next_observations, ds.terminated, ds.truncated):
            digest.update(np.ascontiguousarray(array).tobytes())
        assert found == digest.hexdigest()


def test_the_fingerprint_of_much_takes_little_memory() -> None:
    """Less than a second copy of the observations, which it once made and left behind."""
    observations = np.zeros((50_000, 200), np.float32)  # 40 MB
    ds = uw.Dataset.from_arrays(
        observations=observations,
        actions=np.zeros((50_000, 1), np.float32),
        rewards=np.zeros(50_000, np.float32),
        terminated=np.arange(50_000) % 100 == 99,
    )
    tracemalloc.start()
    try:
        fingerprint(ds)
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 0.05 * observations.nbytes and peak < 0.5 * observations.nbytes
