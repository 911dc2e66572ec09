"""The paper's claims, checked against a store of results.

The claims are data (:data:`QUESTIONS`), in the order and the sense of the paper's text. A check compares the runs of a weighting
(the paper says sampler) with others on the same datasets and comes to one verdict:

- ``alike``, where that is the claim: the 95% interval of the IQM difference lies between -0.05 and 0.05
- ``better``: else, the interval of the probability of improvement lies above one half, and that of the IQM difference not below 0
- ``no loss``: else, the interval of the IQM difference lies above -0.02
- ``worse``: else, the interval of the probability of improvement lies below one half
- ``not shown``: else; also where there is one seed only, which has no interval
- ``no data``: runs are missing

That the gain grows with the RPSV is a rank correlation: ``grows`` where its interval over datasets lies above 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from upweight.base.text import table
from upweight.lab.report.gains import gains_of
from upweight.lab.report.names import UNIFORM, DatasetName
from upweight.lab.report.results import Results, SeedScores
from upweight.lab.report.statistics.bootstrap import FEW_RUNS, Estimate
from upweight.lab.report.statistics.intervals import UNDEFINED, Intervals, is_better, is_worse

BETTER, NO_LOSS, WORSE, ALIKE, GROWS = "better", "no loss", "worse", "alike", "grows"
NOT_SHOWN, NO_DATA = "not shown", "no data"
TOLERANCE = 0.02  # of normalised return, that still counts as no loss
VISIBLE = 0.05  # of normalised return: lines of a figure that are nearer to each other look like one
SIGMAS = (1, 5, 10, 50)
WEIGHTED = ("RW", "AW")
OFFLINE_RL = ("TD3+BC", "IQL", "CQL")
FULL_EXPERT, BC = "Uniform on the full expert set", "BC with the same sampler"
RPSV, PERCENTAGES = "RPSV", "Top-x% at every other x"  # all four: rivals that are no sampler
NO_WORSE = (BETTER, NO_LOSS)
_MATCH = "RW and AW on a mix with 5% or more exceed or match Uniform on the full expert set"
_COMPARED = ("P(better)", "over datasets", "IQM difference", "over datasets")


@dataclass(frozen=True)
class Question:
    """One of the paper's claims: who should stand how to whom, and where."""

    name: str
    text: str
    who: tuple[str, ...]  # samplers
    rival: str  # the sampler they are compared with, or what else
    wanted: tuple[str, ...] = (BETTER,)  # verdicts that support it
    family: str = "mixed"  # of datasets
    sigmas: tuple[int | None, ...] = (None,)  # a check for each share of good steps; None: for all datasets at once
    temperatures: tuple[float, float] | None = None  # all that were run between these, not the usual one


QUESTIONS = (
    Question("mixed", "RW and AW beat Uniform at each sigma", WEIGHTED, UNIFORM, sigmas=SIGMAS),
    Question("top", "RW and AW beat Top-10% at each sigma", WEIGHTED, "Top-10%", sigmas=SIGMAS),
    Question("half", "RW and AW beat Half at each sigma", WEIGHTED, "Half", sigmas=SIGMAS),
    Question("full expert", _MATCH, WEIGHTED, FULL_EXPERT, NO_WORSE, sigmas=SIGMAS[1:]),
    Question("top over uniform", "Top-10% improves on Uniform above 1%", ("Top-10%",), UNIFORM, sigmas=SIGMAS[1:]),
    Question("uniform over top", "Uniform beats Top-10% at 1%", (UNIFORM,), "Top-10%", sigmas=SIGMAS[:1]),
    Question("percentage", "no other percentage is better than Top-10%", ("Top-10%",), PERCENTAGES, NO_WORSE),
    Question("half over uniform", "Half improves on Uniform at each sigma", ("Half",), UNIFORM, sigmas=SIGMAS),
    Question("alike", "AW and RW do not differ visibly", ("AW",), "RW", (ALIKE,)),
    Question("rpsv", "the gain over Uniform grows with the RPSV at similar mean returns", WEIGHTED, RPSV, (GROWS,)),
    Question("regular", "no loss on regular sets", WEIGHTED, UNIFORM, NO_WORSE, "regular"),
    Question("offline RL", "with RW and AW, offline RL beats BC on regular sets", WEIGHTED, BC, family="regular"),
    Question(
        "offline RL on mixes", "with RW and AW, offline RL beats BC on mixes (not the paper's claim)", WEIGHTED, BC
    ),
    Question("stochastic", "RW and AW beat Uniform in stochastic control", WEIGHTED, UNIFORM, family="stochastic"),
    Question(
        "stochastic top", "RW and AW beat Top-10% in stochastic control", WEIGHTED, "Top-10%", family="stochastic"
    ),
    Question(
        "temperature",
        "RW and AW beat Uniform at temperatures from 0.01 to 1",
        WEIGHTED,
        UNIFORM,
        temperatures=(0.01, 1.0),
    ),
)


@dataclass(frozen=True)
class Check:
    """One comparison, or one correlation."""

    method: str
    what: str  # "RW, 5%"
    verdict: str
    datasets: int = 0  # compared on
    seeds: int = 0  # of the dataset that has fewest
    improvement: Estimate | None = None  # probability of it; its interval is over seeds
    gain: Estimate | None = None  # IQM difference; likewise
    verdict_over_datasets: str = NO_DATA  # of the two below
    improvement_over_datasets: Estimate | None = None  # the same numbers with intervals over datasets and seeds
    gain_over_datasets: Estimate | None = None
    correlation: Estimate | None = None  # its interval is over datasets; None where it is undefined, too

    @property
    def has_few_seeds(self) -> bool:
        """Whether its intervals are too narrow to be relied on."""
        return 0 < self.seeds < FEW_RUNS

    def cells(self) -> list[str]:
        """As a row of a table; without data, the beginning of one."""
        if not self.datasets:
            return [self.method, self.what, self.verdict]
        if self.improvement is None:
            numbers = [_shown(self.correlation, 2, "+") or UNDEFINED]
        else:
            numbers = [_shown(self.improvement), _ends(self.improvement_over_datasets)]
            numbers += [_shown(self.gain, 3, "+"), _ends(self.gain_over_datasets, 3, "+")]
        verdict = f"{self.verdict} (few seeds)" if self.has_few_seeds else self.verdict
        return [self.method, self.what, verdict, *numbers, str(self.datasets), str(self.seeds)]


@dataclass(frozen=True)
class Support:
    """What the checks of one algorithm say of a claim."""

    supported: int
    supported_over_datasets: int | None  # with datasets resampled too, where there are several
    contrary: int
    decided: int  # checks that there are runs for
    checks: int

    def __str__(self) -> str:
        """As in "8 of 8 (7 over datasets)"."""
        rest = {"to the contrary": self.contrary, "without data": self.checks - self.decided}
        told = self.supported and self.supported_over_datasets is not None
        said = [f"{self.supported_over_datasets} over datasets"] if told else []
        said += [f"{count} {what}" for what, count in rest.items() if count]
        return f"{self.supported} of {self.checks}" + (f" ({', '.join(said)})" if said else "")


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and the checks that bear on it."""

    name: str
    text: str
    wanted: tuple[str, ...]  # verdicts that support it
    checks: tuple[Check, ...]

    def support(self) -> dict[str, Support]:
        """By algorithm: what readers count apart is not added up."""
        found = {}
        for method in dict.fromkeys(check.method for check in self.checks):
            own = [check for check in self.checks if check.method == method]
            over = [check.verdict_over_datasets for check in own if check.verdict_over_datasets != NO_DATA]
            found[method] = Support(
                supported=sum(check.verdict in self.wanted for check in own),
                supported_over_datasets=sum(verdict in self.wanted for verdict in over) if over else None,
                contrary=sum(check.verdict == WORSE for check in own),
                decided=sum(check.verdict != NO_DATA for check in own),
                checks=len(own),
            )
        return found

    @property
    def has_data(self) -> bool:
        """Whether there are runs for any of its checks."""
        return any(check.verdict != NO_DATA for check in self.checks)

    def __str__(self) -> str:
        """The claim, how many checks support it, and a table of them."""
        head, support = f"Claim: {self.text}", self.support()
        compared = ("rank correlation",) if GROWS in self.wanted else _COMPARED
        header = ["algorithm", "sampler", "verdict", *compared, "datasets", "seeds"]
        cells = [check.cells() for check in self.checks]
        rows = table([row + [""] * (len(header) - len(row)) for row in cells], header=header, align=str.ljust)
        counts = "; ".join(f"{method}: {each}" for method, each in support.items())
        return "\n  ".join([head, f"checks that support it, {counts}", *rows.split("\n")])


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
            support = {method: asdict(each) for method, each in claim.support().items()}
            claims.append({**asdict(claim), "support": support, "wanted": list(claim.wanted)})
        about = {"sources": list(self.sources), "updates": dict(self.updates), "notes": list(self.notes)}
        return {**about, "claims": claims}

    def __str__(self) -> str:
        parts = [str(claim) for claim in self.claims if claim.has_data]
        missing = [f"  {claim.text}" for claim in self.claims if not claim.has_data]
        parts += ["\n".join(["Claims that there are no runs for:", *missing])] if missing else []
        few = [check for claim in self.claims for check in claim.checks if check.has_few_seeds]
        if few:
            parts.append(
                f"Note: verdicts with (few seeds) rest on fewer than {FEW_RUNS} seeds. Their intervals are too narrow, so they "
                f"are no evidence yet: train at least {FEW_RUNS} seeds before drawing conclusions."
            )
        return "\n\n".join([*parts, *(f"Note: {note}" for note in self.notes)])


def replicate(results: Results, intervals: Intervals) -> Replication:
    """Check every claim for every method in the results.

    Examples:
        >>> found = uw.replicate(uw.collect(uw.open_store("results")), uw.Intervals(resamples=100))
        >>> found.claims[0].text
        'RW and AW beat Uniform at each sigma'
    """
    claims = tuple(
        Claim(each.name, each.text, each.wanted, tuple(_checks(results, each, intervals))) for each in QUESTIONS
    )
    lengths = f"Methods were trained for different numbers of updates ({results.updates_text}), and may differ for that alone."
    several = [lengths] if len(set(results.updates.values())) > 1 else []
    notes = (*several, *filter(None, [results.not_shown]), *results.data_notes.values())
    return Replication(results.sources, dict(results.updates), claims, notes)


def _checks(results: Results, question: Question, intervals: Intervals) -> Iterator[Check]:
    for method in results.methods:
        family = results.datasets_of(method, family=question.family)
        if not family or (question.rival == BC and results.algorithm(method).split()[0] not in OFFLINE_RL):
            continue
        scored = [dataset for dataset in family if results.is_normalized(dataset)]  # returns cannot be pooled
        for sigma in question.sigmas:
            datasets = [dataset for dataset in scored if sigma in (None, dataset.sigma)]
            for sampler, rival in _pairs(results, method, question):
                if rival == RPSV:
                    yield from _growth(results, method, sampler, datasets, intervals)
                    continue
                what = sampler if rival == question.rival else f"{sampler} against {rival}"
                what += "" if sigma is None else f", {sigma}%"
                x = results.scores(method, sampler, datasets)
                y, note = _rival(results, method, sampler, rival, datasets)
                kinds = {dataset.name: dataset.base for dataset in datasets}
                yield _judge(Check(method, what + note, NO_DATA), x, y, question.wanted, intervals, kinds)


def _judge(
    check: Check, x: SeedScores, y: SeedScores, wanted: Sequence[str], intervals: Intervals, kinds: Mapping[str, str]
) -> Check:
    """Compare x with y, task by task; tasks that only one of them has are left out. Some may be draws of one of the ``kinds``."""
    common = [task for task in x if task in y]
    if not common:
        return check
    x, y = {task: x[task] for task in common}, {task: y[task] for task in common}
    improvement, gain = intervals.improvement(x, y), intervals.gain(x, y)
    found = replace(
        check,
        verdict=_verdict(improvement, gain, wanted),
        datasets=len(common),
        seeds=gain.runs,
        improvement=improvement,
        gain=gain,
    )
    if len(common) == 1:
        return found
    improvement, gain = intervals.improvement(x, y, over_tasks=kinds), intervals.gain(x, y, over_tasks=kinds)
    return replace(
        found,
        verdict_over_datasets=_verdict(improvement, gain, wanted),
        improvement_over_datasets=improvement,
        gain_over_datasets=gain,
    )


def _verdict(improvement: Estimate, gain: Estimate, wanted: Sequence[str]) -> str:
    if gain.runs < 2:
        return NOT_SHOWN
    if ALIKE in wanted and gain.low > -VISIBLE and gain.high < VISIBLE:
        return ALIKE
    if is_better(improvement) and gain.high > 0:
        return BETTER
    if gain.low > -TOLERANCE:
        return NO_LOSS
    return WORSE if is_worse(improvement) else NOT_SHOWN


def _growth(
    results: Results, method: str, sampler: str, datasets: Sequence[DatasetName], intervals: Intervals
) -> Iterator[Check]:
    """Whether the gain grows with the RPSV, and whether it does at equal mean return."""
    gains = gains_of(results, method, sampler, datasets)
    for equal in (False, True):
        what = f"{sampler}, at equal mean" if equal else sampler
        if gains.are_few:
            yield Check(method, what, NO_DATA)
            continue
        found = gains.growth(intervals, at_equal_mean=equal)
        verdict = GROWS if found is not None and found.low > 0 else NOT_SHOWN
        yield Check(method, what, verdict, gains.num_kinds, gains.seeds, correlation=found)


def _pairs(results: Results, method: str, question: Question) -> Iterator[tuple[str, str]]:
    """The samplers of the question, each with its rival; at every temperature or percentage that was run, if it asks for them."""
    if question.rival == PERCENTAGES:
        others = [each.name for each in results.weightings(method) if each.kind == "top" and each.is_variant]
        yield from ((who, other) for who in question.who for other in others)
    elif question.temperatures is None:
        yield from ((who, question.rival) for who in question.who)
    else:
        yield from (
            (who, question.rival) for who in _at_temperatures(results, method, question.who, question.temperatures)
        )


def _at_temperatures(
    results: Results, method: str, who: Sequence[str], temperatures: tuple[float, float]
) -> Sequence[str]:
    """The samplers at every temperature from the first to the last, if several were run."""
    first, last = temperatures
    kinds = {name.lower() for name in who}
    found = [each for each in results.weightings(method) if each.kind in kinds and each.setting is not None]
    varied = {each.kind for each in found if each.is_variant}
    chosen = [each for each in found if each.kind in varied and first <= (each.setting or 0) <= last]
    return [each.name for each in sorted(chosen, key=lambda each: (each.kind != "rw", each.setting))]


def _rival(
    results: Results, method: str, sampler: str, rival: str, datasets: Sequence[DatasetName]
) -> tuple[SeedScores, str]:
    """Scores of a rival, and a remark to print after the sampler's name."""
    if rival == FULL_EXPERT:
        return _full_expert(results, method, datasets), ""
    if rival == BC:
        return _bc_beside(results, method, sampler, datasets)
    return results.scores(method, rival, datasets), ""


def _bc_beside(results: Results, method: str, sampler: str, datasets: Sequence[DatasetName]) -> tuple[SeedScores, str]:
    """Scores of BC, if possible after as many updates as the method had and in its precision; what differs has to be said."""

    def differs(name: str) -> tuple[str, str]:
        after, precision = results.updates[name], results.precision(name)
        return (
            f" after {after:,} updates" if after != results.updates[method] else "",
            f" in {precision}" if precision != results.precision(method) else "",
        )

    found = [name for name in results.methods if results.algorithm(name) == "BC"]
    found = [name for name in found if results.scores(name, sampler, datasets)]
    if not found:
        return {}, ""
    nearest = min(found, key=lambda name: tuple(map(bool, differs(name))))
    said = "".join(reversed(differs(nearest)))
    return results.scores(nearest, sampler, datasets), f", BC{said}" if said else ""


def _full_expert(results: Results, method: str, mixes: Sequence[DatasetName]) -> SeedScores:
    """Scores of Uniform on the full set of each mix with expert data, under the mix's name.

    Where a task has several full sets, a mix meets the one of its own steps and seed, or else all of them.
    """
    found: SeedScores = {}
    for mix in mixes:
        full = results.datasets_of(method, family="regular", base=f"{mix.task}-expert")
        own = [dataset for dataset in full if dataset.variant == mix.variant]
        scores = results.scores(method, UNIFORM, own or full)
        if scores and mix.good == "expert":
            found[mix.name] = [score for values in scores.values() for score in values]
    return found


def _ends(estimate: Estimate | None, digits: int = 2, sign: str = "") -> str:
    if estimate is None:
        return ""
    return f"[{_number(estimate.low, digits, sign)}, {_number(estimate.high, digits, sign)}]"


def _shown(estimate: Estimate | None, digits: int = 2, sign: str = "") -> str:
    return "" if estimate is None else f"{_number(estimate.point, digits, sign)} {_ends(estimate, digits, sign)}"


def _number(value: float, digits: int, sign: str) -> str:
    """Without a minus before 0."""
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"
