"""Parquet used as it is: the same episodes, returns and batches, without ever reading all rows."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import upweight as uw
from support.datasets import random_dataset
from support.training import small_config
from upweight.io import arrow_tables, parquet, parquet_index


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files with row groups of 7, so that most episodes go over their borders."""
    monkeypatch.setattr(parquet, "_ROWS_PER_GROUP", 7)
    monkeypatch.setattr(parquet, "_ROWS_PER_SHARD", 40)
    monkeypatch.setattr(arrow_tables, "_ROWS_AT_A_TIME", 5)
    uw.save(random_dataset(0, num_episodes=40, labels=True), tmp_path / "log", format="parquet")
    return tmp_path / "log"


def assert_same_episodes(ours: uw.Dataset, theirs: uw.Dataset) -> None:
    for name, values in vars(theirs.episodes).items():
        np.testing.assert_array_equal(getattr(ours.episodes, name), values)
    np.testing.assert_array_equal(ours.returns, theirs.returns)  # to the last bit
    np.testing.assert_array_equal(ours.initial_observations, theirs.initial_observations)
    np.testing.assert_array_equal(ours.labels, theirs.labels)


@pytest.mark.parametrize("next_known", [False, True])
def test_episodes_and_batches_are_those_of_the_data_in_memory(tmp_path: Path, shards: Path, next_known: bool) -> None:
    ds = random_dataset(1, num_episodes=40, next_known=next_known, labels=True)
    uw.save(ds, tmp_path / "other", format="parquet")
    ours = uw.load(tmp_path / "other", index=True)
    assert_same_episodes(ours, ds)
    uw.inspect(ours)
    expected = uw.batches(ds, "rw", 16, seed=3)
    for window in (None, 1, 3):
        mine = uw.batches(ours, "rw", 16, seed=3, window=window)
        for _ in range(4):
            for a, b in zip(next(mine), next(expected), strict=True):
                np.testing.assert_array_equal(a, b)
        expected = uw.batches(ds, "rw", 16, seed=3)
    assert not ours.columns["observations"].is_loaded and not ours.columns["rewards"].is_loaded
    np.testing.assert_array_equal(
        ours.rows("flags", np.arange(ds.num_steps)), ds.rows("flags", np.arange(ds.num_steps))
    )
    np.testing.assert_array_equal(ours.subset([3, 1]).observations, ds.subset([3, 1]).observations)


def test_a_window_reads_a_row_group_once(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = uw.load(shards, index=True)
    groups: list[Any] = []
    split = arrow_tables.Shards.split

    def counted(self: Any, index: Any) -> Any:
        found = list(split(self, index))
        groups.append([(path, group) for path, group, *_ in found])
        return iter(found)

    monkeypatch.setattr(arrow_tables.Shards, "split", counted)
    next(uw.batches(ds, "uniform", 64, prefetch=0, window=20))
    assert len(groups) == 3  # observations with those after them, actions, rewards
    assert all(len(set(each)) == len(each) for each in groups)


def test_the_stream_goes_on_within_a_window(shards: Path) -> None:
    ds = uw.load(shards, index=True)
    stream = uw.batches(ds, "uniform", 8, window=5)
    for _ in range(3):
        next(stream)
    state = stream.state_dict()
    expected = [next(stream).rewards for _ in range(4)]
    other = uw.batches(ds, "uniform", 8, window=5, seed=9)
    next(other)
    other.load_state_dict(state)
    np.testing.assert_array_equal([next(other).rewards for _ in range(4)], expected)


def test_the_index_is_made_once(tmp_path: Path, shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = uw.load(shards, index=True)
    assert (tmp_path / "log.index.npz").is_file()
    uw.load(shards, index=tmp_path / "mine.npz")
    with monkeypatch.context() as patch:
        patch.setattr(arrow_tables.Shards, "whole_episodes", None)
        assert_same_episodes(uw.load(shards, index=True), before)
        uw.load(shards, index=tmp_path / "mine.npz")
    (tmp_path / "log.index.npz").write_bytes(b"PK damaged")
    assert_same_episodes(uw.load(shards, index=True), before)


def test_the_index_follows_the_shards(shards: Path) -> None:
    before = uw.load(shards, index=True)
    *_, last = parquet.shards(shards)
    rows = pq.read_table(last).num_rows
    last.unlink()
    with pytest.warns(uw.UpweightWarning, match=rf"log: .*{last.name} is no longer there; indexed without"):
        after = uw.load(shards, index=True)
    assert after.num_steps == before.num_steps - rows
    with pytest.raises(uw.DatasetError, match=rf"{last.name}: cannot read .*no longer there; put it back"):
        before.columns["observations"].rows(np.arange(before.num_steps))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uw.load(shards, index=True)


@pytest.mark.parametrize("damage", ["half", "", "PK\x03\x04 and nothing", "hello"])
def test_a_damaged_index_is_made_anew(shards: Path, damage: str) -> None:
    expected = uw.load(shards, index=True)
    file = shards.with_name("log.index.npz")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage == "half" else damage.encode())
    assert_same_episodes(uw.load(shards, index=True), expected)
    assert file.stat().st_size == len(whole)


@pytest.mark.parametrize("stamp", [None, "[1]", "{", '{"shards": 1}'])
def test_no_other_file_is_replaced_by_an_index(tmp_path: Path, shards: Path, stamp: str | None) -> None:
    np.savez(tmp_path / "mine.npz", x=np.ones(3), **({} if stamp is None else {"stamp": np.array(stamp)}))
    before = (tmp_path / "mine.npz").read_bytes()
    with pytest.raises(uw.DatasetError, match="expected an index of episodes that was kept there, or no file yet"):
        uw.load(shards, index=tmp_path / "mine.npz")
    assert (tmp_path / "mine.npz").read_bytes() == before


def test_an_index_that_cannot_be_kept(tmp_path: Path, shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_index.os, "access", lambda *_: False)
    with pytest.raises(uw.DatasetError, match=r"log\.index\.npz: .* cannot be written to; say where with index=FILE"):
        uw.load(shards, index=True)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "observation",
            lambda column: column.cast(pa.list_(pa.float64(), 3)),
            "expected lists of float, as in .*, found",
        ),
        ("reward", None, "'reward': expected float, as in part-00000.parquet, found none"),
        ("terminated", None, "'terminated': expected one, as in part-00000.parquet, found none"),
    ],
)
@pytest.mark.parametrize("index", [False, True])
def test_shards_with_other_columns(shards: Path, name: str, change: Any, message: str, index: bool) -> None:
    file = parquet.shards(shards)[2]
    table = pq.read_table(file)
    place = table.column_names.index(name)
    changed = change(table.column(name)) if change else None
    table = table.remove_column(place) if changed is None else table.set_column(place, name, changed)
    pq.write_table(table, file)
    with pytest.raises(uw.DatasetError, match=rf"{file.name}: column .*{message}"):
        uw.load(shards, index=index)


def test_numbers_are_checked_when_they_are_gathered(shards: Path) -> None:
    file = parquet.shards(shards)[1]
    table = pq.read_table(file)
    values = table.column("observation").combine_chunks().flatten().to_numpy().copy()
    values[0] = np.nan
    place = table.column_names.index("observation")
    pq.write_table(table.set_column(place, "observation", pa.FixedSizeListArray.from_arrays(values, 3)), file)
    stream = uw.batches(uw.load(shards, index=True), "uniform", 500)
    with pytest.raises(uw.DatasetError, match=rf"{file.name} \(row group 0\): key 'observation': .*NaN .* in row 0"):
        next(stream)


def test_an_episode_that_comes_back_is_refused(tmp_path: Path) -> None:
    for number, ids in enumerate(([0, 0, 1], [1, 2, 0])):
        table = {"episode_index": ids, "observation": [[0.0]] * 3, "action": [[0.0]] * 3, "reward": [1.0] * 3}
        pq.write_table(pa.table(table), tmp_path / f"{number}.parquet")
    with pytest.raises(uw.DatasetError, match="an episode id comes back after another one"):
        uw.load(tmp_path)


@pytest.mark.slow
def test_training_streams_from_the_files(shards: Path) -> None:
    ds = uw.load(shards, index=True)
    runs = [uw.Run(small_config("bc"), "rw", seed) for seed in range(2)]
    streamed = uw.train(ds, runs, num_updates=4, stream=True, progress=False)
    assert not ds.columns["observations"].is_loaded and not ds.columns["actions"].is_loaded
    resident = uw.train(uw.load(shards), runs, num_updates=4, stream=False, progress=False)
    for ours, theirs in zip(streamed, resident, strict=True):
        np.testing.assert_allclose(
            ours.policy.act(ds.initial_observations), theirs.policy.act(ds.initial_observations), rtol=1e-5, atol=1e-6
        )
