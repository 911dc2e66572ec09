"""Files in every format, also in those that the package reads but does not write."""

import json
import warnings
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
from pyarrow import feather

import upweight as uw
from upweight.io.format import losses
from upweight.io.registry import writable


def save_quietly(ds: uw.Dataset, path: Path, name: str) -> list[str]:
    """Write in the named format, without warnings; what was lost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", uw.DataLossWarning)
        return uw.save(ds, path, format=name) if name in writable() else _FOREIGN[name](ds, path)


def write_minari_arrow(folder: Path) -> Path:
    """A Minari folder in Arrow storage with one episode of two steps; gives its table."""
    (folder / "0").mkdir(parents=True)
    (folder / "metadata.json").write_text('{"data_format": "arrow"}')
    steps = {"rewards": [1.0, 1.0, 1.0], "terminations": [False, True, True], "truncations": [False] * 3}
    lists = pa.array([[0.0, 1.0, 2.0]] * 3, pa.list_(pa.float32()))
    path = folder / "0" / "0-0.arrow"
    feather.write_feather(
        pa.table({**steps, "observations": lists, "actions": lists}), path, compression="uncompressed"
    )
    return path


def _arrays(ds: uw.Dataset, path: Path) -> list[str]:
    """Flat arrays and lengths; with known last observations only if all are."""
    with path.open("wb") as file:
        np.savez(file, **_steps(ds), lengths=ds.lengths)
    return _lost(ds)


def write_robomimic(path: Path, demos: list[dict[str, np.ndarray]], **masks: list[str]) -> Path:
    """A group per demonstration, with an array for each key (``obs/object``), and lists of names of demonstrations."""
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["total"] = sum(len(demo["actions"]) for demo in demos)
        file["data"].attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {}})
        for number, demo in enumerate(demos):
            for key, array in demo.items():
                file[f"data/demo_{number}/{key}"] = array
            file[f"data/demo_{number}"].attrs["num_samples"] = len(demo["actions"])
        for name, members in masks.items():
            file[f"mask/{name}"] = np.array(members, dtype="S")
    return path


def _robomimic(ds: uw.Dataset, path: Path) -> list[str]:
    lost = losses(ds, "labels", "metadata", "actions", "incomplete")
    names = {"observations": "obs/state", "actions": "actions", "rewards": "rewards", "terminated": "dones"}
    if "next_observations" in ds.columns and ds.episodes.final_known.all():
        names["next_observations"] = "next_obs/state"
    else:
        lost += losses(ds, "own next observations") + ["last steps"] * bool(ds.episodes.final_known.any())
    spans = zip(ds.starts, ds.starts + ds.lengths, strict=True)
    demos = [{key: getattr(ds, name)[low:high] for name, key in names.items()} for low, high in spans]
    write_robomimic(path, demos, train=["demo_0"])
    return lost


def _steps(ds: uw.Dataset) -> dict[str, np.ndarray]:
    names = ["observations", "actions", "rewards", "terminated", "truncated"]
    if "next_observations" in ds.columns:
        names.append("next_observations")
    return {name: getattr(ds, name) for name in names}


def _lost(ds: uw.Dataset) -> list[str]:
    unknown = 0 < ds.episodes.final_known.sum() < ds.num_episodes
    lost = losses(ds, "labels", "metadata", "actions", "incomplete")
    return [*lost, "that the observation after some last steps is unknown"] if unknown else lost


_FOREIGN = {"arrays": _arrays, "robomimic": _robomimic}
