"""The dataset: a flat, read-only log of steps and the episodes it falls into."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import finite_number, whole_number
from upweight.base.errors import DatasetError, naming_memory
from upweight.base.text import Shown
from upweight.data import table, trajectories, validate
from upweight.data.action_codes import as_discrete, check_codes
from upweight.data.columns import ArrayColumn, Column, GatheredColumn, ShiftedColumn, read_only
from upweight.data.endings import as_time_limits
from upweight.data.score import OF_REWARDS, reward_score, score_rewards
from upweight.data.segment import LAST, TERMINATED, TRAINABLE, Episodes
from upweight.data.success import NO_REWARDS, success_rewards

STORED = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "flags",
)  # names of columns; the last three may be missing
_MAPPINGS = ("columns", "metadata")  # fields that are read-only views, which cannot be pickled
_PER_EPISODE = ("_returns", "_initial_observations", "labels")  # fields that are arrays [N, ...] or None
_PIECE = 1 << 16  # steps that are looked at together


class Transitions(NamedTuple):
    """A batch of B transitions; ``terminated`` is True where the value of the next state is zero."""

    observations: NDArray[Any]  # [B, ...]
    actions: NDArray[Any]  # [B, ...]
    rewards: NDArray[Any]  # [B]; NaN if the log has none
    next_observations: NDArray[Any]  # [B, ...]
    terminated: NDArray[np.bool_]  # [B]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Shown):
    """N episodes, M steps; of :func:`upweight.load` or a ``from_...`` method. Arrays are read-only, and read when looked at.

    Examples:
        >>> ds.num_episodes, ds.num_steps, ds.subset(ds.labels == "expert").returns.tolist()
        (8, 24, [4.0, 5.0, 6.0, 7.0])
    """

    episodes: Episodes
    columns: Mapping[str, Column]  # [M, ...] each: what the log stores of its steps, under the names of STORED
    _returns: NDArray[np.float64] | None = None  # [N], where the file knows them already
    _initial_observations: NDArray[Any] | None = None  # [N, ...], likewise
    labels: NDArray[np.str_] | None = None  # [N] where each episode came from
    num_actions: int | None = None  # how many discrete actions there are, if known
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))  # JSON-able
    source: str = "dataset"  # named in error messages

    def __post_init__(self) -> None:
        for name in _MAPPINGS:
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for name in _PER_EPISODE:
            if (known := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_only(known))

    # ---- making one -------------------------------------------------------------------------------------------
    @classmethod
    def from_arrays(
        cls,
        *,
        observations: "ArrayLike | Column",
        actions: "ArrayLike | Column",
        rewards: ArrayLike | None,
        terminated: ArrayLike,
        truncated: ArrayLike | None = None,
        next_observations: "ArrayLike | Column | None" = None,
        labels: Sequence[str] | NDArray[np.str_] | None = None,
        complete: ArrayLike | None = None,
        final_known: ArrayLike | None = None,
        num_actions: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str = "dataset",
    ) -> "Dataset":
        """Cut flat arrays of M steps into N episodes at their end flags.

        Args:
            observations: [M, ...], what was seen before each action.
            actions: [M, ...]; whole numbers mean discrete actions.
            rewards: [M], or None if the data have none.
            terminated: [M] flags of the steps that ended in a terminal state.
            truncated: [M] flags of the steps that were cut off by a limit. They may be left out if some step is terminated.
            next_observations: [M, ...]; they make the last steps of truncated episodes trainable.
            labels: [N], where each episode comes from.
            complete: [N]; False: whoever collected the episode cut it short, so its return is not used.
            final_known: [N]; False: the next observation of the episode's last step is not known.
            num_actions: how many discrete actions there are, where there may be more than the data show.
            metadata: JSON-able facts about the data.
            source: what messages call the dataset.
        """
        parts = trajectories.from_arrays(
            observations, actions, rewards, terminated, truncated, next_observations, complete, final_known, source
        )
        return cls.assemble(**parts, labels=labels, num_actions=num_actions, metadata=metadata, source=source)

    @classmethod
    def from_episodes(
        cls,
        episodes: Iterable[Mapping[str, Any]],
        *,
        ends: str | None = None,
        num_actions: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str = "dataset",
    ) -> "Dataset":
        """Join episodes given one by one: mappings of arrays under the usual names (``data/trajectories.py`` has them all).

        ``observations`` (obs, states) [T, ...], or [T+1, ...] with the one after the last step, or ``next_observations``;
        ``actions`` (acts) [T, ...]; ``rewards`` (rews) [T], if any; ``terminated`` (terminals, dones) and ``truncated``
        (timeouts), a bool or [T] flags: without any, ``ends`` says which it is; ``label`` and ``complete``, if you like.
        """
        parts = trajectories.from_episodes(episodes, ends=ends, source=source)
        return cls.assemble(**parts, num_actions=num_actions, metadata=metadata, source=source)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        num_actions: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str = "frame",
        **layout: Unpack[table.TableLayout],
    ) -> "Dataset":
        """Read a table with one row per step: pandas, polars, Arrow, or any mapping of columns.

        ``observations``, ``actions`` and ``next_observations`` are a list of columns, or one name: the column of that name
        (which may hold vectors), else all columns ``name_...`` or ``name....`` in order. ``rewards``, ``episode`` (what tells
        episodes apart), ``timestep`` (what orders an episode's rows, which then need not stand together) and ``label`` are a
        column each, and so are the flags ``terminated`` and ``truncated``: an end that is neither is truncated if there are
        no ``truncated`` flags. Without ``terminated`` an episode's last row ends it, as ``ends`` says ("terminated" or
        "truncated"). ``missing_rewards="zero"`` takes empty rewards as 0, and "drop" leaves out episodes whose return is not
        known. ``categories`` are columns whose values are
        numbered (actions) or become columns of 0 and 1 (observations), sorted, or in the order of a mapping {column: values};
        ``metadata["categories"]`` keeps them. An empty next observation in an episode's last row is not known. Columns
        that nothing is said about are looked for under the usual names (observation_..., action, reward, episode, done, ...).
        """
        parts = table.from_frame(frame, layout, source=source)
        parts["metadata"] |= metadata or {}
        if num_actions is not None:
            parts["num_actions"] = num_actions
        return cls.assemble(**parts, source=source)

    @classmethod
    def assemble(
        cls,
        *,
        episodes: Episodes,
        observations: Column,
        actions: Column,
        rewards: "Column | NDArray[Any] | None",
        next_observations: Column | None = None,
        returns: NDArray[np.float64] | None = None,
        initial_observations: NDArray[Any] | None = None,
        flags: Column | None = None,
        labels: Sequence[str] | NDArray[np.str_] | None = None,
        num_actions: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        source: str = "dataset",
    ) -> "Dataset":
        """Put checked parts together; what formats use after reading them.

        Args:
            episodes: where the N episodes lie in the M steps, and how they end.
            observations: [M, ...].
            actions: [M, ...]; whole numbers mean discrete actions.
            rewards: [M], or None if there are none.
            next_observations: [M, ...], where they are stored; None: they are the observations of the following steps.
            returns: [N], where they are known; None: they are summed when somebody asks.
            initial_observations: [N, ...], where they are known; None: they are read when somebody asks.
            flags: [M] stored flags of the steps; None: they follow from the episodes.
            labels: [N], where each episode comes from.
            num_actions: how many discrete actions there are, if that is known.
            metadata: JSON-able facts about the data.
            source: what messages call the dataset.
        """
        if isinstance(rewards, np.ndarray):
            count = episodes.num_steps
            rewards = ArrayColumn(validate.as_rewards(rewards, key="rewards", num_steps=count, source=source))
        validate.check_columns(episodes, observations, actions, rewards, next_observations, source=source)
        num_actions, actions = as_discrete(num_actions, actions, source=source)
        given = (observations, actions, rewards, next_observations, flags)
        return cls(
            episodes=episodes,
            columns={name: column for name, column in zip(STORED, given, strict=True) if column is not None},
            _returns=returns,
            _initial_observations=initial_observations,
            labels=validate.as_labels(labels, num_episodes=len(episodes), source=source),
            num_actions=num_actions,
            metadata=validate.as_metadata(metadata, source=source),
            source=source,
        )

    # ---- episodes ---------------------------------------------------------------------------------------------
    @property
    def num_episodes(self) -> int:
        """N."""
        return len(self.episodes)

    @cached_property
    def num_steps(self) -> int:
        """M, all logged steps."""
        return self.episodes.num_steps

    @property
    def lengths(self) -> NDArray[np.int64]:
        """[N] logged steps of each episode."""
        return self.episodes.lengths

    @property
    def starts(self) -> NDArray[np.int64]:
        """[N] index of each episode's first step."""
        return self.episodes.starts

    @property
    def num_transitions(self) -> NDArray[np.int64]:
        """[N] steps of each episode that can be learned from (its first ones)."""
        return self.episodes.num_transitions

    @property
    def complete(self) -> NDArray[np.bool_]:
        """[N] False for episodes cut short by the collector, whose return means nothing."""
        return self.episodes.complete

    @cached_property
    def returns(self) -> NDArray[np.float64]:
        r"""[N] raw, undiscounted return :math:`G_i = \sum_t r_{i,t}` over all logged steps."""
        if self._returns is not None:
            return self._returns
        return read_only(validate.sum_rewards(self.rewards, self.starts, source=self.source))

    # ---- steps ------------------------------------------------------------------------------------------------
    @cached_property
    def observations(self) -> NDArray[Any]:
        """[M, ...]"""
        return self._checked("observations")

    @cached_property
    def actions(self) -> NDArray[Any]:
        """[M, ...]; whole numbers mean discrete actions."""
        actions = self._checked("actions")
        check_codes(actions, self.num_actions, source=self.source)
        return actions

    @cached_property
    def rewards(self) -> NDArray[Any]:
        """[M] as logged."""
        if not self.has_rewards:
            raise DatasetError(f"{self.source}: {NO_REWARDS}")
        return self._checked("rewards")

    @cached_property
    def next_observations(self) -> NDArray[Any]:
        """[M, ...]; at an end whose next observation is unknown, the last observation itself."""
        if "next_observations" in self.columns:
            return self._checked("next_observations")
        self.observations  # noqa: B018  (checked for NaN before it is shifted)
        with naming_memory(f"{self.source}: next_observations"):
            return ShiftedColumn(self.columns["observations"], self.episodes.last_steps).read()

    @cached_property
    def terminated(self) -> NDArray[np.bool_]:
        """[M] True on steps into a terminal state (only at the end of an episode)."""
        return read_only((self._flags.read() & TERMINATED) != 0)

    @cached_property
    def truncated(self) -> NDArray[np.bool_]:
        """[M] True on last steps of episodes stopped by a limit; never together with ``terminated``."""
        steps = np.zeros(self.num_steps, bool)
        steps[self.episodes.last_steps] = self.episodes.truncated
        return read_only(steps)

    @cached_property
    def trainable(self) -> NDArray[np.bool_]:
        """[M] False on last steps that lead to an unknown observation."""
        return read_only((self._flags.read() & TRAINABLE) != 0)

    @cached_property
    def initial_observations(self) -> NDArray[Any]:
        """[N, ...] first observation of each episode, read without the others where the file allows."""
        known = self._initial_observations
        if known is not None:
            self.check_files()  # they may lie in a map
        rows = self.columns["observations"].rows(self.starts) if known is None else known
        validate.check_finite(rows, key="observations", source=f"{self.source} (first observation of each episode)")
        return read_only(rows)

    @cached_property
    def next_observations_follow(self) -> bool:
        """Whether, inside episodes, the next observation of a step is the observation of the next step."""
        if "next_observations" not in self.columns:
            return True
        pieces = (np.arange(low, min(low + _PIECE, self.num_steps)) for low in range(0, self.num_steps, _PIECE))
        inside = (steps[(self.rows("flags", steps) & LAST) == 0] for steps in pieces)
        pairs = ((self.rows("next_observations", steps), self.rows("observations", steps + 1)) for steps in inside)
        return all(np.array_equal(ours, theirs) for ours, theirs in pairs)

    @property
    def has_rewards(self) -> bool:
        """Whether rewards were logged: without them, nothing can be weighted by return."""
        return "rewards" in self.columns

    @property
    def discrete_actions(self) -> bool:
        """Whether actions are whole numbers rather than real vectors."""
        return self.columns["actions"].dtype.kind in "biu"

    @property
    def unseen_actions(self) -> int:
        """How many discrete actions there are above the highest that was taken; 0 where ``num_actions`` is not known."""
        if self.num_actions is None:
            return 0
        highest = max(int(block.max()) for block in self.columns["actions"].blocks(0, self.num_steps, _PIECE))
        return self.num_actions - 1 - highest

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of one observation: (11,) for a vector of 11 numbers, () for a single number."""
        return self.columns["observations"].shape[1:]

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The shape of one action: (3,) for a vector of three numbers, () for a discrete choice."""
        return self.columns["actions"].shape[1:]

    @property
    def is_out_of_core(self) -> bool:
        """Whether observations stay in a memory-mapped file, whose rows are read as they are needed."""
        return self.columns["observations"].is_mapped

    def rows(self, name: str, index: NDArray[np.integer]) -> NDArray[Any]:
        """Rows ``index`` [B] of the column ``name``, one of ``STORED``: from a memory map, else from the checked array.

        "flags" are the bits of :meth:`Episodes.flags`. "next_observations" that the log does not store are the following ones.
        """
        if name == "flags":
            return self._flags.rows(index)
        if name == "next_observations" and name not in self.columns:
            name, index = "observations", index + ((self._flags.rows(index) & LAST) == 0)
        if name in self.columns and self.columns[name].is_mapped:
            return self.columns[name].rows(index)
        array: NDArray[Any] = getattr(self, name)
        return array.take(index, axis=0)

    def steps(self, index: NDArray[np.integer]) -> Transitions:
        """Steps ``index`` [B] as they were logged; those that nothing can be learned from repeat their last observation."""
        index = np.asarray(index)
        return self._steps(index, self.rows("flags", index))  # which also refuses an index beyond the last step

    def transitions(self, index: NDArray[np.integer]) -> Transitions:
        """The transitions that start at flat step indices ``index`` [B]; steps that cannot be learned from are refused."""
        index = np.asarray(index)
        flags = self.rows("flags", index)
        if (wrong := ((flags & TRAINABLE) == 0) | (index < 0)).any():
            raise IndexError(
                f"step {index[wrong][0]} is not the start of a known transition: expected steps that a sampler drew "
                f"(an episode's first `num_transitions` steps, counted from 0 to {self.num_steps - 1})"
            )
        return self._steps(index, flags)

    # ---- other datasets from this one ---------------------------------------------------------------------------
    def subset(self, episodes: ArrayLike) -> "Dataset":
        """The given episodes (indices, in that order and with repetitions, or a boolean mask [N])."""
        chosen = validate.as_episode_index(episodes, num_episodes=self.num_episodes, source=self.source)
        steps = self.episodes.steps_of(chosen)
        columns = {name: GatheredColumn(column, steps) for name, column in self.columns.items()}
        known = {name: values[chosen] for name in _PER_EPISODE if (values := getattr(self, name)) is not None}
        return replace(self, episodes=self.episodes.take(chosen), columns=columns, **known)

    def split(self, fraction: float, *, seed: int) -> tuple["Dataset", "Dataset"]:
        """Two disjoint random parts by episodes; the first gets ``round(fraction * N)``, each at least one."""
        fraction = finite_number(f"{self.source}: fraction", fraction, above=0, below=1, error=DatasetError)
        seed = whole_number(f"{self.source}: seed", seed, least=0, error=DatasetError)
        if self.num_episodes < 2:
            raise DatasetError(f"{self.source}: expected at least two episodes to split, found {self.num_episodes}")
        size = min(max(1, round(fraction * self.num_episodes)), self.num_episodes - 1)
        order = np.random.default_rng(seed).permutation(self.num_episodes)
        return self.subset(np.sort(order[:size])), self.subset(np.sort(order[size:]))

    def mark_incomplete(self, episodes: ArrayLike) -> "Dataset":
        """The same dataset with the given episodes declared cut short by the collector."""
        count, source = self.num_episodes, self.source
        chosen = validate.as_episode_index(episodes, num_episodes=count, source=source, allow_none=True)
        complete = self.complete.copy()
        complete[chosen] = False
        return replace(self, episodes=replace(self.episodes, complete=complete))

    def with_time_limits(self) -> "Dataset":
        """The same dataset where terminal states after the longest length are time limits: these episodes are truncated."""
        return self._with_episodes(as_time_limits(self.episodes, source=self.source))

    def with_labels(self, labels: Sequence[str] | NDArray[np.str_] | str) -> "Dataset":
        """The same dataset with provenance ``labels`` [N], or one label for all episodes."""
        given = [labels] * self.num_episodes if isinstance(labels, str) else labels
        return replace(self, labels=validate.as_labels(given, num_episodes=self.num_episodes, source=self.source))

    def with_success(self, flags: ArrayLike) -> "Dataset":
        """Rewards from success ``flags`` [N] or [M]: a last step of 1 for episodes that have one set; success is terminal."""
        episodes, rewards = success_rewards(flags, self.episodes, source=self.source)
        ended = self._with_episodes(episodes)
        return replace(ended, columns={**ended.columns, "rewards": rewards}, _returns=None)

    def with_score(self, score: ArrayLike | str) -> "Dataset":
        """Rewards from a number per episode (a rating, a cost avoided): a last step of it, so that it is the return.

        ``score`` is [N], or [M] of the steps, where an episode's last one counts (progress); or made of the rewards:
        "mean_reward", or "last_reward" where an outcome is repeated in every row.
        """
        if isinstance(score, str) and score in OF_REWARDS:
            score = reward_score(score, self.rewards, self.episodes)
        rewards = score_rewards(score, self.episodes, source=self.source)
        return replace(self, columns={**self.columns, "rewards": rewards}, _returns=None)

    def with_num_actions(self, num_actions: int | None) -> "Dataset":
        """The same dataset, told how many discrete actions there are; it may not show all, or store them as floats."""
        count, actions = as_discrete(num_actions, self.columns["actions"], source=self.source)
        return replace(self, num_actions=count, columns={**self.columns, "actions": actions})

    def with_metadata(self, **entries: Any) -> "Dataset":
        """The same dataset with more (JSON-able) metadata."""
        return replace(self, metadata=validate.as_metadata({**self.metadata, **entries}, source=self.source))

    def check(self) -> "Dataset":
        """Read and check every array now rather than at first access; returns the dataset."""
        for name in ("observations", "actions", "next_observations", *(("returns", "rewards") * self.has_rewards)):
            getattr(self, name)
        validate.check_flags(self.columns.get("flags"), self.episodes, source=self.source)
        return self

    def check_files(self) -> None:
        """Raise an error if files that are still to be read have changed since ``load``. Every read checks this too."""
        for column in self.columns.values():
            column.check()

    def _facts(self) -> dict[str, Any]:
        sizes = {"episodes": self.num_episodes, "steps": self.num_steps, "observations": self.observation_shape}
        actions = f"{'discrete' if self.discrete_actions else 'continuous'} {self.action_shape}"
        return {**sizes, "actions": actions, "source": self.source}

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes: everything but what can be computed again."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**fields, **{name: dict(fields[name]) for name in _MAPPINGS}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    # ---- inside -----------------------------------------------------------------------------------------------
    def _checked(self, name: str) -> NDArray[Any]:
        column = self.columns[name]
        with naming_memory(f"{self.source}: {name}"):
            array = column.read()
        if not column.is_mapped:
            validate.check_finite(array, key=name, source=self.source)
        return array

    def _steps(self, index: NDArray[np.integer], flags: NDArray[np.uint8]) -> Transitions:
        if "next_observations" in self.columns:
            observations, following = self.rows("observations", index), self.rows("next_observations", index)
        else:
            both = np.concatenate([index, index + ((flags & LAST) == 0)])
            observations, following = np.split(self.rows("observations", both), 2)
        rewards = self.rows("rewards", index) if self.has_rewards else np.full(index.shape, np.nan, np.float32)
        return Transitions(observations, self.rows("actions", index), rewards, following, (flags & TERMINATED) != 0)

    def _with_episodes(self, episodes: Episodes) -> "Dataset":
        """The same steps, whose flags follow from ``episodes``."""
        columns = {name: column for name, column in self.columns.items() if name != "flags"}
        return replace(self, episodes=episodes, columns=columns)

    @cached_property
    def _flags(self) -> Column:
        """[M] the bits of :meth:`Episodes.flags`, from the file or else from the episodes."""
        return self.columns.get("flags") or ArrayColumn(self.episodes.flags(0, self.num_episodes))
