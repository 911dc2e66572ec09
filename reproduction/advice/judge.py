"""What each rule earns on the bench: its mean score, what it loses to the best arm, and how often it does harm.

    python -m reproduction.advice.judge advice/results --logs advice/logs -o reproduction/results/advice_judged.json
    python -m reproduction.advice.judge reproduction/results/advice.jsonl --advice reproduction/results/advice_given.json

A rule names an arm for a log and an algorithm. Its regret is cross-fitted: the best arm is chosen by all seeds but one, and both
are valued by that one, in turn::

    regret = mean_s [ S(argmax_a mean_{t != s} S(a, t), s) - S(rule, s) ]

The oracle's own regret is what that choice loses to the arm with the best mean of all seeds. Intervals are of a bootstrap over
tasks, because logs of a task share policies. A score is 0 for random play and 1 for an expert.
"""

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import upweight as uw
from reproduction.advice.logs import Log, all_logs
from upweight.base.text import table
from upweight.data.reference_scores import ReferenceScores
from upweight.lab.study.run_spec import ACTOR

_PENDULUM = ReferenceScores(-1214.0, -155.0)  # means of 500 episodes of its random and of its best controller
CLONING, FIXED = {"bc", "discrete_bc"}, ("uniform", "rw 0.1", "actor rw 0.1")
_SEPARATED, _LARGE = 0.1, 2.0  # scores between best and worst arm; and in standard errors of a difference
_DRAWS = 10_000
Case = tuple[str, str]  # a log's name, an algorithm


class Results(NamedTuple):
    """Scores by case and arm, one for each seed."""

    scores: dict[Case, dict[str, NDArray[np.float64]]]

    @property
    def noise(self) -> dict[str, float]:
        """By algorithm: standard deviation of a score over seeds, pooled over logs and arms."""
        found = defaultdict[str, list[float]](list)
        for (_, algorithm), arms in self.scores.items():
            found[algorithm] += [float(each.var(ddof=1)) for each in arms.values() if len(each) > 1]
        return {algorithm: float(np.sqrt(np.mean(each))) for algorithm, each in found.items()}


def arm_name(weighting: Mapping[str, Any]) -> str:
    """ "rw 0.1", "actor rw 0.1", "uniform": of a run's description."""
    if ACTOR in weighting:
        return f"actor {arm_name(weighting[ACTOR])}"
    setting = weighting.get("temperature", weighting.get("fraction"))
    return weighting["name"] if setting is None else f"{weighting['name']} {setting:g}"


def read_results(path: Path) -> Results:
    """Of a store, packed or not; of what was trained with every arm. Runs that diverged have what was played."""
    logs = {log.name: log for log in all_logs()}
    found: dict[Case, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in uw.open_store(path).runs():
        spec = run["spec"]
        log = logs[Path(spec["data"]["name"]).stem]
        scale = _PENDULUM if log.task == "pendulum" else uw.reference_scores(log.env_id)
        score = float(uw.normalize_returns(run["mean_return"], scale))
        found[log.name, spec["algorithm"]][arm_name(spec["weighting"])][spec["seed"]] = score
    complete = {
        algorithm: max(len(arms) for case, arms in found.items() if case[1] == algorithm) for _, algorithm in found
    }
    return Results(
        {
            case: {arm: np.array([seeds[seed] for seed in sorted(seeds)]) for arm, seeds in arms.items()}
            for case, arms in found.items()
            if len(arms) == complete[case[1]]
        }
    )


def nearest_arm(wanted: str, arms: Sequence[str]) -> str:
    """The arm itself, or that of the same kind whose temperature is nearest; Uniform if there is none."""
    if wanted in arms:
        return wanted
    kind, _, setting = wanted.rpartition(" ")
    alike = [arm for arm in arms if arm.rpartition(" ")[0] == kind]
    return min(alike, key=lambda arm: abs(np.log(float(arm.rpartition(" ")[2]) / float(setting))), default="uniform")


def crossfitted(arms: Mapping[str, NDArray[np.float64]], chosen: str) -> tuple[float, float, float]:
    """The rule's score, what it loses to the cross-fitted best arm, and what that loses to the best mean."""
    names, scores = list(arms), np.stack(list(arms.values()))  # [arms, seeds]
    own = scores[names.index(chosen)]
    rest = (scores.sum(axis=1, keepdims=True) - scores) / (scores.shape[1] - 1)
    oracle = scores[np.argmax(rest, axis=0), np.arange(scores.shape[1])]
    return float(own.mean()), float((oracle - own).mean()), float(scores.mean(axis=1).max() - oracle.mean())


def over_tasks(values: Mapping[str, Sequence[float]], seed: int = 0) -> tuple[float, float, float]:
    """Mean over logs, and its 95% interval where tasks are drawn again."""
    groups = [np.asarray(each) for each in values.values()]
    sums, counts = np.array([each.sum() for each in groups]), np.array([len(each) for each in groups])
    drawn = np.random.default_rng(seed).integers(len(groups), size=(_DRAWS, len(groups)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    return float(sums.sum() / counts.sum()), *(float(each) for each in np.quantile(means, [0.025, 0.975]))


def judge(results: Results, rules: Mapping[str, Callable[[Case], str]]) -> list[dict[str, Any]]:
    """A row for each algorithm and rule."""
    tasks = {log.name: log.task for log in all_logs()}
    rows = []
    for algorithm in dict.fromkeys(algorithm for _, algorithm in results.scores):
        cases = {case: arms for case, arms in results.scores.items() if case[1] == algorithm}
        error = results.noise[algorithm] * np.sqrt(2 / min(len(next(iter(arms.values()))) for arms in cases.values()))
        for name, rule in rules.items():
            if name.startswith("actor") and not any("actor" in arm for arms in cases.values() for arm in arms):
                continue
            columns = defaultdict[str, dict[str, list[float]]](lambda: defaultdict(list))
            harmed, gained = [], []
            for case, arms in cases.items():
                chosen = nearest_arm(rule(case), list(arms))
                values = dict(zip(("score", "regret", "oracle's own"), crossfitted(arms, chosen), strict=True))
                values["over uniform"] = float((arms[chosen] - arms["uniform"]).mean())
                for key, value in values.items():
                    columns[key][tasks[case[0]]].append(value)
                harmed += [case[0]] if values["over uniform"] < -_LARGE * error else []
                gained += [case[0]] if values["over uniform"] > _LARGE * error else []
            rows.append(
                {
                    "algorithm": algorithm,
                    "rule": name,
                    "logs": len(cases),
                    **{key: [round(each, 4) for each in over_tasks(groups)] for key, groups in columns.items()},
                    "gained": gained,
                    "harmed": harmed,
                }
            )
    return rows


def separated(results: Results) -> dict[str, list[str]]:
    """By algorithm: the logs whose arms differ, in scores and beyond noise."""
    found = defaultdict[str, list[str]](list)
    for (log, algorithm), arms in results.scores.items():
        means = [each.mean() for each in arms.values()]
        error = results.noise[algorithm] * np.sqrt(2 / len(next(iter(arms.values()))))
        if max(means) - min(means) > max(_SEPARATED, 3 * error):  # the largest of many differences
            found[algorithm].append(log)
    return dict(found)


def advice_on(logs: Sequence[Log], folder: Path) -> dict[str, dict[str, Any]]:
    """What :func:`upweight.suggest` says, by log and algorithm, with all that it was computed from."""
    given: dict[str, dict[str, Any]] = {}
    for log in logs:
        if not (path := folder / f"{log.name}.npz").exists():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = uw.load(path)
        names = ("discrete_bc", "discrete_cql", "discrete_iql") if log.is_discrete else ("bc", "td3_bc", "iql")
        given[log.name] = {name: uw.suggest(dataset, algorithm=name).to_dict() for name in names}
        for each in given[log.name].values():
            each.pop("reasons")
    return given


def advised_arm(advice: Mapping[str, Any]) -> str:
    """The arm that a suggestion means."""
    actor = advice.get("actor_weighting")
    return arm_name(advice["weighting"]) if actor is None else f"actor {arm_name(actor)}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="the store of the bench, packed or not")
    parser.add_argument("--logs", type=Path, help="folder of the logs, to ask for advice")
    parser.add_argument(
        "--advice", type=Path, nargs="*", default=[], help="files of advice that was given: a rule each"
    )
    parser.add_argument("--save-advice", type=Path, help="keep the advice on the logs in a file")
    parser.add_argument("-o", "--output", type=Path, help="write the rows as JSON")
    given = parser.parse_args(arguments)
    results = read_results(given.results)
    rules: dict[str, Callable[[Case], str]] = {name: lambda case, name=name: name for name in FIXED}
    advices = {path.stem: json.loads(path.read_text()) for path in given.advice}
    if given.logs is not None:
        advices["suggest"] = advice_on(all_logs(), given.logs)
        if given.save_advice is not None:
            given.save_advice.write_text(json.dumps(advices["suggest"], indent=1) + "\n")
    for name, advice in advices.items():
        rules[name] = lambda case, advice=advice: advised_arm(advice[case[0]][case[1]])
    rows, apart = judge(results, rules), separated(results)
    keys = ("score", "over uniform", "regret", "oracle's own")
    cells = [
        [row["algorithm"], row["rule"], str(row["logs"])]
        + [f"{row[key][0]:.3f} [{row[key][1]:.2f}, {row[key][2]:.2f}]" for key in keys]
        + [str(len(row["gained"])), str(len(row["harmed"]))]
        for row in rows
    ]
    print(table(cells, header=["algorithm", "rule", "logs", *keys, "gained", "harmed"]))
    for algorithm, logs in apart.items():
        print(f"{algorithm}: the arms of {len(logs)} logs differ: {', '.join(logs)}")
    if given.output is not None:
        given.output.write_text(json.dumps({"rows": rows, "separated": apart}, indent=1) + "\n")


if __name__ == "__main__":
    main()
