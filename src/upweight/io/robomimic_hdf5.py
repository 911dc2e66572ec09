"""robomimic's HDF5 layout: a group per demonstration, ``data/demo_7``, and lists of demonstrations under ``mask``.

A demonstration has ``actions``, ``rewards``, ``dones``, ``obs/...`` and ``next_obs/...``. Observations that are vectors
are laid side by side in the order of their names; an image is read if ``observation_key`` asks for it, or if it is alone.
A demonstration whose last step is done ended in a terminal state, as robomimic takes it; the others were truncated.
"""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.data.columns import Column, EpisodesColumn
from upweight.data.dataset import Dataset
from upweight.data.segment import Episodes
from upweight.data.validate import as_flags, as_vector
from upweight.io.format import Format, listed, no_flags
from upweight.io.hdf5 import dataset_at, demonstrations, is_hdf5, open_episodes, open_hdf5, read_array, root_keys
from upweight.io.hdf5_group import Group


def read(path: Path, *, observation_key: str | None = None, masks: str | Sequence[str] | None = None) -> Dataset:
    """Rewards and ends at once; observations and actions when they are looked at.

    ``masks``: one or several of the file's lists (filter keys), of which the demonstrations are read; each has the name of its
    list as its label.
    """
    source = str(path)
    with open_hdf5(path) as file:
        demos, labels = _chosen(file, masks, path)
        lengths = np.array([_length(file, demo, path) for demo in demos], np.int64)
        leaves = _leaves(file, demos[0], observation_key, path)
        ended = np.array([_is_done(file, demo, path) for demo in demos])
        known = np.full(len(demos), "next_obs" in file[demos[0]])
        rewards = _steps(file, demos, "rewards", path) if "rewards" in file[demos[0]] else None
        about = json.loads(file["data"].attrs.get("env_args", "{}"))

    def column(key: str, leaves: Sequence[str] = ("",)) -> Column:
        keys = [f"{demo}/{key}" for demo in demos]
        return EpisodesColumn(lengths, partial(open_episodes, path, keys, leaves=leaves), key=key, source=source)

    return Dataset.assemble(
        episodes=Episodes(lengths, ended, ~ended, np.ones(len(demos), bool), known),
        observations=column("obs", leaves),
        actions=column("actions"),
        rewards=rewards,
        next_observations=column("next_obs", leaves) if known[0] else None,
        labels=labels,
        metadata={"env_args": about} if about else None,
        source=source,
    )


def flags(path: Path, name: str) -> NDArray[Any]:
    """[N] whether each demonstration is in the list ``name``; or [M] an array of the demonstrations' own."""
    with open_hdf5(path) as file:
        demos = _demos(file, path)
        if name in (masks := file.get("mask", ())):
            return np.isin(demos, _masked(file, name, demos, path))
        if name in file[demos[0]]:
            return _steps(file, demos, name, path)
        raise no_flags(path, name, {*masks, *file[demos[0]]})


def demo_names(path: Path) -> list[str]:
    """[N] ``demo_0``, ``demo_1``, ...: what the episodes that are read from a file are called in it."""
    with open_hdf5(path) as file:
        return [demo.removeprefix("data/") for demo in _demos(file, path)]


def _demos(file: Group, path: Path) -> list[str]:
    """Paths of all demonstrations, by number."""
    data = file.get("data")
    names = data if isinstance(data, Group) else ()
    found = demonstrations(names)
    if not found:
        raise DatasetError(f"{path}: expected demonstrations data/demo_0, data/demo_1, ..., found data/{listed(names)}")
    demos = [f"data/{name}" for name in found]
    for demo in demos:
        if not isinstance(file[demo], Group):
            raise DatasetError(f"{path}: key {demo!r}: expected a group stored in this file, found something else")
    return demos


def _chosen(file: Group, masks: str | Sequence[str] | None, path: Path) -> tuple[list[str], list[str] | None]:
    """The demonstrations in the lists ``masks``, or all of them; and the name of the list for each."""
    demos = _demos(file, path)
    if masks is None:
        return demos, None
    of_demo: dict[str, str] = {}
    for name in [masks] if isinstance(masks, str) else masks:
        for demo in _masked(file, name, demos, path):
            if of_demo.setdefault(demo, name) != name:
                raise DatasetError(
                    f"{path}: expected masks that share no demonstration; {of_demo[demo]} and {name} share {demo}"
                )
    chosen = [demo for demo in demos if demo in of_demo]
    return chosen, [of_demo[demo] for demo in chosen]


def _masked(file: Group, name: str, demos: Sequence[str], path: Path) -> list[str]:
    """Paths of the demonstrations in a list."""
    if name not in file.get("mask", ()):
        raise DatasetError(f"{path}: no mask {name!r}; it has {listed(file.get('mask', ()))}")
    named = [f"data/{entry.decode()}" for entry in read_array(file, f"mask/{name}", path).tolist()]
    unknown = set(named) - set(demos)
    if unknown or not named:
        raise DatasetError(f"{path}: key 'mask/{name}': expected names of demonstrations, found {listed(unknown)}")
    return named


def _length(file: Group, demo: str, path: Path) -> int:
    actions = dataset_at(file, f"{demo}/actions", path)
    length = actions.shape[0] if actions.ndim else 0
    said = file[demo].attrs.get("num_samples", length)
    if length < 1 or said != length:
        raise DatasetError(f"{path}: key '{demo}/actions': expected {said} steps, at least one, found {length}")
    return length


def _leaves(file: Group, demo: str, observation_key: str | None, path: Path) -> list[str]:
    """Which observations are read: ``["/object", "/robot0_eef_pos", ...]``."""
    found = file[demo].get("obs", ())
    vectors = [name for name in sorted(found) if dataset_at(file, f"{demo}/obs/{name}", path).ndim <= 2]
    chosen = [observation_key] if observation_key is not None else vectors or list(found)[:2]
    if not set(chosen) <= set(found) or (not vectors and len(chosen) != 1):
        raise DatasetError(
            f"{path}: expected observations as vectors under {demo}/obs, or the one that observation_key names, found "
            f"{listed(found)}. robomimic's dataset_states_to_obs.py adds them to a file that holds states only"
        )
    return [f"/{name}" for name in chosen]


def _is_done(file: Group, demo: str, path: Path) -> bool:
    if "dones" not in file[demo]:
        return False
    done = as_flags(read_array(file, f"{demo}/dones", path), key=f"{demo}/dones", source=str(path))
    return bool(done[-1:].any())


def _steps(file: Group, demos: Sequence[str], name: str, path: Path) -> NDArray[Any]:
    """[M] a number per step, of all demonstrations."""
    keys = [f"{demo}/{name}" for demo in demos]
    return np.concatenate([as_vector(read_array(file, key, path), key=key, source=str(path)) for key in keys])


FORMAT = Format(
    name="robomimic",
    description="robomimic HDF5",
    recognises=lambda path: is_hdf5(path) and bool(demonstrations(root_keys(path, "data"))),
    read=read,
    flags=flags,
)
