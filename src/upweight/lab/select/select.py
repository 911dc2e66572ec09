"""``select``: which of some trained policies to use, by logged data alone, or with a few real episodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from upweight.base.checks import whole_number, yes_or_no
from upweight.base.errors import ConfigError
from upweight.base.progress import showing
from upweight.data.dataset import Dataset
from upweight.data.given import AnyDataset, as_dataset
from upweight.data.validate import as_episode_index
from upweight.inspection.starts import GROUPS, look_at_starts
from upweight.lab.play.block import make_block, play
from upweight.lab.play.evaluate import Evaluator, evaluate
from upweight.lab.select.bandit import play_arms
from upweight.lab.select.candidates import Candidate, Given, Member, find_candidates
from upweight.lab.select.fit import check_fit
from upweight.lab.select.fqe import FQEConfig, QEstimates, evaluate_policies
from upweight.lab.select.importance import importance_estimates
from upweight.lab.select.looks import action_errors, supports
from upweight.lab.select.outcome import ALL, Look, Selection, Standing
from upweight.lab.select.rule import Baseline, Decision, Evidence, SelectionRule, without_common_luck
from upweight.lab.train.agreement import Agreement
from upweight.policies.policy import Policy
from upweight.weightings.return_weighting import ReturnWeighting

SEEDS = 3  # critics per policy
UPDATES = 5_000
_DISCOUNT = 0.99  # or less: see :func:`quick_config`
_MAX_GROUPS = 8
_MOST_LEFT = 0.2  # of the critics' beginning in their estimates


def select(
    runs: Given | Sequence[Given],
    data: AnyDataset,
    *,
    episodes: ArrayLike | None = None,
    seeds: int = SEEDS,
    updates: int = UPDATES,
    config: FQEConfig | None = None,
    rule: SelectionRule = SelectionRule(),  # noqa: B008  (frozen)
    propensities: ArrayLike | None = None,
    env: str | None = None,
    env_episodes: int = 20,
    episodes_allowed: int | None = None,
    seed: int = 0,
    stochastic: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
) -> Selection:
    """Estimate what trained policies are worth from logged ``data``, and choose one, or none.

    Policies that differ in their training seed only are one candidate.

    Args:
        runs: folders of ``upweight train``, stores of sweeps, policy files, policies, or what :func:`upweight.train` returned.
        data: the log: a dataset, or anything that :func:`upweight.load` makes one of.
        episodes: which of the log's episodes estimates rest on; by default those that the trainings kept back, else all.
        seeds: critics per policy, each with its own resample of the episodes.
        updates: how many updates each critic makes.
        config: settings of the critics; by default DOPE's, made for a laptop.
        rule: how careful to be.
        propensities: [M] or [M, A], the log's own probabilities of discrete actions.
        env: an environment (an id, or ``module:function``), in which all policies play afterwards. Their true returns go into the
            table and do not change the choice, unless ``episodes_allowed`` is given.
        env_episodes: episodes that each policy plays there.
        episodes_allowed: real episodes that may be played at most, and that decide.
        seed: the first critic's seed, and that of the episodes in ``env``.
        stochastic: whether policies draw their actions; else they take the likeliest.
        workers: processes that play; one per core if None.
        progress: whether to show a bar; by default in terminals and notebooks.

    Examples:
        >>> found = uw.select("runs/ward", "ward.csv", seeds=2, updates=2000)  # doctest: +SKIP
        >>> print(found.policy, found.reason)  # doctest: +SKIP
    """
    seeds = whole_number("seeds", seeds, least=1, error=ConfigError)
    seed = whole_number("seed", seed, least=0, error=ConfigError)
    stochastic = yes_or_no("stochastic", stochastic, error=ConfigError)
    if episodes_allowed is not None:
        episodes_allowed = whole_number("episodes_allowed", episodes_allowed, least=1, error=ConfigError)
        if env is None:
            raise ConfigError(
                "episodes_allowed: real episodes need an environment; give env (--env), an id or module:function"
            )
    dataset = as_dataset(data)
    config = quick_config(dataset) if config is None else config
    with showing(progress):
        candidates, notes = find_candidates(runs, dataset)
        field = _Field(dataset, candidates, stochastic)
        field.check(env)
        chosen, which = _episodes(dataset, candidates, episodes)
        looks = field.look(chosen, propensities, config.discount)
        critics: dict[str, Any] = {"seeds": range(seed, seed + seeds), "updates": updates, "config": config}
        found = evaluate_policies(dataset, field.policies, episodes=chosen, starts=chosen, resample=True, **critics)
        about = {"which": which, "seeds": seeds, "updates": updates, "settings": config.to_dict()}
        about |= {"stochastic": stochastic, "env": env, "episodes_allowed": episodes_allowed}
        made = _judge(field, chosen, looks, found, rule, notes, about)
        if env is None:
            return made
        if episodes_allowed is None:
            return _reveal(field, made, env, env_episodes, seed, workers)
        return _play(field, made, env, episodes_allowed, seed)


def _judge(
    field: "_Field",
    episodes: NDArray[np.int64],
    looks: Sequence[Look],
    found: QEstimates,
    rule: SelectionRule,
    notes: Sequence[str],
    about: dict[str, Any],
) -> Selection:
    """The rule on all that was found."""
    dataset, candidates = field.dataset, field.candidates
    values = discounted_values(dataset.subset(episodes), found.gamma)
    evidence = field.evidence(found, [look.outside for look in looks], values)
    baseline, evidence, more = _baseline(candidates, evidence, values)
    decision = _decide(rule, candidates, evidence, baseline)
    groups = field.by_group(found, _groups(dataset, episodes))
    best = [field.best_member(found, number) for number in range(len(candidates))]
    columns = zip(candidates, evidence, looks, decision.verdicts, best, groups, strict=True)
    return Selection(
        standings=tuple(Standing(*each) for each in columns),
        chosen=decision.chosen,
        reason=decision.reason,
        notes=(*notes, *more, *_doubts(found, evidence, about["settings"]["tau"])),
        baseline=baseline,
        rule=rule,
        about={"data": dataset.source, "episodes": len(episodes), "of_episodes": dataset.num_episodes, **about},
    )


def quick_config(dataset: Dataset, **changes: Any) -> FQEConfig:
    """DOPE's settings made for a laptop, with ``changes``; ``FQEConfig()`` has DOPE's own, which want 60,000 updates and a GPU.

    Networks are smaller and learn faster, and the target follows ten times as fast, so that a twelfth of the updates does. The
    discount is 0.99, or 1 - 2/T where the longest episode has T < 200 steps: estimates that look far beyond what was logged
    rest on nothing but themselves.
    """
    discount = float(np.clip(1 - 2 / dataset.lengths.max(), 0.0, _DISCOUNT))
    quick = {"hidden_units": (64, 64), "learning_rate": 1e-3, "tau": 0.05, "discount": discount}
    return FQEConfig.preset(**{**quick, **changes})


@dataclass(frozen=True, eq=False)
class _Field:
    """All candidates with the data: P policies in a row, of which each belongs to a candidate."""

    dataset: Dataset
    candidates: Sequence[Candidate]
    stochastic: bool

    @property
    def members(self) -> list[Member]:
        """[P]"""
        return [member for candidate in self.candidates for member in candidate.members]

    @property
    def policies(self) -> list[Policy]:
        """[P] as they are to act."""
        return [self.as_played(member) for member in self.members]

    @property
    def owners(self) -> NDArray[np.int64]:
        """[P] the candidate of each policy."""
        return np.repeat(np.arange(len(self.candidates)), [len(candidate.members) for candidate in self.candidates])

    def as_played(self, member: Member) -> Policy:
        return member.policy if self.stochastic else member.policy.deterministic()

    def check(self, env: str | None) -> None:
        """Refuse policies that do not fit the data, or the environment."""
        names = [str(member.path or f"policy {place}") for place, member in enumerate(self.members)]
        check_fit(self.dataset, [member.policy for member in self.members], names)
        if env is not None:
            policy = self.members[0].policy.deterministic()
            size = policy.layers[-1][1].shape[0]
            Evaluator(env).check(1, policy.observation_size, size, is_discrete=policy.is_discrete)

    def look(self, episodes: NDArray[np.int64], propensities: ArrayLike | None, discount: float) -> list[Look]:
        """Per candidate, what needs no learning: means over its policies."""
        policies = self.policies
        errors = action_errors(self.dataset, episodes, policies)
        by_return = self._errors_of_good(episodes, policies)
        support = supports(self.dataset, episodes, policies)
        weighed = None
        if propensities is not None:
            weighed = importance_estimates(
                self.dataset, episodes, policies, propensities, discount=discount, stochastic=self.stochastic
            )
        looks = []
        for mine in (np.flatnonzero(self.owners == number) for number in range(len(self.candidates))):
            outside, error = np.mean([[support[place].outside, errors[place].error] for place in mine], axis=0)
            good = None if by_return is None else float(np.mean([by_return[place].error for place in mine]))
            look = Look(float(outside), float(error), errors[0].constant, good)
            if weighed is not None:
                known = [value for place in mine if (value := weighed[place].value) is not None]
                importance = float(np.mean(known)) if len(known) == len(mine) else None
                left = min(weighed[place].effective_episodes for place in mine)
                look = replace(look, importance=importance, effective_episodes=left)
            looks.append(look)
        return looks

    def _errors_of_good(self, episodes: NDArray[np.int64], policies: Sequence[Policy]) -> list[Agreement] | None:
        """Action errors where steps are drawn by return-weighting; None where no episode has a return."""
        part = self.dataset.subset(episodes)
        if not (part.has_rewards and (part.complete & (part.num_transitions > 0)).any()):
            return None
        return action_errors(self.dataset, episodes, policies, weights=ReturnWeighting()(part))

    def evidence(self, found: QEstimates, outside: Sequence[float], values: NDArray[np.float64]) -> list[Evidence]:
        made = []
        for number, candidate in enumerate(self.candidates):
            mine = found.values[self.owners == number]  # [K, S]
            best = mine.mean(axis=1).max()  # the policy that is handed out
            made.append(Evidence(candidate.name, mine, outside[number], int((values >= best).sum())))
        return made

    def best_member(self, found: QEstimates, candidate: int) -> int:
        """Which policy of a candidate has the highest estimate: the one to take if the candidate is chosen."""
        means = found.values[self.owners == candidate].mean(axis=1)  # [K]
        return int(np.nanargmax(means)) if np.isfinite(means).any() else 0

    def by_group(self, found: QEstimates, groups: NDArray[np.str_] | None) -> list[dict[str, float]]:
        """Per candidate, its mean estimate at the starts of each group."""
        if groups is None:
            return [{} for _ in self.candidates]
        names, counts = np.unique(groups[groups != ""], return_counts=True)
        kept = sorted(names[np.argsort(-counts, kind="stable")][:_MAX_GROUPS], key=_place)
        values = found.at_starts.mean(axis=1)  # [P, N]
        return [
            {str(name): float(values[self.owners == number][:, groups == name].mean()) for name in kept}
            for number in range(len(self.candidates))
        ]


def _place(name: str) -> tuple[int, str]:
    """Groups of starts from the poorest to the best; labels by name."""
    return (GROUPS.index(name) if name in GROUPS else 0, name)


def discounted_values(dataset: Dataset, discount: float) -> NDArray[np.float64]:
    r"""[N] :math:`G_i = \sum_t \gamma^t r_{i,t}`; over :math:`1 - \gamma^{T_i}` if the episode did not end by itself.

    That is what it would have been worth had it gone on as it went, which is what estimates of a policy count too.
    """
    powers = discount ** (np.arange(dataset.num_steps) - np.repeat(dataset.starts, dataset.lengths))
    totals = np.add.reduceat(dataset.rewards * powers, dataset.starts)
    goes_on = 1 - discount ** dataset.lengths.astype(np.float64)
    return np.asarray(np.where(dataset.episodes.terminated, totals, totals / goes_on), np.float64)


def _groups(dataset: Dataset, episodes: NDArray[np.int64]) -> NDArray[np.str_] | None:
    """[n] the label of each episode, or by what its start lets expect; None if there is one group only."""
    part = dataset.subset(episodes)
    groups = part.labels
    if groups is None or len(np.unique(groups)) < 2:
        groups = look_at_starts(part, part.complete & (part.num_transitions > 0)).groups
    return groups


def _baseline(
    candidates: Sequence[Candidate], evidence: Sequence[Evidence], values: NDArray[np.float64]
) -> tuple[Baseline, list[Evidence], list[str]]:
    """What to beat, the evidence to compare with it, and what to say about it.

    It is BC on all data, the best if there are several; without, what the logged episodes were worth themselves.
    """
    paired = without_common_luck(evidence)
    clones = [
        each for candidate, each in zip(candidates, paired, strict=True) if candidate.clones_all and each.is_whole
    ]
    if clones:
        best = max(clones, key=lambda each: each.mean)
        return Baseline("BC on all data", best.mean, best.spread), paired, []
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    missing = "is not among the candidates"
    if any(candidate.clones_all for candidate in candidates):
        missing = "has no estimate, because its critics diverged"
    note = f"BC on all data {missing}: the choice is compared with what the logged episodes were worth"
    return Baseline("the log itself", float(values.mean()), error), list(evidence), [note]


def _decide(
    rule: SelectionRule, candidates: Sequence[Candidate], evidence: Sequence[Evidence], baseline: Baseline
) -> Decision:
    """The rule on all but those that are to be beaten."""
    rivals = [place for place, candidate in enumerate(candidates) if not candidate.clones_all]
    decision = rule.decide([evidence[place] for place in rivals], baseline)
    verdicts = ["to be beaten"] * len(candidates)
    for place, verdict in zip(rivals, decision.verdicts, strict=True):
        verdicts[place] = verdict
    chosen = None if decision.chosen is None else rivals[decision.chosen]
    return replace(decision, chosen=chosen, verdicts=tuple(verdicts))


def _doubts(found: QEstimates, evidence: Sequence[Evidence], tau: float) -> list[str]:
    """What the numbers themselves give away."""
    doubts, means = list[str](), np.array([each.mean for each in evidence if each.is_whole])
    left = float(np.exp(-tau * (1 - found.gamma) * found.updates))  # of the slowest part: see fqe.py
    if left > _MOST_LEFT:
        doubts.append(
            f"after {found.updates:,} updates {left:.0%} of where the critics began, at the mean reward for ever, is left in "
            "their estimates: give more updates"
        )
    moved = np.abs(found.drift.mean(axis=1)[~found.diverged.any(axis=1)])
    if len(means) > 1 and moved.max() > np.ptp(means) / 2:
        doubts.append(
            "estimates still moved in the last fifth of the updates, by half of what lies between them: give more updates"
        )
    return doubts


def _episodes(
    dataset: Dataset, candidates: Sequence[Candidate], given: ArrayLike | None
) -> tuple[NDArray[np.int64], str]:
    """Those to evaluate on, and in words which these are."""
    if given is not None:
        return as_episode_index(given, num_episodes=dataset.num_episodes, source=dataset.source), "given"
    held = [member.holdout for candidate in candidates for member in candidate.members]
    if all(each is not None for each in held):
        common: NDArray[np.int64] = reduce(np.intersect1d, held)  # type: ignore[arg-type]
        if len(common):
            return common, "kept back from training"
    return np.arange(dataset.num_episodes), ALL


def _reveal(field: _Field, made: Selection, env: str, episodes: int, seed: int, workers: int | None) -> Selection:
    """With the true mean return of every policy; the choice stays."""
    played = evaluate(field.policies, env, episodes, seed, stochastic=field.stochastic, workers=workers)
    means = np.array([each.mean_return for each in played])
    told = [replace(each, true_returns=means[field.owners == place]) for place, each in enumerate(made.standings)]
    return replace(made, standings=tuple(told))


def _play(field: _Field, made: Selection, env: str, allowed: int, seed: int) -> Selection:
    """Let the best policy of each candidate play real episodes, the likeliest first, and take what returned most."""
    lower = [np.nan_to_num(made.rule.lower(each.evidence), nan=-np.inf) for each in made.standings]
    order = sorted(range(len(lower)), key=lambda place: -lower[place])
    policies = [field.as_played(made.standings[place].best_member) for place in order]

    def one(arm: int, episode: int) -> float:
        block = make_block(env, policies[arm], [(seed, episode)], stochastic=field.stochastic)
        return play(block)[0].total_reward

    played = play_arms(one, len(order), allowed)
    chosen, returns = order[played.best], played.returns[played.best]
    told = list(made.standings)
    for arm, place in enumerate(order):
        verdict = "chosen" if place == chosen else "played" if played.returns[arm] else "not played"
        told[place] = replace(told[place], real_returns=played.returns[arm], verdict=verdict)
    reason = (
        f"{told[chosen].name}: of {allowed} real episodes it played {len(returns)}, with the highest mean return "
        f"({np.mean(returns):.4g}); estimates only decided who played first"
    )
    unseen = sum(not mine for mine in played.returns)
    note = [f"{unseen} of {len(order)} candidates got no real episode: {allowed} are few"] if unseen else []
    return replace(made, standings=tuple(told), chosen=chosen, reason=reason, notes=(*made.notes, *note))
