"""Episode weights as a file of their own (npz): written by ``upweight weights`` and by the explorer page."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.validate import as_weights
from upweight.io.npz_members import member_names, read_member


def save_weights(path: Path, weights: NDArray[np.float64], dataset: Dataset) -> None:
    """Per episode: ``weights``, ``lengths`` (trainable steps) and ``returns`` (NaN without rewards)."""
    returns = dataset.returns if dataset.has_rewards else np.full(dataset.num_episodes, np.nan)
    with atomic_target(path) as target:
        np.savez(target, weights=weights, lengths=dataset.num_transitions, returns=returns)


def load_weights(path: str | os.PathLike[str], dataset: AnyDataset) -> NDArray[np.float64]:
    """Weights [N] of the dataset's episodes from a file of ``upweight weights`` or of the explorer page.

    A file of other data is refused: it keeps trainable steps and returns of the episodes it was made for.

    Examples:
        >>> np.savez("weights.npz", weights=uw.Uniform()(ds), lengths=ds.num_transitions, returns=ds.returns)
        >>> uw.load_weights("weights.npz", ds)[:2]
        array([0.125, 0.125])
    """
    path, dataset = Path(path), as_dataset(dataset)
    if not path.exists():
        raise DatasetError(f"{path}: no such file")
    if not {"weights", "lengths", *(["returns"] * dataset.has_rewards)} <= member_names(path):
        raise DatasetError(
            f"{path}: expected an npz file with 'weights' and 'lengths', as `upweight weights` writes it"
        )
    weights, lengths = read_member(path, "weights"), read_member(path, "lengths")
    returns = read_member(path, "returns") if dataset.has_rewards else None
    same = np.array_equal(lengths, dataset.num_transitions)
    if not same or (returns is not None and not np.allclose(returns, dataset.returns, rtol=1e-9, equal_nan=True)):
        raise DatasetError(
            f"{path}: holds weights of other data: {len(lengths):,} episodes, and {dataset.source} has "
            f"{dataset.num_episodes:,}, or they have other lengths or returns; make the weights again"
        )
    return as_weights(weights, count=dataset.num_episodes, what=f"episode of {dataset.source}")
