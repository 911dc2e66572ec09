import json
import re
from pathlib import Path

import numpy as np
import pytest

from support.results import MIXES, add_dataset, add_runs, data_spec, record_of
from upweight.cli.main import main
from upweight.lab.report.gains import gains_of
from upweight.lab.report.replicate import Check, Replication, replicate
from upweight.lab.report.results import collect
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.report.tables import score_tables
from upweight.lab.study.experiment_file import read_experiment
from upweight.lab.study.store import Store

INTERVALS = Intervals(resamples=300)


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
    expected = {"BC RW, 1%": "better", "BC RW, 5%": "no loss", "BC RW, 10%": "worse", "BC RW, 50%": "no data"}
    assert verdicts == expected
    assert all(each.verdict == "no data" for what, each in found.items() if "AW" in what)
    better, worse = found["BC RW, 1%"], found["BC RW, 10%"]
    assert better.improvement is not None and better.gain is not None and worse.improvement is not None
    assert (better.improvement.low, better.datasets, better.seeds) == (1.0, 2, 5)
    assert better.gain.point == pytest.approx(0.4, abs=0.005)
    assert worse.improvement.high == 0.0
    (support,) = replication.claims[0].support().values()
    assert (support.supported, support.contrary, support.decided, support.checks) == (1, 1, 3, 8)
    assert str(support) == "1 of 8 (1 over datasets, 1 to the contrary, 5 without data)"


def test_algorithms_are_counted_apart(store: Store) -> None:
    for algorithm, level in (("bc", 0.9), ("td3_bc", 0.1)):
        add_runs(store, "hopper-expert-random-1", "Uniform", around(0.5), algorithm=algorithm)
        add_runs(store, "hopper-expert-random-1", "RW", around(level), algorithm=algorithm)
    replication = check(store)
    assert "support it, BC: 1 of 8 (7 without data); TD3+BC: 0 of 8 (1 to the contrary, 7 without data)" in str(
        replication
    )
    support = replication.to_dict()["claims"][0]["support"]
    assert {method: each["supported"] for method, each in support.items()} == {"BC": 1, "TD3+BC": 0}


def test_the_papers_order_of_samplers(store: Store) -> None:
    """Each against the one that its claim names."""
    for sigma in (1, 5):
        levels = {"Uniform": 0.3, "Top-10%": 0.1 if sigma == 1 else 0.4, "Half": 0.5, "RW": 0.9, "AW": 0.91}
        for place, (sampler, level) in enumerate(levels.items()):
            add_runs(store, f"hopper-expert-random-{sigma}", sampler, around(level, seed=place))
    replication = check(store)
    for claim in ("top", "half"):
        assert [checks(replication, claim)[f"BC {name}, 5%"].verdict for name in ("RW", "AW")] == ["better", "better"]
    gain = checks(replication, "half")["BC RW, 5%"].gain
    assert gain is not None and gain.point == pytest.approx(0.4, abs=0.01)
    assert checks(replication, "half over uniform")["BC Half, 1%"].verdict == "better"
    assert checks(replication, "uniform over top")["BC Uniform, 1%"].verdict == "better"
    assert "BC Top-10%, 1%" not in checks(replication, "top over uniform")
    assert checks(replication, "top over uniform")["BC Top-10%, 5%"].verdict == "better"
    assert checks(replication, "alike")["BC AW"].verdict == "alike"


def test_better_often_but_worse_in_the_mean_is_not_called_better(store: Store) -> None:
    """A little better on three datasets, far worse on two."""
    for place, level in enumerate((0.52, 0.52, 0.52, 0.0, 0.0)):
        data = data_spec("hopper-expert-random-5", seed=place)
        add_runs(store, data, "Uniform", around(0.5))
        add_runs(store, data, "RW", around(level, seed=1))
    found = checks(check(store), "mixed")["BC RW, 5%"]
    assert found.improvement is not None and found.improvement.low > 0.5
    assert found.gain is not None and found.gain.high < -0.1
    assert found.verdict == "not shown"


def test_the_full_expert_set_is_matched_by_task(store: Store) -> None:
    for task, level in (("hopper", 1.0), ("walker2d", 0.8)):
        add_runs(store, f"{task}-expert", "Uniform", around(level))
        add_runs(store, f"{task}-expert-random-5", "RW", around(level))
        add_runs(store, f"{task}-medium-random-5", "RW", around(0.1))  # not a mix of the expert's
    found = checks(check(store), "full expert")
    assert found["BC RW, 5%"].verdict == "no loss"
    assert found["BC RW, 5%"].datasets == 2
    assert found["BC RW, 10%"].verdict == "no data"
    assert "BC RW, 1%" not in found  # the paper says it of 5% and more


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
    assert (found.verdict, found.datasets) == ("worse", 2)
    assert found.gain is not None and found.gain.point < -0.3


def test_regular_and_stochastic_sets(store: Store) -> None:
    add_runs(store, "hopper-medium", "Uniform", around(0.5))
    add_runs(store, "hopper-medium", "RW", around(0.4))
    add_runs(store, "cartpole-expert-random-5", "Uniform", around(0.5), algorithm="discrete_cql")
    weighting = {"name": "rw", "temperature": 0.2}
    add_runs(store, "cartpole-expert-random-5", weighting, around(0.5), algorithm="discrete_cql")
    replication = check(store)
    assert {what: each.verdict for what, each in checks(replication, "regular").items()} == {
        "BC RW": "worse",
        "BC AW": "no data",
    }
    assert checks(replication, "stochastic")["discrete CQL RW"].verdict == "no loss"
    assert checks(replication, "stochastic top")["discrete CQL RW"].verdict == "no data"


def test_temperatures_are_compared_with_uniform(store: Store) -> None:
    """All that were run between 0.01 and 1, the usual one too; AW was run at one only."""
    name = "hopper-expert-random-5"
    add_runs(store, name, "Uniform", around(0.3))
    add_runs(store, name, "AW", around(0.5))
    add_runs(store, name, "RW", around(0.5))
    for temperature, level in ((0.05, 0.5), (1.0, 0.2), (2.0, 0.2)):
        add_runs(store, name, {"name": "rw", "temperature": temperature}, around(level))
    found = checks(check(store), "temperature")
    assert {what: each.verdict for what, each in found.items()} == {
        "BC RW 0.05": "better",
        "BC RW": "better",
        "BC RW 1": "worse",
    }


def test_percentages_are_compared_with_ten(store: Store) -> None:
    name = "hopper-expert-random-5"
    for fraction, level in ((0.01, 0.9), (0.1, 0.5), (0.5, 0.1)):
        add_runs(store, name, {"name": "top", "fraction": fraction}, around(level))
    found = checks(check(store), "percentage")
    assert {what: each.verdict for what, each in found.items()} == {
        "BC Top-10% against Top-1%": "worse",
        "BC Top-10% against Top-50%": "better",
    }


def test_offline_rl_is_compared_with_bc_of_the_same_sampler_and_precision(store: Store) -> None:
    for algorithm, level in (("bc", 0.4), ("td3_bc", 0.6)):
        add_runs(store, "hopper-medium", "RW", around(level), algorithm=algorithm)
        add_runs(store, "hopper-medium", "AW", around(1 - level), algorithm=algorithm)
    assert not checks(check(store), "offline RL on mixes")
    verdicts = {what: each.verdict for what, each in checks(check(store), "offline RL").items()}
    assert verdicts == {"TD3+BC RW": "better", "TD3+BC AW": "worse"}
    add_runs(store, "hopper-medium", "RW", around(0.6), algorithm="iql", precision="bfloat16")
    found = checks(check(store), "offline RL")  # BC was run in float32 only, and that is said
    assert found["IQL, bfloat16 RW, BC in float32"].verdict == "better"
    add_runs(store, "hopper-medium", "RW", around(0.9), algorithm="bc", precision="bfloat16")
    assert checks(check(store), "offline RL")["IQL, bfloat16 RW"].verdict == "worse"
    # After as many updates comes before the precision.
    add_runs(store, "hopper-medium", "RW", around(0.9), algorithm="bc", precision="bfloat16", updates=2_000_000)
    assert checks(check(store), "offline RL")["IQL, bfloat16 RW, BC in float32"].verdict == "better"
    add_runs(store, "hopper-medium", "RW", around(0.9), algorithm="iql", precision="bfloat16", updates=3_000_000)
    found = checks(check(store), "offline RL")
    assert "IQL, bfloat16 RW, BC after 2,000,000 updates" in found
    assert "trained for different numbers of updates (BC 1,000; BC, bfloat16 2,000,000;" in check(store).notes[0]


@pytest.mark.parametrize(("sign", "verdict"), [(1, "grows"), (-1, "not shown")])
def test_the_gain_grows_with_the_rpsv_or_not(store: Store, sign: int, verdict: str) -> None:
    for place, data in enumerate(MIXES):
        add_runs(store, data, "Uniform", around(0.1))
        add_runs(store, data, "RW", around(0.5 + 0.05 * sign * place))
        add_dataset(store, data, mean=0.1 * (place % 3), rpsv=0.01 * (place + 1))
    replication = check(store)
    found = checks(replication, "rpsv")
    assert (found["BC RW"].verdict, found["BC RW, at equal mean"].verdict) == (verdict, verdict)
    correlation = found["BC RW"].correlation
    assert correlation is not None and correlation.point == sign
    assert re.search(rf"RW +{verdict} +[+-]1.00 \[.*\] +8 +5\n", str(replication))
    assert found["BC AW"].verdict == "no data" and re.search(r"BC +AW, at equal mean +no data *\n", str(replication))


def test_gains_that_are_all_equal_have_no_correlation(store: Store) -> None:
    for place, data in enumerate(MIXES[:5]):
        for sampler in ("Uniform", "RW"):
            add_runs(store, data, sampler, [0.0] * 5)
        add_dataset(store, data, mean=0.1 * (place % 3), rpsv=0.01 * (place + 1))
    replication = check(store)
    found = checks(replication, "rpsv")["BC RW"]
    assert (found.verdict, found.correlation, found.datasets) == ("not shown", None, 5)
    assert re.search(r"BC +RW +not shown +undefined: all scores or all datasets are equal +5 +5\n", str(replication))


def test_a_handful_of_datasets_tells_nothing_about_rpsv(store: Store) -> None:
    for place, data in enumerate(MIXES[:4]):
        add_runs(store, data, "Uniform", around(0.1))
        add_runs(store, data, "RW", around(0.5 + 0.1 * place))
        add_dataset(store, data, rpsv=0.01 * (place + 1))
    assert {each.verdict for each in checks(check(store), "rpsv").values()} == {"no data"}


def test_draws_of_one_mix_are_one_point_of_the_correlation(store: Store) -> None:
    """With the mean of their gains: 0.5 and 0.7, where the other mixes have 0.1 to 0.4."""
    for place, name in enumerate([*MIXES[:4], MIXES[4], MIXES[4]]):
        data = data_spec(name, seed=place // 5)
        add_runs(store, data, "Uniform", around(0.1))
        add_runs(store, data, "RW", around(0.2 + 0.1 * place + 0.1 * (place == 5)))
        add_dataset(store, data, rpsv=0.01 * (place + 1))
    found = checks(check(store), "rpsv")["BC RW"]
    assert found.datasets == 5 and found.correlation is not None and found.correlation.point == 1
    results = collect(store)
    gains = gains_of(results, "BC", "RW", results.datasets_of("BC"))
    assert (len(gains.gain), gains.num_kinds, gains.are_few) == (6, 5, False)


def test_over_datasets_is_another_question(store: Store) -> None:
    """Surely better on these three datasets; on others of the kind, who knows."""
    for place, level in enumerate((0.9, 0.9, 0.4)):
        data = data_spec("hopper-expert-random-5", seed=place)
        add_runs(store, data, "Uniform", around(0.5))
        add_runs(store, data, "RW", around(level, seed=1))
    found = checks(check(store), "mixed")["BC RW, 5%"]
    assert (found.verdict, found.verdict_over_datasets) == ("better", "not shown")
    assert found.improvement is not None and found.improvement_over_datasets is not None
    assert found.improvement_over_datasets.low < 0.5 < found.improvement.low
    assert "BC: 1 of 8 (0 over datasets, 7 without data)" in str(check(store))


def test_a_second_draw_of_the_data_is_part_of_the_second_interval(store: Store) -> None:
    """One mix gains and one loses: ten draws of each make seeds sure, but no more mixes."""
    for task, level in (("hopper", 0.9), ("walker2d", 0.45)):
        for seed in range(10):
            data = data_spec(f"{task}-expert-random-5", seed=seed)
            add_runs(store, data, "Uniform", around(0.5))
            add_runs(store, data, "RW", around(level, seed=seed))
    found = checks(check(store), "mixed")["BC RW, 5%"]
    assert found.datasets == 20
    over = found.improvement_over_datasets
    assert over is not None and (over.low, over.high) == (0.0, 1.0)


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
    assert "Claim: RW and AW beat Uniform at each sigma\n  checks that support it, BC: 1 of 8 (7 without data)" in text
    assert "few seeds" not in text
    assert "1.00 [1.00, 1.00]" in text
    assert text.endswith("in stochastic control\n  RW and AW beat Uniform at temperatures from 0.01 to 1\n")
    assert "Claims that there are no runs for:\n  RW and AW beat Top-10% at each sigma\n" in text
    assert main(["replicate", str(store.path), "--json", "--resamples", "100"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["claims"][0]["checks"][0]["verdict"] == "better"
    assert main(["replicate", str(tmp_path / "nowhere")]) == 2
    assert "not a store of results" in capsys.readouterr().err


def test_a_negative_seed_is_an_error_and_not_a_traceback(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    add_runs(store, "hopper-expert-random-1", "Uniform", around(0.1))
    for command in (["replicate", str(store.path)], ["report", str(store.path), "-o", str(store.path / "out.html")]):
        assert main([*command, "--seed", "-1"]) == 2
        assert "seed: expected a whole number of at least 0, found -1" in capsys.readouterr().err


def test_help_says_that_packed_files_work(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["replicate", "--help"])
    assert "or a file that `Store.pack` wrote" in " ".join(capsys.readouterr().out.split())
