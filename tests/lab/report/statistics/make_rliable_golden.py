"""Values of rliable for ``test_agreement_with_rliable.py``, written beside this file.

rliable 1.2.0 does not import with current pandas and arch, so this runs in an environment of its own:
``pip install "rliable==1.2.0" "pandas<3"``, then ``python make_rliable_golden.py``. It takes about ten minutes.
"""

import json
import platform
import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rliable import library, metrics

CASES = {"5x8": (5, 8, 4, 7), "3x30": (3, 30, 4, 3), "10x1": (10, 1, 4, 7), "20x4_ties": (20, 4, 1, 15)}
THRESHOLDS = [-0.1, 0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0, 1.2]
REPS = 50_000
SLOW_REPS = 10_000  # for what rliable computes slowly
GAMMA = 1.0


def draw(rng: np.random.Generator, runs: int, tasks: int, decimals: int, shift: float) -> np.ndarray:
    """[runs, tasks] skewed scores with some failed runs and some above 1, so that no two statistics agree."""
    level = rng.uniform(0.1, 0.9, tasks)
    scores = level + shift + 0.15 * rng.standard_normal((runs, tasks)) + 0.2 * rng.exponential(size=(runs, tasks))
    return np.where(rng.random((runs, tasks)) < 0.15, 0.1 * rng.random((runs, tasks)), scores).round(decimals)


def aggregates(scores: np.ndarray) -> np.ndarray:
    return np.array(
        [
            metrics.aggregate_mean(scores),
            metrics.aggregate_median(scores),
            metrics.aggregate_iqm(scores),
            metrics.aggregate_optimality_gap(scores, GAMMA),
        ]
    )


def improvement(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.array([metrics.probability_of_improvement(x, y)])


def iqm_difference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.array([metrics.aggregate_iqm(x) - metrics.aggregate_iqm(y)])


def estimates(names: list[str], points: np.ndarray, ends: np.ndarray, reps: int) -> dict[str, dict[str, float]]:
    columns = zip(names, points.tolist(), *ends.tolist(), strict=True)
    return {name: {"point": point, "low": low, "high": high, "reps": reps} for name, point, low, high in columns}


def case(seed: int, runs: int, tasks: int, decimals: int, runs_y: int) -> dict:
    rng = np.random.default_rng(seed)
    x, y = draw(rng, runs, tasks, decimals, 0.1), draw(rng, runs_y, tasks, decimals, 0.0)
    np.random.seed(seed)  # noqa: NPY002  # rliable ignores its own random_state
    points, ends = library.get_interval_estimates({"x": x}, aggregates, reps=REPS)
    found = estimates(["mean", "median", "iqm", "optimality_gap"], points["x"], ends["x"], REPS)
    for name, statistic, reps in (
        ("probability_of_improvement", improvement, SLOW_REPS),
        ("iqm_difference", iqm_difference, REPS),
    ):
        points, ends = library.get_interval_estimates({"pair": [x, y]}, statistic, reps=reps)
        found |= estimates([name], points["pair"], ends["pair"], reps)
    points, ends = library.create_performance_profile({"x": x}, THRESHOLDS, reps=SLOW_REPS)
    profile = {"point": points["x"].tolist(), "low": ends["x"][0].tolist(), "high": ends["x"][1].tolist()}
    return {
        "seed": seed,
        "x": x.tolist(),
        "y": y.tolist(),
        "estimates": found,
        "profile": profile | {"reps": SLOW_REPS},
    }


def main() -> None:
    packages = ("rliable", "arch", "numpy", "scipy", "pandas")
    golden = {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        "confidence": 0.95,
        "gamma": GAMMA,
        "thresholds": THRESHOLDS,
        "cases": {
            name: case(seed, runs, tasks, decimals, runs_y)
            for seed, (name, (runs, tasks, decimals, runs_y)) in enumerate(CASES.items())
        },
    }
    text = json.dumps(golden, indent=1)
    text = re.sub(r"\[[^][{}]*\]", lambda row: " ".join(row.group().split()), text)  # a row of numbers on a line
    Path(__file__).with_name("rliable_golden.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
