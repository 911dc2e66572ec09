"""The paper's claims, checked against a store of results.

A check compares the runs of a weighting (the paper says sampler) with others on the same datasets and comes to one verdict:

- ``better``: the 95% interval of the probability of improvement lies above one half
- ``no loss``: else, the interval of the IQM difference lies above -0.02
- ``not shown``: else; also where there is one seed only, which has no interval
- ``no data``: runs are missing
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from upweight.base.text import table
from upweight.report.names import UNIFORM, DatasetName
from upweight.report.results import Results, SeedScores
from upweight.report.statistics.bootstrap import FEW_RUNS, Estimate
from upweight.report.statistics.intervals import Intervals, is_better

BETTER, NO_LOSS, NOT_SHOWN, NO_DATA = "better", "no loss", "not shown", "no data"
TOLERANCE = 0.02  # of normalised return, that still counts as no loss
SIGMAS = (1, 5, 10, 50)
WEIGHTED = ("RW", "AW")
Comparison = tuple[str, str, SeedScores, SeedScores]  # method, what is compared, its scores, those to compare with
_COLUMNS = ("algorithm", "sampler", "verdict", "P(better)", "IQM difference", "datasets", "seeds")


@dataclass(frozen=True)
class Check:
    """One comparison."""

    method: str
    what: str  # "RW, 5%"
    verdict: str
    datasets: int = 0  # compared on
    improvement: Estimate | None = None  # probability of it
    gain: Estimate | None = None  # IQM difference

    @property
    def seeds(self) -> int:
        """Of the dataset that has fewest."""
        return 0 if self.gain is None else self.gain.runs

    @property
    def has_few_seeds(self) -> bool:
        """Whether its intervals are too narrow to be relied on."""
        return 0 < self.seeds < FEW_RUNS

    def cells(self) -> list[str]:
        """As a row of a table."""
        if self.improvement is None or self.gain is None:
            return [self.method, self.what, self.verdict, "", "", "", ""]
        verdict = f"{self.verdict} (few seeds)" if self.has_few_seeds else self.verdict
        numbers = [_shown(self.improvement), _shown(self.gain, "+.3f"), str(self.datasets), str(self.seeds)]
        return [self.method, self.what, verdict, *numbers]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and the checks that bear on it."""

    name: str
    text: str
    wanted: tuple[str, ...]  # verdicts that support it
    checks: tuple[Check, ...]

    @property
    def supported(self) -> int:
        return sum(check.verdict in self.wanted for check in self.checks)

    @property
    def decided(self) -> int:
        """Checks that there are runs for."""
        return sum(check.verdict != NO_DATA for check in self.checks)

    def __str__(self) -> str:
        """The claim, how many checks support it, and a table of them."""
        head = f"Claim: {self.text}"
        if not self.decided:
            return f"{head}\n  {NO_DATA}"
        missing = len(self.checks) - self.decided
        support = f"supported by {self.supported} of {len(self.checks)} checks" + (
            f" ({missing} without data)" if missing else ""
        )
        rows = table([check.cells() for check in self.checks], header=list(_COLUMNS), align=str.ljust)
        return "\n  ".join([head, support, *rows.split("\n")])


@dataclass(frozen=True)
class Replication:
    """All claims."""

    sources: tuple[str, ...]
    updates: dict[str, int]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...] = ()  # about the data

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        claims = []
        for claim in self.claims:
            counts = {"supported": claim.supported, "decided": claim.decided}
            claims.append({**asdict(claim), **counts, "wanted": list(claim.wanted)})
        about = {"sources": list(self.sources), "updates": dict(self.updates), "notes": list(self.notes)}
        return {**about, "claims": claims}

    def __str__(self) -> str:
        parts = [str(claim) for claim in self.claims]
        few = [check for claim in self.claims for check in claim.checks if check.has_few_seeds]
        if few:
            parts.append(
                f"Note: verdicts with (few seeds) rest on fewer than {FEW_RUNS} seeds. Their intervals are too narrow, so they "
                f"are no evidence yet: train at least {FEW_RUNS} seeds before drawing conclusions."
            )
        return "\n\n".join([*parts, *(f"Note: {note}" for note in self.notes)])


def replicate(results: Results, intervals: Intervals) -> Replication:
    """Check every claim for every method in the results."""

    def claim(name: str, text: str, wanted: tuple[str, ...], comparisons: Iterator[Comparison]) -> Claim:
        return Claim(name, text, wanted, tuple(judge(*each, intervals) for each in comparisons))

    no_worse = (BETTER, NO_LOSS)
    expert = "RW and AW on a mix exceed or match Uniform on the full expert set"
    temperature = "not sensitive to the temperature: others lose nothing against the default"
    claims = (
        claim("mixed", "RW and AW beat Uniform at each sigma", (BETTER,), _mixed(results)),
        claim("full expert", expert, no_worse, _full_expert(results)),
        claim("regular", "no loss on regular sets", no_worse, _family(results, "regular")),
        claim("stochastic", "robust in stochastic control", no_worse, _family(results, "stochastic")),
        claim("temperature", temperature, no_worse, _temperature(results)),
    )
    return Replication(results.sources, dict(results.updates), claims, tuple(results.data_notes.values()))


def judge(method: str, what: str, x: SeedScores, y: SeedScores, intervals: Intervals) -> Check:
    """Compare x with y, task by task; tasks that only one of them has are left out."""
    common = [task for task in x if task in y]
    if not common:
        return Check(method, what, NO_DATA)
    x, y = {task: x[task] for task in common}, {task: y[task] for task in common}
    improvement, gain = intervals.improvement(x, y), intervals.gain(x, y)
    verdict = NOT_SHOWN
    if is_better(improvement):
        verdict = BETTER
    elif gain.runs > 1 and gain.low > -TOLERANCE:
        verdict = NO_LOSS
    return Check(method, what, verdict, len(common), improvement, gain)


def _mixed(results: Results) -> Iterator[Comparison]:
    for method in _methods(results, "mixed"):
        for sigma in SIGMAS:
            datasets = _datasets(results, method, family="mixed", sigma=sigma)
            uniform = results.scores(method, UNIFORM, datasets)
            for weighting in WEIGHTED:
                yield method, f"{weighting}, {sigma}%", results.scores(method, weighting, datasets), uniform


def _full_expert(results: Results) -> Iterator[Comparison]:
    for method in _methods(results, "mixed"):
        regular = _datasets(results, method, family="regular")
        whole = [dataset for dataset in regular if dataset.base == f"{dataset.task}-expert"]
        for sigma in SIGMAS:
            mixes = _datasets(results, method, family="mixed", good="expert", sigma=sigma)
            expert = _of_same_task(results, method, mixes, whole)
            for weighting in WEIGHTED:
                yield method, f"{weighting}, {sigma}%", results.scores(method, weighting, mixes), expert


def _family(results: Results, family: str) -> Iterator[Comparison]:
    """Regular sets, on which only Uniform may have run beside mixes, or stochastic control."""
    for method in _methods(results, family):
        datasets = _datasets(results, method, family=family)
        uniform = results.scores(method, UNIFORM, datasets)
        for weighting in WEIGHTED:
            yield method, weighting, results.scores(method, weighting, datasets), uniform


def _temperature(results: Results) -> Iterator[Comparison]:
    for method in results.methods:
        datasets = _datasets(results, method, family="mixed")
        for usual in WEIGHTED:
            default = results.scores(method, usual, datasets)
            for other in results.weightings(method):
                if other.kind == usual.lower() and other.name != usual:
                    yield method, f"{other.name} against {usual}", results.scores(method, other.name, datasets), default


def _methods(results: Results, family: str) -> list[str]:
    return [method for method in results.methods if results.datasets_of(method, family=family)]


def _datasets(results: Results, method: str, **properties: Any) -> list[DatasetName]:
    """Those with normalised scores: returns cannot be pooled."""
    return [dataset for dataset in results.datasets_of(method, **properties) if results.is_normalized(dataset)]


def _of_same_task(
    results: Results, method: str, mixes: Sequence[DatasetName], whole: Sequence[DatasetName]
) -> SeedScores:
    """Scores of Uniform on the full set of each mix, under the mix's name.

    Where a task has several full sets, a mix meets the one of its own steps and seed, or else all of them.
    """
    found: SeedScores = {}
    for mix in mixes:
        full = [dataset for dataset in whole if dataset.task == mix.task]
        own = [dataset for dataset in full if dataset.variant == mix.variant]
        scores = results.scores(method, UNIFORM, own or full)
        if scores:
            found[mix.name] = [score for values in scores.values() for score in values]
    return found


def _shown(estimate: Estimate, digits: str = ".2f") -> str:
    point, low, high = (f"{round(value, 3) + 0.0:{digits}}" for value in (estimate.point, estimate.low, estimate.high))
    return f"{point} [{low}, {high}]"
