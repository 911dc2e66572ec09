"""TorchRL: a sampler that draws the rows of a replay buffer by episode weights, and a storage that is a dataset.

::

    steps of the dataset   0  1  2 | 3  4 | 5  6  7       an episode's last step is left out if it leads to
    can be learned         *  *  * | *  ? | *  *  ?       an unknown observation (?)
    rows of the storage    0  1  2 | 3    | 4  5          what `DatasetStorage` gathers and the sampler draws

A storage made elsewhere (`MinariExperienceReplay`, a memory-mapped folder) holds nothing but transitions, so its rows are the
steps of the dataset that `to_dataset` reads from it.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from upweight.adapters.draws import Draws, GivenWeighting, episode_weights, one_or_pair
from upweight.adapters.host import imports_from
from upweight.adapters.torch_states import as_arrays, as_tensors
from upweight.adapters.transition_rows import TransitionRows
from upweight.base.errors import AdapterError
from upweight.base.files import read_json, write_json
from upweight.data.columns import ArrayColumn
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.segment import Episodes, segment, segment_by_id
from upweight.io.format import comes_from
from upweight.samplers.episode import EpisodeSampler

with imports_from("torchrl", extra="torchrl", oldest="0.14", below="1"):
    import torch
    from torchrl.data import ReplayBuffer
    from torchrl.data.replay_buffers.samplers import Sampler
    from torchrl.data.replay_buffers.storages import Storage, TensorStorage

Key = str | tuple[str, ...]  # TorchRL's nested keys

_TRAJECTORY_KEYS: tuple[Key, ...] = ("episode", ("collector", "traj_ids"))
_DONE: Key = ("next", "done")
_GENERATOR_FILE, _EPISODES_FILE, _ACTOR_FILE, _ROWS_FILE = "generator.json", "episodes.npz", "actor.npz", "rows.json"


class WeightedEpisodeSampler(Sampler):
    r"""Rows of a storage, each drawn with probability :math:`w_i / \sum_j w_j T_j`, :math:`i` being the row's episode.

    ``source`` is the dataset of a :class:`DatasetStorage`, or of whoever lays out the same transitions in the same order
    (:func:`to_tensordict`); or the replay buffer, storage or tensordict itself, read by :func:`to_dataset`. ``weighting`` is a
    weighting, its name, a function of the dataset, or episode weights [N]. The draws follow ``seed`` alone, not the buffer's
    generator. With an ``actor_weighting``, a batch holds the critics' rows and then as many of the actor's:
    ``critic, actor = buffer.sample().reshape(2, -1)``.
    """

    def __init__(
        self,
        source: "AnyDataset | ReplayBuffer | Storage",
        weighting: GivenWeighting,
        *,
        actor_weighting: GivenWeighting | None = None,
        seed: int = 0,
    ) -> None:
        is_theirs = comes_from(source, "torchrl") or comes_from(source, "tensordict")
        dataset = to_dataset(source) if is_theirs else as_dataset(source)
        sizes, ended = dataset.num_transitions, dataset.episodes.terminated | dataset.episodes.truncated

        def sampler(given: GivenWeighting) -> EpisodeSampler:
            return EpisodeSampler.from_lengths(sizes, episode_weights(dataset, given))

        self._draws = Draws(one_or_pair(sampler, weighting, actor_weighting), seed)
        self._last_rows = _last_rows(sizes)  # of the episodes that have rows
        whole = ended & (sizes == dataset.lengths)  # [N] every step of the episode is a row, and the last one says so
        self._end_rows = (np.cumsum(sizes) - 1)[whole]
        self._num_rows = int(sizes.sum())
        self._await_rows()
        if isinstance(source, ReplayBuffer | Storage):
            self._unwritten = 0  # what was weighted is there already

    def sample(self, storage: Storage, batch_size: int) -> tuple[torch.Tensor, dict[str, Any]]:
        """``batch_size`` row numbers, drawn independently; refused once the storage is not what was weighted.

        Twice as many where an actor draws apart, in one line: TorchRL's sample units take nothing else.
        """
        if len(storage) != self._num_rows or self._unwritten < 0:
            raise self._changed(len(storage))
        if not self._agrees:
            self._check_layout(storage)
        index = torch.from_numpy(self._draws.rows(int(batch_size)).reshape(-1))  # [batch_size] or [2 batch_size]
        return index.to(getattr(storage, "device", None)), {}

    def add(self, index: Any) -> None:
        """The buffer tells that it wrote one row."""
        self._unwritten -= 1

    def extend(self, index: Any) -> None:
        """The buffer tells that it wrote these rows."""
        self._unwritten -= len(index)

    def state_dict(self) -> dict[str, Any]:
        """Episodes, weights and the state of the generator, as tensors, numbers and names."""
        return as_tensors(self._draws.state_dict())

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from where :meth:`state_dict` was called, on a storage of the same episodes."""
        self._draws.load_state_dict(as_arrays(state_dict))
        self._await_rows()

    def dumps(self, path: str | Path) -> None:
        """Write the state into the folder ``path``: a JSON file, and an array file for each learner."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        weights = self._draws.weights_state()
        np.savez(folder / _EPISODES_FILE, **weights["sampler"])
        if "actor" in weights:
            np.savez(folder / _ACTOR_FILE, **weights["actor"]["sampler"])
        (folder / _GENERATOR_FILE).write_text(json.dumps(self._draws.position()) + "\n", "utf-8")

    def loads(self, path: str | Path) -> None:
        """Go on from what :meth:`dumps` wrote."""
        folder = Path(path)
        missing = [name for name in (_GENERATOR_FILE, _EPISODES_FILE) if not (folder / name).is_file()]
        if missing:
            raise AdapterError(f"{folder}: expected what this sampler's dumps() writes, found no {missing[0]}")
        state = json.loads((folder / _GENERATOR_FILE).read_text("utf-8"))
        state["sampler"] = _arrays(folder / _EPISODES_FILE)
        if "actor" in state:
            state["actor"]["sampler"] = _arrays(folder / _ACTOR_FILE)
        self._draws.load_state_dict(state)
        self._await_rows()

    def __repr__(self) -> str:
        return f"WeightedEpisodeSampler({len(self._last_rows)} episodes, {self._num_rows} rows)"

    def _empty(self) -> None:
        """The buffer was emptied; what is written into it again is counted."""

    def _await_rows(self) -> None:
        """Each row may be written once before the first batch, and none after it."""
        self._unwritten = self._num_rows
        self._agrees = False

    def _check_layout(self, storage: Storage) -> None:
        """Once: a storage of one dimension, whose episodes end where the weighted ones do."""
        if storage.ndim != 1:
            raise AdapterError(
                f"expected a storage with one row per transition, found one of {storage.ndim} dimensions: "
                "store the transitions in one dimension, episode after episode"
            )
        if isinstance(storage, DatasetStorage):
            self._check_ends(storage.last_rows)
        elif (flags := _flags(storage[:], _DONE)) is not None:
            self._check_ends(np.flatnonzero(flags))
        self._agrees = True
        self._unwritten = 0

    def _check_ends(self, done: NDArray[np.int64]) -> None:
        """The rows that are ``done`` are last rows of weighted episodes, and those of all episodes that must say so."""
        inside, unmarked = np.setdiff1d(done, self._last_rows), np.setdiff1d(self._end_rows, done)
        if len(inside) or len(unmarked):
            found = (
                f"row {inside[0]} is done in the middle" if len(inside) else f"row {unmarked[0]} is not done at the end"
            )
            raise AdapterError(
                f"expected the rows of the weighted episodes in their order, but {found} of a weighted episode: "
                "store to_tensordict(dataset), or weight the buffer itself"
            )

    def _changed(self, found: int) -> AdapterError:
        if found == self._num_rows:
            what = "rows that were written again or removed after weighting"
        else:
            what = f"{found:,} (rows were added or removed, or steps without a known next observation were stored)"
        return AdapterError(
            f"expected the {self._num_rows:,} rows that were weighted, found {what}: "
            "make a new sampler for the buffer as it is now"
        )


class DatasetStorage(TensorStorage):
    """The transitions of a dataset as R rows in TorchRL's layout, gathered when they are asked for: nothing is copied before.

    A row has observation, action, episode, and next: observation, reward, done, terminated, truncated. The last row of every
    episode is ``done``, as TorchRL's sequences need it. An episode whose last step is left out (see above) is therefore
    ``truncated`` at the row before: its next observation is known, and is bootstrapped from. Rows cannot be written. A state
    says how many there are, and leaves them where they lie.
    """

    supports_conditional_update = False

    def __init__(self, dataset: AnyDataset) -> None:
        self._rows = TransitionRows(dataset)
        looks = self._gather(np.zeros(1, np.int64)).to("meta")  # of a row, without any
        super().__init__(looks.expand(len(self._rows)))

    def __len__(self) -> int:
        return self.max_size

    def get(self, index: Any) -> Any:
        """The rows at a number, a slice, or numbers or a mask of any kind; or the flags ("next", "done") of all."""
        if isinstance(index, tuple) and len(index) == 1:  # the one coordinate of a row
            (index,) = index
        if isinstance(index, tuple) and index == _DONE:
            return self._done
        if isinstance(index, str | tuple):
            raise AdapterError(
                f"expected numbers of rows, or {_DONE}, found {index!r}: a column is not read as a whole; take it from some "
                "rows, storage[:100], or store to_tensordict(dataset)"
            )
        if isinstance(index, slice):
            return self._gather(np.arange(*index.indices(len(self))))
        rows = torch.as_tensor(index).cpu().numpy()
        if rows.dtype == bool:
            rows = np.arange(len(self))[rows]
        if rows.size and not (-len(self) <= rows.min() and rows.max() < len(self)):
            raise IndexError(f"expected rows from 0 to {len(self) - 1}, found {rows.min()} to {rows.max()}")
        found = self._gather(np.where(rows < 0, rows + len(self), rows).reshape(-1))
        return found if rows.ndim == 1 else found.reshape(rows.shape) if rows.ndim else found[0]

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> NoReturn:
        """Refused."""
        self._bump_mutation_revision()

    def state_dict(self) -> dict[str, Any]:
        """The number of rows."""
        return {"_len": len(self)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Refuses the state of a storage with another number of rows."""
        if state_dict.get("_len") != len(self):
            raise AdapterError(
                f"expected the state of a storage of {len(self):,} rows, found {state_dict.get('_len', 'none')}"
            )

    def dumps(self, path: str | Path) -> None:
        """Write the state into the folder ``path``."""
        Path(path).mkdir(parents=True, exist_ok=True)
        write_json(Path(path) / _ROWS_FILE, self.state_dict())

    def loads(self, path: str | Path) -> None:
        """Compare with what :meth:`dumps` wrote."""
        self.load_state_dict(read_json(Path(path) / _ROWS_FILE))

    def __repr__(self) -> str:
        return f"DatasetStorage({len(self)} rows of {self.dataset})"

    @property
    def dataset(self) -> Dataset:
        """What is stored."""
        return self._rows.dataset

    @property
    def last_rows(self) -> NDArray[np.int64]:
        """Of every episode that has rows."""
        return _last_rows(self.dataset.num_transitions)

    @cached_property
    def _done(self) -> torch.Tensor:  # [R, 1]; sequences ask for it with every batch
        done = torch.zeros(len(self), 1, dtype=torch.bool)
        done[torch.from_numpy(self.last_rows)] = True
        return done

    def _gather(self, rows: NDArray[np.int64]) -> Any:
        from tensordict import TensorDict

        batch, episode, done = self._rows.gather(rows)
        following = {
            "observation": batch.next_observations,
            "reward": batch.rewards[:, None],
            "done": done[:, None],
            "terminated": batch.terminated[:, None],
            "truncated": (done & ~batch.terminated)[:, None],
        }
        actions = batch.actions.astype(np.int64) if self.dataset.discrete_actions else batch.actions
        columns: dict[str, Any] = {"observation": batch.observations, "action": actions, "episode": episode}
        tensors = {key: torch.from_numpy(array) for key, array in columns.items()}  # three times as fast as tensordict
        tensors["next"] = {key: torch.from_numpy(array) for key, array in following.items()}
        return TensorDict(tensors, [len(rows)])

    def _empty(self) -> NoReturn:
        self._bump_mutation_revision()

    def _bump_mutation_revision(self) -> NoReturn:  # by whatever way TorchRL changes rows
        raise AdapterError(
            "expected rows to be read, and found an attempt to change them: a DatasetStorage is the dataset itself; put "
            "to_tensordict(dataset) into a storage of TorchRL's to have a copy that can be changed"
        )


def to_tensordict(dataset: AnyDataset) -> Any:
    """All rows of a :class:`DatasetStorage` in memory, as a tensordict [R]: what TorchRL's own storages can be filled with."""
    return DatasetStorage(dataset)[:]


def to_dataset(
    source: "ReplayBuffer | Storage | Any",
    *,
    observation: Key = "observation",
    action: Key = "action",
    trajectory: Key | None = None,
) -> Dataset:
    """The dataset that lies in a replay buffer, a storage or a tensordict [R] in TorchRL's layout; row r is step r.

    Episodes are told apart by the ``trajectory`` key (unless named: "episode" or ("collector", "traj_ids"), where there is
    one), else by ("next", "done"). Episodes that end without being done count as incomplete. Of a :class:`DatasetStorage`
    it is the dataset itself.
    """
    storage = source.storage if isinstance(source, ReplayBuffer) else source
    if isinstance(storage, DatasetStorage):
        return storage.dataset
    data = _tensordict_of(source)
    name = f"the {type(source).__name__}"
    nexts = ("next", *(observation if isinstance(observation, tuple) else (observation,)))
    rewards = _required(data, ("next", "reward"), name)
    if rewards.size != len(data):
        raise AdapterError(f"{name}: expected one reward per row, found shape {rewards.shape}")
    return Dataset.assemble(
        episodes=_episodes(data, trajectory, name),
        observations=ArrayColumn(_required(data, observation, name)),
        actions=ArrayColumn(_required(data, action, name)),
        rewards=ArrayColumn(rewards.reshape(len(data))),
        next_observations=ArrayColumn(_required(data, nexts, name)),
        source=name,
    )


def _tensordict_of(source: Any) -> Any:
    """The rows of ``source``, in the order in which they were written."""
    from tensordict import is_tensor_collection

    found = type(source).__name__
    if isinstance(source, ReplayBuffer):
        if source.stats()["write_count"] > len(source):
            raise AdapterError(
                f"expected a {found} that keeps every row it was given, found {len(source):,} rows left of "
                f"{source.stats()['write_count']:,}: episodes were overwritten in part; make the storage larger"
            )
        source = source.storage
    if isinstance(source, Storage):
        if len(source) == 0:
            raise AdapterError(f"expected a {found} with rows to weight, found it empty: fill it first")
        source = source[:]
    if not is_tensor_collection(source) or source.batch_dims != 1:
        shape = f" of batch size {list(source.batch_size)}" if is_tensor_collection(source) else ""
        raise AdapterError(
            f"expected an upweight Dataset, or a replay buffer, storage or tensordict with one row per transition, "
            f"found {found}{shape}"
        )
    return source


def _episodes(data: Any, trajectory: Key | None, name: str) -> Episodes:
    """Where the episodes of a tensordict lie and how they end. Every row is a transition: the next state is known."""
    done, terminated = _flags(data, _DONE), _flags(data, ("next", "terminated"))
    if terminated is None:
        terminated = np.zeros(len(data), bool) if done is None else done
    truncated = None if done is None else done & ~terminated
    if done is not None and not (done | terminated).any():
        raise AdapterError(
            f"{name}: expected rows that are done, found none among {len(data):,}: mark where episodes end "
            "(the MinariExperienceReplay of TorchRL 0.14.1 stores zeros: fill it with to_tensordict(dataset))"
        )
    key = trajectory or next((key for key in _TRAJECTORY_KEYS if data.get(key, None) is not None), None)
    if key is not None:
        ids = _required(data, key, name).reshape(len(data))
        return segment_by_id(ids, terminated, truncated, next_known=True, source=name)
    if done is None:
        raise AdapterError(f"{name}: expected {_DONE} or 'episode' to tell episodes apart, found {_keys(data)}")
    return segment(terminated, truncated, next_known=True, source=name)


def _flags(data: Any, key: Key) -> NDArray[np.bool_] | None:
    """[R] or None if there are none."""
    column = data.get(key, None) if hasattr(data, "batch_dims") else None
    return None if column is None else np.asarray(column.cpu()).astype(bool).reshape(len(data))


def _required(data: Any, key: Key, name: str) -> NDArray[Any]:
    column = data.get(key, None)
    if not isinstance(column, torch.Tensor):
        raise AdapterError(f"{name}: expected a tensor {key!r}, found {_keys(data)}")
    return column.detach().cpu().numpy()


def _keys(data: Any) -> str:
    return ", ".join(sorted(str(key) for key in data.keys(include_nested=True, leaves_only=True)))


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def _last_rows(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The last row of every episode that has rows, for episodes of ``sizes`` [N] rows, one after the other."""
    return np.cumsum(sizes)[sizes > 0] - 1
