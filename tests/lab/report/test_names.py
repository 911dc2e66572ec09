import subprocess
import sys
from pathlib import Path

import pytest

from support.results import add_runs
from upweight.lab.report.names import name_algorithm, name_dataset, name_weighting, sort_datasets, sort_weightings
from upweight.lab.study.store import Store


@pytest.mark.parametrize(
    ("weighting", "algorithm", "name"),
    [
        ({"name": "uniform"}, "bc", "Uniform"),
        ({"name": "top", "fraction": 0.1}, "iql", "Top-10%"),
        ({"name": "top", "fraction": 0.01}, "iql", "Top-1%"),
        ({"name": "top", "fraction": 0.005}, "iql", "Top-0.5%"),
        ({"name": "half", "threshold": None, "high": None}, "bc", "Half"),
        ({"name": "half", "threshold": 3.0, "high": None}, "bc", "Half threshold=3"),
        ({"name": "rw", "temperature": 0.1}, "td3_bc", "RW"),
        ({"name": "aw", "temperature": 0.1}, "bc", "AW"),
        ({"name": "rw", "temperature": 0.5}, "bc", "RW 0.5"),
        ({"name": "rw", "temperature": 0.2}, "cql", "RW"),
        ({"name": "aw", "temperature": 0.2}, "discrete_cql", "AW"),
        ({"name": "rw", "temperature": 0.1}, "cql", "RW 0.1"),
        ({"name": "shifted", "power": 2}, "bc", "shifted power=2"),
    ],
)
def test_weightings_have_the_names_of_the_paper(weighting: dict[str, object], algorithm: str, name: str) -> None:
    assert name_weighting(weighting, algorithm).name == name


def test_weightings_and_datasets_are_shown_in_a_fixed_order() -> None:
    weightings = [{"name": "aw", "temperature": t} for t in (0.1, 1.0, 0.01)]
    weightings += [{"name": "rw", "temperature": 0.1}, {"name": "uniform"}, {"name": "top", "fraction": 0.5}]
    names = [each.name for each in sort_weightings(name_weighting(weighting, "bc") for weighting in weightings)]
    assert names == ["Uniform", "RW", "AW", "AW 0.01", "AW 1", "Top-50%"]
    kinds = ["walker2d-random", "hopper-medium-random-10", "hopper-medium-random-5", "hopper-expert", "hopper-random"]
    found = [each.name for each in sort_datasets(name_dataset(kind, "Hopper-v5") for kind in kinds)]
    assert found == [*kinds[::-1][:2], "hopper-medium-random-5", "hopper-medium-random-10", "walker2d-random"]


def test_what_the_name_of_a_dataset_says() -> None:
    mix = name_dataset("hopper-expert-random-5", "Hopper-v5")
    assert (mix.task, mix.family, mix.good, mix.sigma) == ("hopper", "mixed", "expert", 5)
    assert name_dataset("hopper-medium-expert", "Hopper-v5").family == "regular"
    assert name_dataset("visits.csv", "").family == name_dataset("hopper-mine", "Hopper-v5").family == "other"
    maze = name_dataset("antmaze-large-expert-wander-10", "upweight/AntMaze-large-v0")
    assert (maze.task, maze.family, maze.good, maze.sigma) == ("antmaze-large", "mixed", "expert", 10)
    assert name_dataset("antmaze-large-play", "upweight/AntMaze-large-v0").task == "antmaze-large"
    assert name_dataset("cartpole-expert-random-5", "upweight/StochasticCartPole-v1").family == "stochastic"


def test_algorithms_are_named_by_preset_and_by_what_differs_from_it() -> None:
    known = {"paper": {"a": 1, "b": 2.0, "c": 3}, "official": {"a": 2, "b": 3.0, "c": 3}}
    assert name_algorithm("iql", known["paper"], known) == "IQL"
    assert name_algorithm("iql", known["official"], known) == "IQL official"
    assert name_algorithm("td3_bc", {**known["paper"], "b": 0.5}, known) == "TD3+BC b=0.5"
    assert name_algorithm("discrete_cql", {**known["official"], "c": 4}, known) == "discrete CQL official c=4"


def test_results_are_read_without_what_makes_them(tmp_path: Path) -> None:
    """Settings with names of their own, the presets, need JAX; then the most frequent settings go without saying."""
    store = Store(tmp_path / "results", create=True)
    add_runs(store, "hopper-expert-random-5", "Uniform", [0.5, 0.6], config={"batch_size": 7})
    add_runs(store, "hopper-expert-random-5", {"name": "rw", "temperature": 0.2}, [0.5], algorithm="cql")
    code = (
        "import sys\n"
        "for name in ('jax', 'optax', 'gymnasium', 'mujoco', 'h5py'): sys.modules[name] = None\n"
        "import upweight as uw\n"
        f"results = uw.collect(uw.open_store({str(store.path)!r}))\n"
        "print(results.methods, [each.name for each in results.weightings('CQL')])\n"
        "print(uw.replicate(results, uw.Intervals()))\n"
        f"uw.write_report({str(store.path)!r}, {str(tmp_path / 'out.html')!r}, resamples=10)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("['BC', 'CQL'] ['RW']\n")
