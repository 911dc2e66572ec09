"""What one run came to."""

from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from upweight.base.text import Shown
from upweight.lab.train.agreement import Agreement
from upweight.lab.train.points import best_point
from upweight.lab.train.run import Run
from upweight.lab.train.tracking import Record
from upweight.policies.policy import Policy
from upweight.weightings.weighting import Weighting


@dataclass(frozen=True)
class Kept:
    """The choice among the policies of one run that was trained with ``num_updates="auto"``."""

    by: str  # "held-out actions", "1,000 passes" or "the end"
    points: list[Record]  # updates, and the error of actions there: of held-out ones, where those choose

    def __str__(self) -> str:
        best = best_point(self.points)["updates"]
        among = f" of {len(self.points)} points up to {self.points[-1]['updates']:,}" if len(self.points) > 1 else ""
        return f"{best:,} updates, by {self.by}{among}"


@dataclass(frozen=True, eq=False, repr=False)
class RunResult(Shown):
    """What one run came to."""

    run: Run
    policy: Policy
    status: str  # "finished" or "diverged"
    updates: int  # that its policy has had: fewer than asked for if it diverged, when it is put back to a sound state
    diverged_at: int | None  # the update at which a NaN first showed
    metrics: list[Record]  # one entry per log interval
    # Updates and returns where it was evaluated, on the way and at the end, if it was.
    points: list[Record] = field(default_factory=list)
    best: Policy | None = None  # of these points: chosen with the simulator
    agreement: Agreement | None = None  # of the policy's actions with logged ones
    holdout: NDArray[np.int64] | None = None  # the episodes that were kept back from the training
    kernels: str = "xla"  # or "fused": what computed its networks, where it was trained last
    kept: Kept | None = None  # why its policy is that of so many updates, if num_updates="auto" chose them

    @property
    def best_point(self) -> Record | None:
        """The first point that none returned more than."""
        return best_point(self.points) if self.points else None

    def outcome(self) -> Record:
        """How it ended, and what computed it."""
        return {name: getattr(self, name) for name in ("status", "updates", "diverged_at", "kernels")}

    def to_dict(self) -> Record:
        last = self.metrics[-1] if self.metrics else {}
        return {
            **self.run.to_dict(),
            **self.outcome(),
            "last_metrics": {k: v for k, v in last.items() if k not in {"run", "updates"}},
            **({"points": self.points} if self.points else {}),
            **({} if self.kept is None else {"kept": asdict(self.kept)}),
            "agreement": None if self.agreement is None else asdict(self.agreement),
        }

    def _facts(self) -> Record:
        weighting = self.run.weighting if isinstance(self.run.weighting, Weighting) else "given"
        facts = {"algorithm": self.run.method.name, "weighting": weighting, "seed": self.run.seed}
        facts |= {"status": self.status, "updates": self.updates}
        last = {name: value for name, value in (self.metrics or [{}])[-1].items() if name.endswith("loss")}
        error = {} if self.agreement is None else {"error": self.agreement.error, "constant": self.agreement.constant}
        kept = {} if self.kept is None else {"kept": str(self.kept)}
        return {**facts, **last, **error, **kept}
