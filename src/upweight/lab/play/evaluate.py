"""``evaluate``: how well policies do in an environment."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import whole_number, yes_or_no
from upweight.base.errors import RolloutError, UpweightWarning
from upweight.base.text import Shown
from upweight.data.reference_scores import find_reference_scores, normalize_returns
from upweight.lab.play.block import LANES, Block, Episode, make_block, play
from upweight.lab.play.environments import Spaces, environment_spaces
from upweight.lab.play.processes import run_tasks
from upweight.policies.policy import Policy, load_policy

EPISODES_PER_BLOCK = LANES  # episode k always plays in lane k modulo LANES, however many there are (see block.py)
GivenPolicy = Policy | str | Path


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Shown):
    """The episodes that one policy played."""

    env_id: str
    returns: NDArray[np.float64]  # [episodes] raw and undiscounted
    lengths: NDArray[np.int64]  # [episodes] steps
    terminated: NDArray[np.bool_]  # [episodes] False: stopped by the time limit

    @property
    def mean_return(self) -> float:
        """Over episodes; raw and undiscounted."""
        return float(self.returns.mean())

    @property
    def std_return(self) -> float:
        """Over episodes (the population's formula)."""
        return float(self.returns.std())

    @property
    def scores(self) -> NDArray[np.float64] | None:
        """[episodes] normalised returns: 0 is a random policy, 1 an expert; None where no reference scores are known."""
        reference = find_reference_scores(self.env_id)
        return None if reference is None else normalize_returns(self.returns, reference)

    @property
    def score(self) -> float | None:
        """Mean normalised return."""
        scores = self.scores
        return None if scores is None else float(scores.mean())

    @property
    def success_interval(self) -> tuple[float, float] | None:
        """95% interval (Wilson's) of the rate of success; None unless all returns are 0 or 1, as in mazes."""
        if not np.isin(self.returns, (0, 1)).all():
            return None
        count, z = len(self.returns), 1.959964
        rate = self.mean_return
        middle = (rate + z**2 / (2 * count)) / (1 + z**2 / count)
        half = z * math.sqrt(rate * (1 - rate) / count + (z / (2 * count)) ** 2) / (1 + z**2 / count)
        return max(0.0, middle - half), min(1.0, middle + half)

    def summary(self) -> dict[str, Any]:
        """What a record of a run or of a point on its way keeps; JSON-able."""
        returns = [round(float(value), 4) for value in self.returns]
        return {"score": self.score, "mean_return": self.mean_return, "returns": returns}

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "env_id": self.env_id,
            "mean_return": self.mean_return,
            "std_return": self.std_return,
            "score": self.score,
            **({} if self.success_interval is None else {"success_interval": list(self.success_interval)}),
            "returns": self.returns.tolist(),
            "lengths": self.lengths.tolist(),
            "terminated": self.terminated.tolist(),
        }

    def _facts(self) -> dict[str, Any]:
        score = {} if self.score is None else {"score": self.score}
        played = {"env_id": self.env_id, "episodes": len(self.returns)}
        return {**played, "mean_return": self.mean_return, "std_return": self.std_return, **score}


@overload
def evaluate(  # type: ignore[overload-overlap]  # a str is a sequence of str, but one path
    policies: GivenPolicy,
    env_id: str,
    episodes: int = ...,
    seed: int = ...,
    *,
    stochastic: bool = ...,
    workers: int | None = ...,
) -> Evaluation: ...


@overload
def evaluate(
    policies: Sequence[GivenPolicy],
    env_id: str,
    episodes: int = ...,
    seed: int | Sequence[int] = ...,
    *,
    stochastic: bool = ...,
    workers: int | None = ...,
) -> list[Evaluation]: ...


def evaluate(
    policies: GivenPolicy | Sequence[GivenPolicy],
    env_id: str,
    episodes: int = 20,
    seed: int | Sequence[int] = 0,
    *,
    stochastic: bool = False,
    workers: int | None = None,
) -> Evaluation | list[Evaluation]:
    """Play some episodes with every policy: one evaluation for one policy, a list for several.

    Policies with the same seed start episode k alike. Its outcome depends on the seed, k and the policy alone: not on the other
    policies, on ``episodes`` or on ``workers``.

    Args:
        policies: a policy or the path of one, or several.
        env_id: the environment: an id of Gymnasium, or ``module:function``.
        episodes: how many each policy plays.
        seed: a whole number from 0, one for all policies or one for each.
        stochastic: whether the actions of a stochastic policy are sampled.
        workers: processes; one per core if None.

    Examples:
        >>> layer = (np.zeros((4, 2), np.float32), np.zeros(2, np.float32))  # four observations, two actions, no opinion
        >>> policy = uw.Policy("categorical", (layer,), observation_mean=np.zeros(4), observation_scale=np.ones(4))
        >>> played = uw.evaluate(policy, "CartPole-v1", episodes=3, stochastic=True)
        >>> played.returns.shape, played.env_id
        ((3,), 'CartPole-v1')
    """
    single = isinstance(policies, Policy | str | Path)
    given: Sequence[Any] = [policies] if isinstance(policies, Policy | str | Path) else list(policies)
    seeds: list[Any] = list(seed) if _is_list(seed) and not single else [seed] * len(given)  # type: ignore[arg-type]
    _check_numbers([episodes], seeds or [seed])
    stochastic = yes_or_no("stochastic", stochastic, error=RolloutError)
    episodes, seeds = int(episodes), [int(each) for each in seeds]
    if len(seeds) != len(given):
        raise RolloutError(f"seed: expected one number, or one for each of {len(given)} policies, found {len(seeds)}")
    loaded = [_load(policy) for policy in given]
    spaces = environment_spaces(env_id)
    for place, policy in enumerate(loaded):
        name = str(given[place]) if isinstance(given[place], str | Path) else f"policy {place}"
        outputs = policy.layers[-1][1].shape[0]
        size = outputs // 2 if policy.kind == "tanh_gaussian" else outputs
        _check_fit(spaces, env_id, name, policy.observation_size, size, policy.is_discrete)
    if stochastic and (fixed := sum(policy.deterministic() is policy for policy in loaded)):
        warnings.warn(
            f"stochastic: {fixed} of {len(loaded)} policies know one action for each observation, and play as they do without it",
            UpweightWarning,
            stacklevel=2,
        )
    starts = range(0, episodes, EPISODES_PER_BLOCK)
    blocks: list[Block] = []
    for policy, start_from in zip(loaded, seeds, strict=True):
        own = [(start_from, episode) for episode in range(episodes)]
        parts = [own[start : start + EPISODES_PER_BLOCK] for start in starts]
        blocks += [make_block(env_id, policy, part, stochastic=stochastic) for part in parts]
    played = list(run_tasks(play, blocks, workers=workers, description=f"evaluating in {env_id}"))
    results = []
    for place in range(len(loaded)):
        mine = played[place * len(starts) : (place + 1) * len(starts)]
        results.append(_summarise(env_id, [episode for part in mine for episode in part]))
    return results[0] if single else results


@dataclass(frozen=True)
class Evaluator:
    """How the runs of a training are evaluated: on their way, and in the same way at their end.

    ``env_id``, ``episodes`` and ``seed`` are one for all runs, or one for each. With ``last=False`` the final policies are left
    to the caller.
    """

    env_id: str | Sequence[str]
    episodes: int | Sequence[int] = 20
    seed: int | Sequence[int] = 0
    workers: int | None = None
    last: bool = True

    def play(self, runs: Sequence[int], policies: Sequence[Policy]) -> list[Evaluation]:
        """:func:`evaluate` one policy of each of some runs, which are named by their numbers."""
        env_ids, episodes, seeds = (self._of_each(name, runs) for name in ("env_id", "episodes", "seed"))
        found: dict[int, Evaluation] = {}
        alike = list(zip(env_ids, episodes, strict=True))  # in which environment, and how many episodes
        for env_id, count in dict.fromkeys(alike):
            places = [place for place, each in enumerate(alike) if each == (env_id, count)]
            own = [policies[place] for place in places], [seeds[place] for place in places]
            found |= zip(places, evaluate(own[0], env_id, count, own[1], workers=self.workers), strict=True)
        return [found[place] for place in range(len(runs))]

    def check(self, num_runs: int, observation_size: int, action_size: int, *, is_discrete: bool) -> None:
        """Refuse, before anything is trained, what :meth:`play` would refuse."""
        for name in ("env_id", "episodes", "seed"):
            given = getattr(self, name)
            if _is_list(given) and len(given) != num_runs:
                raise RolloutError(
                    f"{name}: expected one for all runs, or one for each of {num_runs}, found {len(given)}"
                )
        env_ids, episodes, seeds = (self._of_each(name, range(num_runs)) for name in ("env_id", "episodes", "seed"))
        _check_numbers(episodes, seeds)
        yes_or_no("last", self.last, error=RolloutError)
        for env_id in set(env_ids):
            spaces = environment_spaces(env_id)
            _check_fit(spaces, env_id, "a policy of this training", observation_size, action_size, is_discrete)

    def _of_each(self, name: str, runs: Sequence[int]) -> list[Any]:
        given = getattr(self, name)
        return [given[run] if _is_list(given) else given for run in runs]


def _is_list(given: Any) -> bool:
    return hasattr(given, "__len__") and not isinstance(given, str)


def _check_numbers(episodes: Sequence[Any], seeds: Sequence[Any]) -> None:
    for name, values, least in (("episodes", episodes, 1), ("seed", seeds, 0)):
        for value in values:
            whole_number(name, value, least=least, most=2**32 - 1, error=RolloutError)


def _load(policy: Any) -> Policy:
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str | Path):
        return load_policy(policy)
    raise RolloutError(f"expected a Policy or the path of one, found {type(policy).__name__}")


def _check_fit(
    spaces: Spaces, env_id: str, name: str, observation_size: int, action_size: int, is_discrete: bool
) -> None:
    """Refuse a policy that cannot read the environment's observations or give its actions."""
    if observation_size not in spaces.observation_sizes:
        sizes = " or ".join(map(str, spaces.observation_sizes))
        raise RolloutError(
            f"{name} expects {observation_size} observations, but {env_id} has {sizes}; was it trained on another task?"
        )
    if spaces.is_discrete != is_discrete:
        have, need = ("discrete", "continuous") if is_discrete else ("continuous", "discrete")
        raise RolloutError(
            f"{name} gives {have} actions, but {env_id} takes {need} ones; was it trained on another task?"
        )
    if action_size != spaces.action_size:
        what = "to choose from" if spaces.is_discrete else "numbers per action"
        raise RolloutError(
            f"{name} has {action_size} {what}, but {env_id} has {spaces.action_size}; was it trained on another task?"
        )


def _summarise(env_id: str, episodes: Sequence[Episode]) -> Evaluation:
    returns = np.array([episode.total_reward for episode in episodes], np.float64)
    if not np.isfinite(returns).all():
        place = int(np.flatnonzero(~np.isfinite(returns))[0])
        raise RolloutError(
            f"{env_id}: expected rewards that are numbers, found a return of {returns[place]} in episode {place}"
        )
    return Evaluation(
        env_id,
        returns,
        np.array([episode.length for episode in episodes], np.int64),
        np.array([episode.terminated for episode in episodes], np.bool_),
    )
