"""Numbers in README and docs are those of the stored measurements; those of the studies are in test_results.py."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.pages import RESULTS, ROOT, load_benchmark, stored, table_row, text_of
from upweight.engine.algorithm import find_algorithm
from upweight.engine.kernels.choice import worthwhile
from upweight.engine.run import algorithm_config
from upweight.recipes.ladder import load_ladder
from upweight.recipes.tasks import CLASSIC_TASKS, MAZE_TASKS, MUJOCO_TASKS
from upweight.report.statistics.ranks import rank_test
from upweight.selection.rule import SelectionRule
from upweight.studies.readers import open_store


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


def test_speed_of_the_kernels() -> None:
    many, few, between = (
        {(r["algorithm"], r["agents"], r["kernels"]): r for r in stored(file)}
        for file in ("kernels_time", "kernels_time_few", "kernels_time_between")
    )
    rows, names = few | between | many, ("bc", "td3_bc", "iql", "cql")
    for kernels in ("XLA", "fused"):
        heads = {"256 (CQL 64)": (256, many), "64": (64, few), "32": (32, between), "24": (24, between)}
        for head, (agents, measured) in (heads | {"16": (16, few), "1": (1, few)}).items():
            counts = [min(agents, 64) if name == "cql" else agents for name in names]
            keys = [(name, count, kernels.lower()) for name, count in zip(names, counts, strict=True)]
            shown = [rate_text(measured[key]) if key in measured else "" for key in keys]
            assert table_row("docs/kernels.md", f"{head}, {kernels}") == shown
    check_that_auto_is_faster(rows)
    page, largest = text_of("docs/kernels.md"), few["cql", 64, "fused"]["first_call_seconds"]
    assert largest <= 60 and f"CQL, took {largest} s to compile" in page

    def gains(agents: int, measured: dict[Any, Any] = rows) -> list[float]:
        pairs = [
            [measured[name, agents, each]["agent_updates_per_s"] for each in ("fused", "xla")] for name in names[:3]
        ]
        return [fused / xla for fused, xla in pairs]

    least, most = min(gains(16)), max(gains(16))
    assert f"With 16 agents it is XLA by {100 / most - 100:.0f} to {1 / least - 1:.0%} only" in page
    more = [f"{100 * min(found) - 100:.0f} to {max(found) - 1:.0%}" for found in (gains(24), gains(32), gains(64, few))]
    assert "with 24 the kernels by {}, with 32 by {}, with 64 by {}".format(*more) in page
    fused = [row["agent_updates_per_s"] for row in found_for(rows, names, "fused")]
    head = "the same with [fused kernels](docs/kernels.md) (CQL: 64 agents)"
    assert table_row("README.md", head) == [f"{rate:,}" for rate in fused]
    float32 = {
        r["algorithm"]: r["agent_updates_per_s"]
        for r in stored("train_throughput_h200")
        if (r["agents"], r["dtype"], r["who"]) == (256, "float32", "upweight")
    }
    faster = [rate / float32[name] for name, rate in zip(names, fused, strict=True)]
    assert f"{min(faster):.1f} to {max(faster):.1f}\ntimes" in (ROOT / "docs/training.md").read_text()
    checks = stored("kernels_check")
    assert all(row["bit_equal"] for row in checks) and len(checks) == 12
    ratios = [row["worst_ratio"] for row in checks]
    assert f"{min(ratios):.2f} to {max(ratios):.2f} of plain bfloat16's for twelve shapes" in page
    agents, _, _, inputs, *_ = map(max, zip(*(row["shape"] for row in checks), strict=True))
    assert f"of up to {inputs} inputs and up to {agents} agents" in page


def rate_text(row: dict[str, Any]) -> str:
    return f"{row['agent_updates_per_s']:,} ({row['share_of_roofline']:.0%})"


def check_that_auto_is_faster(rows: dict[Any, Any], inputs: int = 1) -> None:
    """ "the faster of the two at every number measured" """
    for (name, agents, kernels), row in rows.items():
        method, config = find_algorithm(name), algorithm_config(name)
        fused = worthwhile(config.hidden_units, agents, method.network_rows(config), inputs=inputs)
        chosen = rows[name, agents, "fused" if fused else "xla"]
        assert chosen["agent_updates_per_s"] >= row["agent_updates_per_s"], (name, agents, kernels)


@pytest.mark.parametrize(("file", "sizes"), [("kernels_time_wide", (111, 8)), ("kernels_time_wider", (348, 17))])
def test_speed_of_the_kernels_with_wide_inputs(file: str, sizes: tuple[int, int]) -> None:
    found = {(r["algorithm"], r["agents"], r["kernels"]): r for r in stored(file)}
    assert json.loads((RESULTS / f"{file}.json").read_text())["sizes"] == list(sizes)
    for kernels in ("XLA", "fused"):
        shown = [rate_text(found[name, 64, kernels.lower()]) for name in ("bc", "td3_bc", "iql", "cql")]
        assert table_row("docs/kernels.md", f"{sizes[0]} and {sizes[1]}, {kernels}") == shown
    check_that_auto_is_faster(found, sum(sizes))


def test_where_the_time_of_an_update_goes() -> None:
    spent = {row["algorithm"]: row for row in stored("kernels_profile")}
    totals = [f"{spent[name]['us_per_update']:,.0f}" for name in ("bc", "td3_bc", "iql", "cql")]
    text = text_of("docs/kernels.md")
    assert f"{', '.join(totals[:3])} and {totals[3]} us an update" in text

    def share(name: str, is_part: Callable[[str, float], bool]) -> str:
        parts = [each["us"] for each in spent[name]["kernels"] if is_part(each["kernel"], each["us"] / each["calls"])]
        return f"{sum(parts) / spent[name]['us_per_update']:.0%}"

    adam, ours = (  # passes over all large layers, and the kernels of our own
        [share(name, is_part) for name in ("bc", "td3_bc", "iql", "cql")]
        for is_part in (
            lambda kernel, us: "convert_subtract_fusion" in kernel and us > 50,
            lambda kernel, us: kernel.startswith("mlp_"),
        )
    )
    sums = [share(name, lambda kernel, us: kernel.startswith("input_reduce") and us > 20) for name in ("td3_bc", "iql")]
    assert sums == ["6%"] * 2 and "take 6% of TD3+BC and of IQL" in text
    assert f"take {adam[0]} of BC, {adam[1]} of TD3+BC and {adam[2]} of IQL" in text
    assert f"the three kernels {ours[0]}, {ours[1]} and {ours[2]}, and {ours[3]} of CQL" in text


def test_bytes_of_two_updates() -> None:
    """Passes over the large layers: of BC's one network, and of IQL's two critics with their targets."""
    rows = stored("program_fused")

    def bytes_per_parameter(name: str, networks: int) -> int:
        large = sorted(
            (row["read"] + row["written"] for row in rows if row["algorithm"] == name and is_adam(row)), reverse=True
        )
        return round(sum(large[:2]) / (256 * networks * 256 * 256))

    def is_adam(row: dict[str, Any]) -> bool:
        return "subtract_fusion" in row["pass"] and row["updates"] == 2

    shown = f"{bytes_per_parameter('bc', 1)} bytes a parameter for two updates instead of {2 * (12 + 2 + 12 + 2)}"
    target = f"{bytes_per_parameter('iql', 2)} instead of {2 * (16 + 2 + 16 + 4)} in IQL"
    assert f"{shown}, and {target}" in text_of("docs/kernels.md")
    merged = [row["pass"] for row in rows if "reduce" in row["pass"] and row["written"] > 2**24]
    assert not merged  # no sum in a large pass


def found_for(rows: dict[Any, Any], names: tuple[str, ...], kernels: str) -> list[dict[str, Any]]:
    return [rows[name, 64 if name == "cql" else 256, kernels] for name in names]


@pytest.mark.parametrize("task", (*MUJOCO_TASKS, *CLASSIC_TASKS))
def test_ladders(task: str) -> None:
    ladder = load_ladder(task)
    shown = [f"{r.mean_return:,.0f} ± {r.std_return:,.0f} ({r.score:.2f})" for r in (ladder.medium, ladder.expert)]
    first = f"{len(ladder.rungs)}, from {ladder.rungs[0].mean_return:,.0f}"
    assert table_row("docs/datasets.md", task) == [first, *shown]


def shown_rpsv(row: dict[str, Any]) -> list[str]:
    rpsv = row["rpsv"]  # stored with four digits: more are not shown
    return [
        f"{rpsv:.6f}" if rpsv < 0.01 else f"{rpsv:.5f}" if rpsv < 0.1 else f"{rpsv:.4f}",
        f"{row['paper_rpsv']:.6f}",
    ]


@pytest.mark.parametrize("row", stored("datasets"), ids=lambda row: row["dataset"])
def test_datasets(row: dict[str, Any]) -> None:
    cells = [f"{row['episodes']:,}", f"{row['mean_score']:.3f}", *shown_rpsv(row)]
    assert table_row("docs/datasets.md", row["dataset"]) == [*cells, f"{row['ratio']:.2f}"]


@pytest.mark.parametrize("row", stored("antmaze"), ids=lambda row: row["dataset"])
def test_antmaze(row: dict[str, Any]) -> None:
    cells = [f"{row['episodes']:,}", f"{row['mean_score']:.3f}", f"{row['mean_length']:.0f}"]
    cells += [f"{row['length_to_goal']:.0f}", *shown_rpsv(row), f"{row['d4rl_episodes_per_million']:,}"]
    assert table_row("docs/datasets.md", row["dataset"]) == cells


def test_what_differs_from_the_papers_datasets() -> None:
    ratio = {row["dataset"]: row["ratio"] for row in stored("datasets")}
    kinds = {
        "expert": [value for name, value in ratio.items() if "-expert-random-" in name],
        "medium": [value for name, value in ratio.items() if "-medium-random-" in name],
        "other": [value for name, value in ratio.items() if "-random-" not in name],
    }
    text = text_of("docs/datasets.md")
    expert, medium, other = (f"{min(values):.2f} to {max(values):.2f}" for values in kinds.values())
    assert f"with expert data the ratio is {expert}, for those with medium data {medium}," in text
    assert f"for the other sets it is {other}." in text
    outside = {name for name, value in ratio.items() if "-random-" in name and not 0.8 <= value <= 1.25}
    assert outside == {
        "hopper-medium-random-1",
        "hopper-medium-random-5",
        "ant-medium-random-1",
        "walker2d-medium-random-5",
    }
    assert all(f"({ratio[name]:.2f})" in text for name in outside)
    assert [name for name in ratio if "-random-" not in name and not 0.5 <= ratio[name] <= 2] == ["halfcheetah-expert"]


@pytest.mark.parametrize(("file", "workers"), [("collecting", 2), ("collecting_16_cores", 16)])
def test_collecting(file: str, workers: int) -> None:
    rows = stored(file)
    assert [(row["dataset"], row["workers"]) for row in rows] == [(f"{task}-expert", workers) for task in MUJOCO_TASKS]
    head = f"[{workers} cores](../benchmarks/results/{file}.json)"
    assert table_row("docs/datasets.md", head) == [f"{row['seconds']:.0f}" for row in rows]


def test_collecting_antmaze() -> None:
    rows = stored("collecting_antmaze_16_cores")
    assert [row["dataset"] for row in rows] == [f"{task}-expert" for task in MAZE_TASKS]
    assert all(row["steps"] >= 500_000 and row["workers"] == 16 for row in rows)
    one, two, three = (f"{row['seconds']:.0f}" for row in rows)
    text = text_of("docs/datasets.md")
    assert f"500,000 steps of the expert took {one}, {two} and {three} s (umaze, medium, large)" in text
    found = {record["name"]: record["mean"] for record in open_store(RESULTS / "regular.jsonl").datasets()}
    order = ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")
    shares = [f"{found[f'antmaze-{name}']:.2f}" for name in order]
    assert f"{', '.join(shares[:-1])} and {shares[-1]} of the episodes reach the goal" in text


def test_what_five_seeds_can_show() -> None:
    """The smallest p-values, and what corrections for 128 comparisons ask for."""
    smallest = {n: rank_test(range(n), range(n, 2 * n)) for n in (5, 7, 8)}
    assert smallest[5] == pytest.approx(2 / 252) and smallest[8] == pytest.approx(2 / 12870)
    assert smallest[5] > smallest[7] > 0.05 / 128 > smallest[8]
    assert smallest[5] / 0.05 == pytest.approx(1 / 6, abs=0.01)
    text = text_of("docs/reports.md")
    assert "the smallest p-value is 2/252 = 0.008, and Holm's" in text and f"asks for {0.05 / 128:.4f}:" in text
    assert "With eight seeds (2/12870) Holm would do as well." in text


def test_adapters() -> None:
    """RW beats uniform draws in both libraries, outside the intervals."""
    for row in stored("adapters_returns"):  # 10,240 draws
        assert row["mean"] == pytest.approx(row["by_the_weights"], rel=0.1)
    training = {(row["library"], row["weighting"]): row["interval"] for row in stored("adapters_training")}
    for library in ("d3rlpy", "torchrl"):
        assert training[library, "rw"][0] > training[library, "uniform"][1]
    ratio = {row["sampler"]: row["of_uniform"] for row in stored("adapters")}
    assert ratio["d3rlpy WeightedReplayBuffer (ours)"] < 1 / 10
    assert ratio["TorchRL EpisodeWeightedSampler (ours)"] < 1.2
    assert ratio["TorchRL DatasetStorage, packed (ours, uniform weights)"] < 1  # of TorchRL's own maps
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


def test_speed_of_critics() -> None:
    rates = {(row["who"], row["critics"], row["dtype"]): row for row in stored("fqe_throughput_h200")}
    ours, theirs = (
        500 * 60_000 / rates[key]["critic_updates_per_s"]
        for key in (("upweight", 500, "bfloat16"), ("d3rlpy", 1, "float32"))
    )
    text = text_of("docs/selection.md")
    assert f"take {ours / 60:.1f} minutes on one H200 in bfloat16" in text
    assert f"one after another, would take {theirs / 3600:.0f} hours" in text


def test_choosing_without_a_simulator() -> None:
    """The stored analysis is that of the stored rows, by the rule as it is."""
    analysis, summary = (
        load_benchmark("selection_analysis"),
        json.loads((RESULTS / "selection_analysis.json").read_text()),
    )
    datasets = analysis.read(sorted(RESULTS.glob("selection_study_*.jsonl")))
    assert {(row["dataset"], row["fit"]) for row in summary["results"]} == datasets.keys()
    for row in summary["results"]:
        name, way = row["dataset"], row["fit"]
        rows = datasets[name, way]
        points = [value for value, *_ in row["FQE, mean"]]
        np.testing.assert_allclose(analysis.measures(analysis.truth(rows), analysis._mean(rows)), points, atol=1e-4)
        for rule, decisions in (("defaults", SelectionRule()), ("no veto", SelectionRule(min_reached=0))):
            assert analysis.decide(rows, decisions) == summary["rule"][way][rule][name]


def test_a_dataset_of_the_selection_study_counts_once() -> None:
    """As it was last: earlier rows of it are a way of their own, and so are other settings."""
    analysis, paths = load_benchmark("selection_analysis"), sorted(RESULTS.glob("selection_study_*.jsonl"))
    last = {key: rows for path in paths for key, rows in analysis.read([path]).items()}
    every = analysis.read(paths)
    assert {key: rows for key, rows in every.items() if key[1] != "earlier"} == last
    repeated = {name for name, way in every if way == "earlier"}
    assert repeated == {"hopper-medium-replay", "walker2d-medium-random-10", "walker2d-medium-replay"}
    updates = {way: {rows[0]["fqe_updates"] for key, rows in every.items() if key[1] == way} for _, way in every}
    assert updates["held_out"] == {20_000} and updates["earlier"] == {10_000, 30_000}
    assert all(len(rows) == 90 for rows in every.values())


def test_how_well_policies_are_ranked_without_a_simulator() -> None:
    summary, text = json.loads((RESULTS / "selection_analysis.json").read_text()), text_of("docs/selection.md")
    means = summary["means"]["held_out"]
    every = [row for row in summary["results"] if row["fit"] == "held_out"]
    ranks = [row["FQE, mean"][0][0] for row in every]
    assert f"positive on every dataset, from {min(ranks):.2f} to {max(ranks):.2f}." in text and min(ranks) > 0
    first, lot, weighted = (means[name][1][0] for name in ("FQE, mean", "random", "always RW 0.1"))
    assert first > lot > weighted  # taking the first is no better than drawing lots
    assert (
        f"a regret of {first:.2f} on average, a policy drawn from all {lot:.2f}, one drawn from all with RW 0.1 {weighted:.2f}."
    ) in text
    names = ("FQE, mean - std", "random", "held-out loss, by return", "always RW 0.1")
    five, drawn, good, weighted = (means[name][3][0] for name in names)
    assert abs(five - drawn) < 0.05  # no good for a shortlist
    assert (
        f"falls short by {five:.2f}, the best of five drawn from all by {drawn:.2f}; by return it is {good:.2f}, of five with "
        f"RW 0.1 {weighted:.2f}."
    ) in text
    wrong = sum(row["held-out loss"][0][0] < 0 for row in every)
    assert f"the wrong way on {wrong} of {len(every)} datasets" in text


def test_what_choosing_without_a_simulator_came_to() -> None:
    summary, text = json.loads((RESULTS / "selection_analysis.json").read_text()), text_of("docs/selection.md")
    rules, page = summary["rule"]["held_out"], load_benchmark("selection_page")
    made = rules["defaults"]
    gains = {
        name: {each: made["gain"] for each, made in rules[name].items()} for name in ("defaults", "no veto", "others")
    }
    average = {name: np.mean(list(values.values())) for name, values in gains.items()}
    assert average["defaults"] > -0.05  # what is aimed at
    (low, high) = page.over_datasets([np.array([gain]) for gain in gains["defaults"].values()])[0, 1:]
    assert low < 0 < average["others"] < average["defaults"]  # not shown to gain; the thresholds stay
    assert f"{average['defaults']:.2f} above RW 0.1, interval {low:.2f} to {high:+.2f}." in text
    worst, without = (-min(gains[name].values()) for name in ("defaults", "no veto"))
    assert f"at worst by {worst:.2f}." in text
    assert f"{without:.2f} below RW 0.1 without the veto, {worst:.2f} with it." in text_of("CHANGELOG.md")
    blind = np.mean([each["bc rw 0.1"] - each["rw 0.1"] for each in made.values()])
    assert f"({blind:.2f} above the mean of all algorithms with RW 0.1)" in text and blind > average["defaults"]
    some, others = (
        [gain for name, gain in gains["defaults"].items() if ("-expert-" in name) is of] for of in (True, False)
    )
    assert len(some) == 4 and min(some) >= 0 and len(others) == 7 and sum(gain < 0 for gain in others) == 3
    assert (
        f"the mean gain is {np.mean(some):+.2f}, and no choice is worse than RW 0.1; on the other seven {np.mean(others):+.2f}"
        in text
    )
    abstained = [each for each in made.values() if each["chosen"] is None]
    assert len(abstained) == 2 and all(each["rw 0.1"] > each["clone"] + 0.4 for each in abstained)  # both too careful
    known = {"hopper-expert-random-5", "hopper-medium-replay", "walker2d-medium-random-10", "walker2d-medium-replay"}
    new = [
        np.array([gain for name, gain in gains[rule].items() if name not in known]) for rule in ("defaults", "no veto")
    ]
    assert len(new[0]) == 7
    assert (
        f"{new[0].mean():+.2f} with it, {new[1].mean():+.2f} without, and at worst {-new[0].min():.2f} instead of "
        f"{-new[1].min():.2f} below RW 0.1."
    ) in text
    earlier = summary["rule"]["earlier"]["defaults"]
    assert sum(each["chosen"] != made[name]["chosen"] for name, each in earlier.items()) == 2 and len(earlier) == 3


def test_the_fuzzing() -> None:
    """What docs/formats.md says of damaged files is what was counted; nothing slipped through."""
    rows = [row for path in RESULTS.glob("fuzz*.json") for row in json.loads(path.read_text())["results"]]
    total = {key: sum(row[key] for row in rows) for key in ("tries", "refused", "accepted", "crashes", "hangs")}
    assert all(row["other_exceptions"] == row["past_guard"] == 0 for row in rows)
    unsafe = {row["format"] for row in rows if row["crashes"] or row["hangs"]}
    assert unsafe <= {"d4rl", "d3rlpy", "minari", "minari-arrow"}
    tries = [sum(row["tries"] for row in rows if row["format"] == name) for name in {row["format"] for row in rows}]
    assert f"{min(tries):,} to {max(tries):,} each" in text_of("docs/formats.md")
    assert (
        f"Of {total['tries']:,} damaged files, {total['refused']:,} were refused, {total['accepted']:,} could be read, and on "
        f"{total['crashes'] + total['hangs']} libhdf5 or Arrow crashed or hung, each time where the guard looks."
    ) in text_of("docs/formats.md")


def test_what_a_cluster_costs_and_brings() -> None:
    page = text_of("docs/clusters.md")
    for name, figure in (("gain", "a gain of {gain:.2f}"), ("overhead", "an overhead of {overhead:.0%}")):
        entry = json.loads((RESULTS / f"cluster_{name}.json").read_text())
        assert entry["same_returns"] and figure.format(**entry) in page
        assert all(f"{row['seconds'][0]:.0f}" in page for row in entry["results"])


def test_what_data_larger_than_memory_take() -> None:
    stages = {row["stage"]: row for row in stored("scale")}
    heads = {"pack": "pack", "inspect": "inspect", "weights": "weights (AW)", "batches": "10,000 batches of 256"}
    for stage, head in (heads | {"train": "1,000 updates of 16 BC agents, streamed"}).items():
        seconds, memory = stages[stage]["seconds"], stages[stage]["peak_anonymous_bytes"]
        assert table_row("docs/scale.md", head) == [f"{seconds:.1f}", f"{memory / 1e6:.0f} MB"]
        assert memory < 2**30
    times = stages["timing"]["microseconds_per_batch"]
    ours, indexed, taken, theirs = (f"{times[who]:.0f}" for who in ("upweight", "numpy", "numpy take", "torchrl"))
    page = text_of("docs/scale.md")
    assert (
        f"took {ours} us, where indexing NumPy's memory maps took {indexed} for uniform ones ({taken} with `take`)"
        in page
    )
    assert f"over the same maps {theirs}, without" in page


def test_what_batches_of_a_packed_folder_take_in_other_libraries() -> None:
    stages, page = {row["stage"]: row for row in stored("scale_adapters")}, text_of("docs/scale.md")
    for stage, library, taken, added in (
        ("torchrl_storage", "torchrl", "took {:.0f} MB, {:.0f} of them when it was", "{:.0f} MB for 6.1 GB"),
        ("rllib_input", "rllib", "{:.0f} MB, {:.0f} of them likewise", "Batches of 6.1 GB took {:.0f} MB"),
    ):
        first, last, imported = (stages[stage][f"bytes_{when}"] / 1e6 for when in ("first", "last", "imported"))
        assert taken.format(last, imported) in page and last - first < 1
        assert added.format(last - imported) in text_of(f"docs/adapters/{library}.md")
        assert stages[stage]["batches"] == 10_000
    assert f"{stages['pack']['bytes'] / 1e9:.1f}" == "6.1"


def test_what_streaming_costs_and_takes() -> None:
    rows, page = stored("streaming_cpu"), text_of("docs/scale.md")
    ratios = [f"{row['ratio']:.2f} times" for row in rows]
    assert f"took {ratios[0]} as long with BC, {ratios[1]} with TD3+BC and {ratios[2]} with IQL" in page
    ways = [row[way] for way in ("streamed", "resident") for row in rows]
    planned = [f"{(way['planned_device'] + way['planned_host']) / 1e6:.0f}" for way in ways]
    assert "said {}, {} and {} MB for them, and {}, {} and {} MB".format(*planned) in page
    assert "took {}, {}, {}, {}, {} and {} MB".format(*(f"{way['host'] / 1e6:.0f}" for way in ways)) in page
