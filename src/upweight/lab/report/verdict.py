"""The answer of a report in one sentence: how a weighting does against Uniform, algorithm by algorithm.

Which weighting it speaks of is settled before the results are seen (RW, else AW, else the first that was run with Uniform; the
paper's temperature before others), so that it is no winner picked afterwards. Counts are those below the score tables, the gain
is the difference in IQM.
"""

from collections.abc import Sequence

from upweight.lab.report.figures.weightings import why_nothing_beside_uniform
from upweight.lab.report.names import UNIFORM, DatasetName, WeightingName
from upweight.lab.report.results import Results
from upweight.lab.report.statistics.bootstrap import FEW_RUNS, Estimate
from upweight.lab.report.statistics.intervals import Intervals, level_name
from upweight.lab.report.tables import Score, ScoreTable, score_text

FAVOURITES = ("rw", "aw")  # kinds of weightings
Judged = list[tuple[DatasetName, Score]]  # scores of a weighting on the datasets where Uniform has runs too


def verdict(results: Results, intervals: Intervals, tables: Sequence[ScoreTable]) -> str:
    """One sentence, with a clause for each method."""
    if not results.shown:
        return "The policies were not evaluated: these are the losses of their training (upweight evaluate plays them)."
    clauses = []
    for method in results.methods:
        columns = _columns([table for table in tables if table.method == method])
        chosen = min((each for each in results.weightings(method) if each.name in columns), key=_place, default=None)
        if chosen is None:
            clauses.append(f"{method}: no comparison, because {why_nothing_beside_uniform(results, method)}")
        else:
            scores = columns[chosen.name]
            numbers = _gain(results, intervals, method, chosen.name, [dataset for dataset, _ in scores])
            clauses.append(f"{method}: {', '.join(filter(None, [_counts(chosen.name, scores), numbers]))}")
    return f"{'; '.join(clauses)}."


def _place(weighting: WeightingName) -> tuple[int, bool]:
    """Where it stands in the order of those to speak of."""
    return (FAVOURITES.index(weighting.kind) if weighting.kind in FAVOURITES else len(FAVOURITES), weighting.is_variant)


def _columns(tables: Sequence[ScoreTable]) -> dict[str, Judged]:
    """Weighting -> its scores on datasets that have Uniform too, in the order of the tables."""
    found: dict[str, Judged] = {}
    for table in tables:
        for place, weighting in enumerate(table.weightings):
            column = [(dataset, score) for dataset, scores in table.rows if (score := scores[place]) is not None]
            compared = [(dataset, score) for dataset, score in column if score.improvement is not None]
            if compared:
                found.setdefault(weighting, compared)
    return found


def _counts(weighting: str, scores: Judged) -> str:
    """On how many datasets it is better and worse, of those with enough seeds to tell."""
    judged = [(dataset, score) for dataset, score in scores if score.is_judged]
    if not judged:
        return f"{weighting} against Uniform on {_number(scores)}, from fewer than {FEW_RUNS} seeds, too few to judge"
    better = sum(score.is_better for _, score in judged)
    worse = sum(score.is_worse for _, score in judged)
    if not better and not worse:
        return f"{weighting} and Uniform cannot be told apart on {_number(judged)}"
    if better >= worse:
        also = f" and loses on {worse}" if worse else ""
        return f"{weighting} beats Uniform on {_number(judged, better)}{also}"
    also = f" and beats it on {better}" if better else ""
    return f"{weighting} loses to Uniform on {_number(judged, worse)}{also}"


def _number(scores: Judged, count: int | None = None) -> str:
    """The dataset, if it is one; else how many, or how many of how many."""
    if len(scores) == 1:
        return scores[0][0].name
    return f"{len(scores)} datasets" if count is None else f"{count} of {len(scores)} datasets"


def _gain(results: Results, intervals: Intervals, method: str, weighting: str, datasets: Sequence[DatasetName]) -> str:
    """The difference in level over the datasets whose scores have one scale: "+0.61 IQM [0.59, 0.63]"."""
    common = results.comparable(method, [weighting, UNIFORM], datasets)
    if not common:
        return ""
    x, y = (results.scores(method, name, common) for name in (weighting, UNIFORM))
    text = gain_text(intervals.gain(x, y), level_name(len(common)), normalized=results.is_normalized(common[0]))
    return text if len(common) == len(datasets) else f"{text} on the {len(common)} with reference scores"


def gain_text(gain: Estimate, level: str, *, normalized: bool) -> str:
    """With a sign, and an interval if there is more than one run."""
    point, low, high = (score_text(value, normalized=normalized) for value in (gain.point, gain.low, gain.high))
    sign = "" if point.startswith("-") else "+"
    unit = {("mean", True): "in the mean", ("mean", False): "in the mean return", ("IQM", False): "IQM of returns"}.get(
        (level, normalized), level
    )
    return f"{sign}{point} {unit}" + (f" [{low}, {high}]" if gain.runs > 1 else "")
