"""The logs that advice is judged by: who played, and what is odd about them. Each is made from simulators at hand.

A kind of log is what advice may depend on; a task is what rules are made on or judged on. The order goes round kinds and tasks:
the first n logs are of all sorts.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import upweight as uw
from reproduction.advice import pendulum
from upweight.lab.recipes.ladder import load_ladder
from upweight.lab.recipes.make import make_shared_data
from upweight.lab.recipes.recipe import PolicyShare, Recipe
from upweight.lab.recipes.tasks import MUJOCO_TASKS, find_task

STEPS, FEW_STEPS, PIECE = 100_000, 5_000, 50
_LADDER = 8  # policies
_NOISE = 1.0  # standard deviation of the luck added to an outcome, in those of the returns
_CLASSIC = ("cartpole", "acrobot", "mountaincar")
_HORIZON = 50  # steps over which a single decision is scored


@dataclass(frozen=True)
class Log:
    """One log, and how it is made."""

    name: str
    kind: str
    task: str
    make: Callable[[], uw.Dataset]

    @property
    def env_id(self) -> str:
        """Where policies that learned from it are played."""
        return pendulum.ENV_ID if self.task == "pendulum" else find_task(self.task).env_id

    @property
    def is_discrete(self) -> bool:
        return self.task in _CLASSIC

    def save(self, folder: Path) -> Path:
        """Its file, made unless it is there."""
        path = folder / f"{self.name}.npz"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            uw.save(self.make(), path)
        return path


def all_logs() -> list[Log]:
    """Round the kinds, one log of each at a time; every kind begins with another task."""
    kinds: dict[str, list[Log]] = {}
    for log in _listed():
        kinds.setdefault(log.kind, []).append(log)
    turned = (np.roll(np.array(logs, object), -place).tolist() for place, logs in enumerate(kinds.values()))
    return [log for turn in zip_longest(*turned) for log in turn if log is not None]


def _listed() -> Iterator[Log]:
    for task in MUJOCO_TASKS:
        for kind, recipe in (
            ("mix expert 5", "expert-random-5"),
            ("mix expert 50", "expert-random-50"),
            ("mix medium 10", "medium-random-10"),
            ("medium replay", "medium-replay"),
            ("full replay", "full-replay"),
        ):
            yield _log(task, kind, lambda task=task, recipe=recipe: _by_name(f"{task}-{recipe}"))
        yield _log(task, "ladder", lambda task=task: ladder(task))
    for task in (*_CLASSIC, "pendulum"):
        yield _log(task, "mix expert 10", lambda task=task: _mix(task, 0.1))
    yield _log("pendulum", "ladder", lambda: ladder("pendulum"))
    for task in ("hopper", "halfcheetah", "pendulum", "cartpole"):
        for level in ("random", "medium", "expert"):
            yield _log(task, f"one policy, {level}", lambda task=task, level=level: _one(task, level))
    for task, level in (("hopper", "medium"), ("pendulum", "expert"), ("cartpole", "medium"), ("walker2d", "medium")):
        yield _log(task, "luck", lambda task=task, level=level: with_luck(_one(task, level)))
    for task in ("halfcheetah", "pendulum"):
        yield _log(task, "ladder with luck", lambda task=task: with_luck(ladder(task)))
    yield _log("pendulum", "starts that decide", _pendulum_starts)
    for task in ("halfcheetah", "cartpole"):
        yield _log(task, "starts that decide", lambda task=task: with_starts(ladder(task)))
    for task in ("hopper", "halfcheetah", "pendulum", "cartpole"):
        yield _log(task, "pieces", lambda task=task: pieces(_mix(task, 0.1)))
    for task in ("hopper", "pendulum", "cartpole"):
        yield _log(task, "one step", lambda task=task: single_decisions(ladder(task)))
    for task in ("halfcheetah", "pendulum", "ant"):
        yield _log(task, "limits as terminals", lambda task=task: limits_as_terminals(ladder(task)))
    for task in ("hopper", "walker2d", "pendulum", "cartpole"):
        yield _log(task, "few steps", lambda task=task: few(task))


def _log(task: str, kind: str, make: Callable[[], uw.Dataset]) -> Log:
    return Log(f"{task}-{kind.replace(', ', '-').replace(' ', '-')}", kind, task, make)


# ---- who played --------------------------------------------------------------------------------------------------
def _by_name(name: str) -> uw.Dataset:
    return uw.make_dataset(name, steps=STEPS)


def _mix(task: str, share: float, steps: int = STEPS) -> uw.Dataset:
    """A share of the steps by the expert, the rest random."""
    if task == "pendulum":
        good = round(share * steps)
        return pendulum.play([(pendulum.EXPERT, good), (pendulum.RANDOM, steps - good)], seed=0)
    return uw.make_dataset(f"{task}-expert-random-{round(100 * share)}", steps=steps)


def _one(task: str, level: str) -> uw.Dataset:
    if task == "pendulum":
        grade = {"random": pendulum.RANDOM, "medium": pendulum.EXPERT // 2, "expert": pendulum.EXPERT}[level]
        return pendulum.play([(grade, STEPS)], seed=0)
    return _by_name(f"{task}-{level}")


def ladder(task: str, steps: int = STEPS) -> uw.Dataset:
    """Eight policies from poor to good, as many steps of each."""
    if task == "pendulum":
        return pendulum.play([(grade, steps // _LADDER) for grade in range(len(pendulum.GRADES))], seed=0)
    rungs = load_ladder(task).rungs
    chosen = [rungs[place] for place in np.linspace(0, len(rungs) - 1, _LADDER).round().astype(int)]
    shares = tuple(PolicyShare(f"rung-{place}", rung, 1 / _LADDER) for place, rung in enumerate(chosen))
    recipe = Recipe(f"{task}-ladder", find_task(task), shares)
    return make_shared_data([recipe], steps=steps).dataset


def few(task: str) -> uw.Dataset:
    return _mix(task, 0.1, FEW_STEPS) if task != "walker2d" else ladder(task, FEW_STEPS)


def _pendulum_starts() -> uw.Dataset:
    """A weak controller begins near the top, the good one anywhere: the start decides more than who plays."""
    weak = 2
    return pendulum.play([(weak, STEPS // 2), (pendulum.EXPERT, STEPS // 2)], seed=0, top_starts=frozenset({weak}))


# ---- what is odd about them --------------------------------------------------------------------------------------
def with_luck(dataset: uw.Dataset) -> uw.Dataset:
    """Noise as large as the differences between returns, paid with the last reward."""
    rng = np.random.default_rng(_number(dataset.source))
    return _paid_at_the_end(dataset, _NOISE * dataset.returns.std() * rng.normal(size=dataset.num_episodes))


def with_starts(dataset: uw.Dataset) -> uw.Dataset:
    """The first number of the start is worth three standard deviations of the returns."""
    first = dataset.initial_observations[:, 0].astype(np.float64)
    return _paid_at_the_end(dataset, 3 * dataset.returns.std() * (first - first.mean()) / first.std())


def pieces(dataset: uw.Dataset) -> uw.Dataset:
    """Episodes cut every 50 steps, each piece ended by a limit."""
    place = np.arange(dataset.num_steps) - np.repeat(dataset.starts, dataset.lengths)
    cut = (place % PIECE == PIECE - 1) & ~dataset.terminated
    return _rebuilt(dataset, dataset.rewards, dataset.terminated, cut | dataset.truncated)


def single_decisions(dataset: uw.Dataset) -> uw.Dataset:
    """Each step is an episode. Its reward is the sum of the next 50: what followed the decision."""
    ends = np.repeat(dataset.starts + dataset.lengths, dataset.lengths)
    sums = np.concatenate([[0.0], np.cumsum(dataset.rewards, dtype=np.float64)])
    steps = np.arange(dataset.num_steps)
    scores = sums[np.minimum(steps + _HORIZON, ends)] - sums[steps]
    return _rebuilt(dataset, scores, np.ones(dataset.num_steps, bool), np.zeros(dataset.num_steps, bool))


def limits_as_terminals(dataset: uw.Dataset) -> uw.Dataset:
    """What the time limit ended is flagged as a terminal state."""
    over = dataset.terminated | dataset.truncated
    return _rebuilt(dataset, dataset.rewards, over, np.zeros(dataset.num_steps, bool))


def _paid_at_the_end(dataset: uw.Dataset, amounts: NDArray[np.float64]) -> uw.Dataset:
    rewards = dataset.rewards.astype(np.float64)
    rewards[dataset.starts + dataset.lengths - 1] += amounts
    return _rebuilt(dataset, rewards, dataset.terminated, dataset.truncated)


def _rebuilt(
    dataset: uw.Dataset, rewards: NDArray[np.floating], terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]
) -> uw.Dataset:
    """The same steps with other rewards and ends."""
    return uw.Dataset.from_arrays(
        observations=dataset.observations,
        actions=dataset.actions,
        rewards=rewards.astype(np.float32),
        terminated=terminated,
        truncated=truncated,
        next_observations=dataset.next_observations,
        num_actions=dataset.num_actions,
        metadata={"env_id": dataset.metadata["env_id"]},
        source=dataset.source,
    )


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
