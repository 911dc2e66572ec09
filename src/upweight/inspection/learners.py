"""Who learns, as far as advice depends on it: what clones, what has an actor next to its critics, what has critics alone."""

from dataclasses import dataclass

from upweight.base.errors import WeightingError
from upweight.base.names import hint


@dataclass(frozen=True)
class Learner:
    """A kind of algorithm, and what advice calls it."""

    name: str
    has_actor: bool = True
    has_critics: bool = True

    @property
    def clones(self) -> bool:
        """Whether it copies actions and nothing else."""
        return not self.has_critics


CLONING = Learner("cloning (BC)", has_critics=False)
ACTOR_CRITICS = Learner("actor-critics (TD3+BC, IQL, CQL)")
CRITICS = Learner("critics that are the policy (discrete CQL)", has_actor=False)
LEARNERS = {
    "cloning": CLONING,
    "bc": CLONING,
    "discrete_bc": CLONING,
    "actor_critic": ACTOR_CRITICS,
    "td3_bc": Learner("TD3+BC"),
    "iql": Learner("IQL"),
    "discrete_iql": Learner("IQL"),
    "cql": Learner("CQL"),
    "critic": CRITICS,
    "discrete_cql": CRITICS,
}


def learners_of(algorithm: str | None) -> tuple[Learner, ...]:
    """Of an algorithm's name, or of a kind's ("cloning", "actor_critic" or "critic"); None: cloning and actor-critics."""
    if algorithm is None:
        return CLONING, ACTOR_CRITICS
    name = str(algorithm).lower()
    if name not in LEARNERS:
        raise WeightingError(f"algorithm: no advice for {algorithm!r}; {hint(name, LEARNERS)}")
    return (LEARNERS[name],)
