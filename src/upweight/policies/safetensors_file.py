"""The safetensors format, in so far as we need it: named arrays and text metadata, no code.

::

    8 bytes: length of the header | header: JSON {name: {dtype, shape, data_offsets}, __metadata__} | the arrays
"""

import json
import math
import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target

_NAMES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "U32": "<u4",
    "U8": "|u1",
    "BOOL": "|b1",
}
_OF_DTYPE = {np.dtype(code): name for name, code in _NAMES.items()}
_MAX_HEADER = 100 << 20


def write_safetensors(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write arrays and metadata, completely or not at all."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in plain.items():
        header[name] = {
            "dtype": _OF_DTYPE[array.dtype.newbyteorder("<")],
            "shape": list(np.shape(arrays[name])),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the arrays start at a multiple of 8
    with atomic_target(path) as target, target.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in plain.values():
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            file.write(little.reshape(-1).view(np.uint8).data)


def read_safetensors(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The arrays and the metadata of a file; anything odd about it is a :class:`DatasetError`."""
    try:
        if path.exists() and not path.is_file():
            raise DatasetError(f"{path}: expected a file, found a folder, a pipe or a device")
        size = os.path.getsize(path)
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(_MAX_HEADER, size - 8):
                raise DatasetError(f"{path}: not a safetensors file, or cut short")
            header = json.loads(file.read(length))
            data = file.read()
        metadata = {str(key): str(value) for key, value in header.pop("__metadata__", {}).items()}
        spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())
        if any(first[1] > second[0] for first, second in pairwise(spans)):
            raise DatasetError(f"{path}: not a safetensors file: arrays in it share bytes; get a new copy")
        return {name: _array(data, entry, f"{path}: array {name!r}") for name, entry in header.items()}, metadata
    except DatasetError:
        raise
    except FileNotFoundError:
        raise DatasetError(f"{path}: no such file") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DatasetError(f"{path}: not a safetensors file ({type(error).__name__}: {error})") from None


def _array(data: bytes, entry: dict[str, Any], what: str) -> NDArray[Any]:
    dtype = np.dtype(_NAMES[entry["dtype"]])
    shape = tuple(int(number) for number in entry["shape"])
    start, stop = (int(number) for number in entry["data_offsets"])
    if (
        min(shape, default=0) < 0
        or not 0 <= start <= stop <= len(data)
        or stop - start != math.prod(shape) * dtype.itemsize
    ):
        raise DatasetError(f"{what}: the header does not fit the data; the file is damaged")
    return np.frombuffer(data[start:stop], dtype).reshape(shape).copy()
