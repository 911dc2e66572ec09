"""Smaller studies of docs/results.md, made to find out why scores are what they are: the page says what the stored runs give."""

import json
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from support.pages import RESULTS, load_benchmark, stored, text_of
from upweight.inspection.suggestion import BY_ALGORITHM
from upweight.studies.readers import open_store

pytestmark = pytest.mark.slow  # reading thousands of runs takes seconds


@pytest.fixture(scope="module")
def causes_page() -> Any:
    """What writes the tables."""
    return load_benchmark("causes_page")


def on_the_way(name: str) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """By weighting and number of updates, the evaluations of a study's five seeds: points, and the end."""
    found: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for run in open_store(RESULTS / f"{name}.jsonl").runs():
        for point in [*run["points"], run | {"updates": run["spec"]["updates"]}]:
            found.setdefault(run["spec"]["weighting"]["name"], {}).setdefault(point["updates"], []).append(point)
    assert {len(seeds) for points in found.values() for seeds in points.values()} == {5}
    return found


def means(points: dict[int, list[dict[str, Any]]]) -> dict[int, str]:
    return {updates: f"{np.mean([each['score'] for each in seeds]):.2f}" for updates, seeds in points.items()}


def test_the_best_of_a_replay_is_all_or_nothing() -> None:
    """BC on walker2d-medium-replay."""
    found, text = on_the_way("replay_updates"), text_of("docs/results.md")
    rw, uniform = ("{}, {}, {} and {}".format(*means(found[name]).values()) for name in ("rw", "uniform"))
    assert f"has {rw} after 10,000, 25,000, 50,000 and 100,000 updates, Uniform {uniform};" in text
    evaluations = [each for seeds in found["rw"].values() for each in seeds]
    returns = np.array([each["returns"] for each in evaluations])  # [20, episodes]
    best = max(evaluations, key=lambda each: each["score"])
    (end,) = [seeds for seeds in zip(*found["rw"].values(), strict=True) if best in seeds]
    assert f"one of these 20 policies has {best['score']:.2f}, and the same one {end[-1]['score']:.2f} when" in text
    fallen, walking = (returns < 40).all(1).sum(), (returns > 4877).any(1).sum()
    assert f"In {fallen} of the 20 evaluations no episode comes to a return of 40, in {walking} some have more" in text


def test_top_fraction_is_lost_on_the_way() -> None:
    """TD3+BC on hopper-expert."""
    found = on_the_way("top_fraction")
    top = means(found["top"])
    told = f"it has {top[20_000]} after 20,000 updates, {top[50_000]} after 50,000 and {top[100_000]} after 100,000, where one"
    worst, *others = sorted(each["score"] for each in found["top"][100_000])
    told += f" seed fails ({worst:.2f}); Uniform has {means(found['uniform'])[100_000]} then."
    assert told in text_of("docs/results.md") and min(others) > 1


def test_where_cql_diverged() -> None:
    lost = [run for run in open_store(RESULTS / "mixed.jsonl").runs() if run["status"] == "diverged"]
    where = {(run["spec"]["algorithm"], run["spec"]["data"]["name"]) for run in lost}
    assert where == {("cql", "ant-expert-random-50")} and {run["spec"]["weighting"]["name"] for run in lost} == {
        "rw",
        "aw",
    }
    text, first = text_of("docs/results.md"), min(run["diverged_at"] for run in lost)
    assert f"{len(lost)} of their 6 runs on `ant-expert-random-50` diverged" in text
    assert f"all after more than {first // 1000 * 1000:,} updates" in text


def test_values_of_cql_run_away() -> None:
    """At the paper's weight of the conservative term, in HalfCheetah; d3rlpy's as ours."""
    text, about = text_of("docs/results.md"), json.loads((RESULTS / "cql_values.json").read_text())
    found = {(row["who"], row["conservative_weight"], row["updates"]): row for row in about["results"]}
    last, peer = found["upweight", 5.0, 20_000], found["d3rlpy", 5.0, 20_000]
    assert f"valued at {last['value_of_policy']:,.0f} after 20,000 updates" in text
    assert (
        f"is worth {about['best_logged_value']:,.0f}." in text and last["value_of_policy"] > about["best_logged_value"]
    )
    assert f"d3rlpy's own CQL has {peer['value_of_policy']:,.0f} then" in text
    ratios = [
        found["upweight", 5.0, at]["value_of_policy"] / found["d3rlpy", 5.0, at]["value_of_policy"]
        for at in range(1_000, 13_000, 1_000)
    ]
    assert 0.03 < max(abs(ratio - 1) for ratio in ratios) < 0.04
    gaps = [found["upweight", weight, 20_000]["conservative_gap"] for weight in (5.0, 10.0, 20.0)]
    assert "exceed logged ones by {:.0f}. With a weight of 10 it is {:.0f}, of 20 it is {:.0f},".format(*gaps) in text
    strong = found["upweight", 50.0, 20_000]
    assert f"({strong['conservative_gap']:.1f}), with values of {strong['value_of_policy']:.0f}." in text
    assert f"none of these policies scores above {max(about['scores'].values()):.2f}" in text
    shown = []
    for name in ("cql_values_ant", "cql_values_walker2d"):
        (last,) = [row for row in stored(name) if (row["conservative_weight"], row["updates"]) == (5.0, 20_000)]
        bound = json.loads((RESULTS / f"{name}.json").read_text())["best_logged_value"]
        assert last["value_of_policy"] < 0.8 * bound and last["conservative_gap"] < 0
        shown.append((last["value_of_policy"], bound, last["conservative_gap"]))
    values, bounds, gaps = zip(*shown, strict=True)
    assert "values come to {:.0f} and {:.0f}, where the best logged".format(*values) in text
    assert "worth {:.0f} and {:.0f}, and sampled actions".format(*bounds) in text
    assert "stay below logged ones ({:.2f} and {:.2f};".format(*gaps) in text


def test_cql_learns_with_a_stronger_conservative_term(causes_page: Any) -> None:
    """After 250,000 updates, and not before; the table is tested with the others."""
    runs, text = causes_page.runs_of("cql_settings"), text_of("docs/results.md")
    found = causes_page.mean_on_the_way(runs, lambda run: (causes_page.cql_setting(run), *causes_page.cell(run)))
    paper, strong = "The paper's (d3rlpy's)", "The same with a weight of 20"
    expert, mix = "halfcheetah-expert", "halfcheetah-expert-random-10"
    assert {len(run["points"]) for run in runs} == {3} and {key[0] for key in found} == {paper, strong}
    assert max(found[paper, expert, "Uniform"].values()) < 0.01  # "it has learned nothing of the expert by then"
    learned = found[strong, expert, "Uniform"]
    assert learned[100_000] < 0.05 and abs(learned[250_000] - 0.79) < 0.02  # "the paper's number"
    assert "How the paper's runs came to 0.79 with it" in text
    ratio = found[strong, mix, "RW"][250_000] / found[strong, mix, "Uniform"][250_000]
    assert 3 < ratio < 3.5 and found[strong, mix, "RW"][100_000] < 0.2


def test_critics_lose_on_replays_and_the_actor_does_not(causes_page: Any) -> None:
    """IQL in Hopper, drawing apart."""
    scores = causes_page.apart_scores(load_benchmark("scores_page").studies()["regular"])
    found = {key: fmean(values) for key, values in scores.items()}
    assert {len(values) for values in scores.values()} == {5}
    for replay in ("hopper-medium-replay", "hopper-full-replay"):
        uniform = found[replay, "Uniform", "Uniform"]
        for name in ("RW", "AW"):
            assert found[replay, "Uniform", name] > uniform  # "nothing is lost"
            assert found[replay, name, "Uniform"] < found[replay, name, name] < uniform - 0.25
    assert "on Hopper's replays, it lost nothing with weights for its actor alone (actor_weighting)" in BY_ALGORITHM


def test_a_second_training_is_as_far_as_a_second_seed() -> None:
    """IQL with the fused kernels, 187 runs."""
    again = {run["run_id"]: run for run in open_store(RESULTS / "settings_again.jsonl").runs()}
    first = {
        run["run_id"]: run
        for name in ("temperature", "percentage")
        for run in open_store(RESULTS / f"{name}.jsonl").runs()
    }
    assert not any(run["returns"] == first[run_id]["returns"] for run_id, run in again.items())
    pairs = np.array([[first[run_id]["score"], run["score"]] for run_id, run in again.items()])  # [runs, 2]
    seeds: dict[str, list[float]] = {}
    for run in again.values():
        seeds.setdefault(json.dumps([run["spec"]["data"]["name"], run["spec"]["weighting"]]), []).append(run["score"])
    apart = fmean(abs(a - b) for scores in seeds.values() for i, a in enumerate(scores) for b in scores[:i])
    text, means = text_of("docs/results.md"), pairs.mean(0)
    assert f"{len(again)} runs of IQL on Hopper's medium mixes were trained twice" in text
    assert f"Their means agree ({means[0]:.2f} and {means[1]:.2f})" in text
    assert f"runs are {np.abs(np.diff(pairs)).mean():.2f} apart on average" in text
    assert f"hardly less than two seeds are ({apart:.2f})." in text


def test_why_a_second_training_is_another() -> None:
    """Compilations of one program: which of them gave the same policies."""
    found: dict[tuple[str, str, str], dict[int, set[str]]] = {}
    for row in stored("repeatable"):
        kind = row["kernels"], row["precision"], row["flags"]
        found.setdefault(kind, {}).setdefault(row["cache"], set()).add(row["actions"])
    assert all(len(actions) == 1 for caches in found.values() for actions in caches.values())  # by the cache
    several = {kind for kind, caches in found.items() if len(set.union(*caches.values())) > 1}
    assert several == {("fused", "bfloat16", ""), ("xla", "float32", "")}
    assert {len(caches) for caches in found.values()} == {2}
    untuned = {kind[:2] for kind in found if kind[2] == "--xla_gpu_autotune_level=0"}
    assert untuned == {("fused", "bfloat16"), ("xla", "bfloat16")}  # "float32 was not tried with that flag"
