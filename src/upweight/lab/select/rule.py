r"""Which candidate do the estimates speak for, if any? A pure function of numbers.

A candidate c is a group of K policies (training seeds) with S estimates each of their value (seeds of the evaluation), mean
:math:`m_c` and standard deviation :math:`s_c` over all K S of them. Of those whose actions stay near logged ones, and whose
estimates some logged episodes were worth, the rule takes the highest lower bound :math:`m_c - k s_c`, and abstains unless, with
b for the baseline (behaviour cloning on all data, or the log itself),

.. math:: m_c - m_b > z \sqrt{s_c^2 + s_b^2}.

Adding a number to all estimates, or multiplying all by a positive one, changes nothing. Seeds show how much an estimate depends
on luck, not what all of them have wrong in common: that is what the vetoes are for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import finite_number
from upweight.base.errors import ConfigError
from upweight.base.text import number

ABSTAINED = "nothing is shown to beat {}"
_ROUNDING = 1e-9  # of the estimates' size: a spread below it is none


@dataclass(frozen=True)
class Evidence:
    """What is known of one candidate."""

    name: str
    estimates: NDArray[np.float64]  # [K, S]; NaN where the evaluation diverged
    outside: float  # share of its actions that are far from all logged ones
    reached: int | None = None  # logged episodes that were worth what its best policy is estimated at

    @property
    def found(self) -> NDArray[np.float64]:
        """[<= K S] the estimates that there are."""
        return self.estimates[np.isfinite(self.estimates)]

    @property
    def mean(self) -> float:
        return float(self.found.mean()) if self.found.size else float("nan")

    @property
    def spread(self) -> float:
        """Standard deviation over all seeds; NaN of a single estimate."""
        return float(self.found.std(ddof=1)) if self.found.size > 1 else float("nan")

    @property
    def is_whole(self) -> bool:
        """Whether no evaluation diverged."""
        return bool(np.isfinite(self.estimates).all())


def without_common_luck(candidates: Sequence[Evidence]) -> list[Evidence]:
    r"""Estimates less what those of one evaluation seed have in common over the C candidates; means stay.

    Evaluations of one seed draw the same episodes and batches for all policies, and err together. With :math:`u_s` the mean over
    candidates of seed s, less that over seeds, :math:`x'_{c,k,s} = m_c + \sqrt{C/(C-1)}\,(x_{c,k,s} - u_s - m_c)`: the factor
    makes up for what of a candidate's own luck goes with the mean.
    """
    whole = [each for each in candidates if each.is_whole]
    if len(whole) < 2:
        return list(candidates)
    common = np.mean([each.estimates.mean(axis=0) for each in whole], axis=0)  # [S]
    common, scale = common - common.mean(), np.sqrt(len(whole) / (len(whole) - 1))
    return [
        replace(each, estimates=each.mean + scale * (each.estimates - common - each.mean)) if each.is_whole else each
        for each in candidates
    ]


@dataclass(frozen=True)
class Baseline:
    """What a choice must beat."""

    name: str
    mean: float
    spread: float  # standard deviation of the estimates, or error of a mean


@dataclass(frozen=True)
class Decision:
    """The candidate chosen, or None, and why."""

    chosen: int | None
    reason: str
    verdicts: tuple[str, ...]  # of each candidate, in a few words


@dataclass(frozen=True)
class SelectionRule:
    """How careful to be.

    Examples:
        >>> uw.SelectionRule(margin=3)  # uw.select(..., rule=...)
        SelectionRule(pessimism=1.0, margin=3, max_outside=0.3, min_reached=5)
    """

    pessimism: float = 1.0  # k: standard deviations below the mean that candidates are ranked by
    margin: float = 2.0  # z: how far above the baseline, in standard deviations of the difference
    max_outside: float = 0.3  # share of actions outside the data's support from which on estimates mean nothing
    min_reached: int = 5  # logged episodes worth as much as is estimated: else nothing shows that it can be had

    def __post_init__(self) -> None:
        for name, high in (("pessimism", np.inf), ("margin", np.inf), ("max_outside", 1.0), ("min_reached", np.inf)):
            value = finite_number(name, getattr(self, name), least=0, most=high, error=ConfigError)
            object.__setattr__(self, name, value)

    def lower(self, candidate: Evidence) -> float:
        """:math:`m_c - k s_c`; without a spread, the mean."""
        return candidate.mean - self.pessimism * (0.0 if np.isnan(candidate.spread) else candidate.spread)

    def decide(self, candidates: Sequence[Evidence], baseline: Baseline) -> Decision:
        """Choose among candidates that are not the baseline itself."""
        verdicts = [self.objection(candidate) for candidate in candidates]
        able = [place for place, objection in enumerate(verdicts) if objection is None]
        best = max(able, key=lambda place: (self.lower(candidates[place]), candidates[place].name), default=None)
        if best is None:
            why = "; ".join(f"{each.name}: {verdict}" for each, verdict in zip(candidates, verdicts, strict=True))
            reason = f"no candidate can be judged ({why})" if candidates else "there is no other candidate"
            return Decision(None, self._abstain(baseline, reason), tuple(verdict or "" for verdict in verdicts))
        winner = candidates[best]
        gap, noise = winner.mean - baseline.mean, self.margin * float(np.hypot(winner.spread, baseline.spread))
        rounding = _ROUNDING * max(abs(winner.mean), abs(baseline.mean))
        beaten = gap > max(noise, rounding)  # False where the noise is unknown
        but = "".join(
            f"; {each.name} is estimated at {number(each.mean)}, but {objection}"
            for each, objection in zip(candidates, verdicts, strict=True)
            if objection is not None and each.mean > winner.mean
        )
        for place in able:
            verdicts[place] = (
                "chosen" if beaten and place == best else "not above the chosen" if beaten else "not shown"
            )
        words = tuple(verdict or "" for verdict in verdicts)
        if beaten:
            return Decision(best, self._why(winner, baseline, gap, noise), words)
        return Decision(None, self._abstain(baseline, _why_not(winner, baseline, gap, noise) + but), words)

    def objection(self, candidate: Evidence) -> str | None:
        """Why a candidate cannot be chosen, whatever its estimate."""
        if not candidate.is_whole:
            lost = int((~np.isfinite(candidate.estimates)).sum())
            return f"{lost} of {candidate.estimates.size} evaluations diverged"
        if candidate.outside > self.max_outside:
            return f"{candidate.outside:.0%} of its actions are outside the data"
        if candidate.reached is not None and candidate.reached < self.min_reached:
            few = f"only {candidate.reached}" if candidate.reached else "none"
            return f"{few} of the logged episodes was worth as much, discounted"
        return None

    def _why(self, winner: Evidence, baseline: Baseline, gap: float, noise: float) -> str:
        return (
            f"{winner.name}: its lower bound {number(self.lower(winner))} (estimate {number(winner.mean)} less "
            f"{self.pessimism:g} standard deviation over seeds) is the highest, its estimate is {number(gap)} above "
            f"{baseline.name} ({number(baseline.mean)}), more than the noise of {number(noise)}, and {winner.outside:.0%} of "
            "its actions are outside the data"
        )

    def _abstain(self, baseline: Baseline, reason: str) -> str:
        return f"{ABSTAINED.format(baseline.name)}: {reason}"


def _why_not(best: Evidence, baseline: Baseline, gap: float, noise: float) -> str:
    if np.isnan(noise):
        return f"{best.name} has a single estimate, and how far that is luck cannot be told; use more seeds"
    if gap <= 0:
        return f"the best, {best.name}, is estimated at {number(best.mean)}, and {baseline.name} at {number(baseline.mean)}"
    return (
        f"the best, {best.name}, is estimated {number(gap)} above it ({number(best.mean)} and {number(baseline.mean)}), and the "
        f"noise is {number(noise)}"
    )
