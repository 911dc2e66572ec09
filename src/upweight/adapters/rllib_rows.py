"""Rows as RLlib has them, one for every transition: read from its files, or gathered from a dataset, and written.

Nothing of RLlib is imported at the top: the names of its columns are all that is needed of it.
"""

import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.adapters.transition_rows import TransitionRows
from upweight.base.errors import AdapterError, DataLossWarning
from upweight.base.files import atomic_target
from upweight.base.progress import track
from upweight.data.columns import ArrayColumn
from upweight.data.dataset import Dataset
from upweight.data.mix import concat
from upweight.data.segment import segment_by_id
from upweight.data.validate import as_flags, as_rewards
from upweight.io.loading import load
from upweight.io.packed import is_packed

Columns = dict[str, NDArray[Any]]  # [R, ...] under RLlib's own names

EPISODE, OBSERVATIONS, ACTIONS, REWARDS, NEXT = "eps_id", "obs", "actions", "rewards", "new_obs"
TERMINATED, TRUNCATED = "terminateds", "truncateds"
LEARNED = (OBSERVATIONS, ACTIONS, REWARDS, NEXT, TERMINATED, TRUNCATED)  # what a learner takes of a row
_BLOCK_BYTES = 1 << 25  # of rows that are written at a time


@dataclass(frozen=True)
class ArrayRows:
    """Rows that lie in memory."""

    columns: Columns

    def __len__(self) -> int:
        return len(self.columns[REWARDS])

    def take(self, index: NDArray[np.integer]) -> Columns:
        """Rows ``index`` [B]."""
        return {name: column[index] for name, column in self.columns.items()}

    def as_learned(self, known: Collection[str]) -> "ArrayRows | None":
        """What a learner takes of them; None if they have more columns than those ``known``."""
        return None if set(self.columns) - set(known) else ArrayRows({name: self.columns[name] for name in LEARNED})


class DatasetRows(TransitionRows):
    """The transitions of a dataset, gathered when they are drawn; in another process, from the same files."""

    def take(self, index: NDArray[np.integer]) -> Columns:
        """Rows ``index`` [B]."""
        return self.with_episodes(index)[0]

    def with_episodes(self, index: NDArray[np.integer]) -> tuple[Columns, NDArray[np.int64]]:
        """Rows ``index`` [B], and the numbers of their episodes [B]."""
        steps, episode, last = self.gather(index)
        truncated = last & self.dataset.episodes.truncated[episode]
        values = (
            steps.observations,
            steps.actions,
            steps.rewards,
            steps.next_observations,
            steps.terminated,
            truncated,
        )
        return dict(zip(LEARNED, values, strict=True)), episode

    def as_learned(self, known: Collection[str]) -> "DatasetRows":
        """They have nothing else."""
        return self


# ---- written ----------------------------------------------------------------------------------------------------------
def write_parquet(dataset: Dataset, path: str | Path) -> list[str]:
    """Write the transitions of a dataset, some at a time, as a Parquet file of rows that RLlib reads: ``input_=[path]``.

    Returns what such rows cannot express, and warns about it. Images and other arrays keep their shape.
    """
    from pyarrow import array, parquet, table
    from ray.data.extensions import ArrowTensorArray

    rows, name = DatasetRows(dataset), Path(path).stem

    def column(values: NDArray[Any]) -> Any:
        return array(values) if values.ndim == 1 else ArrowTensorArray.from_numpy(np.array(values))

    def block(first: int, last: int) -> Any:
        columns, episode = rows.with_episodes(np.arange(first, last))
        numbers, of_row = np.unique(episode, return_inverse=True)
        ids = array([f"{name}-{number}" for number in numbers.tolist()]).take(array(of_row))
        return table({EPISODE: ids, **{key: column(values) for key, values in columns.items()}})

    size = max(1, _BLOCK_BYTES // sum(values.nbytes for values in rows.take(np.zeros(1, np.int64)).values()))
    starts = range(0, len(rows), size)
    with atomic_target(Path(path)) as target, parquet.ParquetWriter(target, block(0, 1).schema) as writer:
        for first in track(starts, total=len(starts), description="writing rows"):
            writer.write_table(block(first, min(first + size, len(rows))))
    lost = _lost(dataset)
    if lost:
        warnings.warn(f"{path}: RLlib's rows do not keep {'; '.join(lost)}", DataLossWarning, stacklevel=2)
    return lost


def _lost(dataset: Dataset) -> list[str]:
    episodes = dataset.episodes
    lost = []
    if (dropped := int((dataset.num_transitions < dataset.lengths).sum())) > 0:
        lost.append(f"the last step (and its reward) of {dropped} episodes, whose next observation is unknown")
    if (cut := int((~episodes.complete & (episodes.terminated | episodes.truncated)).sum())) > 0:
        lost.append(f"that {cut} ended episodes were declared incomplete")
    return lost


# ---- read -------------------------------------------------------------------------------------------------------------
def packed_dataset(config: Any) -> Dataset | None:
    """What lies in ``config.input_``, if that is folders that ``upweight pack`` wrote; None if RLlib is to read it."""
    others = [path for path in _paths(config) if config.input_filesystem is not None or not is_packed(path)]
    datasets = [load(path.absolute()) for path in _paths(config) if path not in others]  # learners may be elsewhere
    if datasets and others:
        raise AdapterError(f"expected packed folders alone, or none, found {others[0]} among them: pack it too")
    return None if others else concat(datasets) if len(datasets) > 1 else datasets[0]


def read_rows(data: Any, config: Any) -> tuple[ArrayRows, Dataset]:
    """The rows of ``config.input_``, which ``data`` of Ray reads: episode by episode, and as a dataset of the same steps."""
    return _episode_by_episode(_named_rows(data, config), source=str(config.input_))


def _paths(config: Any) -> list[Path]:
    return [Path(path) for path in (config.input_ if isinstance(config.input_, list) else [config.input_])]


def _named_rows(data: Any, config: Any) -> Columns:
    """The columns of data with a row per step, under RLlib's own names."""
    from ray.rllib.offline.offline_prelearner import SCHEMA

    own_name = {given: own for own, given in {**SCHEMA, **config.input_read_schema}.items()}
    blocks = _blocks(data, config)
    if not blocks:
        raise AdapterError(f"{config.input_}: expected at least one row, found none")
    rows = {own_name.get(name, name): _joined([block[name] for block in blocks]) for name in blocks[0]}
    if TERMINATED not in rows and "dones" in rows:
        rows[TERMINATED] = rows["dones"]
    needed = [EPISODE, OBSERVATIONS, ACTIONS, REWARDS, TERMINATED]
    if config.ignore_final_observation and OBSERVATIONS in rows:
        rows[NEXT] = np.zeros_like(rows[OBSERVATIONS])
    missing = [name for name in [*needed, NEXT] if name not in rows]
    if missing:
        raise AdapterError(
            f"{config.input_}: expected columns {', '.join([*needed, NEXT])}, found {', '.join(rows)}; "
            "name yours with input_read_schema"
        )
    rows.setdefault(TRUNCATED, np.zeros(len(rows[REWARDS]), bool))
    return rows


def _blocks(data: Any, config: Any) -> list[Columns]:
    """The columns of the data, block after block in the order of the files.

    Local Parquet files are read here: to start the processes with which Ray Data would do it takes seconds.
    """
    from pyarrow import parquet
    from ray.data.block import BlockAccessor

    paths = _paths(config)
    plain = config.input_read_method == "read_parquet" and not config.input_read_method_kwargs
    if plain and config.input_filesystem is None and all(path.exists() for path in paths):
        return [BlockAccessor.for_block(parquet.read_table(path)).to_numpy() for path in paths]
    data.context.execution_options.preserve_order = True  # else blocks come as they are ready, and no seed helps
    return list(data.iter_batches(batch_size=None, batch_format="numpy"))


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The blocks of a column; vectors that Arrow keeps as lists become one array, whatever has no common shape stays."""
    column = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if column.dtype != object or len(column) == 0 or not isinstance(column[0], np.ndarray):
        return column
    return np.stack(list(column)) if len({np.shape(row) for row in column}) == 1 else column


def _episode_by_episode(rows: Columns, *, source: str) -> tuple[ArrayRows, Dataset]:
    """The rows of each episode together, in the order in which episodes first appear; and the same rows as a dataset."""
    for name in (OBSERVATIONS, ACTIONS, NEXT):
        if rows[name].dtype.kind not in "biuf":
            raise AdapterError(
                f"{source}: column {name!r}: expected arrays of one shape, found {type(rows[name][0]).__name__} objects; "
                "compressed columns and dictionaries cannot be read (record with output_compress_columns=[])"
            )
    ids = np.asarray(rows[EPISODE]).astype(str).astype(object)
    _, first, of_row = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first[of_row], kind="stable")
    if (np.diff(order) != 1).any():
        rows = {name: column[order] for name, column in rows.items()}
    count = len(ids)
    terminated = as_flags(rows[TERMINATED], key=TERMINATED, num_steps=count, source=source)
    truncated = as_flags(rows[TRUNCATED], key=TRUNCATED, num_steps=count, source=source)
    rewards = as_rewards(rows[REWARDS], key=REWARDS, num_steps=count, source=source)
    return ArrayRows(rows), Dataset.assemble(
        episodes=segment_by_id(ids[order], terminated, truncated, next_known=True, source=source),
        observations=ArrayColumn(rows[OBSERVATIONS]),
        actions=ArrayColumn(rows[ACTIONS]),
        rewards=ArrayColumn(rewards),
        next_observations=ArrayColumn(rows[NEXT]),
        source=source,
    )
