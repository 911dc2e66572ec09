import json
import re
from pathlib import Path

import numpy as np
import pytest

from support.results import add_runs, data_spec, record_of
from upweight.cli.main import main
from upweight.report.replicate import Check, Replication, replicate
from upweight.report.results import collect
from upweight.report.statistics.intervals import Intervals
from upweight.report.tables import score_tables
from upweight.studies.experiment_file import read_experiment
from upweight.studies.store import Store

INTERVALS = Intervals(resamples=300)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results", create=True)


def around(level: float, *, seed: int = 0, spread: float = 0.002) -> list[float]:
    return (level + spread * np.random.default_rng(seed).standard_normal(5)).round(5).tolist()


def checks(replication: Replication, claim: str) -> dict[str, Check]:
    found = next(each for each in replication.claims if each.name == claim)
    return {f"{check.method} {check.what}": check for check in found.checks}


def check(store: Store) -> Replication:
    return replicate(collect(store), INTERVALS)


def test_better_equal_worse_and_missing(store: Store) -> None:
    for task in ("hopper", "walker2d"):
        for place, (sigma, level) in enumerate({1: 0.9, 5: 0.5, 10: 0.1}.items()):
            name = f"{task}-expert-random-{sigma}"
            add_runs(store, name, "Uniform", around(0.5, seed=1))
            add_runs(store, name, "RW", around(level, seed=1 if place == 1 else 2))
    replication = check(store)
    found = checks(replication, "mixed")
    verdicts = {what: each.verdict for what, each in found.items() if "RW" in what}
    expected = {"BC RW, 1%": "better", "BC RW, 5%": "no loss", "BC RW, 10%": "not shown", "BC RW, 50%": "no data"}
    assert verdicts == expected
    assert all(each.verdict == "no data" for what, each in found.items() if "AW" in what)
    better, worse = found["BC RW, 1%"], found["BC RW, 10%"]
    assert better.improvement is not None and better.gain is not None and worse.improvement is not None
    assert (better.improvement.low, better.datasets, better.seeds) == (1.0, 2, 5)
    assert better.gain.point == pytest.approx(0.4, abs=0.005)
    assert worse.improvement.high == 0.0
    claim = replication.claims[0]
    assert (claim.supported, claim.decided) == (1, 3)


def test_the_full_expert_set_is_matched_by_task(store: Store) -> None:
    for task, level in (("hopper", 1.0), ("walker2d", 0.8)):
        add_runs(store, f"{task}-expert", "Uniform", around(level))
        add_runs(store, f"{task}-expert-random-5", "RW", around(level))
        add_runs(store, f"{task}-medium-random-5", "RW", around(0.1))  # not a mix of the expert's
    found = checks(check(store), "full expert")
    assert found["BC RW, 5%"].verdict == "no loss"
    assert found["BC RW, 5%"].datasets == 2
    assert found["BC RW, 1%"].verdict == "no data"


def test_a_mix_meets_the_full_set_of_its_own_data_seed(store: Store) -> None:
    for seed, level in ((0, 1.0), (1, 0.6)):
        add_runs(store, data_spec("hopper-expert", seed=seed), "Uniform", around(level))
        add_runs(store, data_spec("hopper-expert-random-5", seed=seed), "RW", around(level))
    found = checks(check(store), "full expert")["BC RW, 5%"]
    assert (found.verdict, found.datasets) == ("no loss", 2)


def test_mixes_of_several_data_seeds_meet_the_one_full_set(store: Store) -> None:
    add_runs(store, "hopper-expert", "Uniform", around(1.0))
    for seed, level in ((0, 1.0), (1, 0.2)):
        add_runs(store, data_spec("hopper-expert-random-5", seed=seed), "RW", around(level))
    found = checks(check(store), "full expert")["BC RW, 5%"]
    assert (found.verdict, found.datasets) == ("not shown", 2)
    assert found.gain is not None and found.gain.point < -0.3


def test_regular_and_stochastic_sets(store: Store) -> None:
    add_runs(store, "hopper-medium", "Uniform", around(0.5))
    add_runs(store, "hopper-medium", "RW", around(0.4))
    add_runs(store, "cartpole-expert-random-5", "Uniform", around(0.5), algorithm="discrete_cql")
    weighting = {"name": "rw", "temperature": 0.2}
    add_runs(store, "cartpole-expert-random-5", weighting, around(0.5), algorithm="discrete_cql")
    replication = check(store)
    assert {what: each.verdict for what, each in checks(replication, "regular").items()} == {
        "BC RW": "not shown",
        "BC AW": "no data",
    }
    assert checks(replication, "stochastic")["discrete CQL RW"].verdict == "no loss"


def test_temperatures_are_compared_with_the_default(store: Store) -> None:
    name = "hopper-expert-random-5"
    add_runs(store, name, "RW", around(0.5))
    add_runs(store, name, {"name": "rw", "temperature": 0.05}, around(0.5))
    add_runs(store, name, {"name": "rw", "temperature": 1.0}, around(0.2))
    found = checks(check(store), "temperature")
    assert {what: each.verdict for what, each in found.items()} == {
        "BC RW 0.05 against RW": "no loss",
        "BC RW 1 against RW": "not shown",
    }


def test_weightings_of_a_plain_experiment_with_cql_are_in_tables_and_claims(store: Store, tmp_path: Path) -> None:
    """Without a temperature, "rw" and "aw" are the paper's for the algorithm, and so they are RW and AW."""
    lines = ['datasets = ["hopper-expert-random-5"]', 'algorithms = ["cql", "bc"]', "updates = 1000", "episodes = 20"]
    lines += ['weightings = ["uniform", "rw", "aw"]', "seeds = 5"]
    (tmp_path / "cql.toml").write_text("\n".join(lines))
    for run in read_experiment(tmp_path / "cql.toml").runs:
        store.write_run(
            run.run_id, record_of(run, (0.1 if run.weighting["name"] == "uniform" else 0.9) + run.seed / 100)
        )
    results = collect(store)
    assert {table.method: table.weightings for table in score_tables(results, INTERVALS)} == {
        "BC": ("Uniform", "RW", "AW"),
        "CQL": ("Uniform", "RW", "AW"),
    }
    found = checks(replicate(results, INTERVALS), "mixed")
    assert [found[f"CQL {name}, 5%"].verdict for name in ("RW", "AW")] == ["better", "better"]


def test_one_seed_shows_nothing(store: Store) -> None:
    add_runs(store, "hopper-expert-random-1", "Uniform", [0.1])
    add_runs(store, "hopper-expert-random-1", "RW", [0.9])
    replication = check(store)
    assert checks(replication, "mixed")["BC RW, 1%"].verdict == "not shown"
    assert "BC         RW, 1%   not shown (few seeds)" in str(replication)


def test_few_seeds_are_said_beside_the_verdict_and_below(store: Store) -> None:
    for sigma, seeds in ((1, 4), (5, 5)):
        add_runs(store, f"hopper-expert-random-{sigma}", "Uniform", around(0.1)[:seeds])
        add_runs(store, f"hopper-expert-random-{sigma}", "RW", around(0.9)[:seeds])
    text = str(check(store))
    assert re.search(r"RW, 1% +better \(few seeds\) +1.00 .* 1 +4\n", text)
    assert re.search(r"RW, 5% +better +1.00 .* 1 +5\n", text)
    assert "Note: verdicts with (few seeds) rest on fewer than 5 seeds." in text


def test_command(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_runs(store, "hopper-expert-random-1", "Uniform", around(0.1))
    add_runs(store, "hopper-expert-random-1", "RW", around(0.9))
    assert main(["replicate", str(store.path), "--resamples", "100"]) == 0
    text = capsys.readouterr().out
    assert "Claim: RW and AW beat Uniform at each sigma\n  supported by 1 of 8 checks (7 without data)" in text
    assert "few seeds" not in text
    assert "1.00 [1.00, 1.00]" in text
    assert "Claim: no loss on regular sets\n  no data" in text
    assert main(["replicate", str(store.path), "--json", "--resamples", "100"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["claims"][0]["checks"][0]["verdict"] == "better"
    assert main(["replicate", str(tmp_path / "nowhere")]) == 2
    assert "not a store of results" in capsys.readouterr().err


def test_a_negative_seed_is_an_error_and_not_a_traceback(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    add_runs(store, "hopper-expert-random-1", "Uniform", around(0.1))
    for command in (["replicate", str(store.path)], ["report", str(store.path), "-o", str(store.path / "out.html")]):
        assert main([*command, "--seed", "-1"]) == 2
        assert "expected a seed of the bootstrap of 0 or more, found -1" in capsys.readouterr().err


def test_help_says_that_packed_files_work(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replicate", "--help"])
    assert "or a file that `Store.pack` wrote" in " ".join(capsys.readouterr().out.split())
