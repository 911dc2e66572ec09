"""Experiment files: what they spell out, and what is wrong with wrong ones."""

from pathlib import Path

import pytest

from upweight.experiments.experiment_file import ExperimentError, find_experiment, read_experiment, suite_names
from upweight.experiments.run_spec import run_spec_from_dict

GOOD = """\
name = "study"
updates = 10
seeds = 2

[[grid]]
datasets = ["cartpole-expert-random-*"]
algorithms = ["discrete_bc", {name = "discrete_cql", conservative_weight = 0.5}]
weightings = ["uniform", {name = "rw", temperature = 0.2}]

[[grid]]
datasets = ["cartpole-random"]
algorithms = ["discrete_bc"]
seeds = [7]

[scale.smoke]
updates = 1
seeds = 1
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_a_grid_is_spelled_out(tmp_path: Path) -> None:
    experiment = read_experiment(write(tmp_path, GOOD))
    assert len(experiment.runs) == 4 * 2 * 2 * 2 + 1
    assert len({run.run_id for run in experiment.runs}) == len(experiment.runs)
    last = experiment.runs[-1]
    assert (last.data.name, last.seed, last.updates, last.episodes) == ("cartpole-random", 7, 10, 20)
    assert last.data.env_id == "upweight/StochasticCartPole-v1" and last.data.steps == 100_000
    assert last.weighting == {"name": "uniform"}
    weights = {run.config["conservative_weight"] for run in experiment.runs if run.algorithm == "discrete_cql"}
    assert weights == {0.5}
    assert run_spec_from_dict(last.to_dict()) == last
    changed = read_experiment(tmp_path / "study.toml", changes={"seeds": [3], "dataset_seed": 9})
    assert {(run.seed, run.data.seed) for run in changed.runs} == {(3, 9)}
    smoke = read_experiment(tmp_path / "study.toml", scale="smoke", only="*-5", algorithms=["discrete_bc"])
    assert [(run.data.name, run.updates, run.seed) for run in smoke.runs] == [("cartpole-expert-random-5", 1, 0)] * 2


def test_a_name_stands_for_everything_that_matters(tmp_path: Path) -> None:
    run = read_experiment(write(tmp_path, GOOD)).runs[0]
    again = read_experiment(write(tmp_path, "# a comment\n" + GOOD.replace('"study"', '"other name"'))).runs[0]
    assert run.run_id == again.run_id
    changes = [
        ("updates = 10", "updates = 11"),
        ("seeds = 2", "seeds = [5]"),
        ("seeds = 2", 'seeds = 2\nprecision = "bfloat16"'),
    ]
    changes += [("seeds = 2", "seeds = 2\ndataset_seed = 1"), ("seeds = 2", "seeds = 2\nepisodes = 19")]
    changes += [('["discrete_bc", {', '[{name = "discrete_bc", batch_size = 32}, {')]
    ids = {read_experiment(write(tmp_path, GOOD.replace(*change, 1))).runs[0].run_id for change in changes}
    assert len(ids | {run.run_id}) == len(changes) + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("updates = 10", "updates = "), r"study\.toml: not a TOML file: .*line 2"),
        (("updates = 10", "updatse = 10"), r"line 2: updatse: unknown key; known: datasets"),
        (("updates = 10", 'updates = "many"'), r"line 2: updates: expected int, found 'many'"),
        (("updates = 10", "updates = true"), r"line 2: updates: expected int, found True"),
        (("updates = 10", "updates = 0"), r"line 2: updates: expected at least 1, found 0"),
        (("updates = 10\n", ""), r"grid 1: missing key 'updates'"),
        (("seeds = [7]", "seeds = []"), r"line 13: seeds: expected a number of seeds above 0"),
        (("seeds = [7]", "seeds = [true]"), r"line 13: seeds: expected a number of seeds"),
        (('"discrete_bc", {', '"discrete_bd", {'), r"line 7: algorithms: .*discrete_bc"),
        (("conservative_weight", "conservative_wieght"), r"line 7: algorithms: .*did you mean 'conservative_weight'"),
        (('"uniform", {', '"unifrom", {'), r"line 8: weightings: .*did you mean 'uniform'"),
        (("temperature = 0.2", "temperature = -1"), r"line 8: weightings: .*temperature"),
        (('["uniform", {', '[3, {'), r"line 8: weightings: expected a name or \{name"),
        (('"cartpole-random"', '"cartpole-randon"'), r"line 11: datasets: no dataset 'cartpole-randon'; did you mean"),
        (('"cartpole-random"', '"pong-*"'), r"line 11: datasets: no dataset 'pong-\*'"),
        (('"cartpole-random"', '"logs.npz"'), r"line 11: datasets: logs.npz is a file: say with env ="),
        (("seeds = 2", 'seeds = 2\nprecision = "half"'), r"line 4: precision: expected one of float32"),
        (("[[grid]]\ndatasets = [\"cartpole-e", "[grid]\ndatasets = [\"cartpole-e"), r"not a TOML file|double brackets"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(ExperimentError, match=message):
        read_experiment(write(tmp_path, GOOD.replace(*change, 1)))


def test_what_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("updates = 1\n", "updates = -1\n"))
    with pytest.raises(ExperimentError, match="line 16: updates: expected at least 1, found -1"):
        read_experiment(path, scale="smoke")
    path = write(tmp_path, GOOD)
    with pytest.raises(ExperimentError, match=r"no \[scale.big\]; it has smoke"):
        read_experiment(path, scale="big")
    with pytest.raises(ExperimentError, match="no runs are left"):
        read_experiment(path, only="hopper-*")
    with pytest.raises(ExperimentError, match="no such file, and no suite of that name; suites: demo, paper/mixed"):
        find_experiment("paper/mxed")


@pytest.mark.parametrize(
    ("name", "paper_runs"),
    [
        ("paper/mixed", 32 * 4 * 5 * 5 + 12 * 4 * 5),
        ("paper/regular", 24 * 4 * 4 * 5),
        ("paper/stochastic", 3 * 8 * 4 * 5),
        ("paper/temperature", 32 * 4 * 12 * 5),
        ("paper/percentage", 32 * 4 * 5 * 5),
        ("paper/official_iql", 32 * 4 * 5),
    ],
)
def test_the_papers_suites(name: str, paper_runs: int) -> None:
    assert name in suite_names() and set(suite_names()) > {"demo"} and len(suite_names()) == 7
    runs = read_experiment(find_experiment(name), scale="paper").runs
    assert len(runs) == paper_runs
    assert {(run.updates, run.episodes) for run in runs} == {(1_000_000, 20)}
    quick, smoke = (read_experiment(find_experiment(name), scale=scale).runs for scale in ("quick", "smoke"))
    assert len(smoke) < len(quick) < len(runs)
    for run in runs:
        if (
            run.algorithm.endswith("cql")
            and "temperature" in run.weighting
            and name in {"paper/mixed", "paper/stochastic"}
        ):
            assert run.weighting["temperature"] == 0.2
