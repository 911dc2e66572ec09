"""What a selection came to: the table, the choice and its reasons, as text, JSON and files."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from upweight.base.checks import yes_or_no
from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target, write_json
from upweight.base.text import Grid, as_html, number, table
from upweight.lab.select.candidates import Candidate, Member
from upweight.lab.select.rule import Baseline, Evidence, SelectionRule
from upweight.policies.policy import Policy

FORMAT_VERSION = 1
ALL = "all"  # episodes: where none were kept back
_LINE = 110
OPTIMISTIC = (
    "The policies may have learned from the episodes they are judged by, so estimates are optimistic; "
    "train with --holdout 0.2 to keep some back"
)


@dataclass(frozen=True)
class Look:
    """What can be seen of a candidate without learning: means over its policies."""

    outside: float  # share of its actions that are far from all logged ones in such states
    action_error: float  # against the log: mean squared difference with bounds at -1 and 1, or share of other actions
    constant_error: float  # the same of the best constant action
    weighted_error: float | None  # its error on steps drawn by return-weighting: does it do as the good episodes do?
    importance: float | None = None  # weighted importance sampling, where the log has propensities
    effective_episodes: float | None = None  # that it rests on


@dataclass(frozen=True, eq=False)
class Standing:
    """One candidate, and all that is known of it."""

    candidate: Candidate
    evidence: Evidence
    look: Look
    verdict: str
    best: int  # of its policies: the one with the highest estimate
    by_group: Mapping[str, float]  # mean estimate at the starts of a label, or of a group of starts
    true_returns: NDArray[np.float64] | None = None  # [K] mean return of each policy in the environment
    real_returns: tuple[float, ...] | None = None  # of the real episodes that its best policy played

    @property
    def name(self) -> str:
        return self.candidate.name

    @property
    def best_member(self) -> Member:
        return self.candidate.members[self.best]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; None where there is no number."""
        estimates = self.evidence.estimates
        return {
            "name": self.name,
            "policies": [None if member.path is None else str(member.path) for member in self.candidate.members],
            "seeds": [member.seed for member in self.candidate.members],
            "verdict": self.verdict,
            "estimate": _known(self.evidence.mean),
            "spread": _known(self.evidence.spread),
            "estimates": [[_known(value) for value in row] for row in estimates.tolist()],
            "by_group": {name: _known(value) for name, value in self.by_group.items()},
            **asdict(self.look),
            "reached_by_episodes": self.evidence.reached,
            "true_returns": None if self.true_returns is None else self.true_returns.tolist(),
            "real_returns": None if self.real_returns is None else list(self.real_returns),
        }


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Candidates with their estimates, and the one to take, if one is. ``print`` it for all of it."""

    standings: tuple[Standing, ...]
    chosen: int | None  # its place; None: abstained
    reason: str
    notes: tuple[str, ...]
    baseline: Baseline
    rule: SelectionRule
    about: Mapping[str, Any] = field(default_factory=dict)  # data, settings

    @property
    def choice(self) -> Standing | None:
        return None if self.chosen is None else self.standings[self.chosen]

    @property
    def policy(self) -> Policy | None:
        """The policy to take: of the candidate chosen, the one with the highest estimate."""
        return None if self.choice is None else self.choice.best_member.policy

    @property
    def headline(self) -> str:
        if self.choice is None:
            return f"Abstained: {self.reason}."
        path, seed = self.choice.best_member.path, self.choice.best_member.seed
        which = "" if seed is None else f", seed {seed}"
        return f"Choice: {self.reason}.\nPolicy: {path or self.choice.name}{which}"

    @cached_property
    def grid(self) -> Grid:
        """The table: one row per candidate, the highest estimate first."""
        more = {
            "IS": self._has_importance,
            "true return": any(each.true_returns is not None for each in self.standings),
            "real episodes": any(each.real_returns is not None for each in self.standings),
        }
        vetoes = {reason: f"vetoed ({place})" for reason, place in self._vetoes.items()}
        rows = [
            [*_row(each, each is self.choice, more), vetoes.get(each.verdict, each.verdict)] for each in self.ranked
        ]
        header = ["candidate", "policies", "estimate", "±", "% outside", "action error", "constant", "of good"]
        return Grid(rows, [*header, *(name for name, shown in more.items() if shown), "verdict"])

    @property
    def _vetoes(self) -> dict[str, int]:
        """Why candidates could not be chosen, with the number that stands for it in the table."""
        vetoed = [each for each in self.ranked if each.verdict == self.rule.objection(each.evidence)]
        return {reason: place for place, reason in enumerate(dict.fromkeys(each.verdict for each in vetoed), 1)}

    @property
    def _veto_lines(self) -> list[str]:
        return [f"({place}) {reason}" for reason, place in self._vetoes.items()]

    @property
    def _has_importance(self) -> bool:
        return any(each.look.effective_episodes is not None for each in self.standings)

    @property
    def ranked(self) -> list[Standing]:
        """The highest estimate first, those without one last."""
        return sorted(self.standings, key=lambda each: -np.nan_to_num(each.evidence.mean, nan=-np.inf))

    @property
    def group_grid(self) -> Grid | None:
        """Estimates by label, or by group of starts; None where there is one group only."""
        names = list(self.standings[0].by_group)
        if len(names) < 2:
            return None
        rows = [[each.name, *(_number(each.by_group[name]) for name in names)] for each in self.ranked]
        return Grid(rows, ["estimate at starts of", *names])

    @property
    def legend(self) -> str:
        discount = self.about.get("settings", {}).get("discount", 0.99)
        weighed = "IS: weighted importance sampling (episodes that it rests on; do not trust fewer than ten)"
        return (
            f"estimate: discounted value ({discount:g} per step) by fitted Q evaluation at the starts of the episodes, mean over "
            "policies and critics, ± standard deviation without what all candidates share; % outside: actions unlike all logged "
            "ones in such states (the log itself: 5 at most); action error: against the log, next to the best constant action's, "
            "and where steps are drawn by return-weighting (of good)" + (f"; {weighed}" if self._has_importance else "")
        )

    @property
    def basis(self) -> str:
        about = self.about
        share = f"{about['episodes']:,} of {about['of_episodes']:,} episodes of {about['data']} ({about['which']})"
        critics = "1 critic" if about["seeds"] == 1 else f"{about['seeds']} critics"
        return f"{share}, {critics} per policy, {about['updates']:,} updates"

    @property
    def remarks(self) -> list[str]:
        """What else to know about the choice."""
        return [*([OPTIMISTIC] if self.about["which"] == ALL else []), *self.notes]

    def __str__(self) -> str:
        parts = [self.basis, table(self.grid.rows, header=self.grid.header), "\n".join(self._veto_lines)]
        parts.append(fill(self.legend, _LINE))
        if (groups := self.group_grid) is not None:
            parts.append(table(groups.rows, header=groups.header))
        parts.append("\n".join(fill(line, _LINE) for line in self.headline.splitlines()))
        parts += ["\n".join(fill(f"- {each}", _LINE, subsequent_indent="  ") for each in self.remarks)]
        return "\n\n".join(filter(None, parts))

    def __repr__(self) -> str:
        chosen = None if self.choice is None else self.choice.name
        return f"Selection(candidates={len(self.standings)}, chosen={chosen!r})"

    def _repr_html_(self) -> str:
        return as_html("Selection", self.headline, self.grid, *self._veto_lines, *self.remarks)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        choice = self.choice
        return {
            "format": FORMAT_VERSION,
            "chosen": None if choice is None else choice.name,
            "policy": None if choice is None or choice.best_member.path is None else str(choice.best_member.path),
            "reason": self.reason,
            "remarks": self.remarks,
            "baseline": {**asdict(self.baseline), "spread": _known(self.baseline.spread)},
            "rule": asdict(self.rule),
            **self.about,
            "candidates": [each.to_dict() for each in self.standings],
        }

    def save(self, path: str | Path, *, overwrite: bool = False) -> list[Path]:
        """Write the choice as JSON and, if there is one, the policy next to it (``choice.json``, ``choice.safetensors``)."""
        target = Path(path)
        policy_file = check_output(target, overwrite=overwrite)
        if (choice := self.choice) is None:
            policy_file.unlink(missing_ok=True)  # of an earlier choice: it could be mistaken for this one's
        elif choice.best_member.path is None:
            choice.best_member.policy.save(policy_file)
        else:
            with atomic_target(policy_file) as copy:
                shutil.copyfile(choice.best_member.path, copy)
        write_json(target, {**self.to_dict(), "copied_to": None if choice is None else policy_file.name})
        return [target] if choice is None else [target, policy_file]


def check_output(path: Path, *, overwrite: bool) -> Path:
    """Before any work is done for it: nothing is replaced unasked. Gives the place of the policy."""
    if path.suffix != ".json":
        raise DatasetError(f"{path}: the choice is written as JSON; give a name that ends in .json")
    yes_or_no("overwrite", overwrite, error=DatasetError)
    policy_file = path.with_suffix(".safetensors")
    for each in (path, policy_file):
        if each.exists() and not overwrite:
            raise DatasetError(
                f"{each}: exists already; choose another name, or replace it with overwrite=True (--overwrite)"
            )
    return policy_file


def _row(each: Standing, is_chosen: bool, more: Mapping[str, bool]) -> list[str]:
    cells = [
        f"{'> ' if is_chosen else '  '}{each.name}",
        str(len(each.candidate.members)),
        _number(each.evidence.mean),
        "-" if np.isnan(each.evidence.spread) else f"{each.evidence.spread:.2g}",
        f"{100 * each.look.outside:.0f}",
        number(each.look.action_error),
        number(each.look.constant_error),
        "-" if each.look.weighted_error is None else number(each.look.weighted_error),
    ]
    if more["IS"]:
        value, left = each.look.importance, each.look.effective_episodes
        cells.append(f"{'-' if value is None else number(value)} ({left:.1f})")
    if more["true return"]:
        cells.append("-" if each.true_returns is None else number(float(each.true_returns.mean())))
    if more["real episodes"]:
        cells.append(
            f"{number(float(np.mean(each.real_returns)))} ({len(each.real_returns)})" if each.real_returns else "-"
        )
    return cells


def _number(value: float) -> str:
    return "-" if np.isnan(value) else number(value)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value
