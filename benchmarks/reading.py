"""Cost of inspecting a D4RL file, of weighting many episodes, and of importing the package.

    python benchmarks/reading.py

Targets: inspect a file of 1M steps in under 2 times what h5py needs to read rewards, terminals, timeouts and the first
observations; weights for 1M episodes in under 1 s; `import upweight` within 1.5 times `import numpy`.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import upweight as uw
from measure import interleaved, record

STEPS = 1_000_000
OBSERVATION, ACTION = 11, 3  # Hopper


def write_file(path: Path, episodes: int, compression: str | None) -> None:
    """A file in D4RL's layout with next observations."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.choice(STEPS - 1, episodes - 1, replace=False))
    terminals, timeouts = np.zeros(STEPS, bool), np.zeros(STEPS, bool)
    terminals[ends[::2]] = True
    timeouts[ends[1::2]] = True
    timeouts[-1] = True
    with h5py.File(path, "w") as file:
        for key, width in (("observations", OBSERVATION), ("next_observations", OBSERVATION), ("actions", ACTION)):
            values = rng.normal(size=(STEPS, width)).astype(np.float32)
            file.create_dataset(key, data=values, compression=compression)
        file.create_dataset("rewards", data=rng.normal(2, 1, STEPS).astype(np.float32), compression=compression)
        file.create_dataset("terminals", data=terminals, compression=compression)
        file.create_dataset("timeouts", data=timeouts, compression=compression)


def read_with_h5py(path: Path) -> np.ndarray:
    """The least anybody must read: rewards, flags, and the first observation of each episode."""
    with h5py.File(path) as file:
        file["rewards"][()]
        ends = file["terminals"][()] | file["timeouts"][()]
        starts = np.flatnonzero(np.concatenate([[True], ends[:-1]]))
        return np.asarray(file["observations"][starts])


def time_inspect() -> list[dict[str, Any]]:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for episodes, kind in (
            (1_000, "halfcheetah"),
            (2_187, "hopper-medium"),
            (45_240, "hopper-random"),
        ):
            for compression in ("gzip", None):
                path = Path(folder) / f"{episodes}-{compression}.hdf5"
                write_file(path, episodes, compression)
                tasks = {"h5py": lambda p=path: read_with_h5py(p), "upweight": lambda p=path: uw.inspect(uw.load(p))}
                seconds = interleaved(tasks, rounds=7)
                path.unlink()
                ratio = seconds["upweight"] / seconds["h5py"]
                storage = compression or "not compressed"
                print(
                    f"inspect a {kind}-like file ({episodes:,} episodes, {storage}): "
                    f"{1e3 * seconds['upweight']:.0f} ms, "
                    f"h5py alone {1e3 * seconds['h5py']:.0f} ms, {ratio:.2f} x (target 2)"
                )
                results.append(
                    {
                        "task": "inspect 1M steps",
                        "episodes": episodes,
                        "storage": storage,
                        "seconds": round(seconds["upweight"], 5),
                        "h5py_seconds": round(seconds["h5py"], 5),
                        "ratio": round(ratio, 3),
                    }
                )
    return results


def time_weights() -> list[dict[str, Any]]:
    episodes = 1_000_000
    rng = np.random.default_rng(0)
    terminated = np.zeros(2 * episodes, bool)
    terminated[1::2] = True
    ds = uw.Dataset.from_arrays(
        observations=rng.normal(size=(2 * episodes, OBSERVATION)).astype(np.float32),
        actions=np.zeros((2 * episodes, 1), np.float32),
        rewards=rng.normal(size=2 * episodes),
        terminated=terminated,
        labels=np.repeat(["good", "poor"], episodes // 2),
    )
    results = []
    for weighting in (uw.Uniform(), uw.TopFraction(), uw.Half(), uw.ReturnWeighting(), uw.AdvantageWeighting()):
        times = []
        for _ in range(5):
            fresh = ds.with_metadata()  # nothing cached from the last round
            began = time.perf_counter()
            weights = weighting(fresh)
            times.append(time.perf_counter() - began)
        began = time.perf_counter()
        uw.EpisodeSampler(ds, weights)
        table = time.perf_counter() - began
        median = float(np.median(times))
        print(f"weights of 1M episodes, {weighting.name}: {median:.3f} s (target 1), alias table {table:.3f} s")
        results.append(
            {
                "task": "weights of 1M episodes",
                "weighting": weighting.name,
                "seconds": round(median, 4),
                "alias_table_seconds": round(table, 4),
            }
        )
    return results


def time_import() -> list[dict[str, Any]]:
    def run(code: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - began

    codes = {
        "import numpy": "import numpy",
        "import upweight": "import upweight",
        "import upweight and all of its names": "import upweight as uw; [getattr(uw, name) for name in uw.__all__]",
        "python": "pass",
    }
    times: dict[str, list[float]] = {name: [] for name in codes}
    for _ in range(15):
        for name, code in codes.items():
            times[name].append(run(code))
    medians = {name: float(np.median(values)) for name, values in times.items()}
    results = []
    for name, seconds in medians.items():
        ratio = seconds / medians["import numpy"]
        target = " (target 1.5)" if name == "import upweight" else ""
        print(f"{name}: {1e3 * seconds:.0f} ms in a new process, {ratio:.2f} x import numpy{target}")
        results.append({"task": name, "seconds": round(seconds, 4), "ratio_to_numpy": round(ratio, 3)})
    return results


def main() -> None:
    results = time_inspect() + time_weights() + time_import()
    print(f"wrote {record('reading', ['upweight', 'numpy', 'h5py'], results)}")


if __name__ == "__main__":
    main()
