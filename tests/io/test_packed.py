"""The packed folder: what lies there is what was given, gathered from a memory map and never read as a whole."""

import json
import multiprocessing
import pickle  # what worker processes are sent with
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset, with_arrays
from upweight.data.columns import Column, ConcatenatedColumn, GatheredColumn, ShiftedColumn
from upweight.io import packed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    uw.save(random_dataset(1, num_episodes=30, labels=True), tmp_path / "a.packed")
    return tmp_path / "a.packed"


def starts_of_known_transitions(ds: uw.Dataset) -> np.ndarray:
    return np.flatnonzero(ds.trainable)


@pytest.mark.parametrize("next_known", [False, True])
def test_batches_weights_and_inspection_read_no_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_known: bool
) -> None:
    ds = random_dataset(1, num_episodes=30, next_known=next_known, reward_shift=1)
    uw.save(ds, tmp_path / "a.packed")
    back = uw.load(tmp_path / "a.packed")
    read = packed.MappedColumn.read
    looked_at: list[Column] = []
    monkeypatch.setattr(packed.MappedColumn, "read", lambda self: looked_at.append(self) or read(self))
    uw.inspect(back)
    uw.AdvantageWeighting()(back)
    assert all(
        column is back.columns["rewards"] for column in looked_at
    )  # some last ones, where episodes were truncated
    monkeypatch.undo()
    index = np.random.default_rng(0).permutation(starts_of_known_transitions(ds))[:17]
    for ours, theirs in zip(back.transitions(index), ds.transitions(index), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    ours, theirs = (uw.batches(data, "rw", 8, seed=3) for data in (back, ds))
    for _ in range(3):
        for a, b in zip(next(ours), next(theirs), strict=True):
            np.testing.assert_array_equal(a, b)


def test_whole_columns_are_maps(folder: Path) -> None:
    back = uw.load(folder)
    for array in (back.observations, back.actions, back.rewards, back.initial_observations):
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert isinstance(base, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_subsets_and_joins_gather_too(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = random_dataset(1, num_episodes=30, labels=True)
    back = uw.load(folder)
    known = random_dataset(2, next_known=True, labels=True)
    uw.save(known, tmp_path / "b.packed")
    pairs = [
        (back.subset([3, 1, 1, 7]), ds.subset([3, 1, 1, 7])),
        (uw.concat([back, uw.load(tmp_path / "b.packed")]), uw.concat([ds, known])),
        (back.split(0.5, seed=0)[0], ds.split(0.5, seed=0)[0]),
    ]
    whole = [GatheredColumn, ConcatenatedColumn, ShiftedColumn]
    for ours, theirs in pairs:
        index = starts_of_known_transitions(theirs)[::2]
        with monkeypatch.context() as patch:
            for kind in whole:
                patch.setattr(kind, "_read", lambda self: pytest.fail("a column was read"))
            got = ours.transitions(index)
        for a, b in zip(got, theirs.transitions(index), strict=True):
            np.testing.assert_array_equal(a, b)
        assert_same(ours, theirs)


def test_of_one_episode_nothing_else_is_read(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = uw.concat([uw.load(folder), uw.load(folder)])
    monkeypatch.setattr(ConcatenatedColumn, "_read", lambda self: pytest.fail("a column was read"))
    episode = random_dataset(1, num_episodes=30, labels=True).subset([4])
    np.testing.assert_array_equal(both.subset([34]).observations, episode.observations)
    np.testing.assert_array_equal(both.subset([34]).rewards, episode.rewards)


def test_success_takes_the_place_of_rewards(folder: Path) -> None:
    flags = np.arange(30) % 3 == 0
    ours, theirs = (
        data.with_success(flags) for data in (uw.load(folder), random_dataset(1, num_episodes=30, labels=True))
    )
    assert_same(ours, theirs)
    index = starts_of_known_transitions(theirs)
    np.testing.assert_array_equal(ours.transitions(index).terminated, theirs.transitions(index).terminated)


def _sum_of_a_batch(ds: uw.Dataset) -> float:
    return float(ds.transitions(np.arange(2)).observations.sum())


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, where another test has imported it
def test_other_processes_map_the_files_themselves(folder: Path) -> None:
    ds = uw.load(folder)
    here = _sum_of_a_batch(ds)
    ds.observations  # noqa: B018
    assert len(pickle.dumps(ds)) < 10_000 + ds.num_episodes * 200
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.map(_sum_of_a_batch, [ds]) == [here]


def test_parts_join_into_the_same_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_PART_BYTES", 400)
    monkeypatch.setattr(packed, "_BLOCK_BYTES", 50)
    ds = random_dataset(5, num_episodes=40, labels=True, next_known=True, discrete=True, num_actions=6)
    uw.save(ds, tmp_path / "a.packed")
    assert len(json.loads((tmp_path / "a.packed" / "manifest.json").read_text())["parts"]) > 5
    assert_same(uw.load(tmp_path / "a.packed", verify=True), ds)


def _shorter(folder: Path) -> None:
    file = folder / "actions.bin"
    file.write_bytes(file.read_bytes()[:-1])


def _other_byte(folder: Path) -> None:
    file = folder / "observations.bin"
    data = bytearray(file.read_bytes())
    data[7] ^= 1
    file.write_bytes(bytes(data))


def _edited(folder: Path, **changes: Any) -> None:
    file = folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_shorter, r"actions\.bin: expected 1,\d+ bytes, as manifest\.json says, found 1,\d+; copy the folder again"),
        (lambda folder: (folder / "flags.bin").unlink(), r"flags\.bin: expected .* found no such file"),
        (lambda folder: _edited(folder, upweight_packed=99), "expected format version 1, found 99; upgrade"),
        (lambda folder: _edited(folder, steps=3), "expected 36 bytes"),
        (lambda folder: _edited(folder, columns={"observations": ["<f4", [3]]}), "missing key 'lengths'"),
        (lambda folder: _edited(folder, columns={"observations": ["O", [3]]}), "expected numbers, found object"),
        (lambda folder: _edited(folder, columns=7), "damaged or not what it seems"),
    ],
)
def test_a_manifest_that_does_not_match(folder: Path, harm: Any, message: str) -> None:
    harm(folder)
    with pytest.raises(uw.DatasetError, match=message):
        uw.load(folder)


def test_other_bytes_are_found_by_verifying(folder: Path) -> None:
    uw.load(folder, verify=True)
    _other_byte(folder)
    uw.load(folder)
    with pytest.raises(uw.DatasetError, match=r"observations\.bin: bytes 0 to [\d,]+, from dataset, are not those"):
        uw.load(folder, verify=True)


def test_flags_that_contradict_their_episodes_are_found_by_checking(folder: Path) -> None:
    flags = bytearray((folder / "flags.bin").read_bytes())
    flags[0] ^= 1
    (folder / "flags.bin").write_bytes(flags)
    with pytest.raises(uw.DatasetError, match="flags of steps are not those of their episodes; the file is damaged"):
        uw.load(folder).check()


def test_what_is_not_finite_is_not_packed(tmp_path: Path) -> None:
    ds = random_dataset()
    odd = ds.actions.copy()
    odd[5, 0] = np.nan
    with pytest.raises(uw.DatasetError, match="key 'actions': expected finite numbers"):
        uw.save(with_arrays(ds, actions=odd), tmp_path / "a.packed")
    assert not list(tmp_path.iterdir())
