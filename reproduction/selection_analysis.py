"""How well could policies be chosen without a simulator? Reads what reproduction/selection_study.py wrote.

    python -m reproduction.selection_analysis benchmarks/results/selection_study_*.jsonl --name selection_analysis

Per dataset and way of fitting, Spearman's correlation of each score with the true return, and regret@k = (max J - best J of the k
ranked highest) / (max J - min J). A score's intervals are of 2,000 resamples of the dataset's policies; those of means over
datasets resample datasets. ``always RW 0.1`` and ``random`` choose among finished RW policies, or all, by lot. An algorithm's own
Q says nothing across algorithms: it ranks within each, and the numbers are means over those that have one.

The rule is the one of ``upweight select``, on finished candidates (groups of an algorithm and a weighting), beside RW 0.1 (mean
over algorithms). Its thresholds are calibrated on all tasks but one and tried on that one: the gain is the true score of the
choice less that of RW 0.1, and nothing where the rule abstains.
"""

import argparse
import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import record
from upweight.base.text import table
from upweight.lab.report.statistics.ranks import rank_correlation
from upweight.lab.select.rule import Baseline, Evidence, SelectionRule, without_common_luck

RESAMPLES, TOPS = 2000, (1, 3, 5)
WAYS = {"held_out": "DOPE's", "quick": "quick", "all": "DOPE's, all episodes", "earlier": "DOPE's, earlier run"}
GRID = {
    "pessimism": (0.0, 1.0, 2.0, 4.0),
    "margin": (0.0, 1.0, 2.0, 3.0, 5.0, 8.0),
    "max_outside": (0.05, 0.1, 0.2, 0.3, 1.0),
    "min_reached": (0, 1, 5),
}
RULES = {"defaults": SelectionRule(), "no veto": SelectionRule(min_reached=0)}
Row = dict[str, Any]
Floats = NDArray[np.float64]
Key = tuple[str, str]  # dataset, way of fitting


def _mean(rows: list[Row]) -> Floats:
    return np.array([np.mean(row["fqe"]) for row in rows])


SCORES: dict[str, Callable[[list[Row]], Floats]] = {  # [P]
    "FQE, mean": _mean,
    "FQE, mean - std": lambda rows: _mean(rows) - np.array([np.std(row["fqe"]) for row in rows]),
    "held-out loss": lambda rows: -np.array([row["held_out_loss"] for row in rows]),
    "held-out loss, by return": lambda rows: -np.array([row["good_loss"] for row in rows]),
}
OTHERS = ("own Q, within algorithms", "always RW 0.1", "random")


# ---- rankings -------------------------------------------------------------------------------------------------------
def read(paths: Iterable[str | Path]) -> dict[Key, list[Row]]:
    """Rows of each dataset and way of fitting, without policies whose critics diverged.

    A dataset counts once: what a later file has of it takes the place of an earlier one's, which become a way of their own.
    """
    found: dict[Key, list[Row]] = {}
    for path in paths:
        new: dict[Key, list[Row]] = {}
        for row in map(json.loads, Path(path).read_text().splitlines()):
            if np.isfinite(row["fqe"]).all():
                new.setdefault((row["dataset"], row["fit"]), []).append(row)
        found |= {(name, "earlier"): found[name, way] for name, way in found.keys() & new.keys()} | new
    return dict(sorted(found.items(), key=lambda each: (list(WAYS).index(each[0][1]), each[0])))


def truth(rows: list[Row]) -> Floats:
    return np.array([row["score"] for row in rows])


def regrets(true: Floats, order: NDArray[np.int64]) -> Floats:
    """[len(TOPS)] of policies in this order, the best first."""
    best = np.array([true[order[:k]].max() for k in TOPS])
    return (true.max() - best) / ((true.max() - true.min()) or 1.0)


def measures(true: Floats, score: Floats) -> Floats:
    """Spearman's correlation (0 of a resample in which all are equal), then regrets."""
    return np.array(
        [float(np.nan_to_num(rank_correlation(score, true))), *regrets(true, np.argsort(-score, kind="stable"))]
    )


def with_intervals(true: Floats, score: Floats, rng: np.random.Generator) -> Floats:
    """[4, 3] each measure and the ends of its interval."""
    draws = rng.integers(0, len(true), (RESAMPLES, len(true)))
    spread = np.quantile([measures(true[draw], score[draw]) for draw in draws], [0.025, 0.975], axis=0)
    return np.stack([measures(true, score), *spread], axis=1)


def by_lot(true: Floats, among: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Expected regrets of k policies drawn from some; no correlation."""
    draws = [regrets(true, rng.permutation(among)) for _ in range(RESAMPLES)]
    return np.array([np.nan, *np.mean(draws, axis=0)])


def finished(rows: list[Row], **wanted: Any) -> NDArray[np.int64]:
    last = max(row["updates"] for row in rows)
    return np.array(
        [place for place, row in enumerate(rows) if row["updates"] == last and wanted.items() <= row.items()], int
    )


def candidate(row: Row) -> str:
    return f"{row['algorithm']} {row['weighting']}"


def own_q(rows: list[Row], true: Floats) -> Floats:
    """Mean of the measures within algorithms."""
    names = sorted({row["algorithm"] for row in rows if row["own_q"] is not None})
    parts = [np.array([place for place, row in enumerate(rows) if row["algorithm"] == name]) for name in names]
    values = np.array([np.nan if row["own_q"] is None else row["own_q"] for row in rows])
    return np.mean([measures(true[part], values[part]) for part in parts], axis=0)


def ranking(rows: list[Row]) -> dict[str, Floats]:
    """Of one dataset: score -> [4, 3] measures with intervals (NaN where there is none)."""
    rng, true = np.random.default_rng(0), truth(rows)
    found = {name: with_intervals(true, score(rows), rng) for name, score in SCORES.items()}
    points = (
        own_q(rows, true),
        by_lot(true, finished(rows, weighting="rw 0.1"), rng),
        by_lot(true, np.arange(len(rows)), rng),
    )
    return found | {
        name: np.stack([each, *[np.full(4, np.nan)] * 2], axis=1) for name, each in zip(OTHERS, points, strict=True)
    }


def over_datasets(parts: Sequence[Floats]) -> Floats:
    """[measures, 3] means over datasets, with intervals that resample these."""
    values, rng = np.array(parts), np.random.default_rng(0)
    draws = rng.integers(0, len(values), (RESAMPLES, len(values)))
    return np.stack([values.mean(axis=0), *np.quantile(values[draws].mean(axis=1), [0.025, 0.975], axis=0)], axis=1)


# ---- the rule -------------------------------------------------------------------------------------------------------
def decide(rows: list[Row], rule: SelectionRule) -> dict[str, Any]:
    """What the rule takes among finished candidates, and what that is worth beside RW 0.1 and BC on all data."""
    true, groups = truth(rows), dict[str, list[int]]()
    for place in finished(rows):
        groups.setdefault(candidate(rows[place]), []).append(int(place))
    worth = {name: float(true[places].mean()) for name, places in groups.items()}
    base = next(name for name in groups if name in {"bc uniform", "discrete_bc uniform"})
    made = [_evidence(name, [rows[place] for place in places]) for name, places in groups.items()]
    evidence = {each.name: each for each in without_common_luck(made)}
    clone = evidence.pop(base)
    decision = rule.decide(list(evidence.values()), Baseline(base, clone.mean, clone.spread))
    chosen = None if decision.chosen is None else list(evidence)[decision.chosen]
    default = float(np.mean([value for name, value in worth.items() if name.endswith("rw 0.1")]))
    gain = 0.0 if chosen is None else worth[chosen] - default
    weighted = worth[base.replace("uniform", "rw 0.1")]
    about = {"rw 0.1": default, "bc rw 0.1": weighted, "clone": worth[base], "best": max(worth.values()), "gain": gain}
    return {"chosen": chosen, "score": None if chosen is None else worth[chosen], **about}


def _evidence(name: str, rows: list[Row]) -> Evidence:
    outside = float(np.mean([row["outside"] for row in rows]))
    return Evidence(name, np.array([row["fqe"] for row in rows]), outside, min(row["reached"] for row in rows))


def calibrated(datasets: Iterable[list[Row]]) -> SelectionRule:
    """The thresholds with the highest mean gain; of equal ones the most careful."""
    every, rules = list(datasets), [SelectionRule(*values) for values in itertools.product(*GRID.values())]
    gains = [np.mean([decide(rows, rule)["gain"] for rows in every]) for rule in rules]
    return max(
        zip(gains, rules, strict=True),
        key=lambda each: (round(each[0], 6), each[1].margin, -each[1].max_outside, each[1].min_reached),
    )[1]


def left_out(datasets: dict[Key, list[Row]]) -> dict[Key, dict[str, Any]]:
    """Decisions by thresholds that were chosen on the other tasks."""
    found = {}
    tasks = sorted({_task(key) for key in datasets})
    for task in tasks if len(tasks) > 1 else []:
        rule = calibrated(rows for key, rows in datasets.items() if _task(key) != task)
        found |= {
            key: {**decide(rows, rule), "rule": _named(rule)} for key, rows in datasets.items() if _task(key) == task
        }
    return found


def _task(key: Key) -> str:
    return key[0].split("-")[0]


def _named(rule: SelectionRule) -> dict[str, float]:
    return {name: getattr(rule, name) for name in GRID}


# ---- output ---------------------------------------------------------------------------------------------------------
def cell(values: Floats) -> str:
    point, low, high = (f"{value:.2f}" for value in values)
    return "" if point == "nan" else point if low == "nan" else f"{point} [{low}, {high}]"


def summary(decisions: dict[Key, dict[str, Any]]) -> str:
    gains = np.array([each["gain"] for each in decisions.values() if each["chosen"] is not None])
    every = np.array([each["gain"] for each in decisions.values()])
    return (
        f"chose on {len(gains)} of {len(every)}, worse than RW 0.1 on {(gains < 0).sum()}, by more than 0.05 on "
        f"{(gains < -0.05).sum()}; mean gain where chosen {gains.mean() if len(gains) else 0:+.3f}, over all {every.mean():+.3f}"
    )


def plain(values: Floats) -> list[Any]:
    return [[None if np.isnan(v) else round(float(v), 4) for v in line] for line in values]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--name", help="write a summary under this name")
    arguments = parser.parse_args()
    datasets = read(arguments.files)
    found = {key: ranking(rows) for key, rows in datasets.items()}
    header = ["Spearman", *(f"regret@{k}" for k in TOPS)]
    for key, each in found.items():
        true = truth(datasets[key])
        print(f"\n{' '.join(key)}: {len(true)} policies, true scores from {true.min():.2f} to {true.max():.2f}")
        print(table([[name, *map(cell, values)] for name, values in each.items()], header=["", *header]))
    means: dict[str, dict[str, Any]] = {}
    rules: dict[str, dict[str, Any]] = {}
    for way in (way for way in WAYS if any(key[1] == way for key in found)):
        mine = {key: each for key, each in found.items() if key[1] == way}
        values = {name: over_datasets([each[name][:, 0] for each in mine.values()]) for name in (*SCORES, *OTHERS)}
        print(f"\n{WAYS[way]}: mean over {len(mine)} datasets")
        print(table([[name, *map(cell, each)] for name, each in values.items()], header=["", *header]))
        means[way] = {name: plain(each) for name, each in values.items()}
        some = {key: datasets[key] for key in mine}
        ways = {name: {key: decide(rows, rule) for key, rows in some.items()} for name, rule in RULES.items()}
        ways["others"] = left_out(some)
        rules[way] = {name: {key[0]: each for key, each in every.items()} for name, every in ways.items()}
        rules[way]["calibrated"] = _named(calibrated(some.values()))
        for name, every in ((name, every) for name, every in ways.items() if every):
            print(f"\nthe rule ({name}): {summary(every)}")
            lines = [
                [key[0], *(f"{v:.2f}" if isinstance(v, float) else str(v) for v in c.values())]
                for key, c in every.items()
            ]
            print(table(lines, header=["", *next(iter(every.values()))]))
        print("calibrated on all:", rules[way]["calibrated"])
    if arguments.name:
        results = [
            {"dataset": key[0], "fit": key[1], "policies": len(datasets[key]), **{n: plain(v) for n, v in each.items()}}
            for key, each in found.items()
        ]
        about = {"measures": header, "means": means, "rule": rules}
        print(f"wrote {record(arguments.name, ['upweight', 'numpy'], results, about=about)}")


if __name__ == "__main__":
    main()
