import json
from pathlib import Path
from typing import Any

import pytest

from upweight.base.cores import usable_cores
from upweight.lab.study.experiment_file import read_experiment
from upweight.lab.sweep.estimate import updates_per_second
from upweight.lab.sweep.sweep import plan_sweep

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


@pytest.mark.parametrize(("suite", "seconds"), [("paper/official_antmaze", 17), ("paper/stochastic", 4.3)])
def test_evaluation_is_estimated_to_a_factor_of_two(suite: str, seconds: float) -> None:
    """Of what it took on one core: an ant is slow, and classic control has short episodes."""
    found = plan_sweep(read_experiment(suite, scale="smoke")).estimate.evaluation * usable_cores()
    assert seconds / 2 < found < 2 * seconds


@pytest.mark.parametrize("algorithm", ["bc", "td3_bc", "iql", "cql"])
def test_training_on_an_h200_is_estimated_to_a_factor_of_two(algorithm: str) -> None:
    """Of the rates measured there with up to 512 agents, in every precision, with and without fused kernels; 2.5 with one."""
    run = next(run for run in read_experiment("paper/mixed").runs if run.algorithm == algorithm)
    rows = [row for row in _stored("train_throughput_h200") if row["who"] == "upweight"]
    rows += [
        {**row, "dtype": "fused" if row["kernels"] == "fused" else "bfloat16"}
        for row in (*_stored("kernels_time"), *_stored("kernels_time_few"), *_stored("kernels_time_between"))
        if row["kernels"] != "fused" or row["agents"] >= 24  # where they are used
    ]
    found = [row for row in rows if row["algorithm"] == algorithm]
    assert {row["dtype"] for row in found} == {"float32", "bfloat16", "fused"}
    for row in found:
        ratio = updates_per_second(row["dtype"], run, row["agents"]) / row["agent_updates_per_s"]
        most = 2.5 if row["agents"] == 1 else 2
        assert 1 / most < ratio < most, (row["agents"], row["dtype"], ratio)


def _stored(name: str) -> list[dict[str, Any]]:
    return json.loads((RESULTS / f"{name}.json").read_text())["results"]
