"""Minari 0.5 datasets, stored as HDF5, Arrow or Parquet.

Read straight from Minari's files: returns come from the episode metadata and flags from the end of each episode, so
that weights cost no observation; and no environment is ever built from a file's description. Every episode has T + 1
observations, so the last step is always trainable. Dictionary and tuple observations are flattened and laid side by
side in the order of their names, or one entry is picked with ``observation_key``.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.base.progress import track
from upweight.data.columns import Column
from upweight.data.dataset import Dataset
from upweight.data.segment import Episodes
from upweight.io.format import Format, reading
from upweight.io.hdf5 import HDF5EpisodesColumn, dataset_at, open_hdf5
from upweight.io.minari_arrow import ArrowEpisodes
from upweight.io.minari_images import HDF5ImagesColumn, is_encoded_image

_HDF5_FILE = "main_data.hdf5"


def read(path: Path, *, observation_key: str | None = None) -> Dataset:
    """Metadata and flags at once; rewards, observations and actions when they are looked at."""
    folder = _data_folder(path)
    metadata = _metadata(folder)
    if not (folder / _HDF5_FILE).is_file():
        require("pyarrow", extra="minari", purpose="reading Minari datasets in Arrow storage")
        return _read_arrow(folder, metadata, observation_key)
    require("h5py", extra="minari", purpose="reading Minari datasets in HDF5 storage")
    return _read_hdf5(folder, metadata, observation_key)


def write(dataset: Dataset, path: Path) -> list[str]:
    """A Minari folder in HDF5 storage, written by Minari itself; ``minari.MinariDataset(path / "data")`` opens it."""
    minari = require("minari", extra="minari", purpose="writing Minari datasets")
    from minari.dataset.minari_storage import MinariStorage

    episodes = dataset.episodes
    lost = []
    if not dataset.has_rewards:
        raise DatasetError(f"{dataset.source}: Minari's layout needs rewards, and the dataset has none")
    dropped = int((dataset.num_transitions < dataset.lengths).sum())
    if dropped:
        lost.append(f"the last step of {dropped} episodes, whose next observation is unknown")
    if (unknown := int((episodes.terminated & ~episodes.final_known).sum())) > 0:
        lost.append(f"that the observation after {unknown} terminal steps is unknown (the last one is repeated)")
    if (cut := int((~episodes.complete & (episodes.terminated | episodes.truncated)).sum())) > 0:
        lost.append(f"that {cut} ended episodes were declared incomplete")
    if not dataset.next_observations_follow:
        lost.append("next observations that differ from the following observation")
    path.mkdir()
    data = path / "data"
    observation_space, action_space = _spaces(dataset)
    storage = MinariStorage.new(data, observation_space, action_space, data_format="hdf5", jpeg_encoding=False)
    storage.update_metadata({"dataset_id": _dataset_id(path.name), "minari_version": minari.__version__})
    storage.update_metadata({"upweight_metadata": json.dumps(dict(dataset.metadata))})
    kept = np.flatnonzero(dataset.num_transitions > 0)
    for number in track(kept.tolist(), total=len(kept), description="writing episodes"):
        storage.update_episodes([_buffer(minari, dataset, number)])
    storage.update_episode_metadata(_episode_metadata(dataset, kept), range(len(kept)))
    return lost


def _read_hdf5(folder: Path, metadata: dict[str, Any], observation_key: str | None) -> Dataset:
    path = folder / _HDF5_FILE
    with open_hdf5(path) as file:
        numbers = _episode_numbers(set(file), path)
        ends, returns, labels = [], [], []
        for number in track(numbers, total=len(numbers), description="reading episode metadata"):
            group = file[f"episode_{number}"]
            attributes = dict(group.attrs)
            ends.append([_last_flag(group, key, path) for key in ("terminations", "truncations")])
            length = len(dataset_at(group, "rewards", path))
            if int(attributes.get("total_steps", length)) != length or length < 1:
                raise DatasetError(
                    f"{path}: key 'episode_{number}': expected {attributes.get('total_steps')} rewards, found {length}"
                )
            returns.append((length, attributes.get("rewards_sum")))
            labels.append(attributes.get("upweight_label"))
        lengths = np.array([length for length, _ in returns], np.int64)
        bases = [f"episode_{number}" for number in numbers]

        def column(field: str, skip: int = 0) -> Column:
            keys = [f"{base}/{field}" for base in bases]
            leaves = _leaves(file, keys[0], observation_key if field == "observations" else None, path)
            if len(leaves) == 1 and is_encoded_image(file, keys[0] + leaves[0], _space(metadata, field, leaves[0])):
                return HDF5ImagesColumn(file, path, [key + leaves[0] for key in keys], lengths, skip=skip)
            return HDF5EpisodesColumn(file, path, keys, lengths, leaves=leaves, skip=skip)

        return _assemble(
            folder,
            metadata,
            lengths,
            np.array(ends, bool),
            [total for _, total in returns],
            labels,
            observations=column("observations"),
            next_observations=column("observations", skip=1),
            actions=column("actions"),
            rewards=column("rewards"),
        )


def _read_arrow(folder: Path, metadata: dict[str, Any], observation_key: str | None) -> Dataset:
    store = ArrowEpisodes(folder, str(metadata.get("data_format", "arrow")))
    return _assemble(
        folder,
        metadata,
        store.lengths,
        store.ends,
        store.returns,
        store.labels,
        observations=store.column("observations", _space(metadata, "observations", ""), key=observation_key),
        next_observations=store.column(
            "observations", _space(metadata, "observations", ""), key=observation_key, skip=1
        ),
        actions=store.column("actions", _space(metadata, "actions", "")),
        rewards=store.column("rewards", None),
    )


def _assemble(
    folder: Path,
    metadata: dict[str, Any],
    lengths: NDArray[np.int64],
    ends: NDArray[np.bool_],  # [N, 2] terminated, truncated
    totals: list[Any],
    labels: list[Any],
    **columns: Column,
) -> Dataset:
    terminated = ends[:, 0]
    truncated = ends[:, 1] & ~terminated
    count = len(lengths)
    returns = None
    if all(isinstance(total, float | int | np.number) for total in totals):
        returns = np.array(totals, np.float64)
        if not np.isfinite(returns).all():
            number = int(np.argmin(np.isfinite(returns)))
            raise DatasetError(
                f"{folder}: key 'rewards': expected finite rewards, episode {number} sums to {returns[number]}"
            )
    actions = _space(metadata, "actions", "") or {}
    numbered = (
        actions.get("type") == "Discrete" and actions.get("start", 0) == 0 and columns["actions"].dtype.kind in "iu"
    )
    own = json.loads(str(metadata.get("upweight_metadata", "{}")))
    identity = {key: metadata[key] for key in ("dataset_id", "minari_version") if key in metadata}
    return Dataset.assemble(
        episodes=Episodes(lengths, terminated, truncated, terminated | truncated, np.ones(count, bool)),
        returns=returns,
        labels=[str(label) for label in labels] if all(label is not None for label in labels) else None,
        num_actions=actions.get("n") if numbered else None,
        metadata={**(own if isinstance(own, dict) else {}), "minari": identity},
        source=str(folder.parent if folder.name == "data" else folder),
        **columns,
    )


def _data_folder(path: Path) -> Path:
    if path.is_file() and path.name == _HDF5_FILE:
        path = path.parent
    for folder in (path / "data", path):
        if (folder / "metadata.json").is_file():
            return folder
    raise DatasetError(f"{path}: expected a Minari folder with data/metadata.json, found none")


def _metadata(folder: Path) -> dict[str, Any]:
    with reading(folder, "key 'metadata.json'"):
        metadata = json.loads((folder / "metadata.json").read_text("utf-8"))
        if not isinstance(metadata, dict):
            raise DatasetError(f"{folder}: key 'metadata.json': expected a JSON object")
        return metadata


def _episode_numbers(names: set[str], path: Path) -> list[int]:
    numbers = sorted(int(name[8:]) for name in names if name.startswith("episode_") and name[8:].isdecimal())
    if not numbers:
        raise DatasetError(f"{path}: expected groups episode_0, episode_1, ..., found none")
    return numbers


def _last_flag(group: Any, key: str, path: Path) -> bool:
    node = dataset_at(group, key, path)
    if node.ndim != 1 or len(node) == 0:
        raise DatasetError(f"{path}: key '{group.name}/{key}': expected one flag per step, found shape {node.shape}")
    return bool(node[-1])


def _leaves(file: Any, key: str, wanted: str | None, path: Path) -> list[str]:
    """Where the arrays of a field lie under its key: just there, or under the entries of a dictionary."""
    h5py = require("h5py", extra="minari", purpose="reading Minari datasets in HDF5 storage")
    if key not in file:
        raise DatasetError(f"{path}: missing key {key!r}")
    if isinstance(file[key], h5py.Dataset):
        return [""]
    found: list[str] = []
    file[key].visititems(lambda name, node: found.append(f"/{name}") if isinstance(node, h5py.Dataset) else None)
    if wanted is not None:
        found = [leaf for leaf in found if leaf == f"/{wanted}"]
    if not found:
        raise DatasetError(
            f"{path}: key {key!r}: expected {wanted or 'arrays'} inside, found {', '.join(file[key]) or 'nothing'}"
        )
    return sorted(found)


def _space(metadata: dict[str, Any], field: str, leaf: str) -> dict[str, Any] | None:
    """The JSON description of a field's (sub)space, if the dataset has one."""
    text = metadata.get("observation_space" if field == "observations" else "action_space")
    if field == "rewards" or not isinstance(text, str):
        return None
    space = json.loads(text)
    for name in leaf.split("/")[1:]:
        inner = space.get("subspaces", {})
        space = inner.get(name) if isinstance(inner, dict) else None
        if space is None:
            return None
    return space if isinstance(space, dict) else None


def _spaces(dataset: Dataset) -> tuple[Any, Any]:
    from gymnasium import spaces

    def box(array: NDArray[Any]) -> Any:
        if array.dtype.kind == "f":
            return spaces.Box(-np.inf, np.inf, array.shape[1:], array.dtype.type)
        limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else None
        low, high = (0, 1) if limits is None else (limits.min, limits.max)
        return spaces.Box(low, high, array.shape[1:], array.dtype.type)

    actions = dataset.actions
    if dataset.discrete_actions and actions.ndim == 1:
        return box(dataset.observations), spaces.Discrete(dataset.num_actions or int(actions.max()) + 1)
    return box(dataset.observations), box(actions)


def _dataset_id(name: str) -> str:
    """A name Minari accepts; dots and spaces of a folder name are not."""
    clean = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name).strip("-_")
    return clean if len(clean) > 1 else f"dataset-{clean or '0'}"


def _buffer(minari: Any, dataset: Dataset, number: int) -> Any:
    start, count = int(dataset.starts[number]), int(dataset.num_transitions[number])
    steps = slice(start, start + count)
    last = start + count - 1
    final = dataset.next_observations[last : last + 1]
    whole = count == dataset.lengths[number]
    truncated = dataset.truncated[steps].copy()
    if not whole:  # the dropped last step was the one with the flag
        truncated[-1] = dataset.episodes.truncated[number]
    return minari.data_collector.EpisodeBuffer(
        observations=np.concatenate([dataset.observations[steps], final]),
        actions=np.array(dataset.actions[steps]),
        rewards=np.array(dataset.rewards[steps]),
        terminations=np.array(dataset.terminated[steps]),
        truncations=truncated,
    )


def _episode_metadata(dataset: Dataset, kept: NDArray[np.int64]) -> list[dict[str, Any]]:
    entries = []
    for number in kept.tolist():
        start = int(dataset.starts[number])
        written = dataset.rewards[start : start + int(dataset.num_transitions[number])]
        entry: dict[str, Any] = {"rewards_sum": float(written.sum(dtype=np.float64))}
        if dataset.labels is not None:
            entry["upweight_label"] = str(dataset.labels[number])
        entries.append(entry)
    return entries


def _is_minari(path: Path) -> bool:
    try:
        if path.is_dir():
            return "data_format" in _metadata(_data_folder(path))
    except DatasetError:
        return False
    return path.name == _HDF5_FILE and (path.parent / "metadata.json").is_file()


FORMAT = Format(
    name="minari",
    description="Minari folder",
    suffixes=(),
    lossless=False,
    recognises=_is_minari,
    read=read,
    write=write,
)
