"""Parquet of others: shards, LeRobot, plain tables."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset
from upweight.io import arrow_tables, parquet


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of files with row groups of 7, read 5 rows at a time, so that most episodes go over their borders."""
    monkeypatch.setattr(parquet, "_ROWS_PER_GROUP", 7)
    monkeypatch.setattr(parquet, "_ROWS_PER_SHARD", 40)
    monkeypatch.setattr(arrow_tables, "_ROWS_AT_A_TIME", 5)
    uw.save(random_dataset(0, num_episodes=40, next_known=True, labels=True), tmp_path / "log", format="parquet")
    return tmp_path / "log"


def test_a_folder_of_shards_round_trips(shards: Path) -> None:
    ds = random_dataset(0, num_episodes=40, next_known=True, labels=True)
    assert len(list(shards.glob("*.parquet"))) > 3
    back = uw.load(shards)
    np.testing.assert_array_equal(back.returns, ds.returns)  # to the last bit
    np.testing.assert_array_equal(back.initial_observations, ds.initial_observations)
    np.testing.assert_array_equal(
        back.columns["actions"].rows(np.array([70, 3])), ds.rows("actions", np.array([70, 3]))
    )
    assert not back.columns["observations"].is_loaded and not back.columns["actions"].is_loaded
    assert_same(back, ds)


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
def test_shards_with_other_columns(shards: Path, name: str, change: Any, message: str) -> None:
    file = parquet.shards(shards)[2]
    table = pq.read_table(file)
    place = table.column_names.index(name)
    changed = change(table.column(name)) if change else None
    table = table.remove_column(place) if changed is None else table.set_column(place, name, changed)
    pq.write_table(table, file)
    with pytest.raises(uw.DatasetError, match=rf"{file.name}: column .*{message}"):
        uw.load(shards)


def test_an_episode_that_comes_back_is_refused(tmp_path: Path) -> None:
    for number, ids in enumerate(([0, 0, 1], [1, 2, 0])):
        table = {"episode_index": ids, "observation": [[0.0]] * 3, "action": [[0.0]] * 3, "reward": [1.0] * 3}
        pq.write_table(pa.table(table), tmp_path / f"{number}.parquet")
    with pytest.raises(uw.DatasetError, match="an episode id comes back after another one"):
        uw.load(tmp_path)


def test_shards_are_read_in_natural_order(tmp_path: Path) -> None:
    for number in (0, 1, 2, 10):
        table = {"episode_index": [number], "observation": [[float(number)]], "action": [[0.0]], "reward": [1.0]}
        pq.write_table(pa.table(table), tmp_path / f"part-{number}.parquet")
    assert uw.load(tmp_path).observations[:, 0].tolist() == [0, 1, 2, 10]


def test_a_plain_table_needs_only_what_cannot_be_guessed(tmp_path: Path) -> None:
    table = {
        "episode_index": [5, 5, 6],
        "observation": [[1.0, 2.0]] * 3,
        "action": [0, 1, 1],
        "reward": [1.0, 2.0, 3.0],
    }
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    ds = uw.load(tmp_path / "a.parquet")
    assert ds.returns.tolist() == [3.0, 3.0]
    assert ds.discrete_actions
    assert ds.episodes.truncated.all()
    assert ds.num_transitions.tolist() == [1, 0]


def lerobot(folder: Path, **columns: Any) -> Path:
    """LeRobot's layout: a file per episode under data/chunk-000, features under meta."""
    (folder / "meta").mkdir(parents=True)
    (folder / "meta" / "info.json").write_text(json.dumps({"codebase_version": "v2.1", "fps": 10}))
    data = folder / "data" / "chunk-000"
    data.mkdir(parents=True)
    for episode in range(2):
        table = {
            "observation.state": pa.array([[episode, step] for step in range(3)], pa.list_(pa.float32())),
            "action": pa.array([[0.5]] * 3, pa.list_(pa.float32(), 1)),
            "episode_index": pa.array([episode] * 3),
            "frame_index": pa.array(range(3)),
            "timestamp": pa.array([0.0, 0.1, 0.2]),
            **{name: pa.array(values[episode]) for name, values in columns.items()},
        }
        pq.write_table(pa.table(table), data / f"episode_{episode:06d}.parquet")
    return folder


DONE = {"next.reward": [[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]], "next.done": [[False, False, True]] * 2}


def test_lerobot_with_success(tmp_path: Path) -> None:
    ds = uw.load(lerobot(tmp_path / "d", **DONE, **{"next.success": [[False, False, True], [False, False, False]]}))
    assert ds.returns.tolist() == [1.0, 0.0]
    assert ds.episodes.terminated.tolist() == [True, False]
    assert ds.observation_shape == (2,)


def test_lerobot_done_alone_is_an_end_not_a_termination(tmp_path: Path) -> None:
    folder = lerobot(tmp_path / "d", **DONE)
    assert not uw.load(folder).terminated.any()
    assert uw.load(folder, done_is_terminal=True).episodes.terminated.all()


def test_lerobot_without_rewards_loads_but_cannot_be_weighted(tmp_path: Path) -> None:
    ds = uw.load(lerobot(tmp_path / "d"))
    assert ds.num_episodes == 2
    with pytest.raises(uw.DatasetError, match="no rewards"):
        uw.ReturnWeighting()(ds)


def test_success_of_lerobot_becomes_returns(tmp_path: Path) -> None:
    flags = {"next.success": [[False, False, True], [False, False, False]], "mine": [[0, 0, 0], [0, 1, 0]]}
    folder = lerobot(tmp_path / "d", **flags)
    assert not uw.load(folder).has_rewards
    for name in ("next.success", "success"):
        assert uw.load(folder, success=name).returns.tolist() == [1.0, 0.0]
    assert uw.load(folder, success="mine").returns.tolist() == [0.0, 1.0]
    assert uw.load(folder, success=[False, True]).returns.tolist() == [0.0, 1.0]
    with pytest.raises(uw.DatasetError, match=r"d: no 'sucess' to tell .* has .*mine, next\.success"):
        uw.load(folder, success="sucess")


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_success_in_the_metadata_of_lerobots_episodes(tmp_path: Path, version: str) -> None:
    folder = lerobot(tmp_path / "d")
    entries = [{"episode_index": number, "length": 3, "success": number == 1} for number in (2, 1, 0)]  # in any order
    if version == "v2.1":
        lines = "\n".join(map(json.dumps, entries))
        (folder / "meta" / "episodes.jsonl").write_text(lines + "\n")
    else:
        (folder / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(entries), folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
    assert uw.load(folder, success="success").returns.tolist() == [0.0, 1.0]
    with pytest.raises(uw.DatasetError, match=r"no 'done' to tell .*episode_index, frame_index, length, .*, success"):
        uw.load(folder, success="done")


@pytest.mark.parametrize("other", ["", '{"episode_index": 1, "success": null}'])
def test_metadata_that_leave_an_episode_out_are_refused(tmp_path: Path, other: str) -> None:
    folder = lerobot(tmp_path / "d")
    (folder / "meta" / "episodes.jsonl").write_text(f'{{"episode_index": 0, "success": true}}\n{other}\n')
    with pytest.raises(uw.DatasetError, match="'success'.*episode 1"):
        uw.load(folder, success="success")


def test_another_observation_column(tmp_path: Path) -> None:
    folder = lerobot(tmp_path / "d", **{"observation.environment_state": [[[1.0] * 4] * 3] * 2})
    assert uw.load(folder, observation_key="observation.environment_state").observation_shape == (4,)
    with pytest.raises(uw.DatasetError, match="missing key 'nope'"):
        uw.load(folder, observation_key="nope")


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    uw.save(random_dataset(), tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    own = json.loads(table.schema.metadata[b"upweight"])
    for change, message in (({"format": 99}, "format version 1, found 99"), ({"action_shape": "x"}, "damaged")):
        changed = table.replace_schema_metadata({b"upweight": json.dumps({**own, **change}).encode()})
        pq.write_table(changed, tmp_path / "b.parquet")
        with pytest.raises(uw.DatasetError, match=message):
            uw.load(tmp_path / "b.parquet")


def test_a_file_with_other_rows_than_before_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    uw.save(random_dataset(0, num_episodes=9), path)
    ds = uw.load(path)
    uw.save(random_dataset(1, num_episodes=3), path)
    with pytest.raises(uw.DatasetError, match=r"a.parquet: changed since it was loaded \(.* bytes then"):
        ds.observations  # noqa: B018
