"""A population on disk, so that a killed training goes on where it was. Safetensors, written atomically."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import CheckpointError, DatasetError
from upweight.policies.safetensors_file import read_safetensors, write_safetensors

FORMAT_VERSION = 1
Snapshot = Mapping[str, NDArray[Any]]
Tree = TypeVar("Tree")  # a pytree of arrays


def take_snapshot(progress: Any) -> Snapshot:
    """The population in memory of its own: the training may go on, and reuse the device's, while this is written."""
    leaves = jax.tree_util.tree_leaves_with_path(jax.device_get(progress))
    return {jax.tree_util.keystr(place): np.array(leaf) for place, leaf in leaves}


def save_checkpoint(path: Path, snapshot: Snapshot, *, num_updates: int, identity: str) -> None:
    """``identity`` says what the training is; only the same one may go on from here."""
    about = {"upweight_checkpoint": str(FORMAT_VERSION), "updates": str(num_updates), "identity": identity}
    write_safetensors(path, snapshot, about)


@contextmanager
def damage_named(advice: str) -> Iterator[None]:
    """Tell a file of ours that is damaged from one that the system would not read just now, which may be sound."""
    try:
        yield
    except DatasetError as error:
        if isinstance(error.__context__, OSError) and not isinstance(error.__context__, FileNotFoundError):
            raise
        raise CheckpointError(f"{error}; {advice}") from None


def load_checkpoint(path: Path, like: Tree, *, identity: str) -> tuple[Tree, int]:
    """The population as it was and the number of updates it had; ``like`` gives the structure."""
    with damage_named("remove it to train from the beginning"):
        arrays, about = read_safetensors(path)
    if about.get("upweight_checkpoint") != str(FORMAT_VERSION):
        raise CheckpointError(f"{path}: expected a checkpoint of version {FORMAT_VERSION}")
    if about.get("identity") != identity:
        raise CheckpointError(f"{path}: belongs to another training (other runs, data or settings); use another folder")
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    restored = []
    for place, leaf in leaves:
        array = arrays.get(jax.tree_util.keystr(place))
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            what = f"{path}: does not fit the population ({jax.tree_util.keystr(place)})"
            raise CheckpointError(f"{what}; remove it to train from the beginning")
        restored.append(jnp.asarray(array))
    return jax.tree_util.tree_unflatten(structure, restored), int(about["updates"])
