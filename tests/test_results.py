"""What README, docs/results.md and docs/scores.md say of the studies is what the stored runs give."""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.pages import RESULTS, ROOT, load_benchmark, stored, text_of
from support.results import add_points, add_runs, data_spec
from upweight.cli.demo import score_table
from upweight.data.reference_scores import normalize_returns, reference_scores
from upweight.data.repetition import KEPT, LOST
from upweight.inspection.choice import GOOD_BEGINNINGS
from upweight.inspection.suggestion import BY_ALGORITHM
from upweight.recipes.recipe import find_recipe
from upweight.recipes.tasks import MUJOCO_TASKS
from upweight.report.names import DatasetName
from upweight.report.points import at_point
from upweight.report.replicate import Check, Claim, replicate
from upweight.report.results import Results, collect
from upweight.report.statistics.aggregate import mean
from upweight.report.statistics.bootstrap import Estimate, interval
from upweight.report.statistics.intervals import Intervals
from upweight.report.tables import Score, ScoreTable, score_tables
from upweight.studies.readers import open_store
from upweight.studies.store import Store

pytestmark = pytest.mark.slow  # reading and resampling thousands of runs takes seconds
PEER = "d3rlpy, compile_graph"
BC, IQL, CQL = (f"{name}, bfloat16" for name in ("BC", "IQL", "CQL"))
Found = dict[str, dict[tuple[str, str], Check]]


@pytest.fixture(scope="module")
def results_page() -> Any:
    """The program that writes the tables."""
    return load_benchmark("results_page")


def checks_of(claims: Iterable[Claim]) -> Found:
    """Claim -> method and what is compared -> its check."""
    return {claim.name: {(check.method, check.what): check for check in claim.checks} for claim in claims}


def shown_of(estimate: Estimate | None, digits: str = ".2f") -> str:
    assert estimate is not None
    return f"{estimate.point:{digits}} [{estimate.low:{digits}}, {estimate.high:{digits}}]"


def part_of(results: Results, wanted: Callable[[DatasetName], bool]) -> Results:
    """Some of the datasets."""
    return replace(results, runs=tuple(run for run in results.runs if wanted(run.dataset)))


@pytest.fixture(scope="module")
def studies(results_page: Any) -> Any:
    """What is stored: read, and compared, once."""
    return results_page.studies()


@pytest.fixture(scope="module")
def mixed(studies: Any) -> Results:
    return studies["mixed"].results


@pytest.fixture(scope="module")
def found(studies: Any) -> Found:
    return checks_of(studies["mixed"].claims)


@pytest.fixture(scope="module")
def tables(studies: Any) -> dict[str, ScoreTable]:
    return {table.method: table for table in studies["mixed"].tables}


def cells(table: ScoreTable, *weightings: str) -> list[tuple[DatasetName, str, Score]]:
    """Scores on mixes."""
    found = []
    for dataset, scores in table.rows:
        for weighting, score in zip(table.weightings, scores, strict=True):
            if dataset.sigma is not None and weighting in weightings and score is not None:
                found.append((dataset, weighting, score))
    return found


def test_pages_are_what_the_stored_runs_give(results_page: Any, studies: Any, found: Found) -> None:
    """Every generated part of every page; and that every picture that they show is there."""
    for page, parts in results_page.pages(studies).items():
        text = (ROOT / page).read_text() + "\n"
        for name, part in parts.items():
            assert f"<!-- {name} -->\n{part}\n" in text, (page, name)
        assert set(re.findall("<!-- (.*?) -->", text)) == parts.keys()
    scores = (ROOT / "docs" / "scores.md").read_text()
    assert scores == results_page.scores_page(studies)
    texts = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    shown = re.findall(r"images/(\w+\.svg)", texts)
    assert {path.name for path in (ROOT / "docs" / "images").glob("*.svg")} == set(shown)
    verdicts = [check.verdict for (method, _), check in found["mixed"].items() if method != CQL]
    assert verdicts == ["better"] * 32  # "With BC, TD3+BC and IQL, RW and AW beat Uniform at every share"


def test_what_training_costs(results_page: Any, studies: Any) -> None:
    """By hand, from the records and the measured rates."""
    rows = {row[0]: row[1:] for row in results_page.cost_rows(studies["mixed"])}
    trained: dict[str, dict[str, float]] = {}  # seconds of each population, once
    for record in open_store(RESULTS / "mixed.jsonl").runs():
        name, updates = record["spec"]["algorithm"], record["spec"]["updates"]
        assert record["device"] == "NVIDIA H200"
        if "points" in record:
            assert (name, updates) == ("bc", 1_000_000)  # their seconds count the wait for simulators
            continue
        assert updates == (100_000 if name == "cql" else 250_000)
        assert record["agents"] == (129 if name == "cql" else 215) or name == "td3_bc"
        trained.setdefault(name, {})[record["spec"]["data"]["env_id"]] = record["train_seconds"]
    assert {name: len(tasks) for name, tasks in trained.items()} == {"bc": 4, "td3_bc": 4, "iql": 4, "cql": 4}
    text, iql = text_of("docs/results.md"), trained["iql"]
    cql = "{Hopper-v5:.0f}, {HalfCheetah-v5:.0f}, {Walker2d-v5:.0f} and {Ant-v5:,.0f} s in Hopper".format(
        **trained["cql"]
    )
    assert (
        f"and Ant ({iql['Walker2d-v5']:.0f} and {iql['Ant-v5']:.0f} s, alone about 310) and all of CQL's ({cql}" in text
    )
    alone = {
        row["algorithm"]: row["agent_updates_per_s"] for row in stored("kernels_time") if row["kernels"] == "fused"
    }
    assert f"alone about {129 * 100_000 / alone['cql']:.0f})" in text
    runs = 5 * (32 * 5 + 12) + 5 * (30 * 4 - 12) + 5 * 32 * 10 + 5 * 32 * 4  # mixed; regular; temperatures; percentages
    peer, ours = (
        {r["algorithm"]: r["agent_updates_per_s"] for r in stored("train_throughput_h200") if part_of_row(r) == wanted}
        for wanted in ((PEER, 1, "float32"), ("upweight", 256, "float32"))
    )
    went = f"{sum(trained['bc'].values()) / 60:.0f} min"
    assert rows["BC"][2:4] == (went, f"{1000 * 250_000 / ours['bc'] / 60:.0f} min")
    assert rows["BC"][4:] == (
        f"{runs:,} runs: {runs * 1e6 / ours['bc'] / 3600:.1f} h",
        f"{runs * 1e6 / peer['bc'] / 86400:.0f} days",
    )
    assert rows[CQL][3] == f"{1000 * 100_000 / alone['cql'] / 60:.0f} min"


def part_of_row(row: dict[str, Any]) -> tuple[str, int, str]:
    return row["who"], row["agents"], row["dtype"]


def test_pages_take_any_algorithm_points_and_draws(results_page: Any, tmp_path: Path) -> None:
    """IQL in bfloat16, evaluated on the way, beside BC on two draws of the data."""
    paths = []
    for seed in (0, 1):
        store = Store(tmp_path / str(seed), create=True)
        for name, level in (("Uniform", 0.1), ("RW", 0.9)):
            data = data_spec("hopper-expert-random-5", seed=seed)
            add_runs(store, data, name, [level + seed / 10] * 5)
            if seed == 0:
                runs = add_runs(store, data, name, [level] * 5, algorithm="iql", precision="bfloat16")
                add_points(store, runs, *[{50: level + 0.05, 500: level - 0.05}] * 5)
        paths.append(tmp_path / f"mixed_seed{seed}.jsonl")
        store.pack(paths[-1])
    study = results_page.Study("mixed", tuple(paths))
    page = results_page.scores_page({"mixed": study})
    assert "| `paper/mixed` | IQL, bfloat16 | 1,000 | 5 | 1 | 10 |" in page
    assert "| algorithm | datasets | sampler | 50 | 500 | last | best (by simulator) |" in page
    assert "and so chosen with the simulator" in page
    assert (
        "| IQL, bfloat16 | 1 dataset | RW | 0.95 [0.95, 0.95] | 0.85 [0.85, 0.85] | 0.90 [0.90, 0.90] | 0.95 [0.95, 0.95] |"
        in page
    )
    other = page.split("on another draw of the data ([mixed_seed1]")[1]
    assert "| RW |  | 1.00 (0.87) |  |  |" in other  # 0.9 on the first
    assert 'src="images/mixed_sigma_iql_bfloat16.svg" alt="Return by share of good data, IQL, bfloat16"' in page
    assert [row[:3] for row in results_page.cost_rows(study)[1:]] == [("BC", "1,000", "10")]  # without points
    way = load_benchmark("scores_page").way_rows(study)
    assert way[0] == ("", "50", "500", "1,000", "paper") and ("RW", "0.95", "0.85", "0.90", "0.87") in way
    claims = {row[0]: row[1:] for row in results_page.claim_rows({"mixed": study}, ["mixed"])}
    assert claims["claim"] == ("BC", "IQL, bfloat16")
    assert claims["RW and AW beat Uniform at each sigma"][0] == "1 of 8 (7 without data)"


def test_scores_beside_the_papers(results_page: Any, studies: Any, mixed: Results) -> None:
    """A score is listed where the paper's lies more than 0.15 outside its interval."""
    cells = results_page.beside_the_paper(studies)
    by_name = {(cell.method, cell.dataset.name, cell.weighting): cell for cell in cells}
    near = by_name["BC", "hopper-expert-random-10", "RW"]
    far = by_name["BC", "hopper-expert-random-50", "Top-10%"]
    dataset = [far.dataset]
    ours = interval(mean, mixed.scores("BC", "Top-10%", dataset), rng=np.random.default_rng(0))
    assert far.paper == 0.86 and far.apart == pytest.approx(ours.high - 0.86) and far.apart < -0.5
    listed = {row[:4] for row in load_benchmark("scores_page").far_rows(cells)}
    names = {cell: (f"`paper/{cell.study}`", cell.method, cell.dataset.name, cell.weighting) for cell in cells}
    assert names[far] in listed and names[near] not in listed
    assert all((abs(cell.apart) > 0.15) == (name in listed) for cell, name in names.items())


def test_runs_are_repeatable() -> None:
    """On two machines, with code of two days."""
    now, before = (
        {run["run_id"]: run["returns"] for run in open_store(RESULTS / name).runs() if run["spec"]["algorithm"] == "bc"}
        for name in ("mixed.jsonl", "hopper_mixed_float32.jsonl")
    )
    both = now.keys() & before.keys()
    assert all(now[run] == before[run] for run in both)
    assert f"all {len(both)} runs gave the same returns again, bit for bit" in text_of("docs/results.md")


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


@pytest.fixture(scope="module")
def settings_by_task(studies: Any) -> dict[tuple[str, str], Results]:
    """IQL at all temperatures, and at all percentages, in each task."""
    return {
        (name, task): part_of(studies[name].results, lambda dataset, task=task: dataset.task == task)
        for name in ("temperature", "percentage")
        for task in ("hopper", "halfcheetah")
    }


def cells_of(results: Results) -> dict[tuple[str, str], list[float]]:
    """IQL's scores: (sampler, dataset) -> of each seed."""
    found: dict[tuple[str, str], list[float]] = {}
    for run in results.shown:
        assert run.method == IQL
        found.setdefault((run.weighting.name, run.dataset.name), []).append(run.score)
    return found


def levels_of(results: Results) -> dict[str, float]:
    """IQM of IQL by sampler."""
    mixes = results.datasets_of(IQL)
    return {
        each.name: Intervals().level(results.scores(IQL, each.name, mixes)).point for each in results.weightings(IQL)
    }


def test_temperatures(settings: Results) -> None:
    """Better than Uniform: where; and what replicate says of the temperature."""
    assert len(settings.runs) == 720 and set(settings.updates.values()) == {100_000}
    tables = {table.name: table for table in score_tables(settings, Intervals())}
    for kind in ("rw", "aw"):
        table = tables[f"scores-bc-settings-{kind}"]
        better = [sum(row[1][place].is_better for row in table.rows) for place in range(len(table.weightings))]
        assert len(table.rows) == 8 and better == [8, 8, 8, 2, 0, 0], kind
    text = text_of("docs/results.md")
    assert "on all eight mixes at 0.01, 0.05 and 0.1, on 2 of them at 0.2, and on none at 0.5 and 1." in text
    found = checks_of(replicate(settings, Intervals()).claims)["temperature"]
    assert [check.verdict for check in found.values()] == 2 * (["better"] * 3 + ["no loss"] * 3)
    rw, aw = found["BC", "RW 0.2"], found["BC", "AW 0.2"]
    assert rw.gain is not None and aw.gain is not None and {f"{check.gain.point:.2f}" for check in (rw, aw)} == {"0.08"}
    shown = f"improvement of {shown_of(rw.improvement)} (RW) and {shown_of(aw.improvement)} (AW)"
    assert f"at 0.2 their IQM is higher by 0.08, with a probability of {shown}" in text


def test_temperatures_with_iql(studies: Any, settings_by_task: dict[tuple[str, str], Results]) -> None:
    """What every temperature comes to in each task, which checks stand there, and how few episodes are drawn at 0.01."""
    text, found = text_of("docs/results.md"), studies["temperature"]
    assert {len(scores) for scores in cells_of(found.results).values()} == {5}
    checks = checks_of(found.claims)["temperature"]
    assert len(checks) == 12 and {check.verdict for check in checks.values()} == {"better"}
    shares = [check.improvement.point for check in checks.values() if check.improvement]
    assert f"with a probability of {min(shares):.2f} to {max(shares):.2f}." in text
    cold, warm = (shown_of(checks[IQL, what].gain, "+.2f") for what in ("AW 0.01", "AW 1"))
    assert f"hardly tells: {cold} for AW at 0.01 and {warm} at 1." in text
    level = {}
    for task in ("hopper", "halfcheetah"):
        results = settings_by_task["temperature", task]
        level[task] = levels_of(results)
        asked = checks_of(replicate(results, Intervals()).claims)["temperature"]
        failed = [what for (_, what), check in asked.items() if check.verdict != "better"]
        assert failed == (["AW 1"] if task == "hopper" else [])  # "eleven of twelve ... and all in HalfCheetah"
        for kind in ("RW", "AW"):
            of_kind = [value for name, value in level[task].items() if name.startswith(kind)]
            assert len(of_kind) == 6 and level[task][kind] > max(of_kind) - 0.02
    flat = [level["halfcheetah"][f"{kind}{at}"] for kind in ("RW", "AW") for at in (" 0.05", "", " 0.2")]
    assert f"In HalfCheetah 0.05 to 0.2 are alike ({min(flat):.2f} to {max(flat):.2f})" in text
    hopper = level["hopper"]
    assert all(hopper[kind] > hopper[f"{kind} {at}"] for kind in ("RW", "AW") for at in ("0.05", "0.2"))
    results = settings_by_task["temperature", "hopper"]
    mix = results.datasets_of(IQL, good="medium", sigma=1)
    usual, beside = (
        [mean(results.scores(IQL, f"{kind}{at}", mix)) for kind in ("RW", "AW") for at in temperatures]
        for temperatures in ([""], [" 0.05", " 0.2"])
    )
    assert "RW and AW have {:.2f} and {:.2f} at 0.1, and".format(*usual) in text
    assert f"and {min(beside):.2f} to {max(beside):.2f} at both neighbours" in text
    gains = [
        [each[f"{kind}{at}"] - each["Uniform"] for at in ("", " 0.5")]
        for each in level.values()
        for kind in ("RW", "AW")
    ]
    lost = [1 - half / whole for whole, half in gains]
    assert f"a share of {min(lost):.0%} to {max(lost):.0%} of its gain is lost" in text


def test_what_is_too_cold(settings_by_task: dict[tuple[str, str], Results]) -> None:
    """RW and AW at 0.01: on how many episodes they draw in effect, and what that comes to."""
    text = text_of("docs/results.md")
    rows = {(row["dataset"], row["weighting"]): row for row in stored("early_steps_settings")}

    def episodes(mixes: str, *kinds: str) -> str:
        cold = [f"{kind} 0.01" for kind in kinds]
        found = [row["effective_episodes"] for (name, at), row in rows.items() if name.startswith(mixes) and at in cold]
        return f"{min(found):.0f} to {max(found):.0f}"

    def scores(task: str, good: str, name: str) -> list[str]:
        results = settings_by_task["temperature", task]
        mixes = [results.datasets_of(IQL, good=good, sigma=sigma) for sigma in (1, 5, 10, 50)]
        return [f"{mean(results.scores(IQL, name, mix)):.2f}" for mix in mixes]

    assert f"draw on {episodes('hopper-medium', 'rw', 'aw')} episodes in effect there" in text
    cold, usual = scores("hopper", "medium", "RW 0.01"), scores("hopper", "medium", "RW")
    assert "RW has {}, {}, {} and {}, where it has {}, {}, {} and {} at 0.1.".format(*cold, *usual) in text
    expert = scores("hopper", "expert", "RW 0.01")
    drawn = f"draws on {episodes('hopper-expert', 'rw')} of Hopper's, and has {min(expert)} to {max(expert)}."
    assert f"RW at 0.01 {drawn}" in text

    level = levels_of(settings_by_task["temperature", "halfcheetah"])
    assert f"in HalfCheetah: it has {level['AW 0.01']:.2f}, RW {level['RW 0.01']:.2f}." in text
    few, more = (episodes("halfcheetah", kind) for kind in ("aw", "rw"))
    assert f"draws on {few} episodes in effect, where RW draws on {more}." in text
    about = {name: row for (name, _), row in rows.items()}
    experts = [about[f"halfcheetah-expert-random-{sigma}"] for sigma in (5, 10, 50)]
    returns, values = ([f"{row[key]:.0f}" for row in experts] for key in ("std_of_good_returns", "std_of_their_values"))
    failed = scores("halfcheetah", "expert", "AW 0.01")[1:]
    assert "({}, {} and {}), where experts hardly differ: their returns have".format(*failed) in text
    assert "standard deviations of {}, {} and {}, the values of their".format(*returns) in text
    assert "which AW subtracts, {}, {} and {}.".format(*values) in text
    medium = [row for name, row in about.items() if "halfcheetah-medium" in name]
    assert len(medium) == 4 and all(row["std_of_their_values"] < row["std_of_good_returns"] for row in medium)
    medium_scores = scores("halfcheetah", "medium", "AW 0.01")
    assert f"and AW at 0.01 has {min(medium_scores)} to {max(medium_scores)}." in text
    most = max(row["std_of_their_values"] for name, row in about.items() if "hopper" in name)
    assert f"values spread by {most:.0f} at most" in text
    ridge, plain = (
        [f"{rows[f'halfcheetah-expert-random-{sigma}', name]['effective_episodes']:.0f}" for sigma in (5, 50)]
        for name in ("aw 0.01 ridge", "aw 0.01")
    )
    assert f"draws on {ridge[0]} and {ridge[1]} of" in text
    assert set(plain) == {"4"}  # "least squares draws on 4 of each"


def test_percentages_with_iql(studies: Any, settings_by_task: dict[tuple[str, str], Results]) -> None:
    """Which percentage is best where."""
    text, found = text_of("docs/results.md"), studies["percentage"]
    assert {len(scores) for scores in cells_of(found.results).values()} == {5}
    cheetah = settings_by_task["percentage", "halfcheetah"]

    def score(name: str, sigma: int, results: Results = cheetah) -> float:
        return mean(results.scores(IQL, name, results.datasets_of(IQL, good="expert", sigma=sigma)))

    for sigma, other in ((5, 10), (10, 20), (50, 5)):
        tops = {share: score(f"Top-{share}%", sigma) for share in (1, 5, 10, 20, 50)}
        assert max(tops, key=tops.__getitem__) == sigma  # "the best percentage is the share of the expert itself"
        told = f"Top-{sigma}% has {tops[sigma]:.2f} on `(halfcheetah-expert-random)?-{sigma}`, where Top-{other}% has"
        assert re.search(f"{told} {tops[other]:.2f}[;.]", text), (sigma, other)
    rw = settings_by_task["temperature", "halfcheetah"]
    assert "RW at 0.1 has {:.2f}, {:.2f} and {:.2f}.".format(*(score("RW", sigma, rw) for sigma in (5, 10, 50))) in text
    hopper = levels_of(settings_by_task["percentage", "hopper"])
    tops = {name: value for name, value in hopper.items() if name != "Uniform"}
    rw_level = levels_of(settings_by_task["temperature", "hopper"])["RW"]
    assert f"near RW at 0.1: the best has {max(tops.values()):.2f}." in text and rw_level > max(tops.values()) + 0.2
    assert min(tops, key=tops.__getitem__) == "Top-10%"  # "in Hopper it is the last of the five"
    checks = checks_of(found.claims)["percentage"]
    better = [what for (_, what), check in checks.items() if check.verdict == "better"]
    assert better == ["Top-10% against Top-1%", "Top-10% against Top-50%"]
    five = checks[IQL, "Top-10% against Top-5%"].gain
    assert five is not None and f"but Top-5% has an IQM that is higher by {-five.point:.2f}," in text


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


def test_early_steps_in_all_tasks() -> None:
    """Cells of Uniform, Half and Top-10% that draw the first steps from poor episodes: against RW with BC, and with TD3+BC."""
    names = {"uniform": "uniform", "half": "half", "top 0.1": "top"}
    found = [row for row in stored("early_steps_mixed") if row["weighting"] in names]
    early = {(row["dataset"], names[row["weighting"]]): row["share_of_first_30_steps"] for row in found}
    scores: dict[tuple[str, str, str], list[float]] = {}
    for run in open_store(RESULTS / "mixed.jsonl").runs():
        spec = run["spec"]
        key = (spec["algorithm"], spec["data"]["name"], spec["weighting"]["name"])
        scores.setdefault(key, []).extend([run["score"]] if "points" not in run else [])
    means = {key: float(np.mean(values)) for key, values in scores.items()}
    low = [key for key, share in early.items() if share < 0.75]
    text = text_of("docs/results.md")
    assert f"Of the {len(early)} cells with Uniform, Half or Top-10%, {len(low)} draw less than 75%" in text

    def over_rw(algorithm: str, dataset: str, weighting: str) -> float:
        return means[algorithm, dataset, weighting] - means[algorithm, dataset, "rw"]

    gaps = {key: over_rw("bc", *key) for key in low}
    below, alike = [key for key in low if gaps[key] < -0.1], [key for key in low if gaps[key] >= -0.1]
    assert f"With BC, {len(below)} of these are more than 0.1 below RW" in text and max(gaps.values()) <= 0.1
    failed = [means["bc", dataset, "rw"] for dataset, _ in alike if means["bc", dataset, "rw"] < 0.5]
    assert f"in {len(failed)} of the other {len(alike)} RW fails too ({max(failed):.2f} or less)" in text
    last = sorted(early[key] for key in alike if means["bc", key[0], "rw"] >= 0.5)
    assert f"as well as RW with {last[0]:.0%} and {last[1]:.0%} of the first steps" in text and len(last) == 2
    others = [over_rw("bc", *key) for key, share in early.items() if share >= 0.75]
    assert f"The {len(others)} cells that draw more" in text and max(map(abs, others)) < 0.1
    counts = []
    for algorithm in ("td3_bc", "iql"):
        other = [over_rw(algorithm, *key) for key in low]
        counts += [sum(gap < -0.1 for gap in other), sum(gap > 0.1 for gap in other)]
    below_and_above = f"With TD3+BC {counts[0]} of the {len(low)} are below RW, and {counts[1]} above it"
    assert f"{below_and_above}; with IQL {counts[2]} and {counts[3]}." in text


def test_the_share_of_early_steps_that_suggest_wants(results_page: Any) -> None:
    """In Hopper with BC, by temperature: how far below the best one."""
    shares, below = results_page.early_shares(), list[tuple[float, float]]()
    for dataset, cells in results_page.setting_scores("rw", "temperature").items():
        means = {name: float(np.mean(values)) for name, values in cells.items()}
        best = max(means.values())
        below += [(shares[dataset, name]["share_of_first_30_steps"], best - mean) for name, mean in means.items()]
    points, text = np.array(below), text_of("docs/results.md")  # [48, 2]
    enough = points[:, 0] >= GOOD_BEGINNINGS
    high, low = points[enough].T, points[~enough].T
    assert f"So `uw.suggest` wants {GOOD_BEGINNINGS:.0%} of the first steps" in text and len(below) == 48
    assert f"all that draw at least {high[0].min():.0%} come within {high[1].max():.2f} of the best one" in text
    assert f"at most {low[0].max():.0%} stay {low[1].min():.2f} or more below it" in text


def test_rw_and_aw_beat_the_baselines(found: Found, tables: dict[str, ScoreTable]) -> None:
    """The table of claims, which is tested with the others, has the counts."""
    text = text_of("docs/results.md")
    half = [check for (name, what), check in found["half"].items() if name == "TD3+BC" and not what.endswith(" 50%")]
    chances = [check.improvement.point for check in half if check.improvement is not None]
    gains = [check.gain.point for check in half if check.gain is not None]
    assert len(half) == len(chances) == len(gains) == 6 and not any(check.verdict == "better" for check in half)
    assert f"with a probability of {min(chances):.2f} to {max(chances):.2f}," in text
    assert f"and the IQM is higher by {min(gains):.2f} to {max(gains):.2f}." in text
    wins = {
        (method, name): sum(score.is_better for _, _, score in cells(tables[method], name))
        for method in tables
        for name in ("RW", "AW")
    }
    apart = [dataset.sigma for dataset, _, score in cells(tables["BC"], "RW", "AW") if not score.is_better]
    assert (
        f"with BC in {wins['BC', 'RW']} of 32 cells (RW) and {wins['BC', 'AW']} (AW); of the {len(apart)} that are not "
        f"separated, {apart.count(1)} have 1% of good steps."
    ) in text
    rest = [dataset for dataset, _, score in cells(tables["TD3+BC"], "RW", "AW") if not score.is_better]
    hopper = [dataset for dataset in rest if dataset.task == "hopper"]
    assert sum(dataset.good == "medium" for dataset in hopper) == 8  # "on no mix with medium data"
    assert (
        f"With TD3+BC it is {wins['TD3+BC', 'RW']} cells (RW) and {wins['TD3+BC', 'AW']} (AW); of the {len(rest)} that are "
        f"not separated, {len(hopper)} are in Hopper,"
    ) in text
    rest = [dataset for dataset, _, score in cells(tables[IQL], "RW", "AW") if not score.is_better]
    medium = [dataset.task for dataset in rest if dataset.good == "medium"]
    assert (
        f"With IQL it is {wins[IQL, 'RW']} cells (RW) and {wins[IQL, 'AW']} (AW); of the {len(rest)} that are not separated, "
        f"{len(medium)} have medium data, among them all {medium.count('walker2d')} of Walker2d."
    ) in text


def test_iql_beats_the_baselines(found: Found) -> None:
    text = text_of("docs/results.md")
    shown, small = [], []
    for name in ("mixed", "top", "half"):
        checks = {what: check for (method, what), check in found[name].items() if method == IQL}
        assert len(checks) == 8 and {check.verdict for check in checks.values()} == {"better"}
        chances = [check.improvement.point for check in checks.values() if check.improvement is not None]
        shown.append(f"{min(chances):.2f} to {max(chances):.2f}")
        last = [checks[f"{sampler}, 50%"] for sampler in ("RW", "AW")]
        gains = [check.gain for check in last]
        assert all(gain is not None and (gain.low < 0) == (name == "top") for gain in gains)
        (gain,) = {f"{gain.point:.2f}" for gain in gains if gain is not None}
        small.append(gain)
        unsure = checks.values() if name == "half" else last
        assert not any(check.verdict_over_datasets == "better" for check in unsure)
    assert f"Uniform with a probability of {shown[0]}, Top-10% of {shown[1]}, Half of {shown[2]}." in text
    assert f"small: {small[0]} of IQM over Uniform, {small[2]} over Half, and over Top-10% {small[1]}" in text


def test_the_full_expert_set(found: Found) -> None:
    checks = {key: check for key, check in found["full expert"].items() if key[0] in ("BC", "TD3+BC")}
    supported = [key for key, check in checks.items() if check.verdict in ("better", "no loss")]
    shares = [("BC", f"{weighting}, {sigma}%") for sigma in (10, 50) for weighting in ("RW", "AW")]
    assert supported == [*shares, ("TD3+BC", "AW, 50%")]
    low = [checks["BC", f"{weighting}, 5%"] for weighting in ("RW", "AW")]
    assert all(check.verdict == "worse" for check in low)
    lost = max(-check.gain.point for check in low if check.gain is not None)
    assert lost == pytest.approx(0.058, abs=0.001)  # "within 0.06"
    near = [check.gain for (name, _), check in checks.items() if name == "TD3+BC"]
    assert 0.1 < max(-gain.point for gain in near if gain is not None) < 0.15
    iql = [check for (name, _), check in found["full expert"].items() if name == IQL]
    assert [check.verdict for check in iql] == ["no loss"] * 4 + ["better"] * 2  # "supported in all six"
    assert sum(check.verdict_over_datasets in ("better", "no loss") for check in iql) == 2


def test_baselines_and_uniform(found: Found, tables: dict[str, ScoreTable]) -> None:
    text = text_of("docs/results.md")
    bc, td3_bc = (found["uniform over top"][method, "Uniform, 1%"] for method in ("BC", "TD3+BC"))
    assert (bc.verdict, td3_bc.verdict) == ("better", "no loss")
    assert f"Uniform is better with a probability of {shown_of(bc.improvement)}, though the IQMs hardly differ" in text
    assert f"hardly differ ({shown_of(bc.gain, '+.3f')})" in text
    scores = {(d.name, name): score.text for d, name, score in cells(tables["BC"], "Uniform", "Top-10%")}
    uniform, top = (
        [scores[f"ant-{good}-random-1", name] for good in ("expert", "medium")] for name in ("Uniform", "Top-10%")
    )
    assert set(uniform) == {"0.31"} and f"from 0.31 to {' and '.join(top)}." in text
    half = found["half over uniform"]
    assert not any(check.verdict == "better" for (method, _), check in half.items() if method == "BC")
    gains = [half["TD3+BC", f"Half, {sigma}%"].gain for sigma in (1, 5, 10)]
    first, second, third = (f"{gain.point:.2f}" for gain in gains if gain is not None)
    assert f"with TD3+BC by {first}, {second} and {third} of IQM at 1%, 5% and 10%, with IQL by" in text
    gains = [half[IQL, f"Half, {sigma}%"].gain for sigma in (1, 5, 10)]
    first, second, third = (f"{gain.point:.2f}" for gain in gains if gain is not None)
    assert f"with IQL by {first}, {second} and {third}." in text
    iql = found["uniform over top"][IQL, "Uniform, 1%"]
    assert iql.verdict == "no loss"
    shown = f"higher by {shown_of(iql.gain)}, but a run of it is better with a probability of {shown_of(iql.improvement)} only"
    assert shown in text


def test_aw_and_rw_are_alike(found: Found) -> None:
    checks = [found["alike"][method, "AW"] for method in ("BC", "TD3+BC", IQL)]
    assert {(check.verdict, check.datasets) for check in checks} == {("alike", 32)}
    gains = [shown_of(check.gain, "+.3f") for check in checks]
    shown = "{} with BC, {} with TD3+BC and {} with IQL.".format(*gains)
    assert f"their IQMs over the 32 mixes differ by {shown}" in text_of("docs/results.md")


def test_gain_and_rpsv(found: Found) -> None:
    text = text_of("docs/results.md")
    for words, what in (
        ("BC", "{}"),
        ("; TD3+BC", "{}"),
        ("; IQL", "{}"),
        ("BC", "{}, at equal mean"),
        ("; TD3+BC", "{}, at equal mean"),
        ("; IQL", "{}, at equal mean"),
    ):
        method = IQL if words == "; IQL" else words.removeprefix("; ")
        rw, aw = (found["rpsv"][method, what.format(name)].correlation for name in ("RW", "AW"))
        assert f"{words} {shown_of(rw)} and {shown_of(aw)}" in text


def test_offline_rl_and_bc(found: Found) -> None:
    assert {check.verdict for check in found["offline RL"].values()} == {"no data"}
    rw, aw = (found["offline RL on mixes"]["TD3+BC", name] for name in ("RW", "AW"))
    chances, gains = ([getattr(check, name).point for check in (rw, aw)] for name in ("improvement", "gain"))
    assert (
        f"with a probability of {chances[0]:.2f} (RW) and {chances[1]:.2f} (AW), but its IQM is lower by {-gains[0]:.2f} and "
        f"{-gains[1]:.2f}"
    ) in text_of("docs/results.md")
    iql = [found["offline RL on mixes"][IQL, f"{name}, BC in float32"] for name in ("RW", "AW")]
    rw_chance, aw_chance = (f"{check.improvement.point:.2f}" for check in iql if check.improvement is not None)
    assert f"one of IQL, in bfloat16, beats one of BC with {rw_chance} and {aw_chance}." in text_of("docs/results.md")


def test_scores_far_from_the_papers(tables: dict[str, ScoreTable]) -> None:
    text = text_of("docs/results.md")
    named = {(dataset.name, weighting): score for dataset, weighting, score in cells(tables["BC"], "RW", "AW")}
    for dataset in ("halfcheetah-expert-random-5", "hopper-expert-random-1", "hopper-medium-random-1"):
        rw, aw = (named[dataset, weighting] for weighting in ("RW", "AW"))
        ours = rf"`{dataset}` {rw.text}( \(RW\))? and {aw.text}( \(AW\))?"
        assert re.search(rf"{ours}, the paper {rw.paper:.2f} and {aw.paper:.2f}", text)
    medium = [s for d, _, s in cells(tables["TD3+BC"], "RW", "AW") if d.good == "medium" and d.task == "hopper"]
    means, papers = [s.mean for s in medium], [s.paper for s in medium if s.paper is not None]
    assert (
        f"RW and AW reach {min(means):.2f} to {max(means):.2f}, the paper's {min(papers):.2f} to {max(papers):.2f},"
        in text
    )
    assert not any(score.is_better for score in medium)


def test_how_many_updates(results_page: Any, studies: Any, mixed: Results) -> None:
    """BC on its way to a million updates, beside the paper, and by passes through the steps that are drawn."""
    text, method = text_of("docs/results.md"), "BC, bfloat16"
    far, apart = {}, {}
    for name in (method, "BC"):
        found = [cell for cell in results_page.beside_the_paper({"mixed": studies["mixed"]}) if cell.method == name]
        assert len(found) == 140
        far[name] = {(cell.dataset.name, cell.weighting) for cell in found if abs(cell.apart) > 0.15}
        apart[name] = f"{np.mean([abs(cell.ours.point - cell.paper) for cell in found]):.2f}"
    counted = f"Of its 140 scores {len(far[method])} are further than 0.15 from the paper's"
    assert counted in text and f"the mean distance is {apart[method]}." in text
    assert f"After 250,000 updates, in float32, it was {len(far['BC'])} and {apart['BC']}." in text
    assert {(dataset, weighting) for dataset, weighting in far[method] if weighting == "Uniform"} == {
        ("halfcheetah-expert-random-50", "Uniform"),
        ("ant-medium-random-50", "Uniform"),
    }
    assert {dataset for dataset, weighting in far[method] if weighting == "Top-10%"} == {
        "hopper-expert-random-50",
        "hopper-medium-random-10",
        "halfcheetah-expert-random-50",
        "walker2d-expert-random-50",
        "walker2d-medium-random-5",
    }
    assert len(far[method]) == 8 and ("hopper-medium-random-1", "RW") in far[method]

    def score(updates: int, dataset: str, weighting: str) -> str:
        named = [each for each in mixed.datasets_of(method) if each.name == dataset]
        (values,) = at_point(mixed, updates).scores(method, weighting, named).values()
        return f"{np.mean(values):.2f}"

    first, last = 50_000, 1_000_000
    ten = [score(updates, "hopper-expert-random-1", name) for updates in (first, last) for name in ("RW", "AW")]
    assert "RW and AW have {} and {} after 50,000 updates, and {} and {} after a million".format(*ten) in text
    million = [score(last, name, each) for name in ("halfcheetah-expert-random-5",) for each in ("RW", "AW")] + ten[2:]
    third = [score(last, "hopper-medium-random-1", each) for each in ("RW", "AW")]
    assert "the first two have {} and {}, {} and {}, close to the paper's".format(*million) in text
    assert "the third, {} and {}, is further from it".format(*third) in text
    tasks = ("hopper", "halfcheetah", "walker2d", "ant")
    five, full, early = (
        "{}, {}, {} and {}".format(*(score(updates, f"{task}-expert{mix}", name) for task in tasks))
        for updates, mix, name in ((last, "-random-5", "RW"), (last, "", "Uniform"), (first, "-random-5", "RW"))
    )
    assert f"at 5% RW has {five} in Hopper, HalfCheetah, Walker2d and Ant, Uniform on the full sets {full}." in text
    assert f"After 50,000 updates it is {early}." in text
    ten = [score(updates, "walker2d-expert-random-1", name) for updates in (first, last) for name in ("RW", "AW")]
    assert "`walker2d-expert-random-1`: {} and {}, then {} and {}, which is the paper's".format(*ten) in text
    again = [score(updates, "hopper-expert-random-1", "RW") for updates in (50_000, 250_000, 500_000)]  # x 256 / 10,000
    assert "it is {} after 1,280 passes, {} after 6,400 and {} after 12,800".format(*again) in text
    assert f"how many updates {KEPT:,} passes are" in text
    walker = part_of(mixed, lambda dataset: dataset.task == "walker2d")
    for results in (mixed, walker):  # the latter was not known when the two numbers were chosen
        passes, left = np.array(load_benchmark("scores_page").kept_gains(results)).T
        few, many = left[passes < KEPT].min(), np.median(left[passes > LOST])
        assert few > 0.8 > 0.6 > left[passes > KEPT].min() and many < 0.4
    assert f"at least {few:.2f} of the gain is left, beyond {LOST:,} the median is {many:.2f}." in text


def test_td3_bc_in_walker2d_and_ant(mixed: Results, tables: dict[str, ScoreTable]) -> None:
    text = text_of("docs/results.md")
    walker = [(d.sigma, s) for d, _, s in cells(tables["TD3+BC"], "RW", "AW") if d.name.startswith("walker2d-expert-")]
    many = [score for sigma, score in walker if sigma != 1]
    papers = [score.paper for score in many if score.paper is not None]
    assert {score.text for score in many} == {"1.10"}
    assert f"1.10 from 5% of expert steps on (the paper {min(papers):.2f} to {max(papers):.2f})" in text
    mixes = [d for d in mixed.datasets_of("TD3+BC", family="mixed") if d.name == "walker2d-expert-random-1"]
    few = [sorted(mixed.scores("TD3+BC", name, mixes)[mixes[0].name]) for name in ("RW", "AW")]
    assert all(abs(score) < 0.005 for scores in few for score in scores[:-1])
    assert f"one seed of five reaches {few[0][-1]:.2f} (RW) and {few[1][-1]:.2f} (AW), and the others stay at 0" in text
    assert "where the paper has {:.2f} and {:.2f}.".format(*(s.paper for sigma, s in walker if sigma == 1)) in text
    shown = []
    for pick in (lambda score: score.mean, lambda score: score.paper):
        for name in ("RW", "AW"):
            found = [
                pick(s)
                for d, _, s in cells(tables["TD3+BC"], name)
                if d.name.startswith("ant-medium-") and d.sigma != 1
            ]
            shown.append(f"{min(found):.2f} to {max(found):.2f}")
    assert "{} (RW) and {} (AW), the paper's {} and {}.".format(*shown) in text


def test_cql_has_few_updates(results_page: Any, studies: Any, tables: dict[str, ScoreTable]) -> None:
    """Ranges by task and kind of good data, with Uniform's, and the paper's."""
    text = text_of("docs/results.md")
    pure = {dataset.name: dict(zip(tables[CQL].weightings, row, strict=True)) for dataset, row in tables[CQL].rows}
    tasks, texts = ("hopper", "halfcheetah", "walker2d", "ant"), {}
    for kind in ("expert", "medium"):
        scores = [pure[f"{task}-{kind}"]["Uniform"] for task in tasks]
        texts[kind] = [score.text for score in scores], [f"{score.paper:.2f}" for score in scores]
    ours, papers = texts["expert"]
    shown = "it has {} (Hopper), {} (HalfCheetah), {} (Walker2d) and {} (Ant), the paper {}, {}, {} and {}. So"
    assert shown.format(*ours, *papers) in text
    ours, papers = texts["medium"]
    assert f"({ours[1]} on the full set, the paper {papers[1]})" in text
    shown = "Uniform has {}, {} and {}, the paper {}, {} and {}."
    assert shown.format(*(values[place] for values in (ours, papers) for place in (0, 2, 3))) in text

    def span(start: str, *names: str, of: str = "mean", least: int = 1) -> str:
        scores = [s for d, _, s in cells(tables[CQL], *names) if d.name.startswith(start) and (d.sigma or 0) >= least]
        values = [getattr(score, of) for score in scores]
        return f"{min(values):.2f} to {max(values):.2f}"

    shown = [span("halfcheetah-expert", "RW", "AW"), span("halfcheetah-expert", "Uniform", least=10)]
    shown.append(span("halfcheetah-expert", "RW", "AW", of="paper"))
    assert "they reach {}, less than Uniform from 10% on ({}), the paper {};".format(*shown) in text
    for sigma in (10, 50):
        scores = pure[f"halfcheetah-expert-random-{sigma}"]
        assert max(scores["RW"].mean, scores["AW"].mean) < scores["Uniform"].mean
    shown = [span("hopper-expert", "RW", "AW"), span("hopper-expert", "Uniform")]
    shown.append(span("hopper-expert", "RW", "AW", of="paper"))
    assert "on Hopper's {} (Uniform {}), the paper {};".format(*shown) in text
    shown = [span("walker2d-expert", "RW", "AW"), span("walker2d-expert", "Uniform")]
    shown.append(span("walker2d-expert", "RW", "AW", of="paper"))
    assert "on Walker2d's {} (Uniform {}), the paper {}.".format(*shown) in text
    shown = [span("halfcheetah-medium", "RW", "AW"), span("halfcheetah-medium", "RW", "AW", of="paper")]
    shown.append(span("halfcheetah-medium", "Uniform"))
    assert "agree with the paper: {}, the paper {}, Uniform {}.".format(*shown) in text
    (row,) = [row for row in results_page.far_counts(results_page.beside_the_paper(studies)) if row[1] == CQL]
    assert row[4:] == ("80", "0", "80") and "All 80 scores in the list are lower" in text
    shown = [span("ant-", "Uniform", of=of) for of in ("mean", "paper")]
    assert "random policy ({}, the paper {}),".format(*shown) in text
    shown = [span("ant-", "RW", "AW", of=of) for of in ("mean", "paper")]
    spread = max(s.std for d, _, s in cells(tables[CQL], "RW", "AW") if d.task == "ant")
    assert (
        f"RW and AW {shown[0]} (the paper {shown[1]}), with standard deviations over seeds of up to {spread:.2f}"
        in text
    )
    full = [pure[f"ant-{kind}"]["Uniform"].text for kind in ("random", "medium", "expert")]
    assert "On the full random, medium and expert sets it has {}, {} and {}.".format(*full) in text
    lowest = min((s.paper, d.base) for d, _, s in cells(tables[CQL], "RW") if d.task == "ant")
    assert lowest == (0.53, "ant-expert-random-50")  # "the paper's RW has its lowest score of all mixes in Ant there"


def test_half_hardly_improves_on_uniform(mixed: Results, tables: dict[str, ScoreTable]) -> None:
    shown, wins = [], []
    for method in ("BC", "TD3+BC", IQL):
        mixes = mixed.datasets_of(method, family="mixed")
        found = Intervals().improvement(*(mixed.scores(method, name, mixes) for name in ("Half", "Uniform")))
        assert (found.low < 0.5) == (method == "BC")
        shown.append(shown_of(found))
        wins.append(sum(score.is_better for _, _, score in cells(tables[method], "Half")))
        assert len(mixes) == 32
    text = text_of("docs/results.md")
    assert "over Uniform is {} with BC, {} with TD3+BC and {} with IQL;".format(*shown) in text
    assert "it is better than Uniform in {}, {} and {} of 32 cells.".format(*wins) in text
    best = {d.name: max(scores, key=lambda s: s.mean) for d, scores in tables["TD3+BC"].rows if d.sigma == 1}
    halves = {d.name: s for d, _, s in cells(tables["TD3+BC"], "Half")}
    assert all(best[name] is halves[name] for name in ("halfcheetah-expert-random-1", "ant-expert-random-1"))


def test_spread_of_td3_bc(tables: dict[str, ScoreTable]) -> None:
    found = cells(tables["TD3+BC"], "Uniform", "Top-10%", "Half")
    high = [(dataset.task, score.std) for dataset, _, score in found if score.std > 0.2]
    hopper = [std for task, std in high if task == "hopper"]
    text = text_of("docs/results.md")
    assert (
        f"standard deviations over seeds above 0.2 in {len(high)} of the {len(found)} cells, {len(hopper)} of them in Hopper (up "
        f"to {max(hopper):.2f})."
    ) in text
    half, uniform = (
        {d.name: s.mean for d, _, s in cells(tables["TD3+BC"], name) if d.sigma == 50 and d.task == "hopper"}
        for name in ("Half", "Uniform")
    )
    apart = [f"{abs(half[name] - uniform[name]):.2f}" for name in half]
    assert f"in Hopper their means differ by {' and '.join(apart)}." in text


def test_what_bfloat16_costs(results_page: Any) -> None:
    rows = results_page.precision_rows(
        collect([open_store(RESULTS / f"hopper_mixed_{name}.jsonl") for name in ("float32", "bfloat16")])
    )
    bounds = _bounds(rows)
    assert len(bounds) == 12 and all(low < 0 < high for low, high in bounds.values())  # "No interval leaves 0 out"
    fail = [bounds[f"BC, {name}"][0] for name in ("Uniform", "Top-10%", "Half")]
    assert min(fail) > -0.01
    weighted = [bounds[f"BC, {name}"][0] for name in ("RW", "AW")]
    others = [low for name, (low, _) in bounds.items() if name.startswith("TD3+BC")]
    assert max(*weighted, *others) < -0.02
    text = text_of("docs/results.md")
    assert f"for BC with RW and AW the intervals reach down to {weighted[0]:.3f} and {weighted[1]:.3f}, " in text
    assert f"from {max(others):.3f} to {min(others):.3f}. So **float32" in text


def test_iql_in_four_tasks(tables: dict[str, ScoreTable]) -> None:
    found: dict[tuple[str, ...], list[float]] = {}
    for dataset, name, score in cells(tables[IQL], "Uniform", "RW", "AW", "Top-10%", "Half"):
        task, kind, _, share = dataset.name.split("-")
        kind = "least" if (task, kind, share) == ("halfcheetah", "expert", "1") else kind
        found.setdefault((task, kind, "weighted" if name in ("RW", "AW") else name), []).append(score.mean)
    shown = {key: " to ".join(dict.fromkeys(f"{f(means):.2f}" for f in (min, max))) for key, means in found.items()}

    def pair(task: str, kind: str, between: str) -> str:
        return f"{shown[task, kind, 'weighted']}{between}{shown[task, kind, 'Uniform']}"

    text = text_of("docs/results.md")
    assert f"RW and AW reach {pair('hopper', 'expert', ' at every share, Uniform ')}; with medium" in text
    assert f"with medium data {pair('hopper', 'medium', ', Uniform ')}. In HalfCheetah" in text
    assert f"numbers: {pair('halfcheetah', 'least', ' with 1% of expert steps (Uniform ')})" in text
    assert f"{pair('halfcheetah', 'expert', ' with more (')})" in text
    assert f"{pair('halfcheetah', 'medium', ' with medium data (')}). In Walker2d" in text
    assert f"In Walker2d {pair('walker2d', 'expert', ' with expert data (')})" in text
    assert f"nobody gains: {pair('walker2d', 'medium', ', Uniform ')}." in text
    assert f"the best of all on Walker2d's expert mixes ({shown['walker2d', 'expert', 'Half']})" in text
    assert min(found["walker2d", "expert", "Half"]) > 1.05
    assert f"{pair('ant', 'expert', ' with expert data (')}), {pair('ant', 'medium', ' with medium data (')})" in text
    ant = [score for dataset, _, score in cells(tables[IQL], "RW", "AW") if dataset.task == "ant"]
    apart = [abs(score.mean - score.paper) for score in ant if score.paper is not None]
    assert len(apart) == 16 and 0.10 < max(apart) < 0.11  # "within 0.11"
    few = [
        f"{found['ant', kind, name][0]:.2f}" for kind in ("expert", "medium") for name in ("Half", "Top-10%", "Uniform")
    ]
    assert "{} and {} with expert data ({}), {} and {} with medium data ({}).".format(*few) in text


def test_iql_far_from_the_papers(results_page: Any, studies: Any) -> None:
    text = text_of("docs/results.md")
    beside = [cell for cell in results_page.beside_the_paper(studies) if cell.dataset.sigma is not None]
    scores = {(cell.dataset.name, cell.weighting): cell for cell in beside if cell.method == IQL}
    far = {key: cell for key, cell in scores.items() if abs(cell.apart) > 0.15}
    weighted = [cell for (_, name), cell in far.items() if name in ("RW", "AW")]
    least = [cell for cell in weighted if cell.dataset.sigma == 1]
    assert min(cell.apart for cell in weighted) > 0 and len(scores) == 128
    assert (
        f"{len(weighted)} of 64 scores on mixes are in the list, all higher than the paper's and {len(least)} of"
        in text
    )
    assert f"**IQL with Uniform and Top-10%**: {len(far) - len(weighted)} of 64." in text
    for dataset in ("hopper-expert-random-1", "walker2d-expert-random-1"):
        rw, aw = (far[dataset, name] for name in ("RW", "AW"))
        ours = rf"`{dataset}` {rw.score.text}( \(RW\))? and {aw.score.text}( \(AW\))?"
        assert re.search(rf"{ours}, the paper {rw.paper:.2f} and {aw.paper:.2f}", text)
    for good in ("expert", "medium"):
        five, ten = (far[f"ant-{good}-random-{sigma}", "Top-10%"] for sigma in (5, 10))
        ours = f"`ant-{good}-random-5` {five.score.text} and `-10` {ten.score.text}"
        assert f"{ours}, the paper {five.paper:.2f} and {ten.paper:.2f}" in text
    uniform = far["ant-medium-random-1", "Uniform"]
    assert f"Uniform on `ant-medium-random-1` {uniform.score.text}, the paper {uniform.paper:.2f}." in text
    assert sum(name.startswith("ant-") for name, _ in far) == 5
    top = [cell for cell in beside if (cell.dataset.name, cell.weighting) in far and cell.weighting == "Top-10%"]
    others = [cell for cell in top if cell.dataset.task == "ant" and cell.method in ("BC", "TD3+BC")]
    assert len(others) == 8 and all(cell.score.mean > cell.paper for cell in others)  # "above the paper's as well"
    assert sum(cell.apart > 0.15 for cell in others) == 1


def is_maze(dataset: DatasetName) -> bool:
    return dataset.base.startswith("antmaze")


def test_antmaze_is_learned(studies: Any) -> None:
    text = text_of("docs/results.md")
    mazes = {name: part_of(studies[name].results, is_maze) for name in ("regular", "official_antmaze")}
    claims = {name: checks_of(replicate(results, Intervals()).claims) for name, results in mazes.items()}
    for name, method in (("regular", "BC, bfloat16"), ("regular", "IQL, bfloat16"), ("official_antmaze", None)):
        found = claims[name]["regular"]
        checks = [check for (each, _), check in found.items() if method in (None, each)]
        rw, aw = (shown_of(check.improvement) for check in checks)
        assert any(f"{rw}{between}{aw}" in text for between in (" and ", " (RW) and ")), (name, method)
        assert not any(check.verdict == "worse" for check in checks)
    beats_bc = claims["regular"]["offline RL"]
    rw, aw = (f"{check.improvement.point:.2f}" for check in beats_bc.values() if check.improvement is not None)
    assert f"On antmaze's six one of IQL beats one of BC with {rw} and {aw}." in text
    table = {table.method: table for table in studies["regular"].tables}["IQL, bfloat16"]
    uniform = {
        dataset.name: scores[0].mean for dataset, scores in table.rows if scores[0] is not None and is_maze(dataset)
    }
    larger = [score for name, score in uniform.items() if "umaze" not in name]
    assert f"with IQL {min(larger):.2f} to {max(larger):.2f} in the larger mazes" in text
    assert uniform["antmaze-umaze"] >= 0.5 and min(larger) > 0
    assert sum(len(results.runs) for results in mazes.values()) == 360


def test_regular_sets(results_page: Any, studies: Any) -> None:
    """Gains and losses of RW and AW, and how far scores are from the paper's, on replays and elsewhere."""
    text, study = text_of("docs/results.md"), studies["regular"]
    found = checks_of(study.claims)
    shown = {
        method: [shown_of(found["regular"][method, name].improvement) for name in ("RW", "AW")]
        for method in study.results.methods
    }
    assert "RW beats one with Uniform with a probability of {}, one with AW with {}.".format(*shown[BC]) in text
    td3 = "TD3+BC, bfloat16"
    assert "TD3+BC on MuJoCo's 24 agrees, all in all: {} and {};".format(*shown[td3]) in text
    checks = [found["offline RL"][td3, name] for name in ("RW", "AW")]
    rw, aw = (f"{check.improvement.point:.2f}" for check in checks if check.improvement is not None)
    gains = [f"{-check.gain.point:.2f}" for check in checks if check.gain is not None]
    assert (
        f"TD3+BC does with {rw} and {aw}, but its IQM is lower by {gains[0]} and {gains[1]}: no winner either." in text
    )
    assert "The probabilities are {} and {}, the differences in IQM".format(*shown[IQL]) in text
    checks = [found["regular"][IQL, name] for name in ("RW", "AW")]
    gains = [shown_of(check.gain, "+.3f").replace("+-", "-") for check in checks]
    assert {check.verdict for check in checks} == {"not shown"}
    assert "in IQM {} and {}, where the paper's means".format(*gains) in text
    tables = {table.method: table for table in study.tables}
    rows = {
        method: {
            dataset.base: dict(zip(tables[method].weightings, row, strict=True)) for dataset, row in tables[method].rows
        }
        for method in (BC, td3, IQL)
    }
    papers = [np.mean([row[name].paper for row in rows[IQL].values()]) for name in ("Uniform", "RW", "AW")]
    assert [f"{paper:.2f}" for paper in papers] == ["0.62", "0.68", "0.68"]

    def cells_that(method: str, attribute: str) -> list[tuple[str, Score]]:
        judged = [(name, row[each]) for name, row in rows[method].items() for each in ("RW", "AW")]
        return [(name, score) for name, score in judged if getattr(score, attribute)]

    several = re.compile("medium-expert|replay")
    better, worse = cells_that(BC, "is_better"), cells_that(BC, "is_worse")
    assert (len(better), sum(bool(several.search(name)) for name, _ in better), len(worse)) == (18, 17, 0)
    better, worse = cells_that(td3, "is_better"), cells_that(td3, "is_worse")
    assert len(rows[td3]) == 24 and all(several.search(name) for name, _ in better)
    assert f"{len(better)} of 48 cells are better, all on such sets. But {len(worse)} are worse" in text
    assert f"TD3+BC gains in {len(better)} of 48 and loses in {len(worse)};" in text_of("README.md")
    assert list(dict.fromkeys(name for name, _ in worse)) == ["hopper-random", "walker2d-medium-replay", "ant-random"]
    for name in ("walker2d-medium-replay", "ant-random"):
        three = [rows[td3][name][each] for each in ("Uniform", "RW", "AW")]
        assert "on `{}`, from {} to {} and {}".format(name, *(score.text for score in three)) in text
    assert "(the paper's from {:.2f} to {:.2f} and {:.2f})".format(*(score.paper for score in three)) in text
    rw, aw = (f"{rows[td3]['hopper-random']['Uniform'].mean - score.mean:.2f}" for _, score in worse[:2])
    assert f"and by {rw} and {aw} on `hopper-random`." in text
    assert not any(found["regular"][td3, name].verdict_over_datasets in ("better", "no loss") for name in ("RW", "AW"))
    better, worse = cells_that(IQL, "is_better"), cells_that(IQL, "is_worse")
    assert len(better) == 9 and all(several.search(name) for name, _ in better)
    replays = [name for name, _ in worse if "replay" in name]
    assert len(worse) == 9 and len(replays) == 5
    readme, sets = text_of("README.md"), [f"`{name}`" for name in dict.fromkeys(replays)]
    assert 2 * sum(bool(several.search(name)) for name in rows[BC]) == 24
    assert f"IQL gains in {len(better)} of 60 and loses in {len(worse)}, most clearly on" in readme
    assert f"{', '.join(sets[:2])} and {sets[2]}." in readme and len(sets) == 3
    assert "BC gains from RW and AW in 17 of the 24 comparisons where" in readme and "in none of all 60;" in readme
    lost = [rows[IQL][name]["Uniform"].mean - score.mean for name, score in worse if name not in replays]
    assert f"`walker2d-medium`, by {min(lost):.2f} to {max(lost):.2f}, and" in text
    for name in dict.fromkeys(replays):
        rw, aw, uniform = (rows[IQL][name][each] for each in ("RW", "AW", "Uniform"))
        assert re.search(
            f"{rw.text} and {aw.text} on `{name}` \\((Uniform )?{uniform.text}, the paper {rw.paper:.2f}, {aw.paper:.2f} and "
            f"{uniform.paper:.2f}\\)",
            text,
        ), name
    cells = [cell for cell in results_page.beside_the_paper({"regular": study}) if not is_maze(cell.dataset)]
    apart, far = {}, {}
    for method in (BC, IQL):
        for replay in (False, True):
            some = [cell for cell in cells if cell.method == method and ("replay" in cell.dataset.base) == replay]
            assert len(some) == (32 if replay else 64)
            apart[method, replay] = f"{np.mean([abs(cell.ours.point - cell.paper) for cell in some]):.2f}"
            far[method, replay] = sum(abs(cell.apart) > 0.15 for cell in some)
    assert (
        f"the scores of BC are {apart[BC, False]} from the paper's on average, and those of IQL {apart[IQL, False]};"
        in text
    )
    assert (far[BC, False], far[IQL, False]) == (1, 1)
    assert f"but {far[BC, True]} and {far[IQL, True]} of 32 on replays." in text
    ant = {method: [cell for cell in cells if (cell.method, cell.dataset.task) == (method, "ant")] for method in rows}
    near = {
        method: f"{np.mean([abs(cell.ours.point - cell.paper) for cell in some]):.2f}" for method, some in ant.items()
    }
    lower = sum(cell.ours.point < cell.paper for cell in ant[td3])
    assert f"has {lower} of 24 scores below the paper's, {near[td3]} from it on average, with every sampler:" in text
    listed = [cell.dataset.task == "ant" for cell in cells if cell.method == td3 and abs(cell.apart) > 0.15]
    assert f"{sum(listed)} are in the list, and {listed.count(False)} of the other three tasks' 72." in text
    assert f"on the same data, are {near[BC]} and {near[IQL]} from the paper's numbers on average." in text
    three = [rows[td3]["ant-expert"][each] for each in ("Uniform", "RW", "AW")]
    assert "(from {} to {} and {}) is less than".format(*(score.text for score in three)) in text
    assert "(from {:.2f} to {:.2f} and {:.2f}).".format(*(score.paper for score in three)) in text
    kinds = [find_recipe(f"{task}-{kind}-replay") for task in MUJOCO_TASKS for kind in ("medium", "full")]
    policies = [len(recipe.parts) for recipe in kinds]
    assert f"played by {min(policies)} to {max(policies)} policies" in text
    top = {
        dataset.base: row[tables["TD3+BC, bfloat16"].weightings.index("Top-10%")]
        for dataset, row in tables["TD3+BC, bfloat16"].rows
    }
    one, two = (top[f"hopper-{name}"] for name in ("expert", "medium-expert"))
    expert = "`hopper-expert` and `hopper-medium-expert`"
    assert f"has {one.text} and {two.text} on {expert}, the paper {one.paper:.2f} and {two.paper:.2f}." in text


def test_replays(studies: Any) -> None:
    """Who is drawn, and what becomes of it."""
    text = text_of("docs/results.md")
    drawn = {row["dataset"]: row for row in stored("who_is_drawn")}
    tables = {table.method.removesuffix(", bfloat16"): table for table in studies["regular"].tables}
    scores = {
        method: {dataset.base: dict(zip(table.weightings, row, strict=True)) for dataset, row in table.rows}
        for method, table in tables.items()
    }
    walker, hopper = drawn["walker2d-medium-replay"], drawn["hopper-medium-replay"]
    (poor,) = [policy for policy in walker["policies"] if policy["policy"] == "rung-04"]
    assert (
        len(walker["policies"]) == 9
        and f"{walker['weightings']['rw']['share']['rung-04']:.0%} of what is drawn" in text
    )
    assert "{episodes} episodes with a mean return of {mean:.0f} and a median of {median:.0f}".format(**poor) in text
    assert "best runs reach {best:,.0f}, where the expert has 4,877".format(**poor) in text
    assert "| 4,877 ± " in text_of("docs/datasets.md")
    assert f"falls after {poor['median_length_without_noise']:.0f} steps" in text
    top = [scores[method][walker["dataset"]]["Top-10%"].text for method in ("BC", "TD3+BC", "IQL")]
    by_policy = f"{walker['weightings']['top']['return_by_policy']:,.0f}"
    assert f"({by_policy} on average) and has {top[0]}, {top[1]} and {top[2]}." in text
    good = hopper["policies"][-1]
    share = f"{hopper['weightings']['rw']['share'][good['policy']]:.0%}"
    found = [scores[method][hopper["dataset"]]["RW"] for method in ("BC", "TD3+BC")]
    assert (
        f"{share} are drawn from a policy with {good['mean']:,.0f}, and {good['without_noise']:,.0f} without noise"
        in text
    )
    assert f"make {found[0].text} and {found[1].text} of it, which is twice as much." in text
    own = normalize_returns(good["without_noise"], reference_scores("hopper"))
    assert all(1.8 < score.mean / own < 2.6 for score in found)
    gains = {name: row["RW"].mean - row["Uniform"].mean for name, row in scores["IQL"].items() if name in drawn}
    luck = [name for name, row in drawn.items() if row["weightings"]["rw"]["left"] < 0.8]
    assert (len(luck), sum(gains[name] < 0 for name in luck), len(gains)) == (5, 4, 8)
    assert all(gain > 0 for name, gain in gains.items() if name not in luck)
    falls = {
        name: row["weightings"]["rw"]["falls"] / (row["weightings"]["uniform"]["falls"] or 1)
        for name, row in drawn.items()
    }
    assert min((name for name in falls if falls[name] > 0), key=falls.__getitem__) == "walker2d-full-replay"


def test_how_surely_weights_help(studies: Any) -> None:
    """What ``suggest`` says: RW and AW, cell by cell."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for study, methods in (("mixed", ("BC", "TD3+BC", IQL)), ("regular", (BC, "TD3+BC, bfloat16", IQL))):
        tables = {table.method: table for table in studies[study].tables}
        for table in (tables[method] for method in methods):
            pairs = [(dataset, zip(table.weightings, scores, strict=True)) for dataset, scores in table.rows]
            scores = [s for d, row in pairs if study == "regular" or d.sigma for name, s in row if name in ("RW", "AW")]
            counts = len(scores), sum(s.is_better for s in scores), sum(s.is_worse for s in scores)
            found.setdefault(study, []).append(counts)
    (mixes, bc, _), (_, td3, _), (_, iql, _) = found["mixed"]
    told = f"in {bc} of {mixes} comparisons with BC, {td3} with TD3+BC and {iql} with IQL, and worse in none;"
    assert told in BY_ALGORITHM and {worse for _, _, worse in found["mixed"]} == {0}
    shown = [f"{better} of {count} with" for count, better, _ in found["regular"]]
    assert "in {} BC, {} TD3+BC and {} IQL, but worse in".format(*shown) in BY_ALGORITHM
    none, td3, iql = (worse for _, _, worse in found["regular"])
    assert none == 0 and f"but worse in {td3} with TD3+BC and {iql} with IQL." in BY_ALGORITHM


def test_stochastic_control(studies: Any) -> None:
    text, found = text_of("docs/results.md"), checks_of(studies["stochastic"].claims)
    for name in ("stochastic", "stochastic top"):
        rw, aw = (shown_of(check.improvement) for check in found[name].values())
        assert f"{rw} and {aw}" in text
    (table,) = studies["stochastic"].tables
    places = [table.weightings.index(name) for name in ("RW", "AW", "Top-10%")]
    least = [[scores[place].mean for place in places] for dataset, scores in table.rows if dataset.sigma == 1]
    assert len(least) == 6 and all(min(row[:2]) > row[2] for row in least)  # "ahead of it on all six mixes"


def _bounds(rows: Any) -> dict[str, list[float]]:
    return {row[0]: [float(number) for number in re.findall(r"[+-][\d.]+", row[3])[1:]] for row in rows[1:]}


def test_what_the_kernels_cost(results_page: Any) -> None:
    bounds = _bounds(results_page.precision_rows(results_page.fused_results()))
    assert len(bounds) == 12 and all(low < 0 < high for low, high in bounds.values())  # "No interval leaves 0 out"


def test_the_demo(results_page: Any) -> None:
    """README shows the table of seed 0; RW and AW are clearly above Uniform each time that is stored."""
    means: dict[str, list[str]] = {"uniform": [], "rw": [], "aw": []}
    for name, path in results_page.DEMOS.items():
        store = open_store(path)
        assert name != "0" or score_table(collect(store).runs) in (ROOT / "README.md").read_text()
        found = {}
        for weighting in means:
            scores = [r["score"] for r in store.runs() if r["spec"]["weighting"]["name"] == weighting]
            assert len(scores) == 5
            found[weighting] = interval(mean, [np.array(scores)], rng=np.random.default_rng(0))
            means[weighting].append(f"{found[weighting].point:.2f}")
        for weighting in ("rw", "aw"):
            assert found[weighting].low > found["uniform"].high
            assert found[weighting].point > 2 * found["uniform"].point
    readme = text_of("README.md")
    uniform, rw, aw = (f"{min(values)} to {max(values)}" for values in means.values())
    assert f"scores {rw} (RW) and {aw} (AW) instead of {uniform}" in readme
    assert "The intervals cover training seeds only; another draw of the data moves the scores too" in readme
    assert f"gives AW {', '.join(means['aw'][:2])} and {means['aw'][2]} on three draws." in text_of("docs/results.md")
