r"""RLlib: offline data whose batches are drawn by episode weights; a class for ``config.offline_data(offline_data_class=...)``.

RLlib hands out rows in the order of the files and knows no weights. Here its reader brings all rows into memory once; those of
packed folders stay where they are. After that a row of a batch is step t of episode i with probability
:math:`w_i / \sum_j w_j T_j`, drawn afresh for every batch, and a learner gets what RLlib's own ``OfflinePreLearner`` makes of it:
of all rows in advance or, with ``materialize_mapped_data=False``, of the drawn ones. Where its connectors would only put columns
side by side, that is done here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from upweight.adapters.draws import Draws, GivenWeighting, episode_weights
from upweight.adapters.host import imports_from
from upweight.adapters.rllib_rows import (
    ArrayRows,
    Columns as _Columns,
    DatasetRows,
    packed_dataset,
    read_rows,
    write_parquet,
)
from upweight.base.errors import AdapterError
from upweight.base.progress import track
from upweight.samplers.episode import EpisodeSampler

with imports_from("ray", extra="rllib", oldest="2.55", below="3"):
    import ray
    import ray.data
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.connectors.learner import (
        AddColumnsFromEpisodesToTrainBatch,
        AddNextObservationsFromEpisodesToTrainBatch,
        AddObservationsFromEpisodesToBatch,
        AddStatesFromEpisodesToBatch,
        AddTimeDimToBatchAndZeroPad,
        BatchIndividualItems,
        NumpyToTensor,
    )
    from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_MODULE_ID
    from ray.rllib.core.columns import Columns
    from ray.rllib.env import INPUT_ENV_SPACES
    from ray.rllib.offline.offline_data import OfflineData
    from ray.rllib.offline.offline_prelearner import SCHEMA, OfflinePreLearner
    from ray.rllib.policy.sample_batch import MultiAgentBatch, SampleBatch
    from ray.rllib.utils.torch_utils import convert_to_torch_tensor

__all__ = ["WeightedOfflineData", "write_parquet"]

_Rows = ArrayRows | DatasetRows
_Tensors = dict[str, Any]  # "default_policy/obs" -> torch tensor [B, ...]


class WeightedOfflineData(OfflineData):
    """RLlib's offline data, drawn by episode weights: by return (RW) and with seed 0 unless :meth:`with_weighting` says more.

    ``dataset`` is what was read, as an :class:`upweight.Dataset` of N episodes.
    """

    _settings: ClassVar[tuple[GivenWeighting, int]] = ("rw", 0)

    @classmethod
    def with_weighting(cls, weighting: GivenWeighting, *, seed: int = 0) -> type["WeightedOfflineData"]:
        """The class for ``offline_data_class``.

        ``weighting``: a weighting, its short name ("rw"), a function of the dataset, or an array with a weight per episode
        (in the order in which episodes first appear in the files, or in which they were packed). The same ``seed`` gives the
        same batches.
        """
        return type(cls.__name__, (cls,), {"_settings": (weighting, seed), "__doc__": cls.__doc__})

    def __init__(self, config: AlgorithmConfig) -> None:
        for name in ("is_multi_agent", "input_read_episodes", "input_read_sample_batches"):
            if getattr(config, name):
                raise AdapterError(
                    f"expected data of a single agent with a row per step, found {name}=True; let RLlib record with "
                    "output_write_episodes=False and output_compress_columns=[], or see write_parquet"
                )
        reading, packed = config.copy(copy_frozen=False), packed_dataset(config)
        reading.materialize_data = False  # the rows are kept here, once is enough
        if packed is not None:  # nothing is left to RLlib's reader but to hold a list of names
            reading.offline_data(input_=[packed.source], input_read_method="from_items", input_read_method_kwargs={})
        super().__init__(reading)
        self.config = config
        self._rows: _Rows
        if packed is None:
            self._rows, self.dataset = read_rows(self.data, config)
        else:
            self._rows, self.dataset = DatasetRows(packed), packed
        weighting, self._seed = self._settings
        weights = episode_weights(self.dataset, weighting)
        self._draws = Draws(EpisodeSampler.from_lengths(self.dataset.num_transitions, weights), self._seed)
        self._local: _Batches | None = None
        self._remote: list[_Stream] = []

    def sample(
        self,
        num_samples: int,
        return_iterator: bool = False,
        num_shards: int = 1,
        module_state: dict[str, Any] | None = None,
    ) -> Any:
        """A batch of ``num_samples`` drawn rows, or a list of endless streams of batches: one for each remote learner."""
        if return_iterator and num_shards > 0:
            if len(self._remote) != num_shards:
                self._remote = self._remote_streams(num_shards, module_state)
            return self._remote
        if self._local is None:
            fresh = None if self.learner_handles is None else self._module_state
            self._local = _Batches(self._source(module_state), self._draws, fresh)
        batches = self._local
        if return_iterator:
            return [_Stream(lambda: batches)]
        drawn = batches.draw(num_samples)
        columns = {name.removeprefix(f"{DEFAULT_MODULE_ID}/"): tensor.numpy() for name, tensor in drawn.items()}
        return MultiAgentBatch({DEFAULT_MODULE_ID: SampleBatch(columns)}, env_steps=num_samples)

    @property
    def weights(self) -> NDArray[np.float64]:
        """[N] of the episodes of ``dataset``."""
        return self._draws.sampler.state_dict()["weights"]

    def state_dict(self) -> dict[str, Any]:
        """Weights and the state of the generator, as arrays, whole numbers and names."""
        self._refuse_remote()
        return self._draws.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the draws from where :meth:`state_dict` was called on the same data."""
        self._refuse_remote()
        self._draws.load_state_dict(state)

    def _refuse_remote(self) -> None:
        if self._remote:
            raise AdapterError(
                f"the draws of {len(self._remote)} remote learners go on in their own processes and cannot be saved or "
                "restored; use num_learners=0 if you need that"
            )

    def _source(self, module_state: dict[str, Any] | None) -> "_Source":
        if self.module_spec is None:
            raise AdapterError("expected to be used by an RLlib algorithm, which says what module the rows are for")
        if self.module_spec.build().is_stateful():
            raise AdapterError(
                "expected a module without memory, found a stateful one: rows are drawn one by one, not as sequences"
            )
        config = self.config.copy(copy_frozen=False)
        config.input_read_schema = {}  # the rows are as RLlib names them by now
        spaces = self.spaces[INPUT_ENV_SPACES]
        plain = self._rows.as_learned(SCHEMA)
        if plain is not None and self.prelearner_class is OfflinePreLearner and _only_gathers(config, spaces):
            return _Source(plain)
        prelearner = partial(
            self.prelearner_class,
            config=config,
            spaces=spaces,
            module_spec=self.module_spec,
            module_state=module_state or self._module_state(),
        )
        if config.materialize_mapped_data:
            size = self.data_read_batch_size or config.train_batch_size_per_learner
            return _Source(_mapped(self._rows, prelearner(), size))
        return _Source(self._rows, prelearner, config.prelearner_module_synch_period)

    def _module_state(self) -> Any:
        """The learner's module as it is now, for connectors that ask it for values."""
        if self.learner_handles is None:
            return None
        get_state = self.learner_handles[0].get_state
        if self.config.num_learners == 0:
            return get_state(components=COMPONENT_RL_MODULE)[COMPONENT_RL_MODULE]
        return ray.get(get_state.remote(components=COMPONENT_RL_MODULE))[COMPONENT_RL_MODULE]

    def _remote_streams(self, count: int, module_state: dict[str, Any] | None) -> "list[_Stream]":
        source = ray.put(self._source(module_state))
        sampler = self._draws.sampler.state_dict()
        seeds = np.random.SeedSequence(self._seed).spawn(count)
        return [_Stream(partial(_open_batches, source, sampler, seed)) for seed in seeds]


@dataclass(frozen=True)
class _Source:
    """What batches are made of, wherever they are made."""

    rows: _Rows  # as a learner takes them or, if there is a pre-learner, as that does
    prelearner: Callable[[], OfflinePreLearner] | None = None  # makes one
    period: int = 1  # batches after which it gets the module that has learned since


class _Batches:
    """Drawn rows as a learner takes them."""

    def __init__(self, source: _Source, draws: Draws, module_state: Callable[[], Any] | None) -> None:
        self._rows, self._period, self._draws, self._module_state = source.rows, source.period, draws, module_state
        self._prelearner: Any = None if source.prelearner is None else source.prelearner()
        self._made = 0
        self.num_rows = len(source.rows)

    def draw(self, count: int) -> _Tensors:
        index = self._draws.rows(count)
        drawn = self._rows.take(index)
        if self._prelearner is None:
            return {f"{DEFAULT_MODULE_ID}/{name}": convert_to_torch_tensor(column) for name, column in drawn.items()}
        if self._module_state is not None and self._made and self._made % self._period == 0:
            _set_module_state(self._prelearner, self._module_state())
        self._made += 1
        return _prepared(self._prelearner, drawn)


class _Stream:
    """What a learner iterates over in place of a ``ray.data.DataIterator``."""

    def __init__(self, batches: Callable[[], _Batches]) -> None:
        self._batches = batches  # called where the learner is

    def iter_torch_batches(self, *, batch_size: int, device: Any = None, **_: Any) -> "_Epochs":
        return _Epochs(self._batches(), batch_size, device)


@dataclass(frozen=True)
class _Epochs:
    """Each iteration is an epoch: as many draws as there are rows. The next one goes on with other draws."""

    batches: _Batches
    batch_size: int
    device: Any

    def __iter__(self) -> Iterator[_Tensors]:
        for _ in range(max(1, self.batches.num_rows // self.batch_size)):
            yield {name: tensor.to(self.device) for name, tensor in self.batches.draw(self.batch_size).items()}


def _open_batches(source: Any, sampler: dict[str, Any], seed: np.random.SeedSequence) -> _Batches:
    """In the process of a remote learner; its module stays, for values, what it was at the start, as in RLlib."""
    return _Batches(ray.get(source), Draws(EpisodeSampler.from_state_dict(sampler), seed), None)


def _mapped(rows: _Rows, prelearner: OfflinePreLearner, size: int) -> ArrayRows:
    """All rows as a learner takes them, ``size`` at a time."""
    count = len(rows)
    starts = track(range(0, count, size), total=-(-count // size), description="mapping rows")
    parts = [_prepared(prelearner, rows.take(np.arange(at, min(at + size, count)))) for at in starts]
    mapped = {
        name.removeprefix(f"{DEFAULT_MODULE_ID}/"): np.concatenate([part[name].numpy() for part in parts])
        for name in parts[0]
    }
    if any(len(column) != count for column in mapped.values()):
        raise AdapterError(
            f"expected learner connectors that make {count:,} rows of {count:,}, found "
            f"{', '.join(f'{len(column):,} {name}' for name, column in mapped.items())}; set materialize_mapped_data=False"
        )
    return ArrayRows(mapped)


# ---- RLlib's inside: what its parts do, where that is known or done here instead ------------------------------------------
# Of rows that are one step each, learner connectors made of these alone put the columns side by side and nothing else.
_GATHERING = {
    AddColumnsFromEpisodesToTrainBatch,
    AddNextObservationsFromEpisodesToTrainBatch,
    AddObservationsFromEpisodesToBatch,
    AddStatesFromEpisodesToBatch,
    AddTimeDimToBatchAndZeroPad,
    BatchIndividualItems,
    NumpyToTensor,
}


def _only_gathers(config: AlgorithmConfig, spaces: Any) -> bool:
    """Whether RLlib's own pre-learner would do nothing but put the columns of plain rows side by side."""
    return {type(piece) for piece in config.build_learner_connector(*spaces).connectors} <= _GATHERING


def _prepared(prelearner: OfflinePreLearner, rows: _Columns) -> _Tensors:
    """What RLlib makes of rows, without the extra steps that carry the value after a row and are masked out of the loss."""
    separate = np.arange(len(rows[Columns.REWARDS])).astype(str)  # a row drawn twice is two rows, not one episode
    batch = prelearner({**rows, Columns.EPS_ID: separate})
    mask = batch.get(f"{DEFAULT_MODULE_ID}/{Columns.LOSS_MASK}")
    return batch if mask is None else {name: tensor[mask] for name, tensor in batch.items()}


def _set_module_state(prelearner: OfflinePreLearner, state: Any) -> None:
    """Let a pre-learner ask the module that has learned since."""
    prelearner._module.set_state(state)
