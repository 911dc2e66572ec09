"""How runs are packed."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.training import dataset_for, small_config
from upweight.data.columns import Column
from upweight.data.segment import Episodes
from upweight.lab.train import plan as plan_module, schedule as schedule_module
from upweight.lab.train.run import program_key

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def test_runs_with_one_key_share_a_program() -> None:
    one = uw.Run(small_config("bc"), "rw", 0)
    alike = [uw.Run(small_config("bc", learning_rate=0.5), "aw", 7), uw.Run(small_config("bc"), episodes=[0, 1])]
    others = [
        uw.Run(small_config("bc", batch_size=4)),
        uw.Run(small_config("td3_bc")),
        uw.Run(small_config("bc"), reweight=True),
        uw.Run(small_config("td3_bc"), actor_weighting="rw"),
    ]
    assert {program_key(run) for run in alike} == {program_key(one)}
    assert len({program_key(run) for run in [one, *others]}) == 5
    plan = uw.plan_training(dataset_for("bc"), [one, *others, *alike])
    assert [part.runs for part in plan.programs] == [(0, 5, 6), (1,), (2,), (3,), (4,)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*a time limit")
@pytest.mark.parametrize("name", ["bc", "td3_bc", "iql"])
def test_what_is_planned_is_what_it_takes_on_the_host(tmp_path: Path, name: str) -> None:
    """With the data that were read, and their fingerprint; JAX shares the memory of rows, and float64 is a block's at a time."""
    steps, rng = 600_000, np.random.default_rng(0)
    ends = np.zeros(steps, bool)
    ends[999::1000] = True
    made = uw.Dataset.from_arrays(
        observations=rng.standard_normal((steps, 17), np.float32),
        actions=np.tanh(rng.standard_normal((steps, 6), np.float32)),
        rewards=rng.standard_normal(steps, np.float32),
        terminated=ends,
    )
    uw.save(made, tmp_path / "data.npz")
    run = uw.Run(small_config(name), "rw")
    tracemalloc.start()
    try:
        ds = uw.load(tmp_path / "data.npz")
        planned = uw.plan_training(ds, [run]).programs[0].total_bytes
        uw.train(ds, [run], num_updates=2, output=tmp_path / "out")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.8 * planned < peak < 1.15 * planned


class Mapped(Column):
    """Zeros that are nowhere, as in a memory map."""

    is_mapped = True

    def _read(self) -> np.ndarray:
        return np.zeros(self.shape, self.dtype)

    def _read_rows(self, index: np.ndarray) -> np.ndarray:
        return np.zeros((len(index), *self.shape[1:]), self.dtype)


@pytest.mark.parametrize("device", ["cpu", "h200"])
def test_the_plan_is_within_a_fifth_of_what_was_measured(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """By benchmarks/streaming.py; on a CPU there is one memory."""
    stored = json.loads((RESULTS / f"streaming_{device}.json").read_text())
    if device == "h200":
        monkeypatch.setattr(plan_module, "device_is_host", lambda: False)
        monkeypatch.setitem(schedule_module._OPERATIONS_PER_PIECE, "cpu", 1e13)  # a GPU's, when that was measured
    steps = stored["steps"]
    ends = np.ones(steps // 1000, bool)
    episodes = Episodes(np.full(len(ends), 1000), ends, ~ends, ends, ~ends)
    kinds = {"observations": ((11,), "f4"), "actions": ((3,), "f4"), "rewards": ((), "f4"), "flags": ((), "u1")}
    columns = {key: Mapped((steps, *shape), np.dtype(kind)) for key, (shape, kind) in kinds.items()}
    ds = uw.Dataset.assemble(episodes=episodes, **columns)
    for result in stored["results"]:
        runs = [uw.Run(result["algorithm"], "uniform", seed) for seed in range(result["agents"])]
        for way in ("streamed", "resident"):
            [plan] = uw.plan_training(ds, runs, stream=way == "streamed", max_agents=len(runs)).programs
            taken, planned = result[way], [plan.total_bytes, plan.bytes_on_host]
            found = [taken["device"], taken["host"]] if taken["device"] else [taken["host"]]
            planned = planned if taken["device"] else [sum(planned)]
            np.testing.assert_allclose(planned, found, rtol=0.2)
