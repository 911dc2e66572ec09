"""Numbers in README and docs are those of the stored results."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from upweight.behaviours.ladder import load_ladder
from upweight.behaviours.tasks import MUJOCO_TASKS, TASKS
from upweight.cli.demo import score_table
from upweight.experiments.store import open_store
from upweight.report.aggregate import mean
from upweight.report.bootstrap import interval

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def stored(name: str) -> list[dict[str, Any]]:
    return json.loads((RESULTS / f"{name}.json").read_text())["results"]


def table_row(page: str, head: str) -> list[str]:
    """The cells after ``head`` of the table row that begins with it."""
    text = (ROOT / page).read_text()
    (row,) = re.findall(rf"^\| {re.escape(head)} \|(.*)\|$", text, re.MULTILINE)
    return [cell.strip() for cell in row.split("|")]


@pytest.mark.parametrize(
    ("head", "file", "agents", "dtype", "who"),
    [
        ("one H200, 256 agents, float32", "train_throughput_h200", 256, "float32", "upweight"),
        ("one H200, 256 agents, bfloat16", "train_throughput_h200", 256, "bfloat16", "upweight"),
        ("one H200, one agent, float32", "train_throughput_h200", 1, "float32", "upweight"),
        ("one H200, d3rlpy, one agent", "train_throughput_h200", 1, "float32", "d3rlpy, compile_graph"),
        ("two CPU cores, one agent", "train_throughput_cpu", 1, "float32", "upweight"),
        ("two CPU cores, d3rlpy", "train_throughput_cpu", 1, "float32", "d3rlpy"),
    ],
)
def test_training_speed(head: str, file: str, agents: int, dtype: str, who: str) -> None:
    key = (agents, dtype, who)
    found = {r["algorithm"]: r for r in stored(file) if (r["agents"], r["dtype"], r["who"]) == key}
    for name, cell in zip(("bc", "td3_bc", "iql", "cql"), table_row("README.md", head), strict=True):
        rate = found[name]["agent_updates_per_s"]
        assert cell == (f"{rate:,.0f}" if rate >= 100 else f"{rate:.0f}" if rate >= 20 else f"{rate:.1f}")


@pytest.mark.parametrize("task", TASKS)
def test_ladders(task: str) -> None:
    ladder = load_ladder(task)
    shown = [f"{r.mean_return:,.0f} ± {r.std_return:,.0f} ({r.score:.2f})" for r in (ladder.medium, ladder.expert)]
    first = f"{len(ladder.rungs)}, from {ladder.rungs[0].mean_return:,.0f}"
    assert table_row("docs/datasets.md", task) == [first, *shown]


@pytest.mark.parametrize("row", stored("datasets"), ids=lambda row: row["dataset"])
def test_datasets(row: dict[str, Any]) -> None:
    cells = [f"{row['episodes']:,}", f"{row['mean_score']:.3f}", f"{row['rpsv']:.6f}", f"{row['paper_rpsv']:.6f}"]
    assert table_row("docs/datasets.md", row["dataset"]) == [*cells, f"{row['ratio']:.2f}"]


@pytest.mark.parametrize(("file", "workers"), [("collecting", 2), ("collecting_16_cores", 16)])
def test_collecting(file: str, workers: int) -> None:
    rows = stored(file)
    assert [(row["dataset"], row["workers"]) for row in rows] == [(f"{task}-expert", workers) for task in MUJOCO_TASKS]
    head = f"[{workers} cores](../benchmarks/results/{file}.json)"
    assert table_row("docs/datasets.md", head) == [f"{row['seconds']:.0f}" for row in rows]


@pytest.fixture(scope="module")
def results_page() -> Any:
    """The program that writes the tables."""
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "benchmarks" / "results_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        spec.loader.exec_module(module)
    return module


def test_the_hopper_suite(results_page: Any) -> None:
    """The tables of README and the results page are what the stored runs give."""
    pages = {name: (ROOT / name).read_text() for name in ("README.md", "docs/results.md")}
    sections = results_page.sections()
    assert sections["short"] in pages["README.md"]
    for name in ("scores BC", "scores TD3+BC", "precision"):
        assert sections[name] in pages["docs/results.md"]
    for record in open_store(RESULTS / "hopper_mixed_bfloat16.jsonl").runs():
        method = {"bc": "BC", "td3_bc": "TD3+BC"}[record["spec"]["algorithm"]]
        seconds = [f"{record[key]:.0f} s" for key in ("train_seconds", "evaluate_seconds")]
        text = " ".join(pages["docs/results.md"].split())
        assert re.search(
            rf"the {record['agents']} {re.escape(method)} agents( took)? {seconds[0]}[^.,]* {seconds[1]}", text
        )


def test_adapters(results_page: Any) -> None:
    """Tables of their pages; and that RW beats uniform draws in both libraries, outside the intervals."""
    for page, sections in results_page.adapter_sections().items():
        text = (ROOT / page).read_text()
        assert all(f"<!-- {name} -->\n{table}" in text for name, table in sections.items()), page
    for row in stored("adapters_returns"):  # 10,240 draws
        assert row["mean"] == pytest.approx(row["by_the_weights"], rel=0.1)
    training = {(row["library"], row["weighting"]): row["interval"] for row in stored("adapters_training")}
    for library in ("d3rlpy", "torchrl"):
        assert training[library, "rw"][0] > training[library, "uniform"][1]
    ratio = {row["sampler"]: row["of_uniform"] for row in stored("adapters")}
    assert ratio["d3rlpy WeightedReplayBuffer (ours)"] < 1 / 10
    assert ratio["TorchRL EpisodeWeightedSampler (ours)"] < 1.2
    times = {row["sampler"].removesuffix(" (ours)"): f"{row['microseconds']:,.0f}" for row in stored("adapters")}
    readme = " ".join((ROOT / "README.md").read_text().split())
    for ours, own in (
        ("d3rlpy WeightedReplayBuffer", "d3rlpy ReplayBuffer (uniform)"),
        ("TorchRL EpisodeWeightedSampler", "TorchRL RandomSampler (uniform)"),
        ("PyTorch EpisodeBatchSampler", "PyTorch RandomSampler (uniform)"),
    ):
        assert re.search(rf"{ours.split()[0]}[^;.]* {times[ours]} [^;.]*{times[own]}\b", readme), ours
    assert f"`WeightedRandomSampler`: {times['PyTorch WeightedRandomSampler (weighted)']}" in readme
    theirs = ratio["PyTorch WeightedRandomSampler (weighted)"]
    assert ratio["PyTorch EpisodeBatchSampler (ours)"] < theirs / 5


def test_the_demo() -> None:
    """README shows the table of seed 0; RW and AW are clearly above Uniform on all three seeds that are stored."""
    for seed in range(3):
        records = list(open_store(RESULTS / f"demo_seed{seed}.jsonl").runs())
        table = score_table(records)
        assert seed or table in (ROOT / "README.md").read_text()
        scores = {
            name: [r["score"] for r in records if r["spec"]["weighting"]["name"] == name]
            for name in ("uniform", "rw", "aw")
        }
        assert all(len(values) == 5 for values in scores.values())
        uniform = interval(mean, [scores["uniform"]], rng=np.random.default_rng(0))
        for name in ("rw", "aw"):
            weighted = interval(mean, [scores[name]], rng=np.random.default_rng(0))
            assert weighted.low > uniform.high and weighted.point > 2 * uniform.point
