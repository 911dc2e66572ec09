"""What RLlib records, as far as possible written by RLlib itself."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import upweight as uw
from support.datasets import assert_same, random_dataset
from support.rllib_recording import encode


def columns_of(ds: uw.Dataset) -> dict[str, Any]:
    return {
        "obs": ds.observations,
        "new_obs": ds.next_observations,
        "actions": ds.actions,
        "rewards": ds.rewards,
        "terminateds": ds.terminated,
        "truncateds": ds.truncated,
        "eps_id": np.repeat(np.arange(ds.num_episodes), ds.lengths) + 700,
        "t": np.arange(ds.num_steps) - np.repeat(ds.starts, ds.lengths),
    }


def write_json(path: Path, *batches: dict[str, Any], **more: Any) -> Path:
    lines = [
        {"type": "SampleBatch", **{k: np.asarray(v).tolist() for k, v in batch.items()}, **more} for batch in batches
    ]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return path


def as_read_from_json(ds: uw.Dataset) -> uw.Dataset:
    """JSON knows one kind of number."""
    columns = {
        name: getattr(ds, name).astype(np.float64)
        for name in ("observations", "actions", "rewards", "next_observations")
    }
    return uw.Dataset.from_arrays(**columns, terminated=ds.terminated, truncated=ds.truncated)


def test_sample_batches_whose_steps_lie_anywhere(tmp_path: Path) -> None:
    ds = random_dataset(next_known=True)
    columns = columns_of(ds)
    pieces = [{name: column[i::3] for name, column in columns.items()} for i in (2, 0, 1)]
    write_json(tmp_path / "output-a.json", pieces[0], pieces[1])
    write_json(tmp_path / "output-b.json", pieces[2])
    back = uw.load(tmp_path)
    order = [int(name) for name in dict.fromkeys(np.concatenate([piece["eps_id"] for piece in pieces]) - 700)]
    assert_same(back, as_read_from_json(ds).subset(order), metadata=False)


def test_older_batches_have_dones_and_no_next_observations(tmp_path: Path) -> None:
    columns = columns_of(random_dataset())
    columns["dones"] = columns.pop("terminateds")
    del columns["new_obs"], columns["truncateds"]
    ds = uw.load(write_json(tmp_path / "a", columns))
    assert ds.episodes.terminated.tolist() == random_dataset().episodes.terminated.tolist()
    assert ds.num_transitions.tolist() == random_dataset().num_transitions.tolist()


def test_a_batch_of_one_agent_among_policies(tmp_path: Path) -> None:
    batch = {name: np.asarray(column).tolist() for name, column in columns_of(random_dataset(next_known=True)).items()}
    line = {"type": "MultiAgentBatch", "count": 3, "policy_batches": {"default_policy": batch}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(line))
    assert uw.load(path).num_episodes == 12
    path.write_text(json.dumps({**line, "policy_batches": {"one": batch, "two": batch}}))
    with pytest.raises(uw.DatasetError, match=r"a\.json: expected the steps of one agent"):
        uw.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"obs": "BCJNGGhAmQAAAAAAAABu"}, r"key 'obs': is packed with pickle.*output_compress_columns=\[\].*unpack"),
        ({"obs": None}, "missing key 'obs'; the file has actions, eps_id, rewards, t, terminateds"),
        ({"eps_id": None}, "missing key 'eps_id'"),
        ({"obs": [{"image": [1]}, {"image": [1]}]}, "key 'obs': expected numbers"),
        ({"obs": [[1.0], [1.0, 2.0]]}, "key 'obs'"),
        ({"rewards": [1.0]}, "expected as many values in all columns"),
        ({"rewards": [1.0, float("nan")]}, "rewards"),
        ({"t": [0, 0]}, "are one time"),
        ({"terminateds": [True, False]}, "step 0 is flagged as an end"),
        ({"agent_index": [0, 1]}, "one agent"),
        ({"eps_id": [[0], [1]]}, "column 'eps_id': expected one value per row"),
    ],
)
def test_bad_batches(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    batch = {"obs": [[0.0], [1.0]], "actions": [0, 1], "rewards": [0.0, 1.0], "terminateds": [False, True]}
    changed = {**batch, "eps_id": [1, 1], "t": [0, 1], **change}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"type": "SampleBatch", **{k: v for k, v in changed.items() if v is not None}}))
    with pytest.raises(uw.DatasetError, match=rf"a\.json: .*{message}"):
        uw.load(path).check()


@pytest.mark.parametrize(
    "text", ['{"type": "SampleBatch"', '{"type": "SampleBatch"}\n[]', '{"type": "SampleBatch", "obs": 3}', "\n"]
)
def test_broken_lines(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(uw.DatasetError, match=r"a\.json"):
        uw.load(path)


# ---- Parquet ------------------------------------------------------------------------------------------------------------
def write_rows(folder: Path, columns: dict[str, Any], name: str = "a.parquet") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lists = {key: column.tolist() if np.ndim(column) > 1 else column for key, column in columns.items()}
    pq.write_table(pa.table({**lists, "eps_id": [str(each) for each in columns["eps_id"]]}), folder / name)


def test_what_was_written_again_with_every_run_is_read_once(tmp_path: Path) -> None:
    ds = random_dataset(next_known=True)
    columns = columns_of(ds)
    del columns["t"]
    for number, count in enumerate((10, 30, ds.num_steps), 1):
        write_rows(
            tmp_path / "env" / f"run-000001-{number:05d}", {name: column[:count] for name, column in columns.items()}
        )
    assert uw.load(tmp_path).returns == pytest.approx(ds.returns)
    write_rows(tmp_path / "env" / "run-000002-00001", {**columns, "eps_id": columns["eps_id"] + 100})  # another worker
    assert uw.load(tmp_path).num_episodes == 24


def test_packed_rows_are_refused(tmp_path: Path) -> None:
    columns = {**columns_of(random_dataset()), "obs": np.array(["BCJNGGhA"] * 53)}
    write_rows(tmp_path, columns)
    with pytest.raises(uw.DatasetError, match=r"a\.parquet: key 'obs': is packed with pickle"):
        uw.load(tmp_path)


def state_of(ds: uw.Dataset, number: int, first: int, last: int, *, lookback: int = 0) -> dict[str, Any]:
    """A piece of an episode as ``SingleAgentEpisode.get_state`` has it: T + 1 observations, after what came before."""
    start, length = int(ds.starts[number]), int(ds.lengths[number])
    steps = slice(start + first - lookback, start + last)
    observations = [*ds.observations[steps], ds.next_observations[start + last - 1]]

    def buffer(data: list[Any]) -> dict[str, Any]:
        return {"data": data, "lookback": lookback, "finalized": False, "space": None}

    return {
        "id_": f"episode-{number}",
        "observations": buffer(observations),
        "actions": buffer(list(ds.actions[steps])),
        "rewards": buffer(ds.rewards[steps].tolist()),
        "infos": buffer([np.array([{"a": 1}], object)]),
        "is_terminated": np.bool_(last == length and ds.episodes.terminated[number]),
        "is_truncated": bool(last == length and ds.episodes.truncated[number]),
        "t_started": first,
    }


def write_episodes(path: Path, states: list[Any]) -> Path:
    pq.write_table(pa.table({"item": [msgpack.packb(state, default=encode) for state in states]}), path)
    return path


def test_episodes_in_pieces(tmp_path: Path) -> None:
    ds = random_dataset(next_known=True)
    pieces = []
    for number, length in enumerate(ds.lengths.tolist()):
        cut = length // 2
        pieces += [state_of(ds, number, 0, cut)] if cut else []
        pieces.append(state_of(ds, number, cut, length, lookback=min(cut, 1)))
    back = uw.load(write_episodes(tmp_path / "a.parquet", [*pieces[1::2], *pieces]))  # some twice
    order = [
        int(name) for name in dict.fromkeys(piece["id_"].removeprefix("episode-") for piece in [*pieces[1::2], *pieces])
    ]
    assert_same(back, with_float64_rewards(ds).subset(order), metadata=False)


def with_float64_rewards(ds: uw.Dataset) -> uw.Dataset:
    names = ("observations", "actions", "terminated", "truncated", "next_observations")
    return uw.Dataset.from_arrays(**{name: getattr(ds, name) for name in names}, rewards=ds.rewards.astype(np.float64))


@pytest.mark.parametrize(
    "broken",
    [
        b"\x81",
        b"\xc1",
        msgpack.packb([1, 2]),
        msgpack.packb({"id_": 1, "t_started": 0}),
        msgpack.packb({b"nd": True, b"type": "<f4", b"shape": [9], b"data": b"1234"}),
    ],
)
def test_broken_episodes(tmp_path: Path, broken: bytes) -> None:
    pq.write_table(pa.table({"item": [broken]}), tmp_path / "a.parquet")
    with pytest.raises(uw.DatasetError, match=r"a\.parquet"):
        uw.load(tmp_path / "a.parquet")


def test_observations_that_would_have_to_be_unpickled(tmp_path: Path) -> None:
    state = state_of(random_dataset(next_known=True), 0, 0, 1)
    state["observations"]["data"] = [np.array([{"a": 1}], object)] * 2
    with pytest.raises(uw.DatasetError, match=r"a\.parquet: episode episode-0: key 'observations': expected numbers"):
        uw.load(write_episodes(tmp_path / "a.parquet", [state]))


# ---- by RLlib -----------------------------------------------------------------------------------------------------------
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_reads_what_its_json_writer_writes(tmp_path: Path) -> None:
    from ray.rllib.offline.json_writer import JsonWriter
    from ray.rllib.policy.sample_batch import SampleBatch

    ds = random_dataset(next_known=True)
    columns = columns_of(ds)
    plain, packed = JsonWriter(str(tmp_path / "plain"), compress_columns=[]), JsonWriter(str(tmp_path / "packed"))
    for start in range(0, ds.num_steps, 7):
        batch = SampleBatch({name: np.array(column[start : start + 7]) for name, column in columns.items()})
        plain.write(batch)
        packed.write(batch.as_multi_agent())
    plain.cur_file.close()
    packed.cur_file.close()
    assert_same(uw.load(tmp_path / "plain"), as_read_from_json(ds), metadata=False)
    with pytest.raises(uw.DatasetError, match=r"output-.*json: key 'obs': is packed with pickle"):
        uw.load(tmp_path / "packed")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In a process of its own: Ray Data waits for ever in one where Ray was started and stopped before."""
    script, folder = Path(__file__).parents[1] / "support" / "rllib_recording.py", tmp_path_factory.mktemp("recorded")
    subprocess.run([sys.executable, script, folder], check=True, capture_output=True, timeout=180)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["episodes", "rows"])
def test_reads_what_its_runner_records(recorded: Path, layout: str) -> None:
    """Episodes that are cut into pieces by the runner, from two environments at a time, and written again with every call."""
    records, played = recorded / layout, json.loads((recorded / f"{layout}.json").read_text())
    pieces = [piece for piece in played if piece["rewards"]]  # one may just have begun
    returns: dict[str, float] = {}
    for piece in pieces:
        returns[piece["id"]] = returns.get(piece["id"], 0.0) + sum(piece["rewards"])
    ds = uw.load(records).check()
    assert sorted(ds.returns.tolist()) == sorted(returns.values())
    assert ds.num_steps == sum(len(piece["rewards"]) for piece in pieces) and ds.next_observations_follow
    assert ds.complete.sum() == sum(piece["is_done"] for piece in pieces)
    for piece in pieces:
        if piece["t_started"] == 0:
            start = ds.starts[list(returns).index(piece["id"])]
            seen = np.array(piece["observations"], np.float32)
            np.testing.assert_array_equal(ds.observations[start : start + len(seen)], seen)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_reads_what_the_adapter_writes_for_it(tmp_path: Path) -> None:
    """Images keep their shape beside Ray's flat tensors."""
    from upweight.adapters.rllib import write_parquet

    ds = random_dataset(observation_shape=(4, 3, 2), observation_dtype=np.uint8, next_known=True)
    write_parquet(ds, tmp_path / "a.parquet")
    assert_same(uw.load(tmp_path / "a.parquet"), ds, metadata=False)
