"""Whether two datasets are the same."""

import numpy as np

import upweight as uw
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
