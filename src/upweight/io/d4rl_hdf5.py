"""D4RL's HDF5 layout: flat arrays with ``terminals`` and ``timeouts``.

Oddities that are read: rewards and flags of shape [M, 1], flags as numbers, float64 replay sets, no ``timeouts`` (fine
while some step is terminal), no ``rewards`` (demonstrations), no ``next_observations`` (the last step of a timed-out
episode is then not trainable), a trailing fragment. Antmaze-v0 files flag every step at the goal as terminal while the
rollout goes on: they are cut as flagged, into many one-step episodes, which is how the paper counts them.

Labels, the number of actions, cut episodes and last steps whose next observation is unknown (the file repeats the last one
there) have no place in D4RL's layout; they are kept in a group ``upweight`` that other readers ignore.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.dataset import Dataset
from upweight.data.validate import as_flags
from upweight.io.format import Format, no_flags
from upweight.io.hdf5 import (
    HDF5Column,
    dataset_at,
    demonstrations,
    is_hdf5,
    open_hdf5,
    read_array,
    root_keys,
    write_hdf5,
)
from upweight.io.hdf5_group import Group

_OWN = "upweight"


def read(path: Path) -> Dataset:
    """Rewards and flags at once; observations and actions when they are looked at."""
    with open_hdf5(path) as file:
        for key in ("observations", "actions", "terminals"):
            dataset_at(file, key, path)  # so that a missing one is reported before anything is read
        own = _own_group(file, path)
        return Dataset.from_arrays(
            observations=HDF5Column(file, "observations", path),
            actions=HDF5Column(file, "actions", path),
            rewards=read_array(file, "rewards", path) if "rewards" in file else None,
            terminated=as_flags(read_array(file, "terminals", path), key="terminals", source=str(path)),
            truncated=as_flags(read_array(file, "timeouts", path), key="timeouts", source=str(path))
            if "timeouts" in file
            else None,
            next_observations=HDF5Column(file, "next_observations", path) if "next_observations" in file else None,
            labels=own.get("labels"),
            complete=own.get("complete"),
            final_known=own.get("final_known"),
            num_actions=own.get("num_actions"),
            metadata={**own.get("metadata", {}), **_behaviour(file, path)},
            source=str(path),
        )


def flags(path: Path, name: str) -> NDArray[Any]:
    """[M] an array of the file's own, or of its ``infos``."""
    with open_hdf5(path) as file:
        for key in (name, f"infos/{name}"):
            if key in file:
                return read_array(file, key, path)
        raise no_flags(path, name, [*file, *(f"infos/{key}" for key in file.get("infos", ()))])


def write(dataset: Dataset, path: Path) -> list[str]:
    """Flat arrays, compressed as D4RL's own files are."""
    lost = []
    episodes = dataset.episodes
    trailing = ~(episodes.terminated | episodes.truncated)
    timeouts = dataset.truncated.copy()
    timeouts[episodes.last_steps[:-1][trailing[:-1]]] = True  # only a last fragment may lack a flag
    if trailing[:-1].any():
        lost.append(f"that {int(trailing[:-1].sum())} cut episodes had no end flag (written as timeouts, marked cut)")
    with write_hdf5(path) as file:
        arrays = {
            "observations": dataset.observations,
            "actions": dataset.actions,
            "rewards": dataset.rewards,
            "terminals": dataset.terminated,
            "timeouts": timeouts,
        }
        if "next_observations" in dataset.columns:
            arrays["next_observations"] = dataset.next_observations
        for key, array in arrays.items():
            file.create_dataset(key, data=array, compression="gzip", compression_opts=1)
        own = file.create_group(_OWN)
        own.attrs["metadata"] = json.dumps(dict(dataset.metadata))
        if dataset.num_actions is not None:
            own.attrs["num_actions"] = dataset.num_actions
        own.create_dataset("complete", data=episodes.complete, compression="gzip")
        own.create_dataset("final_known", data=episodes.final_known, compression="gzip")
        if dataset.labels is not None:
            own.create_dataset("labels", data=np.char.encode(dataset.labels, "utf-8"), compression="gzip")
    return lost


def _own_group(file: Group, path: Path) -> dict[str, Any]:
    group = file.get(_OWN)
    if not isinstance(group, Group):
        return {}
    own: dict[str, Any] = {"metadata": json.loads(group.attrs.get("metadata", "{}"))}
    if not isinstance(own["metadata"], dict):
        raise DatasetError(f"{path}: key '{_OWN}': expected a JSON object as metadata")
    if "num_actions" in group.attrs:
        own["num_actions"] = int(group.attrs["num_actions"])
    for key in ("complete", "final_known"):
        if key in group:
            own[key] = read_array(group, key, path)
    if "labels" in group:
        own["labels"] = np.char.decode(read_array(group, "labels", path), "utf-8")
    return own


def _behaviour(file: Group, path: Path) -> dict[str, Any]:
    """Which algorithm collected the data, where the file says so."""
    found = {}
    for key in ("algorithm", "iteration"):
        if f"metadata/{key}" in file:
            value = read_array(file, f"metadata/{key}", path)
            if value.ndim == 0 and value.dtype.kind in "iuSO":
                item = value.item()
                found[key] = item.decode("utf-8", "replace") if isinstance(item, bytes) else item
    return {"behaviour": found} if found else {}


def _is_d4rl(path: Path) -> bool:
    # Any HDF5 file that no other format claims: the keys that are missing are then named by the reader.
    claimed = {"episode_0", "num_episodes", "episode_terminals"}
    return is_hdf5(path) and not root_keys(path) & claimed and not demonstrations(root_keys(path, "data"))


FORMAT = Format(
    name="d4rl",
    description="D4RL HDF5",
    suffixes=(".hdf5", ".h5"),
    recognises=_is_d4rl,
    read=read,
    write=write,
    needs_rewards=True,
    flags=flags,
)
