"""Minari's image observations, kept as one JPEG per step."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.data.columns import Array, Column, Index
from upweight.io.format import reading
from upweight.io.hdf5 import open_hdf5


def is_encoded_image(file: Any, key: str, space: dict[str, Any] | None) -> bool:
    """Whether the array under ``key`` holds encoded images: its space has more axes than it has."""
    node = file[key]
    if node.dtype.kind == "O":
        return True
    return space is not None and node.dtype == np.uint8 and node.ndim < len(space.get("shape", ())) + 1


def decode(data: Any, *, shape: tuple[int, ...] | None, path: Path) -> NDArray[np.uint8]:
    """One JPEG as an array; must have ``shape`` if that is given."""
    image_module = require("PIL.Image", extra="minari", purpose="reading Minari datasets with images")
    with reading(path, "an encoded image"):
        image = np.asarray(image_module.open(io.BytesIO(bytes(data))), np.uint8)
    if shape is not None and image.shape != shape:
        raise DatasetError(f"{path}: expected images of shape {shape}, found {image.shape}")
    return image


class HDF5ImagesColumn(Column):
    """Encoded images of all episodes, decoded when read."""

    def __init__(
        self, file: Any, path: Path, keys: Sequence[str], lengths: NDArray[np.int64], *, skip: int = 0
    ) -> None:
        shape = decode(file[keys[0]][0], shape=None, path=path).shape
        super().__init__((int(lengths.sum()), *shape), np.dtype(np.uint8))
        self._path, self._keys, self._skip = path, keys, skip
        self._starts = np.cumsum(lengths) - lengths

    def _read(self) -> Array:
        return self._read_rows(np.arange(len(self)))

    def _read_rows(self, index: Index) -> Array:
        out = np.empty((len(index), *self.shape[1:]), np.uint8)
        episodes = np.searchsorted(self._starts, index, side="right") - 1
        with open_hdf5(self._path) as file:
            for place, (step, episode) in enumerate(zip(index.tolist(), episodes.tolist(), strict=True)):
                node = file[self._keys[episode]]
                out[place] = decode(
                    node[step - int(self._starts[episode]) + self._skip], shape=self.shape[1:], path=self._path
                )
        return out
