"""Our own npz: every field of a dataset as a plain array, bit for bit. NumPy alone reads it.

Keys: ``upweight_format`` (version), ``observations``, ``actions``, ``rewards`` and ``next_observations`` [M, ...] (the
last two if there are any), per episode ``lengths``, ``terminated``, ``truncated``, ``complete``, ``final_known`` and
(if any) ``labels`` [N], ``num_actions`` (if known) and ``metadata`` (JSON). Not compressed, so that a few rows can be read
without the rest.
"""

import json
from pathlib import Path

import numpy as np

from upweight.base.errors import DatasetError
from upweight.data.dataset import Dataset
from upweight.data.validate import as_episodes
from upweight.io.format import Format
from upweight.io.npz_members import NpzColumn, member_names, read_member

VERSION = 1
_MARK = "upweight_format"


def read(path: Path) -> Dataset:
    """Everything per episode and the rewards at once; observations and actions when they are looked at."""
    source = str(path)
    version = read_member(path, _MARK)
    if version.shape != () or version.dtype.kind not in "iu" or int(version) != VERSION:
        raise DatasetError(f"{path}: expected format version {VERSION}, found {version!r}; upgrade upweight to read it")
    names = member_names(path)
    has_next = "next_observations" in names
    episodes = as_episodes(lambda key: read_member(path, key), has_next=has_next, source=source)
    return Dataset.assemble(
        episodes=episodes,
        observations=NpzColumn(path, "observations"),
        actions=NpzColumn(path, "actions"),
        rewards=read_member(path, "rewards") if "rewards" in names else None,
        next_observations=NpzColumn(path, "next_observations") if has_next else None,
        labels=read_member(path, "labels") if "labels" in names else None,
        num_actions=_num_actions(path) if "num_actions" in names else None,
        metadata=_metadata(path),
        source=source,
    )


def write(dataset: Dataset, path: Path) -> list[str]:
    """Nothing is lost."""
    episodes = dataset.episodes
    arrays = {
        _MARK: np.array(VERSION),
        "observations": dataset.observations,
        "actions": dataset.actions,
        "lengths": episodes.lengths,
        "terminated": episodes.terminated,
        "truncated": episodes.truncated,
        "complete": episodes.complete,
        "final_known": episodes.final_known,
        "metadata": np.array(json.dumps(dict(dataset.metadata))),
    }
    if dataset.has_rewards:
        arrays["rewards"] = dataset.rewards
    if "next_observations" in dataset.columns:
        arrays["next_observations"] = dataset.next_observations
    if dataset.labels is not None:
        arrays["labels"] = dataset.labels
    if dataset.num_actions is not None:
        arrays["num_actions"] = np.array(dataset.num_actions)
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
    return []


def _num_actions(path: Path) -> int:
    number = read_member(path, "num_actions")
    if number.shape != () or number.dtype.kind not in "iu":
        raise DatasetError(f"{path}: key 'num_actions': expected a whole number, found {number.dtype} {number.shape}")
    return int(number)


def _metadata(path: Path) -> dict[str, object]:
    text = read_member(path, "metadata")
    if text.shape != () or text.dtype.kind != "U":
        raise DatasetError(f"{path}: key 'metadata': expected JSON text, found {text.dtype} {text.shape}")
    try:
        metadata = json.loads(str(text))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: key 'metadata': not JSON ({error})") from None
    if not isinstance(metadata, dict):
        raise DatasetError(f"{path}: key 'metadata': expected a JSON object, found {type(metadata).__name__}")
    return metadata


FORMAT = Format(
    name="npz",
    description="upweight's own npz",
    suffixes=(".npz",),
    lossless=True,
    recognises=lambda path: _MARK in member_names(path),
    read=read,
    write=write,
    flags=read_member,
)
