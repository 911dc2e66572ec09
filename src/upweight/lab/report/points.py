"""Evaluation on the way: runs as they were at points of their training, and the best of those points."""

from dataclasses import replace

from upweight.lab.report.results import Group, ReportRun, Results
from upweight.lab.report.statistics.intervals import Intervals
from upweight.lab.report.table import Row, Table
from upweight.lab.report.tables import estimate_text

CHOSEN = "chosen with the simulator"
_NOTES = (
    "Numbers above columns are updates.",
    "Last: the final policy, as in all other tables and figures. Best: the highest of each run's scores, the last one "
    f"included, and so {CHOSEN}, on the very episodes that it is scored on. It says what stopping in time could gain at most; "
    "who has nothing but logs cannot choose like that.",
    "IQM (the mean where there is one dataset) with 95% intervals of the stratified bootstrap over seeds, over the datasets that "
    "all samplers of a block have runs on.",
)


def with_points(results: Results) -> Results:
    """Of the runs that are shown, those that were evaluated on the way."""
    return replace(results, runs=tuple(run for run in results.shown if run.points))


def shared_points(results: Results, group: Group) -> list[int]:
    """The updates at which every run of a group was evaluated, or had diverged."""
    names = {each.name for each in group.datasets}, {each.name for each in group.weightings}
    runs = [run for run in results.shown if run.method == group.method]
    mine = [run for run in runs if run.dataset.name in names[0] and run.weighting.name in names[1]]
    everywhere = sorted({updates for run in mine for updates, _ in run.points})
    return [updates for updates in everywhere if all(run.score_at(updates) is not None for run in mine)]


def at_point(results: Results, updates: int) -> Results:
    """The runs with the scores that they had then; one that had diverged counts as it does at its end."""
    found = ((run, run.score_at(updates)) for run in results.runs)
    return replace(results, runs=tuple(replace(run, score=score) for run, score in found if score is not None))


def at_best(results: Results) -> Results:
    """The runs with the highest of their scores."""
    return replace(results, runs=tuple(replace(run, score=best_point(run)[1]) for run in results.runs))


def best_point(run: ReportRun) -> tuple[int, float]:
    """Updates and score of the first point that no other is better than."""
    return max(run.points, key=lambda point: point[1])


def best_table(results: Results, intervals: Intervals) -> Table:
    """Policies on the way, the last and the best ones; without rows if no run was evaluated on the way."""
    known = with_points(results)
    best = at_best(known)
    groups = {group: _shown_points(known, group) for method in known.methods for group in known.panels(method)}
    columns = sorted({updates for points in groups.values() for updates in points})
    rows, records = [], []
    for group, points in groups.items():
        title = f"{len(group.datasets)} dataset{'s' if len(group.datasets) > 1 else ''}"
        title += f", returns in {group.scale}" if group.scale else ""
        moments = {updates: at_point(known, updates) for updates in points} | {0: known, -1: best}
        for weighting in group.weightings:
            scores = {at: each.scores(group.method, weighting.name, group.datasets) for at, each in moments.items()}
            levels = {at: intervals.level(each) for at, each in scores.items()}
            cells = [estimate_text(levels.get(at), normalized=not group.scale) for at in (*columns, 0, -1)]
            rows.append(Row((group.method, title, weighting.name, *cells), f"{group.method}: {title}"))
            record: dict[str, object] = {"method": group.method, "datasets": len(group.datasets)}
            record |= {"sampler": weighting.name, "points": len(shared_points(known, group))}
            for name, at in (("last", 0), ("best", -1)):
                level = levels[at]
                record |= {f"{name}_level": level.point, f"{name}_low": level.low, f"{name}_high": level.high}
            records.append({**record, "normalized": not group.scale})
    return Table(
        name="best-points",
        caption=f"Policies on the way, the last and the best of these points, {CHOSEN}",
        columns=("algorithm", "datasets", "sampler", *(f"{at:,}" for at in columns), "last", "best (by simulator)"),
        rows=tuple(rows),
        records=tuple(records),
        notes=_NOTES,
        words=3,
        said_by_group=2,
    )


def _shown_points(results: Results, group: Group) -> list[int]:
    """At most four of the updates before the last: at a twentieth, a tenth, a quarter and a half of it, if there are such."""
    *before, last = shared_points(results, group)
    usual = [updates for updates in before if last in (20 * updates, 10 * updates, 4 * updates, 2 * updates)]
    return usual or before[:: -(-len(before) // 4) or 1]
