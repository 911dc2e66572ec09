"""Files in every format, also in those that the package reads but does not write."""

import warnings
from pathlib import Path

import numpy as np

import upweight as uw
from upweight.io.format import losses
from upweight.io.registry import writable


def save_quietly(ds: uw.Dataset, path: Path, name: str) -> list[str]:
    """Write in the named format, without warnings; what was lost."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", uw.DataLossWarning)
        return uw.save(ds, path, format=name) if name in writable() else _FOREIGN[name](ds, path)


def _arrays(ds: uw.Dataset, path: Path) -> list[str]:
    """Flat arrays and lengths; with known last observations only if all are."""
    names = ["observations", "actions", "rewards", "terminated", "truncated"]
    if ds._next_observations is not None:
        names.append("next_observations")
    with path.open("wb") as file:
        np.savez(file, **{name: getattr(ds, name) for name in names}, lengths=ds.lengths)
    unknown = 0 < ds.episodes.final_known.sum() < ds.num_episodes
    lost = losses(ds, "labels", "metadata", "actions", "incomplete")
    return [*lost, "that the observation after some last steps is unknown"] if unknown else lost


_FOREIGN = {"arrays": _arrays}
