"""How well could policies be chosen without a simulator? Reads what benchmarks/selection_study.py wrote.

    python benchmarks/selection_analysis.py benchmarks/results/selection_study_*.jsonl --name selection_analysis

Per dataset, Spearman's correlation of each score with the true return, and regret@k = (max J - best J of the k ranked highest)
/ (max J - min J). A score's intervals are of 2,000 resamples of the dataset's policies; those of means over datasets resample
datasets. A seed of critics adds much the same to all policies: "by seed" takes its mean off before the deviation. ``always rw
0.1`` and ``random`` choose among finished RW policies, or all, by lot. An algorithm's own Q says nothing across algorithms: it
ranks within each, and the numbers are means over those that have one. The rule is the one of ``upweight select``, on finished
candidates; where it abstains, BC on all data or RW 0.1 is taken, both are shown.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measure import record
from upweight.base.text import table
from upweight.report.statistics.ranks import rank_correlation
from upweight.selection.rule import Baseline, Evidence, SelectionRule, without_common_luck

RESAMPLES, TOPS = 2000, (1, 3, 5)
Row = dict[str, Any]
Floats = NDArray[np.float64]
SCORES: dict[str, Callable[[Floats, Floats], Floats]] = {  # of estimates [P, S] and held-out losses [P]
    "fqe, mean": lambda fqe, loss: fqe.mean(axis=1),
    "fqe, mean - std": lambda fqe, loss: fqe.mean(axis=1) - fqe.std(axis=1),
    "fqe, mean - std, by seed": lambda fqe, loss: fqe.mean(axis=1) - (fqe - fqe.mean(axis=0)).std(axis=1),
    "held-out loss": lambda fqe, loss: -loss,
}


def read(paths: Iterable[str]) -> dict[str, list[Row]]:
    """Rows of each dataset (and way of fitting), without policies whose critics diverged."""
    found: dict[str, list[Row]] = {}
    for line in (line for path in paths for line in Path(path).read_text().splitlines()):
        row = json.loads(line)
        if np.isfinite(row["fqe"]).all():
            found.setdefault(f"{row['dataset']} ({row['fit']})", []).append(row)
    return found


def truth(rows: list[Row]) -> Floats:
    return np.array([row["score"] if row["score"] is not None else row["mean_return"] for row in rows])


def regrets(true: Floats, order: NDArray[np.int64]) -> Floats:
    """[len(TOPS)] of policies in this order, the best first."""
    best = np.array([true[order[:k]].max() for k in TOPS])
    return (true.max() - best) / ((true.max() - true.min()) or 1.0)


def measures(true: Floats, score: Floats) -> Floats:
    """Spearman's correlation, then regrets."""
    return np.array([float(rank_correlation(score, true)), *regrets(true, np.argsort(-score, kind="stable"))])


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


def own_q(rows: list[Row], true: Floats) -> Floats:
    """Mean of the measures within algorithms."""
    names = sorted({row["algorithm"] for row in rows if row["own_q"] is not None})
    parts = [np.array([place for place, row in enumerate(rows) if row["algorithm"] == name]) for name in names]
    values = np.array([np.nan if row["own_q"] is None else row["own_q"] for row in rows])
    if not parts:
        return np.full(1 + len(TOPS), np.nan)
    return np.mean([measures(true[part], values[part]) for part in parts], axis=0)


def one_dataset(rows: list[Row]) -> dict[str, Any]:
    rng, true = np.random.default_rng(0), truth(rows)
    fqe, loss = (np.array([row[key] for row in rows]) for key in ("fqe", "held_out_loss"))
    found = {name: with_intervals(true, score(fqe, loss), rng) for name, score in SCORES.items()}
    points = {name: values[:, 0] for name, values in found.items()}
    points["own Q, within algorithms"] = own_q(rows, true)
    points["always rw 0.1"] = by_lot(true, finished(rows, weighting="rw 0.1"), rng)
    points["random"] = by_lot(true, np.arange(len(rows)), rng)
    return {"policies": len(rows), "best": true.max(), "worst": true.min(), "points": points, "intervals": found}


def decide(rows: list[Row]) -> dict[str, Any]:
    """What the rule takes among finished candidates, and what that is worth beside RW 0.1."""
    true, groups = truth(rows), dict[str, list[int]]()
    for place in finished(rows):
        groups.setdefault(f"{rows[place]['algorithm']} {rows[place]['weighting']}", []).append(int(place))
    base = next(name for name in groups if name.endswith("bc uniform") and "td3" not in name)
    made = [
        Evidence(name, np.array([rows[place]["fqe"] for place in places]), outside(rows, places))
        for name, places in groups.items()
    ]
    evidence = {each.name: each for each in without_common_luck(made)}
    clone = evidence.pop(base)
    decision = SelectionRule().decide(list(evidence.values()), Baseline(base, clone.mean, clone.spread))
    default = float(true[finished(rows, weighting="rw 0.1")].mean())
    taken = base if decision.chosen is None else list(evidence)[decision.chosen]
    worth = float(true[groups[taken]].mean())
    kept = default if decision.chosen is None else worth
    return {"abstained": decision.chosen is None, "taken": taken, "score": worth, "rw 0.1": default, "or rw 0.1": kept}


def outside(rows: list[Row], places: list[int]) -> float:
    return float(np.mean([rows[place]["outside"] for place in places]))


def over_datasets(parts: list[Floats], rng: np.random.Generator) -> Floats:
    """[measures, 3] means over datasets, with intervals that resample these."""
    values = np.array(parts)
    draws = rng.integers(0, len(values), (RESAMPLES, len(values)))
    return np.stack([values.mean(axis=0), *np.quantile(values[draws].mean(axis=1), [0.025, 0.975], axis=0)], axis=1)


def cell(values: Floats) -> str:
    point, low, high = (f"{value:.2f}" for value in values)
    return "" if point == "nan" else f"{point} [{low}, {high}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--name", help="write a summary under this name")
    arguments = parser.parse_args()
    datasets = read(arguments.files)
    found = {name: one_dataset(rows) for name, rows in datasets.items()}
    header = ["", "Spearman", *(f"regret@{k}" for k in TOPS)]
    for name, each in found.items():
        print(f"\n{name}: {each['policies']} policies, true scores from {each['worst']:.2f} to {each['best']:.2f}")
        lines = [[score, *map(cell, each["intervals"][score])] for score in SCORES]
        others = [key for key in each["points"] if key not in SCORES]
        lines += [[key, *("" if np.isnan(v) else f"{v:.2f}" for v in each["points"][key])] for key in others]
        print(table(lines, header=header))
    rng = np.random.default_rng(0)
    names = list(next(iter(found.values()))["points"])
    means = {name: over_datasets([each["points"][name] for each in found.values()], rng) for name in names}
    print(f"\nmean over {len(found)} datasets")
    print(table([[name, *map(cell, values)] for name, values in means.items()], header=header))
    choices = {name: decide(rows) for name, rows in datasets.items()}
    lines = [
        [name, *(f"{v:.2f}" if isinstance(v, float) else str(v) for v in c.values())] for name, c in choices.items()
    ]
    print(f"\n{table(lines, header=['the rule', *next(iter(choices.values()))])}")
    gaps = {key: [c[key] - c["rw 0.1"] for c in choices.values()] for key in ("score", "or rw 0.1")}
    for key, values in gaps.items():
        worse = sum(value < 0 for value in values)
        print(f"{key}: {np.mean(values):+.3f} beside always rw 0.1, worse on {worse} of {len(values)} datasets")
    if arguments.name:
        results = [{"dataset": name, **choices[name], **_plain(each)} for name, each in found.items()]
        means_of = {name: np.round(values, 4).tolist() for name, values in means.items()}
        path = record(arguments.name, ["upweight", "numpy"], results, about={"means": means_of, "measures": header[1:]})
        print(f"wrote {path}")


def _plain(each: dict[str, Any]) -> dict[str, Any]:
    kept = {
        name: [None if np.isnan(v) else round(float(v), 4) for v in values] for name, values in each["points"].items()
    }
    spread = {name: np.round(values[:, 1:], 4).tolist() for name, values in each["intervals"].items()}
    return {"policies": each["policies"], "points": kept, "intervals": spread}


if __name__ == "__main__":
    main()
