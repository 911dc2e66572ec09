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


def load_checkpoint(path: Path, *likes: Tree, identity: str) -> tuple[Tree, int]:
    """The population as it was and the number of updates it had; ``likes`` are the structures that it may have.

    The first is taken all of whose leaves are in the file.
    """
    with damage_named("remove it to train from the beginning"):
        arrays, about = read_safetensors(path)
    if about.get("upweight_checkpoint") != str(FORMAT_VERSION):
        raise CheckpointError(f"{path}: expected a checkpoint of version {FORMAT_VERSION}")
    if about.get("identity") != identity:
        raise CheckpointError(f"{path}: belongs to another training (other runs, data or settings); use another folder")
    for like in likes:
        leaves, structure = jax.tree_util.tree_flatten_with_path(like)
        found = [(arrays.get(jax.tree_util.keystr(place)), leaf) for place, leaf in leaves]
        if all(array is not None and (array.shape, array.dtype) == (leaf.shape, leaf.dtype) for array, leaf in found):
            return jax.tree_util.tree_unflatten(structure, [jnp.asarray(array) for array, _ in found]), int(
                about["updates"]
            )
    raise CheckpointError(f"{path}: does not fit the population; remove it to train from the beginning")
