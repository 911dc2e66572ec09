"""Experiment files: what they spell out, and what is wrong with wrong ones."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import upweight as uw
from support.datasets import cartpole_log, with_arrays
from upweight.lab.report.names import name_weighting
from upweight.lab.study.experiment_file import ExperimentError, find_experiment, read_experiment, suite_names
from upweight.lab.study.run_spec import RunSpec, agent_of, run_spec_from_dict
from upweight.lab.sweep.packing import Population, pack
from upweight.lab.sweep.run_data import load_data
from upweight.lab.sweep.sweep import plan_sweep

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


def test_files_and_suites_are_read_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert read_experiment(str(path)) == read_experiment(path)
    assert read_experiment("paper/stochastic", scale="smoke") == read_experiment(
        find_experiment("paper/stochastic"), scale="smoke"
    )
    with pytest.raises(ExperimentError, match="no such file, and no suite of that name; suites: demo, paper/mixed"):
        read_experiment(tmp_path / "nothing.toml")


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
    changes += [("seeds = 2", "seeds = 2\nholdout = 0.2"), ("seeds = 2", "seeds = 2\nholdout = 0.1")]
    changes += [('["discrete_bc", {', '[{name = "discrete_bc", batch_size = 32}, {')]
    ids = {read_experiment(write(tmp_path, GOOD.replace(*change, 1))).runs[0].run_id for change in changes}
    assert len(ids | {run.run_id}) == len(changes) + 1
    assert run.run_id == "8f7ec9ed6b6cd589"  # as it was before there was a hold-out
    assert "holdout" not in run.to_dict()["data"]


def test_updates_may_be_left_to_the_data(tmp_path: Path) -> None:
    """A run of its own, which is neither one of so many updates nor trained with them."""
    auto = read_experiment(write(tmp_path, GOOD.replace("updates = 10", 'updates = "auto"'))).runs[0]
    fixed = read_experiment(write(tmp_path, GOOD.replace("updates = 10", f"updates = {auto.updates}"))).runs[0]
    assert auto.auto and auto.updates == 100_000 and run_spec_from_dict(json.loads(json.dumps(auto.to_dict()))) == auto
    assert "auto" not in fixed.to_dict() and fixed.run_id != auto.run_id
    assert len(pack([auto, fixed])) == 2


def test_an_effective_size_takes_the_place_of_the_algorithms_temperature(tmp_path: Path) -> None:
    sized = GOOD.replace("temperature = 0.2", "effective_episodes = 20")
    run = next(run for run in read_experiment(write(tmp_path, sized)).runs if run.weighting["name"] == "rw")
    assert run.weighting == {"name": "rw", "effective_episodes": 20.0}
    assert name_weighting(run.weighting, run.algorithm).name == "rw effective_episodes=20"
    assert agent_of(run).weighting == uw.ReturnWeighting(effective_episodes=20)


def test_an_actor_may_draw_by_weights_of_its_own(tmp_path: Path) -> None:
    """By name, at the algorithm's temperature, or with settings; runs without one keep the names they had."""
    entries = (
        '{name = "uniform", actor_weighting = "rw"}, {name = "top", actor_weighting = {name = "aw", temperature = 1}}'
    )
    decoupled = GOOD.replace('"uniform", {name = "rw", temperature = 0.2}', f'"uniform", "rw", {entries}')
    decoupled = decoupled.replace('"discrete_bc", {name = "discrete_cql", conservative_weight = 0.5}', '"discrete_iql"')
    runs = [run for run in read_experiment(write(tmp_path, decoupled)).runs if run.data.name.endswith("-5")]
    found = {name_weighting(run.weighting, run.algorithm).name: run for run in runs}
    apart = found["Uniform, actor RW"]
    assert apart.weighting == {"name": "uniform", "actor": {"name": "rw", "temperature": 0.1}}
    assert found["Top-10%, actor AW 1"].weighting["actor"]["temperature"] == 1.0
    assert len({run.run_id for run in found.values()}) == len(found) == 4
    assert run_spec_from_dict(json.loads(json.dumps(apart.to_dict()))) == apart
    agent = agent_of(apart)
    assert (agent.weighting, agent.actor_weighting) == (uw.Uniform(), uw.ReturnWeighting(0.1))
    assert agent_of(found["Uniform"]).actor_weighting is None
    assert [len(population.runs) for population in pack([*found.values()])] == [2, 2]  # programs of their own


def test_the_runs_of_an_actor_with_weights_of_its_own_keep_the_names_they_are_stored_under() -> None:
    folder = Path(__file__).parents[3] / "reproduction"
    lines = (folder / "results" / "replays.jsonl").read_text("utf-8").splitlines()
    stored = {line["run"]["run_id"] for line in map(json.loads, lines) if "run" in line}
    assert stored and stored <= {run.run_id for run in read_experiment(folder / "replays.toml").runs}


def test_the_runs_of_an_experiment_may_come_from_a_generator(tmp_path: Path) -> None:
    whole = read_experiment(write(tmp_path, GOOD))
    some = replace(whole, runs=(run for run in whole.runs if run.seed == 0))  # type: ignore[arg-type]
    assert plan_sweep(some).to_do == plan_sweep(some).to_do == len(whole.runs) // 2


def test_evaluation_on_the_way_is_no_part_of_a_name(tmp_path: Path) -> None:
    runs = read_experiment(write(tmp_path, GOOD)).runs
    watched = read_experiment(write(tmp_path, GOOD.replace("updates = 10", "updates = 10\nevaluate_every = 5", 1))).runs
    assert [run.run_id for run in watched] == [run.run_id for run in runs]
    assert {run.evaluate_every for run in watched} == {5} and {run.num_points for run in watched} == {1}
    assert "evaluate_every" not in runs[0].to_dict()
    again = run_spec_from_dict(watched[0].to_dict())
    assert again == runs[0] and again.evaluate_every == 5
    assert replace(again, evaluate_every=3).num_points == 3 and replace(again, evaluate_every=10).num_points == 0
    listed = read_experiment(write(tmp_path, GOOD), changes={"evaluate_every": [2, 7, 10]}).runs[0]
    again = run_spec_from_dict(json.loads(json.dumps(listed.to_dict())))
    assert again.run_id == runs[0].run_id and again.evaluate_every == (2, 7, 10) and again.num_points == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("updates = 10", "updates = 10\nevaluate_every = 0"), r"evaluate_every: expected a whole number from 1 to .*, found 0"),
        (("updates = 10", "updates = 10\nevaluate_every = [5, 0]"), r"evaluate_every: expected a whole number .*, found 0"),
        (("updates = 10", "updates = 10\nevaluate_every = [5, '6']"), r"evaluate_every: expected a whole number .*'6'"),
        (("updates = 10", "updates = 10\nevaluate_every = []"), r"evaluate_every: expected at least one, found an empty"),
        (("updates = 10", "updates = 10\nholdout = 1.0"), r"holdout: expected a number above 0 and below 1, found 1.0"),
        (("updates = 10", "updates = 10\nholdout = 20"), r"holdout: expected float, found 20"),
        (("updates = 10", "updates = "), r"study\.toml: not a TOML file: .*line 2"),
        (("updates = 10", "updatse = 10"), r"toml: updatse: unknown key; did you mean 'updates'"),
        (("[scale.smoke]", "[scales.smoke]"), r"toml: scales: unknown key.*did you mean 'scale'"),
        (("[[grid]]", "[[grids]]"), r"toml: grids: unknown key.*did you mean 'grid'"),
        (("[[grid]]", "[[grid]]\nname = 'x'"), r"toml: grid 1: name: belongs at the top of the file"),
        (('name = "study"', "name = 3"), r"toml: name: expected text in quotes, found 3"),
        (("updates = 10", 'updates = "many"'), r"toml: updates: expected a whole number .*'many'"),
        (("updates = 10", "updates = true"), r"toml: updates: expected int or str, found True"),
        (("updates = 10", 'updates = "auto"\nevaluate_every = 5'), r"evaluate_every: chooses with the simulator"),
        (("updates = 10", "updates = 0"), r"toml: updates: expected a whole number from 1 to .*, found 0"),
        (("updates = 10\n", ""), r"grid 1: missing key 'updates'"),
        (("seeds = [7]", "seeds = []"), r"toml: grid 2: seeds: number of seeds: expected a whole number from 1 to"),
        (("seeds = [7]", "seeds = [true]"), r"toml: grid 2: seeds: seed: expected a whole number .*found True"),
        (('"discrete_bc", {', '"discrete_bd", {'), r"toml: grid 1: algorithms: .*discrete_bc"),
        (("conservative_weight", "conservative_wieght"), r"toml: grid 1: algorithms: .*did you mean 'conservative_weight'"),
        (('"uniform", {', '"unifrom", {'), r"toml: grid 1: weightings: .*did you mean 'uniform'"),
        (("temperature = 0.2", "temperature = -1"), r"toml: grid 1: weightings: .*temperature"),
        (('["uniform", {', '[3, {'), r"toml: grid 1: weightings: expected a name or \{name"),
        (('"rw", temperature = 0.2', '"rw", actor_weighting = 3'), r"toml: grid 1: weightings: expected a name or \{name"),
        (('"rw", temperature = 0.2', '"rw", actor_weighting = "wr"'), r"grid 1: weightings: wr: unknown weighting 'wr'; known"),
        (('"rw", temperature = 0.2', '"rw", actor_weighting = "rw"'), r"weightings: actor_weighting: discrete_bc has no critic"),
        (('"rw", temperature = 0.2', '"rw", actor = "rw"'), r"weightings: rw: actor: .*did you mean 'actor_weighting'"),
        (('"cartpole-random"', '"cartpole-randon"'), r"toml: grid 2: datasets: no dataset 'cartpole-randon'; did you mean"),
        (('"cartpole-random"', '"pong-*"'), r"toml: grid 2: datasets: no dataset 'pong-\*'"),
        (('"cartpole-random"', '"logs.npz"'), r"toml: grid 2: datasets: logs.npz is a file: say with env ="),
        (("seeds = 2", 'seeds = 2\nprecision = "half"'), r"toml: precision: expected one of float32"),
        (("seeds = [7]", "seeds = [4294967296]"), r"toml: grid 2: seeds: seed: .*from 0 to 4,294,967,295, found 4294967296"),
        (("seeds = 2", "seeds = 4294967297"), r"toml: seeds: number of seeds: .*from 1 to 100,000, found"),
        (("updates = 10", "updates = 2147483648"), r"toml: updates: expected a whole number from 1 to 2,147,483,647"),
        (("seeds = 2", "seeds = 2\ndataset_seed = -1"), r"toml: dataset_seed: expected a whole number from 0 to .*, found -1"),
        (('["cartpole-random"]', "[]"), r"toml: grid 2: datasets: expected at least one, found an empty list"),
        (('"discrete_bc", {name', '"bc", {name'), r"toml: grid 1: algorithms: bc needs continuous actions, but cartpole-"),
        (('["discrete_bc"]\n', '["discrete_bc"]\nweightings = ["half"]\n'), r"toml: grid 2: weightings: cartpole-random: Half"),
        (("seeds = [7]", 'env = "CartPole-v1"'), r"toml: grid 2: env: .*cartpole-random is evaluated in upweight/Stoch"),
        (("= 0.5}", "= inf}"), r"toml: grid 1: algorithms: discrete_cql: conservative_weight: expected a finite number"),
        (("= 0.5}", '= "a"}'), r"algorithms: discrete_cql: conservative_weight: expected a finite number, found 'a'"),
        (("temperature = 0.2", f"temperature = {10**400}"), r"weightings: rw: temperature: expected a finite number"),
        (('{name = "rw", temperature = 0.2}', '{name = "half", threshold = "a"}'), r"grid 1: weightings: half: threshold: "),
        (("= 0.5}", "= 0.5, hidden_units = 3}"), r"toml: grid 1: algorithms: discrete_cql: .*"),
        (("[[grid]]", "[[ grid ]]"), None),
        (("[[grid]]\n", "[[ grid ]]\nupdates = 0\n"), r"toml: grid 1: updates: expected a whole number"),
        (('name = "study"', 'name = """\nupdates = 3\n"""'), None),
        (('name = "study"\nupdates = 10', 'name = """\nupdates = 3\n"""\nupdates = 0'), r"toml: updates: expected a whole"),
        (("updates = 10", '"updates" = 0'), r"toml: updates: expected a whole number from 1 to .*, found 0"),
        (("seeds = 2", "seeds = 2\nupdates = 3"), r"not a TOML file: Cannot overwrite a value .*line 4"),
        (("[scale.smoke]\nupdates = 1", '[scale.smoke]\nupdates = "1"'), r"toml: scale.smoke: updates: expected a .*, found '1'"),
        (("[scale.smoke]\nupdates = 1", "[scale.smoke]\nupdatse = 1"), r"toml: scale.smoke: updatse: .*mean 'updates'"),
        (("[scale.smoke]\n", "[scale]\nsmoke = 3\n[scale.big]\n"), r"toml: scale.smoke: expected \[scale.smoke\] with keys"),
        (("[[grid]]\ndatasets = [\"cartpole-e", "[grid]\ndatasets = [\"cartpole-e"), r"not a TOML file|double brackets"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_grid_and_key(tmp_path: Path, change: tuple[str, str], message: str | None) -> None:
    assert change[0] in GOOD
    if message is None:
        assert read_experiment(write(tmp_path, GOOD.replace(*change, 1))).runs
        return
    with pytest.raises(ExperimentError, match=message):
        read_experiment(write(tmp_path, GOOD.replace(*change, 1)))


def test_what_is_not_there(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("updates = 1\n", "updates = -1\n"))
    with pytest.raises(
        ExperimentError, match="toml: scale.smoke: updates: expected a whole number from 1 to .*, found -1"
    ):
        read_experiment(path, scale="smoke")
    path = write(tmp_path, GOOD)
    with pytest.raises(ExperimentError, match=r"no \[scale.big\]; it has smoke"):
        read_experiment(path, scale="big")
    with pytest.raises(ExperimentError, match="no runs are left"):
        read_experiment(path, only="hopper-*")
    with pytest.raises(ExperimentError, match="no such file, and no suite of that name; suites: demo, paper/mixed"):
        find_experiment("paper/mxed")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("grid = [1]", r"toml: grid: expected \[\[grid\]\] with double brackets"),
        ("grid = []", r"toml: grid: expected at least one"),
        ("scale = 3", r"toml: scale: expected tables such as \[scale.smoke\], found 3"),
        ("scale.smoke = 3", r"toml: scale.smoke: expected \[scale.smoke\] with keys below it, found 3"),
        (b"name = '\xff'", r"not a TOML file: not text in UTF-8"),
    ],
)
def test_malformed_files(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for scale in (None, "smoke"):
        with pytest.raises(ExperimentError, match=message):
            read_experiment(path, scale=scale)


def test_options_are_named_instead_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    for changes, message in (
        ({"datasets": ["cartpole-randon"]}, "^--set datasets: no dataset 'cartpole-randon'"),
        ({"weightings": ["rv"]}, "^--set weightings: rv: unknown weighting"),
        ({"seeds": -1}, "^--set seeds: number of seeds: expected a whole number from 1 to"),
    ):
        with pytest.raises(ExperimentError, match=message):
            read_experiment(path, changes=changes)
    with pytest.raises(ExperimentError, match="--algorithm bc: not one of its algorithms .discrete_bc, discrete_cql."):
        read_experiment(path, algorithms=["discrete_bc", "bc"])
    with pytest.raises(ExperimentError, match="--only hopper-. fits none of its datasets .cartpole-expert-random-1, "):
        read_experiment(path, only="hopper-*")
    with pytest.raises(ExperimentError, match="no runs are left with both --only cartpole-random and --algorithm"):
        read_experiment(path, only="cartpole-random", algorithms=["discrete_cql"])


def test_one_number_is_one_run(tmp_path: Path) -> None:
    """However it is spelled."""

    def run_id(algorithm: str, weighting: str) -> str:
        text = f'updates = 10\ndatasets = ["cartpole-random"]\nalgorithms = [{algorithm}]\nweightings = [{weighting}]'
        return read_experiment(write(tmp_path, text)).runs[0].run_id

    plain = run_id('"discrete_cql"', '{name = "rw", temperature = 1}')
    for name in ("rw", "RW"):
        assert plain == run_id('"discrete_cql"', f'{{name = "{name}", temperature = 1.0}}')
    assert plain == run_id('"discrete_cql"', '{name = "RW", temperature = 1}')
    assert plain == run_id('{name = "discrete_cql", conservative_weight = 1}', '{name = "rw", temperature = 1}')
    for spelled in ("8000", "8000.0"):  # the default
        assert plain == run_id(
            f'{{name = "discrete_cql", target_every_updates = {spelled}}}', '{name = "rw", temperature = 1}'
        )
    assert plain != run_id('{name = "discrete_cql", target_every_updates = 8001}', '{name = "rw", temperature = 1}')


def test_a_name_means_the_papers_temperature_for_the_algorithm(tmp_path: Path) -> None:
    """In the report too: these are its RW and AW."""
    text = """
updates = 10
datasets = ["cartpole-random"]
algorithms = ["discrete_bc", "discrete_cql"]
weightings = ["RW", {name = "aw"}, {name = "rw", temperature = 0.3}]
"""
    runs = read_experiment(write(tmp_path, text)).runs
    found = [(run.algorithm, run.weighting["name"], run.weighting["temperature"]) for run in runs]
    assert found == [
        ("discrete_bc", "rw", 0.1),
        ("discrete_bc", "aw", 0.1),
        ("discrete_bc", "rw", 0.3),
        ("discrete_cql", "rw", 0.2),
        ("discrete_cql", "aw", 0.2),
        ("discrete_cql", "rw", 0.3),
    ]
    assert [name_weighting(run.weighting, run.algorithm).name for run in runs] == ["RW", "AW", "RW 0.3"] * 2


FILE_STUDY = """\
updates = 10
datasets = ["data/logs.npz"]
algorithms = ["discrete_bc"]
weightings = ["uniform"]
env = "CartPole-v1"
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    uw.save(cartpole_log(), tmp_path / "data" / "logs.npz")
    return tmp_path


def test_a_table_with_a_toml_file_beside_it_is_a_file_like_others(logs: Path) -> None:
    log = cartpole_log()
    columns = {f"x{place}": column for place, column in enumerate(log.observations.T)}
    columns |= {"stay": np.repeat(np.arange(log.num_episodes), log.lengths), "a": log.actions, "r": log.rewards}
    rows = np.column_stack(list(columns.values()))
    np.savetxt(logs / "data" / "icu.csv", rows, fmt="%.9g", delimiter=",", header=",".join(columns), comments="")
    (logs / "data" / "icu.toml").write_text(
        '[table]\nepisode = "stay"\nobservations = ["x0", "x1", "x2", "x3"]\nactions = "a"\nrewards = "r"\nends = "truncated"\n'
    )
    keys = 'algorithms = ["discrete_bc"]\nupdates = 5\nenv = "CartPole-v1"\n'
    (logs / "study.toml").write_text(f'datasets = ["data/icu.csv"]\n{keys}')
    (run,) = uw.read_experiment(logs / "study.toml").runs
    named = '{path = "data/icu.csv", observations = ["x0", "x1", "x2", "x3"], ends = "terminated"}'
    (logs / "study.toml").write_text(f"datasets = [{named}]\n{keys}")
    (other,) = uw.read_experiment(logs / "study.toml").runs
    assert run.data.content is not None and other.data.content not in {None, run.data.content}


def test_a_file_is_what_it_holds(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path, and the way to it, do not change a run's name; its content does."""
    run = read_experiment(write(logs, FILE_STUDY)).runs[0]
    assert Path(run.data.name) == logs / "data" / "logs.npz"
    monkeypatch.chdir(logs / "data")
    same = read_experiment(Path("../study.toml")).runs[0]
    assert same == run and same.run_id == run.run_id
    (logs / "data" / "logs.npz").rename(logs / "moved.npz")
    moved = read_experiment(write(logs, FILE_STUDY.replace("data/logs", "moved"))).runs[0]
    assert moved.run_id == run.run_id and moved.data.name != run.data.name
    uw.save(cartpole_log().subset([1, 2]), logs / "data" / "logs.npz")
    assert read_experiment(write(logs, FILE_STUDY)).runs[0].run_id != run.run_id


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("CartPole-v1", "NoSuch-v9"), "toml: env: unknown environment 'NoSuch-v9'"),
        (("CartPole-v1", "MountainCar-v0"), r"toml: env: observations: MountainCar-v0 has \(2,\), but .* has \(4,\)"),
        (("CartPole-v1", "Pendulum-v1"), r"toml: env: observations: Pendulum-v1 has \(3,\)"),
        (('["discrete_bc"]', '["iql"]'), "toml: algorithms: iql needs continuous actions"),
        (('["uniform"]', '["half"]'), "toml: weightings: .*Half needs provenance labels"),
        (("data/logs.npz", "data/log.npz"), "toml: datasets: .*no such file or folder; did you mean"),
    ],
)
def test_files_must_fit_the_rest(logs: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(ExperimentError, match=message):
        read_experiment(write(logs, FILE_STUDY.replace(*change)))


def test_options_for_reading_a_file(tmp_path: Path) -> None:
    """Truncated episodes shorter than the horizon were cut: their returns mean nothing."""
    rng = np.random.default_rng(0)
    log = uw.Dataset.from_arrays(
        observations=rng.standard_normal((40, 4)).astype(np.float32),
        actions=np.arange(40) % 2,
        rewards=rng.random(40),
        terminated=np.zeros(40, bool),
        truncated=np.isin(np.arange(40), (9, 19, 23, 33, 39)),  # lengths 10, 10, 4, 10, 6
    )
    (tmp_path / "data").mkdir()
    uw.save(log, tmp_path / "data" / "logs.npz")
    plain = read_experiment(write(tmp_path, FILE_STUDY)).runs[0]

    def read(entry: str) -> RunSpec:
        (run,) = read_experiment(write(tmp_path, FILE_STUDY.replace('"data/logs.npz"', entry))).runs
        return run

    run = read('{path = "data/logs.npz", horizon = 10}')
    assert run.data.name == plain.data.name and run.data.options == {"horizon": 10}
    assert run.data.content != plain.data.content and run.run_id != plain.run_id
    again = run_spec_from_dict(json.loads(json.dumps(run.to_dict())))
    assert again == run and again.data.options == run.data.options and again.run_id == run.run_id
    loaded = load_data(Population((again,))).dataset
    assert loaded.complete.tolist() == [True, True, False, True, False]
    # What it holds counts, not how it was read; and old records know no options.
    assert read('{path = "data/logs.npz", horizon = 9, format = "npz"}').run_id == run.run_id
    assert read('{path = "data/logs.npz"}') == plain and "options" not in plain.to_dict()["data"]
    both = '"data/logs.npz", {path = "data/logs.npz", horizon = 10}'
    study = read_experiment(write(tmp_path, FILE_STUDY.replace('"data/logs.npz"', both)))
    assert {each.run_id for each in study.runs} == {plain.run_id, run.run_id}


def test_codes_stored_as_floats(tmp_path: Path) -> None:
    log = cartpole_log()
    (tmp_path / "data").mkdir()
    uw.save(with_arrays(log, actions=log.actions.astype(np.float64)), tmp_path / "data" / "logs.npz")
    with pytest.raises(ExperimentError, match="CartPole-v1 has discrete ones.*num_actions=2"):
        read_experiment(write(tmp_path, FILE_STUDY))
    entry = '{path = "data/logs.npz", num_actions = 2}'
    (run,) = read_experiment(write(tmp_path, FILE_STUDY.replace('"data/logs.npz"', entry))).runs
    assert load_data(Population((run,))).dataset.actions.tolist() == log.actions.tolist()


def test_success_flags_of_a_file(tmp_path: Path) -> None:
    columns = {
        "episode_index": np.repeat(np.arange(4), 5),
        "observation": list(np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)),
        "action": np.arange(20) % 2,
        "next.success": np.isin(np.arange(20), (9, 14)),
    }
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "data" / "logs.parquet")
    weighted = FILE_STUDY.replace("uniform", "rw")
    with pytest.raises(ExperimentError, match="no rewards.*success=NAME"):
        read_experiment(write(tmp_path, weighted.replace("data/logs.npz", "data/logs.parquet")))
    entry = '{path = "data/logs.parquet", success = "success"}'
    (run,) = read_experiment(write(tmp_path, weighted.replace('"data/logs.npz"', entry))).runs
    assert load_data(Population((run,))).dataset.returns.tolist() == [0.0, 1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("3", "expected a name, a file or {path = ..., horizon = ...}, found 3"),
        ("{horizon = 10}", "expected a name, a file or {path = ..., horizon = ...}, found {'horizon': 10}"),
        ('{path = "cartpole-random", horizon = 10}', "cartpole-random is made, not read from a file"),
        ('{path = "data/logs.npz", horizon = inf}', "data/logs.npz: horizon: expected a number or a word, found inf"),
        (
            '{path = "data/logs.npz", horizon = [3]}',
            r"data/logs.npz: horizon: expected a number or a word, found \[3\]",
        ),
        ('{path = "data/logs.npz", format = "npy"}', "unknown format 'npy'; did you mean 'npz'"),
        ('{path = "data/logs.npz", colour = "red"}', "logs.npz: the npz reader has no such option .*colour"),
        ('{path = "data/logs.npz", steps = 3}', "steps, seed and workers are for datasets made by name"),
    ],
)
def test_options_that_cannot_be(logs: Path, entry: str, message: str) -> None:
    with pytest.raises(ExperimentError, match=f"toml: datasets: .*{message}"):
        read_experiment(write(logs, FILE_STUDY.replace('"data/logs.npz"', entry)))


def test_actions_must_fit_the_environment(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    uw.save(cartpole_log(actions=3), tmp_path / "data" / "logs.npz")
    with pytest.raises(ExperimentError, match="toml: env: actions: CartPole-v1 has 2, but .* has 3"):
        read_experiment(write(tmp_path, FILE_STUDY))


def test_a_log_need_not_show_every_action(tmp_path: Path) -> None:
    """The environment says how many there are, unless the file does."""
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "logs.npz"
    uw.save(cartpole_log(actions=1), path)
    (run,) = read_experiment(write(tmp_path, FILE_STUDY)).runs
    assert load_data(Population((run,))).dataset.num_actions == 2
    uw.save(cartpole_log(actions=1).with_num_actions(3), path)
    with pytest.raises(ExperimentError, match="toml: env: actions: CartPole-v1 has 2, but .* has 3"):
        read_experiment(write(tmp_path, FILE_STUDY))


@pytest.mark.parametrize(
    ("name", "paper_runs"),
    [
        ("paper/mixed", 32 * 4 * 5 * 5 + 12 * 4 * 5),
        ("paper/regular", 30 * 4 * 4 * 5),
        ("paper/stochastic", 3 * 8 * 4 * 5),
        ("paper/temperature", 32 * 4 * (1 + 12) * 5),
        ("paper/percentage", 32 * 4 * (1 + 5) * 5),
        ("paper/official_iql", 32 * 4 * 5),
        ("paper/official_antmaze", 6 * 2 * 4 * 5),
    ],
)
def test_the_papers_suites(name: str, paper_runs: int) -> None:
    assert name in suite_names() and set(suite_names()) > {"demo"} and len(suite_names()) == 8
    runs = read_experiment(find_experiment(name), scale="paper").runs
    assert len(runs) == paper_runs
    assert {(run.updates, run.episodes) for run in runs} == {(1_000_000, 20)}
    assert "uniform" in {run.weighting["name"] for run in runs}  # what the paper's claims are measured by
    quick, smoke = (read_experiment(find_experiment(name), scale=scale).runs for scale in ("quick", "smoke"))
    assert len(smoke) < len(quick) < len(runs)
    for run in runs:
        if (
            run.algorithm.endswith("cql")
            and "temperature" in run.weighting
            and name in {"paper/mixed", "paper/stochastic"}
        ):
            assert run.weighting["temperature"] == 0.2
        if name == "paper/official_antmaze" and run.algorithm == "iql":
            about = [run.config[key] for key in ("expectile", "beta", "reward_shift", "scale_rewards_by_return")]
            assert about == [0.9, 10.0, -1.0, False]
        if name == "paper/official_iql":  # the original scales all rewards but Ant's
            assert run.config["scale_rewards_by_return"] == (not run.data.name.startswith("ant-"))
