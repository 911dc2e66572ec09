"""What RLlib records: Parquet files of episodes or of rows, and JSON lines of sample batches.

::

    Parquet   item                                   an episode, or a piece of one, in msgpack: what RLlib writes by itself
              eps_id, obs, actions, rewards, ...     a row per step (output_write_episodes=False)
    JSON      {"type": "SampleBatch", "obs": ...}    columns of some steps per line

All three become one table of steps, so pieces of an episode may lie anywhere: they are put together by ``eps_id`` and ``t`` or,
without, in the order of the files. Unless it is told how many rows a file may have, RLlib writes all that it has recorded again
into a new folder each time (run-000001-00001, -00002, ...): of folders that begin with all of the one before, the last is read.

Compressed columns are pickled and are refused; so is everything of several agents.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.optional import require
from upweight.base.progress import track
from upweight.data.dataset import Dataset
from upweight.data.validate import as_array
from upweight.io.arrow_tables import read_columns, schema_names, to_numpy
from upweight.io.format import Format, missing_key, reading, starts_with

Rows = dict[str, NDArray[Any]]  # a column [M, ...] per name
_BATCH = re.compile(rb'\s*\{\s*"type"\s*:\s*"(SampleBatch|MultiAgentBatch)"')
_ARRAYS = ("obs", "new_obs", "actions")
_COLUMNS = (*_ARRAYS, "eps_id", "t", "rewards", "terminateds", "dones", "truncateds")
_NEEDED = ("obs", "actions", "eps_id")
_PICKLED = (
    "is packed with pickle, which is never loaded: that can run anything. Record with output_compress_columns=[] (JsonWriter: "
    "compress_columns=[]) or, if you trust the file, open its columns with ray.rllib.utils.compression.unpack and give them "
    "to Dataset.from_frame"
)


def read(path: Path) -> Dataset:
    """All of it at once."""
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet")) or sorted(path.rglob("*.json"))
    if not files or not starts_with(files[0], b"PAR1"):
        rows = _join([_batch(line, file) for file in files for line in _lines(file)], path)
    elif "item" in schema_names(files[0]):
        rows = _join(_pieces(files), path)
    else:
        runs = [_run(list(group), path) for _, group in groupby(files, lambda file: file.parent)]
        rows = _join([run for run, later in pairwise([*runs, {}]) if not _begins(later, run)], path)
    return Dataset.from_frame(
        {"t": np.arange(len(rows["eps_id"])), **rows},
        observations="obs",
        actions="actions",
        rewards="rewards" if "rewards" in rows else None,
        next_observations="new_obs" if "new_obs" in rows else None,
        episode="eps_id",
        timestep="t",
        terminated=next((name for name in ("terminateds", "dones") if name in rows), None),
        truncated="truncateds" if "truncateds" in rows else None,
        source=str(path),
    )


def _join(parts: Sequence[Rows], path: Path) -> Rows:
    """One table of several, with the columns that all of them have."""
    if not parts:
        raise DatasetError(f"{path}: expected at least one step, found none")
    names = set.intersection(*(set(part) for part in parts))
    if missing := [name for name in _NEEDED if name not in names]:
        raise missing_key(path, missing[0], names)
    for name in names:
        if len({part[name].shape[1:] for part in parts}) > 1:
            raise DatasetError(f"{path}: key {name!r}: expected one shape in all episodes")
    return {name: np.concatenate([part[name] for part in parts]) for name in sorted(names)}


def _begins(later: Rows, run: Rows) -> bool:
    """Whether the later run begins with all rows of this one."""
    return all(name in later and np.array_equal(later[name][: len(run[name])], run[name]) for name in run)


# ---- Parquet ------------------------------------------------------------------------------------------------------------
def _run(files: list[Path], path: Path) -> Rows:
    return _join([_row_table(file) for file in track(files, total=len(files), description="reading rows")], path)


def _row_table(file: Path) -> Rows:
    with reading(file, "the table"):
        table = read_columns(file, [name for name in _COLUMNS if name in schema_names(file)])
        return {name: _column(table.column(name), table.schema.field(name), name, file) for name in table.column_names}


def _column(values: Any, field: Any, name: str, file: Path) -> NDArray[Any]:
    """A column of numbers [M, ...]; Ray keeps the shape of its tensors beside the flat numbers."""
    pa = require("pyarrow", extra="parquet", purpose="working with Parquet files")
    if name == "eps_id":
        return np.asarray(values.to_numpy())
    shape = (field.metadata or {}).get(b"ARROW:extension:metadata")
    if isinstance(field.type, pa.BaseExtensionType):  # Ray is imported, and so its types are known
        shape, values = field.type.__arrow_ext_serialize__(), pa.chunked_array([part.storage for part in values.chunks])
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        raise DatasetError(f"{file}: key {name!r}: {_PICKLED}")
    array = to_numpy(values, key=name, path=file)
    return array if shape is None else array.reshape(len(array), *json.loads(shape))


def _pieces(files: Sequence[Path]) -> list[Rows]:
    """Episodes, or pieces of them, each once."""
    msgpack = require("msgpack", extra="rllib", purpose="reading the episodes of RLlib")
    found = {}
    for file in track(files, total=len(files), description="reading episodes"):
        with reading(file, "the episodes"):
            for item in read_columns(file, ["item"]).column(0).to_pylist():
                state = msgpack.unpackb(item, object_hook=_decode, strict_map_key=False)
                found[state["id_"], state["t_started"]] = _steps(state, file)
    return [piece for piece in found.values() if len(piece["t"])]


def _decode(entry: dict[Any, Any]) -> Any:
    """Arrays and numbers as msgpack-numpy writes them; None in the place of objects, which it would have unpickled."""
    if b"nd" not in entry:
        return entry
    kind = entry[b"type"]
    if not isinstance(kind, str) or np.dtype(kind).hasobject:
        return None
    array = np.frombuffer(entry[b"data"], kind)
    return array.reshape(entry[b"shape"]) if entry[b"nd"] else array[0]


def _steps(state: dict[str, Any], file: Path) -> Rows:
    """The T steps of a piece: T + 1 observations, after what was seen before it began."""
    columns = {key: state[key]["data"][state[key]["lookback"] :] for key in ("observations", "actions", "rewards")}
    arrays = {
        key: as_array(column, key=key, source=f"{file}: episode {state['id_']}") for key, column in columns.items()
    }
    count = len(arrays["actions"])
    if len(arrays["observations"]) != count + 1 or len(arrays["rewards"]) != count:
        raise DatasetError(f"{file}: episode {state['id_']}: expected {count} rewards and {count + 1} observations")
    last = np.arange(count) == count - 1
    return {
        "obs": arrays["observations"][:-1],
        "new_obs": arrays["observations"][1:],
        "actions": arrays["actions"],
        "rewards": arrays["rewards"],
        "eps_id": np.full(count, str(state["id_"]), object),
        "t": int(state["t_started"]) + np.arange(count),
        "terminateds": last & bool(state["is_terminated"]),
        "truncateds": last & bool(state["is_truncated"]),
    }


# ---- JSON ---------------------------------------------------------------------------------------------------------------
def _lines(file: Path) -> Iterator[Any]:
    with reading(file, "the JSON lines"), file.open("rb") as lines:
        yield from map(json.loads, filter(bytes.strip, lines))


def _batch(batch: dict[str, Any], file: Path) -> Rows:
    """The columns of one sample batch."""
    with reading(file, "a sample batch"):
        policies = batch.get("policy_batches", {"": batch})
        if len(policies) != 1 or len(set(next(iter(policies.values())).get("agent_index", [0]))) > 1:
            raise DatasetError(f"{file}: expected the steps of one agent, found those of several")
        columns = {name: values for name, values in next(iter(policies.values())).items() if name in _COLUMNS}
        for name, values in columns.items():
            if isinstance(values, str):
                raise DatasetError(f"{file}: key {name!r}: {_PICKLED}")
        rows = {name: as_array(values, key=name, source=str(file)) for name, values in columns.items()}
        if len({array.shape[:1] for array in rows.values()}) != 1:
            raise DatasetError(f"{file}: expected as many values in all columns of a batch, found {', '.join(rows)}")
        return rows


def _is_rllib(path: Path) -> bool:
    """By the first file; RLlib's folder has one for the environment in it, and that has one for each run."""
    patterns = [f"{depth}*.{suffix}" for depth in ("", "*/", "*/*/") for suffix in ("parquet", "json")]
    file = path if path.is_file() else next((file for each in patterns for file in path.glob(each)), None)
    if file is None or not file.is_file():
        return False
    if starts_with(file, b"PAR1"):
        return bool(set(schema_names(file)) & {"eps_id", "item"})
    with file.open("rb") as stream:
        return _BATCH.match(stream.read(200)) is not None


FORMAT = Format(
    name="rllib",
    description="RLlib's recorded episodes or rows in Parquet, or its JSON",
    recognises=_is_rllib,
    read=read,
)
