"""Rows that stay on the disk: the same batches, and so the same policies, as with all rows on the device."""

from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.training import dataset_for, small_config
from upweight.lab.train import plan as plan_module, schedule as schedule_module
from upweight.lab.train.population import Program
from upweight.lab.train.prepare import make_agents, make_data, make_parts, make_setup, row_width
from upweight.lab.train.schedule import Piece, make_schedule, operations_per_update
from upweight.lab.train.stream import StreamedData

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["bc", "td3_bc", "discrete_bc"])
def test_batches_are_those_of_resident_data(tmp_path: Path, name: str) -> None:
    ds = dataset_for(name)
    packed = uw.pack(ds, tmp_path / "a.packed")
    actor = None if name != "td3_bc" else "uniform"
    runs = [uw.Run(small_config(name), "rw", seed, actor_weighting=actor) for seed in range(2)]
    setup = make_setup(ds, "float32")
    program = Program(runs[0].method, runs[0].config, setup)
    agents = make_agents(runs, make_parts(ds, runs), setup, 10)
    data = make_data(ds, runs[0].method, setup)
    pieces = [Piece(0, 2), Piece(2, 2), Piece(4, 1)]
    for piece, rows in StreamedData(packed, program, agents).feed(pieces):
        drawn = program.draws(agents, data.layout, np.int32(piece.first), piece.size)
        for ours, theirs in zip(rows.drawn, drawn, strict=True):
            assert (ours is None) == (theirs is None)
        for place in (0, 2):
            if drawn[place] is not None:
                np.testing.assert_array_equal(rows.rows[rows.drawn[place]], data.rows[drawn[place]])


@pytest.mark.parametrize("name", ["bc", "td3_bc"])
def test_policies_are_those_of_resident_data(tmp_path: Path, name: str) -> None:
    ds = dataset_for(name)
    packed = uw.pack(ds, tmp_path / "a.packed")
    runs = [uw.Run(small_config(name, normalize_observations=True), "rw", seed) for seed in range(2)]
    options = {"num_updates": 6, "log_every_updates": 3, "progress": False}
    streamed = uw.train(packed, runs, stream=True, output=tmp_path / "out", **options)
    resident = uw.train(ds, runs, stream=False, **options)
    observations = ds.observations.reshape(ds.num_steps, -1)[:20]
    for ours, theirs in zip(streamed, resident, strict=True):
        assert ours.status == theirs.status == "finished"
        np.testing.assert_allclose(ours.policy.act(observations), theirs.policy.act(observations), rtol=1e-5, atol=1e-6)
        for a, b in zip(ours.metrics, theirs.metrics, strict=True):
            assert a == pytest.approx(b, rel=1e-5)


def test_the_plan_says_which_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = dataset_for("bc")
    packed = uw.pack(ds, tmp_path / "a.packed")
    runs = [uw.Run(small_config("bc"))]
    assert not uw.plan_training(packed, runs).programs[0].streams
    forced = uw.plan_training(packed, runs, stream=True)
    assert forced.programs[0].streams and "gathered from their files batch by batch" in str(forced)
    rows = plan_module.data_bytes(packed, runs[0], make_setup(packed, "float32"))
    alone = forced.programs[0]
    room = int((alone.bytes_of_data + plan_module.CAUTION * alone.bytes_per_agent + 1000) / plan_module.USABLE_SHARE)
    monkeypatch.setattr(plan_module, "data_bytes", lambda *_: rows + room)  # as if the data were larger
    monkeypatch.setattr(plan_module, "device_memory", lambda: room)
    assert uw.plan_training(packed, runs).programs[0].streams
    with pytest.raises(uw.ConfigError, match=r"or pack the data \(`upweight pack`\)"):
        uw.plan_training(ds, runs)
    with pytest.raises(uw.ConfigError, match="one agent needs about"):
        uw.plan_training(packed, runs, stream=False)


@pytest.mark.parametrize("name", ["bc", "td3_bc"])
def test_the_plan_counts_the_rows_of_two_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    packed = uw.pack(dataset_for(name), tmp_path / "a.packed")
    runs = [uw.Run(small_config(name), "rw", seed) for seed in range(3)]
    method, config, setup = runs[0].method, runs[0].config, make_setup(packed, "float32")
    work = 3 * operations_per_update(method, config)
    monkeypatch.setitem(schedule_module._OPERATIONS_PER_PIECE, "cpu", 5 * work)  # a piece is a part of a block
    schedule = make_schedule(100, None, method, config, 3)
    agents = make_agents(runs, make_parts(packed, runs), setup, 100)
    [(_, data)] = StreamedData(packed, Program(method, config, setup), agents).feed(list(schedule.pieces(0))[:1])
    plan = uw.plan_training(packed, runs, stream=True).programs[0]
    alone = plan_module.agent_bytes(packed, runs[0], setup)
    assert 3 * (plan.bytes_per_agent - alone) == 2 * data.rows.nbytes
    assert plan.bytes_on_host == 2 * data.rows.nbytes + plan_module._ON_HOST.streaming[method.uses_rewards]


def test_rows_of_a_memory_map_are_counted_once(tmp_path: Path) -> None:
    ds = dataset_for("bc")
    packed, setup = uw.pack(ds, tmp_path / "a.packed"), make_setup(ds, "float32")
    rows = ds.num_steps * row_width(uw.Run("bc").method, setup) * 4
    assert plan_module.data_bytes(packed, uw.Run("bc"), setup) == rows
    assert plan_module.data_bytes(ds, uw.Run("bc"), setup) > rows
