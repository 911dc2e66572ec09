"""What people give where a dataset is wanted."""

import os
from importlib import import_module
from typing import Any

from upweight.data.dataset import Dataset

AnyDataset = Dataset | str | os.PathLike[str] | Any  # Any: a frame, a dataset of Minari, a replay buffer of d3rlpy
_READER = "upweight.io.loading"  # a higher layer: imported by name, and only if something must be read


def as_dataset(source: AnyDataset) -> Dataset:
    """``source`` itself if it is a dataset, else what :func:`upweight.load` makes of it."""
    if isinstance(source, Dataset):
        return source
    dataset: Dataset = import_module(_READER).load(source)
    return dataset
