"""From a dataset and runs to the arrays of a compiled program."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from upweight.base.cores import usable_cores
from upweight.base.errors import DatasetError
from upweight.data.action_range import action_bounds
from upweight.data.dataset import Dataset
from upweight.data.statistics import episode_mass
from upweight.lab.train.algorithm import Algorithm, Setup
from upweight.lab.train.kernels.choice import use_fused
from upweight.lab.train.nn import Compute
from upweight.lab.train.population import Agents, Data
from upweight.lab.train.run import Run, weighting_key
from upweight.lab.train.sampling import EpisodeLayout, EpisodeTable, make_table
from upweight.weightings.weighting import Weighting, resolve_weights

SCALE_FLOOR = 1e-3  # added to the standard deviation of observations, as d3rlpy and TD3+BC do
REWARD_RANGE = 1000.0
_ALIGNMENT = 64  # bytes
_GATHERED_ROWS = 2**14  # laid out at a time, by one thread
_BLOCK_ROWS = 2**18  # numbered at a time, or made statistics of in float64
PRECISIONS = {"float32": ("float32", "float32"), "bfloat16": ("float32", "bfloat16"), "float64": ("float64", "float64")}


def blocks(dataset: Dataset, name: str, steps: NDArray[np.int64] | None = None) -> Iterator[NDArray[Any]]:
    """[m, ...] a field at these steps (None: all), flat and some at a time: it may be larger than memory."""
    count = dataset.num_steps if steps is None else len(steps)
    for first in range(0, count, _BLOCK_ROWS):
        last = min(first + _BLOCK_ROWS, count)
        index = np.arange(first, last) if steps is None else steps[first:last]
        yield dataset.rows(name, index).reshape(len(index), -1)


def action_size(dataset: Dataset) -> int:
    """Numbers in an action; of discrete ones, how many there are as the dataset says or, else, as were taken."""
    width = int(np.prod(dataset.action_shape))
    if not dataset.discrete_actions:
        return width
    low, high = np.transpose([(block.min(), block.max()) for block in blocks(dataset, "actions")])
    if width != 1 or low.min() < 0:
        raise DatasetError(f"{dataset.source}: key 'actions': expected one whole number from 0 per step")
    return dataset.num_actions or int(high.max()) + 1


def make_setup(dataset: Dataset, precision: str, kernels: str = "auto") -> Setup:
    dtype, compute = (jnp.dtype(name) for name in PRECISIONS[precision])
    features = int(np.prod(dataset.observation_shape)) if dataset.observation_shape else 1
    return Setup(features, action_size(dataset), dtype, Compute(compute, use_fused(kernels, compute)))


def make_data(dataset: Dataset, method: Algorithm, setup: Setup) -> Data:
    """The dataset as one array of rows on the device, so that a batch is one gather; made in blocks, with no second copy."""
    rows = _empty_rows(dataset.num_steps, row_width(method, setup), setup.dtype)
    with gatherers() as pool:
        for first in range(0, len(rows), _BLOCK_ROWS):
            block = rows[first : first + _BLOCK_ROWS]
            gather_rows(dataset, method, np.arange(first, first + len(block)), block, pool)
    return Data(jax.device_put(rows), make_layout(dataset))


def make_layout(dataset: Dataset) -> EpisodeLayout:
    return EpisodeLayout(
        jnp.asarray(dataset.starts.astype(np.uint32)), jnp.asarray(dataset.num_transitions.astype(np.uint32))
    )


def row_width(method: Algorithm, setup: Setup) -> int:
    """Numbers in a row of :class:`Data`."""
    action = 1 if method.discrete else setup.action_size
    return setup.observation_size + action + (setup.observation_size + 2 if method.uses_rewards else 0)


def gatherers() -> ThreadPoolExecutor:
    """For :func:`gather_rows`: threads on all cores, since NumPy lets others work while it gathers."""
    return ThreadPoolExecutor(usable_cores(), "upweight-gather")


def gather_rows(
    dataset: Dataset, method: Algorithm, index: NDArray[np.integer], out: NDArray[Any], pool: ThreadPoolExecutor
) -> None:
    """The rows of :class:`Data` at ``index`` [m], into ``out`` [m, width]; what must be read as a whole, once before."""
    blocks = [slice(first, first + _GATHERED_ROWS) for first in range(0, len(index), _GATHERED_ROWS)]
    _gather_block(dataset, method, index[:1], out[:1])
    for _ in pool.map(lambda block: _gather_block(dataset, method, index[block], out[block]), blocks):
        pass


def _gather_block(dataset: Dataset, method: Algorithm, index: NDArray[np.integer], out: NDArray[Any]) -> None:
    if method.uses_rewards:
        steps = dataset.steps(index)
        columns = [steps.observations, steps.actions, steps.next_observations, steps.rewards, steps.terminated]
    else:
        columns = [dataset.rows("observations", index), dataset.rows("actions", index)]
    try:
        with np.errstate(over="raise"):
            np.concatenate([column.reshape(len(index), -1) for column in columns], axis=1, out=out, casting="unsafe")
    except FloatingPointError:
        raise DatasetError(_too_large(dataset, out.dtype, "observations, actions or rewards")) from None


def check_range(dataset: Dataset, setup: Setup, *, with_rewards: bool) -> None:
    """Refuse numbers that the number type of training cannot hold, before anything is begun; of what lies in memory."""
    for name in ("observations", "actions", *("rewards",) * (with_rewards and dataset.has_rewards)):
        column = dataset.columns[name]
        wider = column.dtype.kind == "f" and column.dtype.itemsize > setup.dtype.itemsize
        if wider and not column.is_mapped:
            most = np.finfo(setup.dtype).max
            if any(np.abs(block).max() > most for block in blocks(dataset, name)):
                raise DatasetError(_too_large(dataset, setup.dtype, name))


def _too_large(dataset: Dataset, dtype: Any, what: str) -> str:
    return (
        f"{dataset.source}: training computes in {dtype}, which holds numbers up to {np.finfo(dtype).max:.1e}, and found larger "
        f"{what}; drop the episodes or rescale the column"
    )


def _empty_rows(count: int, width: int, dtype: Any) -> NDArray[Any]:
    """[count, width], begun where JAX needs arrays to begin on a CPU in order to share the memory instead of copying it."""
    size = count * width * dtype.itemsize
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(count, width)


def make_parts(dataset: Dataset, runs: Sequence[Run]) -> list["RunEpisodes"]:
    """What each run learns from, with its weights, so that any that is wrong is found before something is trained or written.

    Runs on the same episodes share what is computed from them.
    """
    parts: dict[Any, RunEpisodes] = {}
    made = []
    for run in runs:
        episodes = run.index(dataset)
        key = None if episodes is None else episodes.tobytes()
        if key not in parts:
            parts[key] = RunEpisodes(dataset, episodes)
        for weighting in (run.weighting, run.actor_weighting):
            if weighting is not None:
                parts[key].weights(weighting)
        made.append(parts[key])
    return made


def with_given_weights(runs: Sequence[Run], parts: Sequence["RunEpisodes"]) -> list[Run]:
    """The runs with functions replaced by the weights [n] that they gave: another process knows a run by its weights."""

    def given(weighting: Any, part: RunEpisodes) -> Any:
        return part.weights(weighting) if callable(weighting) and not isinstance(weighting, Weighting) else weighting

    return [
        replace(run, weighting=given(run.weighting, part), actor_weighting=given(run.actor_weighting, part))
        for run, part in zip(runs, parts, strict=True)
    ]


def make_agents(runs: Sequence[Run], parts: Sequence["RunEpisodes"], setup: Setup, num_updates: int) -> Agents:
    """Everything that tells the agents apart, stacked; ``parts`` are what they learn from."""
    cells = max(len(part.episodes) for part in parts)
    agents = [_make_agent(run, part, setup, num_updates, cells) for run, part in zip(runs, parts, strict=True)]

    def stack(name: str) -> Any:
        return jnp.asarray(np.stack([agent[name] for agent in agents]), setup.dtype)

    def table(name: str) -> EpisodeTable:
        columns = zip(*(agent[name] for agent in agents), strict=True)
        return EpisodeTable(*(jnp.asarray(np.stack(column)) for column in columns))

    return Agents(
        seed=jnp.asarray(np.array([run.seed for run in runs], np.uint32)),
        hyper={key: jnp.asarray([agent["hyper"][key] for agent in agents], setup.dtype) for key in agents[0]["hyper"]},
        table=table("table"),
        actor_table=None if runs[0].actor_weighting is None else table("actor_table"),
        episode_weight=stack("episode_weight") if runs[0].reweight else None,
        observation_mean=stack("mean"),
        observation_scale=stack("scale"),
        reward_scale=stack("reward_scale"),
        action_low=None if runs[0].method.discrete else stack("action_low"),
        action_high=None if runs[0].method.discrete else stack("action_high"),
    )


class RunEpisodes:
    """The episodes one or more agents learn from, and what is computed from them, once."""

    def __init__(self, whole: Dataset, episodes: NDArray[np.int64] | None) -> None:
        self.whole = whole
        self.episodes = np.arange(whole.num_episodes) if episodes is None else episodes
        self.own = whole if episodes is None else whole.subset(episodes)
        self.multiplicity = np.bincount(self.episodes, minlength=whole.num_episodes).astype(np.float64)
        self._used = np.flatnonzero(self.multiplicity > 0)
        self._weights: dict[Any, NDArray[np.float64]] = {}

    def weights(self, weighting: Any) -> NDArray[np.float64]:
        """Of its episodes [n]."""
        key = weighting_key(weighting)
        if key not in self._weights:
            self._weights[key] = resolve_weights(weighting, self.own)
        return self._weights[key]

    @cached_property
    def _steps(self) -> NDArray[np.int64] | None:
        """Those of its episodes, each once; None: all."""
        is_all = len(self._used) == self.whole.num_episodes
        return None if is_all else self.whole.episodes.steps_of(self._used)

    @cached_property
    def observation_statistics(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation (plus a little) of observations over trainable steps, unweighted."""
        total = self.multiplicity @ self.whole.num_transitions

        def mean_of(change: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[np.float64]:
            places, parts = count(step=_BLOCK_ROWS), blocks(self.whole, "observations", self._steps)
            return np.asarray(
                sum(self._counts(first, len(rows)) @ change(rows) for first, rows in zip(places, parts, strict=False))
                / total
            )

        mean = mean_of(lambda rows: rows.astype(np.float64))
        return mean, np.sqrt(mean_of(lambda rows: (rows - mean) ** 2)) + SCALE_FLOOR

    def _counts(self, at: int, size: int) -> NDArray[np.float64]:
        """How often each of ``size`` steps counts: as often as its episode, or not at all if it cannot be learned from."""
        lengths, ends = self.whole.lengths[self._used], np.cumsum(self.whole.lengths[self._used])
        first, last = np.searchsorted(ends, [at, at + size - 1], side="right")
        span = slice(first, last + 1)
        counts = np.repeat(self.multiplicity[self._used][span], lengths[span])
        begin = ends[first] - lengths[first]
        counts[ends[span] - 1 - begin] *= (self.whole.num_transitions == self.whole.lengths)[self._used][span]
        return counts[at - begin : at - begin + size]

    @cached_property
    def action_bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return action_bounds(blocks(self.whole, "actions", self._steps))

    @cached_property
    def reward_scale(self) -> float:
        returns = self.own.returns[self.own.complete]
        spread = float(np.ptp(returns)) if len(returns) else 0.0
        return REWARD_RANGE / spread if spread > 0 else 1.0


def _make_agent(run: Run, part: RunEpisodes, setup: Setup, num_updates: int, cells: int) -> dict[str, Any]:
    sizes = part.own.num_transitions
    weights = part.weights(run.weighting)
    even = np.ones(len(weights))
    agent: dict[str, Any] = {"hyper": run.config.traced_values(num_updates)}
    agent["table"] = make_table(even if run.reweight else weights, sizes, part.episodes, cells)
    if run.reweight:
        uniform, wanted = (  # [N] of all copies of an episode together: draws do not tell them apart
            np.bincount(part.episodes, episode_mass(each, sizes), part.whole.num_episodes) for each in (even, weights)
        )
        agent["episode_weight"] = np.divide(wanted, uniform, out=np.zeros_like(wanted), where=uniform > 0)
    if run.actor_weighting is not None:
        agent["actor_table"] = make_table(part.weights(run.actor_weighting), sizes, part.episodes, cells)
    agent["mean"], agent["scale"] = np.zeros(setup.observation_size), np.ones(setup.observation_size)
    if run.config.normalize_observations:
        agent["mean"], agent["scale"] = part.observation_statistics
    if not run.method.discrete:
        agent["action_low"], agent["action_high"] = part.action_bounds
    agent["reward_scale"] = part.reward_scale if run.config.scale_rewards_by_return else 1.0
    return agent
