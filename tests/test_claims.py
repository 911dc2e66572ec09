"""Numbers in README and docs are those of the stored results."""

import importlib.util
import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from upweight.cli.demo import score_table
from upweight.recipes.ladder import load_ladder
from upweight.recipes.tasks import MUJOCO_TASKS, TASKS
from upweight.report.replicate import replicate
from upweight.report.results import Results, collect
from upweight.report.statistics.aggregate import mean
from upweight.report.statistics.bootstrap import interval
from upweight.report.statistics.intervals import Intervals, deserves_a_mark
from upweight.report.tables import ScoreTable, score_tables
from upweight.studies.store import open_store

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
    rpsv = row["rpsv"]  # stored with four digits: more are not shown
    shown = f"{rpsv:.6f}" if rpsv < 0.01 else f"{rpsv:.5f}" if rpsv < 0.1 else f"{rpsv:.4f}"
    cells = [f"{row['episodes']:,}", f"{row['mean_score']:.3f}", shown, f"{row['paper_rpsv']:.6f}"]
    assert table_row("docs/datasets.md", row["dataset"]) == [*cells, f"{row['ratio']:.2f}"]


@pytest.mark.parametrize(("file", "workers"), [("collecting", 2), ("collecting_16_cores", 16)])
def test_collecting(file: str, workers: int) -> None:
    rows = stored(file)
    assert [(row["dataset"], row["workers"]) for row in rows] == [(f"{task}-expert", workers) for task in MUJOCO_TASKS]
    head = f"[{workers} cores](../benchmarks/results/{file}.json)"
    assert table_row("docs/datasets.md", head) == [f"{row['seconds']:.0f}" for row in rows]


def load_benchmark(name: str) -> Any:
    """A program of benchmarks/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results_page() -> Any:
    """The program that writes the tables."""
    return load_benchmark("results_page")


def text_of(page: str) -> str:
    """A page as one line, whatever its lines are."""
    return " ".join((ROOT / page).read_text().split())


@pytest.fixture(scope="module")
def float32() -> Results:
    return collect(open_store(RESULTS / "hopper_mixed_float32.jsonl"))


@pytest.fixture(scope="module")
def tables(float32: Results) -> dict[str, ScoreTable]:
    return {table.method: table for table in score_tables(float32, Intervals())}


def test_the_hopper_suite(results_page: Any) -> None:
    """The tables of README and the results page are what the stored runs give."""
    pages = {name: (ROOT / name).read_text() for name in ("README.md", "docs/results.md")}
    sections = results_page.sections()
    for name in ("short", "demo"):
        assert f"<!-- {name} -->\n{sections[name]}" in pages["README.md"]
    for name in ("scores BC", "scores TD3+BC", "aggregates", "temperature", "percentage", "precision"):
        assert f"<!-- {name} -->\n{sections[name]}" in pages["docs/results.md"]


def test_times_of_the_hopper_suite() -> None:
    """In float32 and bfloat16; the training of TD3+BC in float32 was cut in two, and has no time."""
    took = {}
    for precision in ("float32", "bfloat16"):
        for record in open_store(RESULTS / f"hopper_mixed_{precision}.jsonl").runs():
            assert record["agents"] == 215 and record["device"] == "NVIDIA H200"
            seconds = tuple(f"{record[key]:.0f} s" for key in ("train_seconds", "evaluate_seconds"))
            assert took.setdefault((record["spec"]["algorithm"], precision), seconds) == seconds
    (train, play), (fast_train, fast_play) = took["bc", "float32"], took["bc", "bfloat16"]
    text = text_of("docs/results.md")
    assert (
        f"the 215 BC agents took {train} of training and {play} of evaluation in float32, {fast_train} and {fast_play} in "
        "bfloat16;"
    ) in text
    assert "the 215 TD3+BC agents took {} and {} in bfloat16.".format(*took["td3_bc", "bfloat16"]) in text
    assert f"its evaluation took {took['td3_bc', 'float32'][1]}.)" in text


def test_what_a_sweep_costs() -> None:
    """And that the study it ran gave the returns that are stored."""
    found = json.loads((RESULTS / "sweep.json").read_text())
    bc, td3_bc = found["results"]
    text = text_of("docs/experiments.md")
    assert f"took {found['sweep_seconds']:.0f} s from the call to the last record" in text
    trained = f"the two trainings, {bc['train_seconds']:.0f} s and {td3_bc['train_seconds']:.0f} s."
    assert f"That is {found['over_training']:.0%} more than {trained}" in text
    assert f"{bc['evaluate_seconds']:.0f} s of evaluating BC" in text
    assert f"the last population, {td3_bc['evaluate_seconds']:.0f} s." in text
    assert f"updates alone, {bc['updates_seconds']:.0f} s and {td3_bc['updates_seconds']:.0f} s;" in text
    assert f"Over the bare updates the sweep took {found['over_bare_updates']:.0%} more" in text
    assert found["over_training"] < 0.15
    study = open_store(RESULTS / "hopper_mixed_bfloat16.jsonl")
    assert load_benchmark("sweep").hash_of_returns(study) == found["returns_sha256"]
    assert len(list(study.runs())) == found["runs"] == 430


def test_what_top_fraction_keeps(results_page: Any) -> None:
    found = results_page.early_shares()["hopper-expert-random-50", "top 0.1"]
    text = text_of("docs/results.md")
    assert found["good_kept"] == found["good_episodes"]
    assert f"The {found['kept']:,} episodes that Top-10% keeps" in text
    assert f"hold all {found['good_kept']} of the expert's, and {found['share_of_steps']:.0%} of their steps" in text
    assert f"in the first 30 steps only {found['share_of_first_30_steps']:.0%} are" in text


@pytest.fixture(scope="module")
def settings() -> Results:
    return collect(open_store(RESULTS / "hopper_settings.jsonl"))


def test_temperatures(settings: Results) -> None:
    """Better than Uniform: where; and what replicate says of the temperature."""
    assert len(settings.runs) == 720 and set(settings.updates.values()) == {100_000}
    tables = {table.name: table for table in score_tables(settings, Intervals())}
    for kind, at_a_fifth in (("rw", 2), ("aw", 3)):
        table = tables[f"scores-bc-settings-{kind}"]
        better = [sum(row[1][place].is_better for row in table.rows) for place in range(len(table.weightings))]
        assert len(table.rows) == 8 and better == [8, 8, 8, at_a_fifth, 0, 0], kind
    text = text_of("docs/results.md")
    assert "on all eight mixes at 0.01, 0.05 and 0.1, on 2 (RW) and 3 (AW) at 0.2, and on none at 0.5 and 1." in text
    (claim,) = [claim for claim in replicate(settings, Intervals()).claims if "temperature" in claim.text]
    assert (claim.supported, len(claim.checks)) == (0, 10)
    lost = [check.gain.point for check in claim.checks if check.gain is not None and check.gain.point < -0.1]
    assert len(lost) == 6 and f"falls by at least {-max(lost):.2f}" in text


def test_early_steps_decide(results_page: Any) -> None:
    """On mixes with expert data: a setting draws the first steps mostly from the expert and works, or does neither."""
    shares = results_page.early_shares()
    scores: dict[tuple[str, str], float] = {}
    for kind, setting in (("rw", "temperature"), ("top", "fraction")):
        for dataset, cells in results_page.setting_scores(kind, setting).items():
            scores |= {(dataset, name): float(np.mean(values)) for name, values in cells.items()}
    points = {key: (shares[key]["share_of_first_30_steps"], scores[key]) for key in scores if "expert" in key[0]}
    assert len(scores) == 88 and len(points) == 44
    high = [point for point in points.values() if point[0] > 0.5]
    low = [point for point in points.values() if point[0] < 0.5]
    text = text_of("docs/results.md")
    assert f"at least {min(share for share, _ in high):.0%} of the first steps from the expert scores" in text
    assert f"scores {min(score for _, score in high):.2f} or more" in text
    assert (
        f"draws at most {max(share for share, _ in low):.0%} scores {max(score for _, score in low):.2f} or less"
        in text
    )
    example = shares["hopper-expert-random-10", "rw 0.2"]
    assert f"on `expert-random-10` at 0.2 they are {example['share_of_steps']:.0%}, and the score is" in text
    assert f"score is {scores['hopper-expert-random-10', 'rw 0.2']:.2f}." in text
    assert f"drawn there only {example['share_of_first_30_steps']:.0%} are the expert's" in text


def test_the_checks_of_the_first_claim_and_what_they_pool(float32: Results, tables: dict[str, ScoreTable]) -> None:
    claim = replicate(float32, Intervals()).claims[0]
    assert (claim.supported, claim.decided) == (16, 16)
    assert all(check.datasets == 2 for check in claim.checks)  # the expert and the medium mix
    apart: dict[str, list[str]] = {}
    for method, table in tables.items():
        for dataset, cells in table.rows:
            for sampler in ("RW", "AW"):
                cell = cells[table.weightings.index(sampler)]
                if dataset.sigma is not None and cell is not None and not cell.is_better:
                    apart.setdefault(method, []).append(str(dataset.good))
    assert apart == {"TD3+BC": ["expert"] * 5}
    assert (
        "Dataset by dataset it holds in all 16 cells of BC and in 11 of 16 of TD3+BC; the 5 that are not separated are all "
        "mixes with expert data"
    ) in text_of("docs/results.md")


def test_half_does_not_improve_on_uniform(float32: Results, tables: dict[str, ScoreTable]) -> None:
    shown = []
    for method in ("BC", "TD3+BC"):
        mixes = float32.datasets_of(method, family="mixed")
        found = Intervals().improvement(*(float32.scores(method, name, mixes) for name in ("Half", "Uniform")))
        assert found.low < 0.5
        shown.append(f"{found.point:.2f} [{found.low:.2f}, {found.high:.2f}] with {method}")
    wins = sum(cell.is_better for table in tables.values() for cell in table.column(table.weightings.index("Half")))
    text = text_of("docs/results.md")
    assert f"over Uniform is {' and '.join(shown)}, and it is better than Uniform in {wins} of 16 cells." in text


def test_spread_of_td3_bc(tables: dict[str, ScoreTable]) -> None:
    table = tables["TD3+BC"]
    mixes = [cells for dataset, cells in table.rows if dataset.sigma is not None]
    names = ("Uniform", "Top-10%", "Half")
    stds = [cell.std for cells in mixes for name in names if (cell := cells[table.weightings.index(name)]) and cell.std]
    high = sum(std > 0.2 for std in stds)
    assert (
        f"standard deviations over seeds of {min(stds):.2f} to {max(stds):.2f} in the {len(stds)} cells, above 0.2 in {high} "
        "of them."
    ) in text_of("docs/results.md")


def test_what_bfloat16_costs(results_page: Any) -> None:
    rows = results_page.precision_rows(
        collect([open_store(RESULTS / f"hopper_mixed_{name}.jsonl") for name in ("float32", "bfloat16")])
    )
    bounds = {row[0]: [float(number) for number in re.findall(r"[+-][\d.]+", row[3])[1:]] for row in rows[2:]}
    assert len(bounds) == 10 and all(low < 0 < high for low, high in bounds.values())  # "No interval leaves 0 out"
    fail = [bounds[f"BC, {name}"][0] for name in ("Uniform", "Top-10%", "Half")]
    assert min(fail) > -0.01
    weighted = [bounds[f"BC, {name}"][0] for name in ("RW", "AW")]
    others = [low for name, (low, _) in bounds.items() if name.startswith("TD3+BC")]
    assert max(*weighted, *others) < -0.02
    text = text_of("docs/results.md")
    assert f"for BC with RW and AW the intervals reach down to {weighted[0]:.3f} and {weighted[1]:.3f}, " in text
    assert f"from {max(others):.3f} to {min(others):.3f}. So **float32" in text


def test_bold_by_chance() -> None:
    """Of all orders that five seeds and five others can come in, how many make a cell bold."""
    places = range(10)
    orders = list(combinations(places, 5))
    bold = 0
    for ours in orders:
        theirs = [float(place) for place in places if place not in ours]
        bold += deserves_a_mark(Intervals().improvement({"": [float(place) for place in ours]}, {"": theirs}))
    assert f"({bold} of the {len(orders)} orders that five seeds and five others can come in)" in text_of(
        "docs/reports.md"
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
    means: dict[str, list[str]] = {"rw": [], "aw": []}
    for seed in range(3):
        records = list(open_store(RESULTS / f"demo_seed{seed}.jsonl").runs())
        table = score_table(collect(open_store(RESULTS / f"demo_seed{seed}.jsonl")).runs)
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
            means[name].append(f"{weighted.point:.2f}")
    readme = text_of("README.md")
    assert f"scores {means['rw'][0]} (RW) and {means['aw'][0]} (AW)" in readme
    assert "The intervals cover training seeds only; another draw of the data moves the scores too." in readme
    assert f"on three draws: AW {', '.join(means['aw'][:2])} and {means['aw'][2]})" in text_of("docs/results.md")
