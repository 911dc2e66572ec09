"""Where Minari keeps its episodes: groups of one HDF5 file, or a folder with an Arrow or Parquet table each."""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.base.progress import track
from upweight.data.columns import Array, Column, EpisodesColumn, Index, ReadEpisode
from upweight.io.arrow_tables import check_columns, claimed_bytes, to_numpy
from upweight.io.format import no_flags, reading
from upweight.io.hdf5 import dataset_at, open_episodes, open_hdf5
from upweight.io.hdf5_group import Group

HDF5_FILE = "main_data.hdf5"
_HDF5 = {"extra": "minari", "purpose": "reading Minari datasets in HDF5 storage"}
_ARROW = {"extra": "minari", "purpose": "reading Minari datasets in Arrow storage"}
Metadata = dict[str, Any]


class Storage(NamedTuple):
    """The lengths, ends, returns and labels of all episodes, and how their fields are read."""

    lengths: NDArray[np.int64]  # [N]
    ends: NDArray[np.bool_]  # [N, 2] terminated, truncated
    returns: list[Any]  # [N] as recorded, None where not
    labels: list[Any]  # [N]
    column: Callable[[str, int], Column]  # of a field ("observations"), without the first so many rows of each episode


def open_storage(folder: Path, metadata: Metadata, observation_key: str | None) -> Storage:
    """The storage of a folder: HDF5, Arrow or Parquet."""
    if (folder / HDF5_FILE).is_file():
        require("h5py", **_HDF5)
        return _hdf5_storage(folder / HDF5_FILE, metadata, observation_key)
    require("pyarrow", **_ARROW)
    return _arrow_storage(folder, metadata, observation_key)


def episode_flags(folder: Path, metadata: Metadata, name: str) -> list[Any]:
    """[N] an entry of the metadata of the episodes or, where there is none, whether it was ever set in their infos."""
    if not (folder / HDF5_FILE).is_file():
        storage = _arrow_format(folder, metadata)
        return [_arrow_flag(episode, storage, name) for episode in _episode_folders(folder)]
    path = folder / HDF5_FILE
    found = []
    with open_hdf5(path) as file:
        for number in _episode_numbers(file, path):
            group = file[f"episode_{number}"]
            if name in group.attrs:
                found.append(group.attrs[name])
            elif f"infos/{name}" in group:
                found.append(np.any(dataset_at(group, f"infos/{name}", path)[()]))
            else:
                raise no_flags(path, name, [*group.attrs, *group.get("infos", ())])
    return found


def field_space(metadata: Metadata, field: str, leaf: str = "") -> dict[str, Any] | None:
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


# ---- HDF5 ---------------------------------------------------------------------------------------------------------------
def _hdf5_storage(path: Path, metadata: Metadata, observation_key: str | None) -> Storage:
    lengths, ends, returns, labels = [], [], [], []
    with open_hdf5(path) as file:
        numbers = _episode_numbers(file, path)
        for number in track(numbers, total=len(numbers), description="reading episode metadata"):
            group = file[f"episode_{number}"]
            attributes = dict(group.attrs)
            length = len(dataset_at(group, "rewards", path))
            if int(attributes.get("total_steps", length)) != length or length < 1:
                raise DatasetError(
                    f"{path}: key 'episode_{number}': expected {attributes.get('total_steps')} rewards, found {length}"
                )
            lengths.append(length)
            ends.append([_last_flag(group, key, path) for key in ("terminations", "truncations")])
            returns.append(attributes.get("rewards_sum"))
            labels.append(attributes.get("upweight_label"))
    sizes = np.array(lengths, np.int64)

    def column(field: str, skip: int) -> Column:
        keys = [f"episode_{number}/{field}" for number in numbers]
        with open_hdf5(path) as file:
            leaves = _leaves(file, keys[0], observation_key if field == "observations" else None, path)
            space = field_space(metadata, field, leaves[0])
            is_image = len(leaves) == 1 and _is_encoded_image(dataset_at(file, keys[0] + leaves[0], path), space)
        if is_image:
            opened = partial(_open_images, path, [key + leaves[0] for key in keys], skip=skip)
        else:
            opened = partial(open_episodes, path, keys, leaves=leaves, skip=skip)
        return EpisodesColumn(sizes, opened, key=field, source=str(path))

    return Storage(sizes, np.array(ends, bool), returns, labels, column)


def _episode_numbers(file: Group, path: Path) -> list[int]:
    numbers = sorted(int(name[8:]) for name in file if name.startswith("episode_") and name[8:].isdecimal())
    if not numbers:
        raise DatasetError(f"{path}: expected groups episode_0, episode_1, ..., found none")
    return numbers


def _last_flag(group: Group, key: str, path: Path) -> bool:
    node = dataset_at(group, key, path)
    if node.ndim != 1 or len(node) == 0:
        raise DatasetError(f"{path}: key '{group.name}/{key}': expected one flag per step, found shape {node.shape}")
    return bool(node[-1])


def _leaves(file: Group, key: str, wanted: str | None, path: Path) -> list[str]:
    """Where the arrays of a field lie under its key: just there, or under the entries of a dictionary."""
    node = file.get(key)
    if node is None:
        raise DatasetError(f"{path}: missing key {key!r}")
    if not isinstance(node, Group):
        return [""]
    found = [f"/{name}" for name in node.arrays() if wanted in (None, name)]
    if not found:
        raise DatasetError(
            f"{path}: key {key!r}: expected {wanted or 'arrays'} inside, found {', '.join(node) or 'nothing'}"
        )
    return found


def _is_encoded_image(node: Any, space: dict[str, Any] | None) -> bool:
    """Whether an array holds encoded images (a JPEG per step): its space has more axes than it has."""
    if node.dtype.kind == "O":
        return True
    return space is not None and node.dtype == np.uint8 and node.ndim < len(space.get("shape", ())) + 1


@contextmanager
def _open_images(path: Path, keys: Sequence[str], *, skip: int) -> Iterator[ReadEpisode]:
    with open_hdf5(path) as file:

        def read(number: int, rows: Index) -> Array:
            node = dataset_at(file, keys[number], path)
            return np.stack([_decode_image(node[row + skip], path) for row in rows.tolist()])

        yield read


def _decode_image(data: Any, path: Path) -> NDArray[np.uint8]:
    image_module = require("PIL.Image", extra="minari", purpose="reading Minari datasets with images")
    with reading(path, "an encoded image"):
        return np.asarray(image_module.open(io.BytesIO(bytes(data))), np.uint8)


# ---- Arrow and Parquet --------------------------------------------------------------------------------------------------
def _arrow_storage(folder: Path, metadata: Metadata, observation_key: str | None) -> Storage:
    """A table has T + 1 rows; only the observation of the last one is real."""
    storage = _arrow_format(folder, metadata)
    episodes = _episode_folders(folder)
    lengths, ends, returns, labels = [], [], [], []
    for episode in track(episodes, total=len(episodes), description="reading episode metadata"):
        table = _table(episode, storage, ["rewards", "terminations", "truncations"])
        length = table.num_rows - 1
        if length < 1:
            raise DatasetError(f"{episode}: expected at least one step, found none")
        lengths.append(length)
        ends.append([bool(table.column(key)[length - 1].as_py()) for key in ("terminations", "truncations")])
        about = _episode_metadata(episode)
        returns.append(about.get("rewards_sum"))
        labels.append(about.get("upweight_label"))
    sizes = np.array(lengths, np.int64)

    def column(field: str, skip: int) -> Column:
        key = observation_key if field == "observations" else None
        space = field_space(metadata, field)
        opened = partial(_open_tables, episodes, storage, field, space=space, key=key, skip=skip)
        return EpisodesColumn(sizes, opened, key=field, source=str(folder))

    return Storage(sizes, np.array(ends, bool), returns, labels, column)


def _arrow_format(folder: Path, metadata: Metadata) -> str:
    storage = str(metadata.get("data_format", "arrow"))
    if storage not in {"arrow", "parquet"}:
        raise DatasetError(f"{folder}: key 'data_format': expected hdf5, arrow or parquet, found {storage!r}")
    return storage


def _episode_folders(folder: Path) -> list[Path]:
    numbers = sorted(int(entry.name) for entry in folder.iterdir() if entry.is_dir() and entry.name.isdecimal())
    if not numbers:
        raise DatasetError(f"{folder}: expected episode folders 0, 1, ..., found none")
    return [folder / str(number) for number in numbers]


def _arrow_flag(episode: Path, storage: str, name: str) -> Any:
    about = _episode_metadata(episode)
    if name in about:
        return about[name]
    with reading(episode, f"key 'infos/{name}'"):
        source = _dataset(episode, storage)
        infos = [field.name for field in source.schema.field("infos").type] if "infos" in source.schema.names else []
        if name not in infos:
            raise no_flags(episode, name, [*about, *infos])
        values = source.to_table(columns=["infos"]).column(0).combine_chunks().field(name)
        return np.any(to_numpy(values, key=name, path=episode))


def _dataset(episode: Path, storage: str) -> Any:
    dataset = require("pyarrow.dataset", **_ARROW)
    return dataset.dataset(str(episode), format=storage, ignore_prefixes=["_", ".", "metadata.json"])


def _table(episode: Path, storage: str, columns: list[str]) -> Any:
    """Some columns of one episode."""
    with reading(episode, "the episode's table"):
        source = _dataset(episode, storage)
        for fragment in source.get_fragments() if storage == "parquet" else ():
            check_columns(claimed_bytes(fragment.metadata), columns, Path(fragment.path))
        table = source.to_table(columns=columns)
        table.validate(full=True)  # Arrow believes the lengths and places that a file claims
        return table


@contextmanager
def _open_tables(
    episodes: Sequence[Path], storage: str, field: str, *, space: dict[str, Any] | None, key: str | None, skip: int
) -> Iterator[ReadEpisode]:
    def read(number: int, rows: Index) -> Array:
        low, high = int(rows[0]), int(rows[-1]) + 1
        table = _table(episodes[number], storage, [field])
        with reading(episodes[number], f"key {field!r}"):
            values = table.column(0).combine_chunks()
            part = _decode(values.slice(low + skip, high - low), space, key, episodes[number])
            return part if len(rows) == high - low else part[rows - low]

    yield read


def _decode(values: Any, space: dict[str, Any] | None, key: str | None, path: Path) -> NDArray[Any]:
    """An Arrow array as NumPy: vectors folded by their space, images decoded, dictionaries laid side by side."""
    pa = require("pyarrow", **_ARROW)
    if pa.types.is_struct(values.type):
        inner = (space or {}).get("subspaces", {})
        names = [field.name for field in values.type] if key is None else [key]
        spaces = inner if isinstance(inner, dict) else {str(i): entry for i, entry in enumerate(inner)}
        parts = [_decode(values.field(name), spaces.get(name), None, path) for name in sorted(names)]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)
    if pa.types.is_binary(values.type):
        return np.stack([_decode_image(item.as_py(), path) for item in values])
    array = to_numpy(values, key=path.name, path=path)
    shape = (space or {}).get("shape")
    return array.reshape(len(array), *shape) if shape is not None and array.ndim == 2 else array


def _episode_metadata(episode: Path) -> dict[str, Any]:
    path = episode / "metadata.json"
    if not path.is_file():
        return {}
    with reading(path, "the episode's metadata"):
        metadata = json.loads(path.read_text("utf-8"))
        return metadata if isinstance(metadata, dict) else {}
