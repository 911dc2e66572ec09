"""Minari 0.5 datasets, stored as HDF5, Arrow or Parquet.

Read straight from Minari's files: returns come from the episode metadata and flags from the end of each episode, so
that weights cost no observation; and no environment is ever built from a file's description. Every episode has T + 1
observations, so the last step is always trainable. Dictionary and tuple observations are flattened and laid side by
side in the order of their names, or one entry is picked with ``observation_key``.
"""

import json
from collections.abc import Iterator
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
from upweight.data.success import NO_REWARDS
from upweight.io.format import Format, losses, reading
from upweight.io.minari_storage import HDF5_FILE, episode_flags, field_space, open_storage


def read(path: Path, *, observation_key: str | None = None) -> Dataset:
    """Metadata and flags at once; rewards, observations and actions when they are looked at."""
    folder = _data_folder(path)
    metadata = _metadata(folder)
    storage = open_storage(folder, metadata, observation_key)
    terminated = storage.ends[:, 0]
    truncated = storage.ends[:, 1] & ~terminated
    known = np.ones(len(storage.lengths), bool)
    labels = storage.labels
    actions = storage.column("actions", 0)
    own = json.loads(str(metadata.get("upweight_metadata", "{}")))
    identity = {key: metadata[key] for key in ("dataset_id", "minari_version") if key in metadata}
    return Dataset.assemble(
        episodes=Episodes(storage.lengths, terminated, truncated, terminated | truncated, known),
        observations=storage.column("observations", 0),
        next_observations=storage.column("observations", 1),
        actions=actions,
        rewards=storage.column("rewards", 0),
        returns=_returns(storage.returns, folder),
        labels=[str(label) for label in labels] if all(label is not None for label in labels) else None,
        num_actions=_num_actions(metadata, actions),
        metadata={**_environment(metadata), **(own if isinstance(own, dict) else {}), "minari": identity},
        source=str(folder.parent if folder.name == "data" else folder),
    )


def flags(path: Path, name: str) -> list[Any]:
    """[N] an entry of the episodes' metadata, or whether it was ever set in their ``infos``."""
    folder = _data_folder(path)
    return episode_flags(folder, _metadata(folder), name)


def write(dataset: Dataset, path: Path) -> list[str]:
    """A Minari folder in HDF5 storage, written by Minari itself; ``minari.MinariDataset(path / "data")`` opens it."""
    minari = require("minari", extra="minari", purpose="writing Minari datasets")
    from minari.dataset.minari_storage import MinariStorage

    if not dataset.has_rewards:
        raise DatasetError(f"{dataset.source}: {NO_REWARDS}")
    episodes = dataset.episodes
    lost = losses(dataset, "last steps", "own next observations")
    if (unknown := int((episodes.terminated & ~episodes.final_known).sum())) > 0:
        lost.append(f"that the observation after {unknown} terminal steps is unknown (the last one is repeated)")
    if (cut := int((~episodes.complete & (episodes.terminated | episodes.truncated)).sum())) > 0:
        lost.append(f"that {cut} ended episodes were declared incomplete")
    path.mkdir()
    data = path.absolute() / "data"  # Minari doubles a relative one
    observation_space, action_space = _spaces(dataset)
    storage = MinariStorage.new(data, observation_space, action_space, data_format="hdf5", jpeg_encoding=False)
    storage.update_metadata({"dataset_id": _dataset_id(path.name), "minari_version": minari.__version__})
    storage.update_metadata({"upweight_metadata": json.dumps(dict(dataset.metadata))})
    kept = np.flatnonzero(dataset.num_transitions > 0)
    entries = []

    def buffers() -> Iterator[Any]:
        for number in track(kept.tolist(), total=len(kept), description="writing episodes"):
            buffer = _buffer(minari, dataset, number)
            entries.append(_episode_metadata(dataset, number, buffer.rewards))
            yield buffer

    storage.update_episodes(buffers())  # in one call: each call reads the names of all episodes again
    storage.update_episode_metadata(entries, range(len(kept)))
    return lost


def _returns(totals: list[Any], folder: Path) -> NDArray[np.float64] | None:
    """[N] the recorded returns, if every episode has one."""
    if not all(isinstance(total, float | int | np.number) for total in totals):
        return None
    returns = np.array(totals, np.float64)
    if not np.isfinite(returns).all():
        number = int(np.argmin(np.isfinite(returns)))
        raise DatasetError(
            f"{folder}: key 'rewards': expected finite rewards, episode {number} sums to {returns[number]}"
        )
    return returns


def _environment(metadata: dict[str, Any]) -> dict[str, Any]:
    """The id of the environment and its time limit in steps, as far as its description says them."""
    text = metadata.get("env_spec")
    spec = (json.loads(text) if isinstance(text, str) and text else None) or {}
    kinds = {"env_id": ("id", str), "time_limit": ("max_episode_steps", int)}
    return {name: spec[key] for name, (key, kind) in kinds.items() if isinstance(spec.get(key), kind)}


def _num_actions(metadata: dict[str, Any], actions: Column) -> int | None:
    """How many discrete actions the action space has, if they are numbered from 0."""
    space = field_space(metadata, "actions") or {}
    if space.get("type") != "Discrete" or space.get("start", 0) != 0 or actions.dtype.kind not in "iu":
        return None
    return space.get("n")


def _data_folder(path: Path) -> Path:
    if path.is_file() and path.name == HDF5_FILE:
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


def _spaces(dataset: Dataset) -> tuple[Any, Any]:
    from gymnasium import spaces

    def box(column: Column) -> Any:
        kind = column.dtype
        if kind.kind == "f":
            return spaces.Box(-np.inf, np.inf, column.shape[1:], kind.type)
        limits = np.iinfo(kind) if kind.kind in "iu" else None
        low, high = (0, 1) if limits is None else (limits.min, limits.max)
        return spaces.Box(low, high, column.shape[1:], kind.type)

    if dataset.discrete_actions and dataset.action_shape == ():
        return box(dataset.columns["observations"]), spaces.Discrete(
            dataset.num_actions or int(dataset.actions.max()) + 1
        )
    return box(dataset.columns["observations"]), box(dataset.columns["actions"])


def _dataset_id(name: str) -> str:
    """A name Minari accepts; dots and spaces of a folder name are not."""
    clean = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name).strip("-_")
    return clean if len(clean) > 1 else f"dataset-{clean or '0'}"


def _buffer(minari: Any, dataset: Dataset, number: int) -> Any:
    start, count = int(dataset.starts[number]), int(dataset.num_transitions[number])
    steps = dataset.transitions(np.arange(start, start + count))
    truncated = np.zeros(count, bool)
    truncated[-1] = dataset.episodes.truncated[number]  # also where the last step was dropped
    return minari.data_collector.EpisodeBuffer(
        observations=np.concatenate([steps.observations, steps.next_observations[-1:]]),
        actions=steps.actions,
        rewards=steps.rewards,
        terminations=steps.terminated,
        truncations=truncated,
    )


def _episode_metadata(dataset: Dataset, number: int, rewards: NDArray[Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"rewards_sum": float(rewards.sum(dtype=np.float64))}
    return entry if dataset.labels is None else {**entry, "upweight_label": str(dataset.labels[number])}


def _is_minari(path: Path) -> bool:
    try:
        if path.is_dir():
            return "data_format" in _metadata(_data_folder(path))
    except DatasetError:
        return False
    return path.name == HDF5_FILE and (path.parent / "metadata.json").is_file()


FORMAT = Format(
    name="minari",
    description="Minari folder",
    recognises=_is_minari,
    read=read,
    write=write,
    needs_rewards=True,
    flags=flags,
    files=lambda path: [file for file in _data_folder(path).rglob("*") if file.is_file()],
)
