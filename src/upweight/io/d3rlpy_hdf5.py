"""d3rlpy's HDF5 replay buffers: version 2 (an array per episode and field) and version 1 (flat).

d3rlpy knows whether an episode terminated, and nothing about what came after the last step of one that did not: that
step is not trainable, there as here.
"""

from functools import partial
from pathlib import Path

import numpy as np

from upweight.base.errors import DatasetError
from upweight.data.columns import Column, EpisodesColumn
from upweight.data.dataset import Dataset
from upweight.data.segment import Episodes
from upweight.data.validate import as_flags, as_vector
from upweight.io.format import Format, losses
from upweight.io.hdf5 import (
    HDF5Column,
    dataset_at,
    is_hdf5,
    open_episodes,
    open_hdf5,
    read_array,
    root_keys,
    write_hdf5,
)
from upweight.io.hdf5_group import Group

VERSION = "2.1"


def read(path: Path) -> Dataset:
    """Rewards and flags at once; observations and actions when they are looked at."""
    with open_hdf5(path) as file:
        return _read_version_1(file, path) if "num_episodes" not in file else _read_version_2(file, path)


def write(dataset: Dataset, path: Path) -> list[str]:
    """Version 2.1, as ``ReplayBuffer.dump`` writes it."""
    lost = losses(dataset, "labels", "metadata", "actions", "incomplete", "own next observations")
    ends = dataset.episodes
    if (known := int((ends.final_known & ~ends.terminated).sum())) > 0:
        lost.append(f"the observation after the last step of {known} truncated episodes")
    actions = dataset.actions if dataset.actions.ndim > 1 else dataset.actions[:, None]
    with write_hdf5(path) as file:
        file.create_dataset("columns", data=["observations", "actions", "rewards", "terminated"])
        file.create_dataset("num_episodes", data=dataset.num_episodes)
        spans = zip(ends.starts.tolist(), ends.lengths.tolist(), ends.terminated.tolist(), strict=True)
        for number, (start, length, terminated) in enumerate(spans):
            steps = slice(start, start + length)
            file.create_dataset(f"observations_{number}", data=dataset.observations[steps])
            file.create_dataset(f"actions_{number}", data=actions[steps])
            file.create_dataset(f"rewards_{number}", data=dataset.rewards[steps, None])
            file.create_dataset(f"terminated_{number}", data=terminated)
        file.create_dataset("version", data=VERSION)
    return lost


def _read_version_2(file: Group, path: Path) -> Dataset:
    source = str(path)
    count = read_array(file, "num_episodes", path)
    if count.ndim != 0 or count.dtype.kind not in "iu" or not 1 <= int(count) <= len(file):
        raise DatasetError(f"{path}: key 'num_episodes': expected the number of episodes in the file, found {count}")
    numbers = range(int(count))
    rewards = [as_vector(read_array(file, f"rewards_{i}", path), key=f"rewards_{i}", source=source) for i in numbers]
    lengths = np.array([len(part) for part in rewards], np.int64)
    if not lengths.all():
        raise DatasetError(f"{path}: key 'rewards_{int(np.argmin(lengths))}': expected at least one step, found none")
    flags = [np.atleast_1d(read_array(file, f"terminated_{i}", path)) for i in numbers]
    ended = as_flags(np.concatenate(flags), key="terminated_...", num_steps=len(lengths), source=source)
    if "observations_0" not in file and "observations_0_0" in file:
        raise DatasetError(f"{path}: tuple observations are not supported; store them as one array per step")

    def column(key: str) -> Column:
        keys = [f"{key}_{i}" for i in numbers]
        return EpisodesColumn(lengths, partial(open_episodes, path, keys), key=key, source=source)

    return Dataset.assemble(
        episodes=Episodes(lengths, ended, ~ended, np.ones(len(lengths), bool), np.zeros(len(lengths), bool)),
        observations=column("observations"),
        actions=column("actions"),
        rewards=np.concatenate(rewards),
        source=source,
    )


def _read_version_1(file: Group, path: Path) -> Dataset:
    source = str(path)
    for key in ("observations", "actions", "rewards", "terminals"):
        dataset_at(file, key, path)
    terminated = as_flags(read_array(file, "terminals", path), key="terminals", source=source)
    ends = as_flags(read_array(file, "episode_terminals", path), key="episode_terminals", source=source)
    return Dataset.from_arrays(
        observations=HDF5Column(file, "observations", path),
        actions=HDF5Column(file, "actions", path),
        rewards=read_array(file, "rewards", path),
        terminated=terminated,
        truncated=ends,
        source=source,
    )


FORMAT = Format(
    name="d3rlpy",
    description="d3rlpy replay buffer in HDF5",
    recognises=lambda path: is_hdf5(path) and bool(root_keys(path) & {"num_episodes", "episode_terminals"}),
    read=read,
    write=write,
    needs_rewards=True,
)
