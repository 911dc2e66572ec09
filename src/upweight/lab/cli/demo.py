"""``upweight demo``: the whole product in a few minutes, on a small real problem."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from upweight.base.checks import whole_number
from upweight.base.errors import ConfigError, UpweightError
from upweight.base.optional import importing
from upweight.base.text import table
from upweight.cli.terminal import command_name, print_report
from upweight.inspection.plot import plot_weights
from upweight.inspection.report import inspect
from upweight.io.registry import save
from upweight.lab.report.names import UNIFORM, WeightingName, sort_weightings
from upweight.lab.report.results import ReportRun, collect
from upweight.lab.report.statistics.aggregate import mean
from upweight.lab.report.statistics.bootstrap import interval
from upweight.weightings.return_weighting import ReturnWeighting

HELP = "make a mixed dataset, inspect it, train with five samplers, evaluate, and write a report"
EXAMPLES = """\
examples:
  upweight demo
  upweight demo --seed 1 -o demo-1

a hopper in MuJoCo: 10% of the steps by an expert, the rest random; behaviour cloning with uniform sampling, with the best 10%
of the episodes, with half of each batch from the expert, by return (RW) and by advantage (AW), five seeds each, together
needs no GPU and no network; a few minutes on two cores"""
AFTER_INTERRUPTION = "the same command goes on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, default=Path("demo"), help="folder to write to (default: demo)")
    parser.add_argument("--seed", type=int, default=0, help="of the data and of the training (default: 0)")


def run(arguments: argparse.Namespace) -> None:
    with importing(extra="train", purpose="the demo"):
        from upweight.lab.recipes.make import make_dataset
        from upweight.lab.report.page import write_report
        from upweight.lab.study.experiment_file import read_experiment
        from upweight.lab.study.store import Store
        from upweight.lab.sweep.sweep import plan_sweep, sweep
    whole_number("--seed", arguments.seed, least=0, error=ConfigError)
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    seeds = [5 * arguments.seed + number for number in range(5)]
    study = read_experiment("demo", changes={"dataset_seed": arguments.seed, "seeds": seeds})
    data = study.runs[0].data

    print(f"1. {data.name}: {data.steps:,} steps in {data.env_id}\n")
    mixed = make_dataset(data.name, steps=data.steps, seed=arguments.seed)
    save(mixed, output / "mixed.hdf5")
    print_report(str(inspect(mixed)))
    plot_weights(mixed, {"rw temperature=0.1": ReturnWeighting(0.1)(mixed)}, output / "weights.png")

    print(f"\n2. {plan_sweep(study, output / 'results')}\n")
    result = sweep(study, output / "results")
    if result.remaining:
        raise UpweightError("; ".join(result.failures) or f"another process is at {output / 'results'}; let it finish")

    print(
        "3. Mean normalised return in the simulator, with 95% bootstrap intervals over training seeds (one dataset)\n"
    )
    wanted = {run.run_id for run in study.runs}
    print(score_table([run for run in collect(Store(output / "results")).runs if run.run_id in wanted]))
    write_report(output / "results", output / "report.html")
    print(
        f"\nwrote {output / 'report.html'}, {output / 'mixed.hdf5'}, {output / 'weights.png'} and {output / 'results'}"
    )
    print(f"next: {command_name()} inspect {output / 'mixed.hdf5'} --weighting aw --temperature 0.2")


def score_table(runs: Sequence[ReportRun]) -> str:
    """One row per weighting, of runs on one dataset."""
    scores: dict[WeightingName, list[float]] = {}
    for run in runs:
        scores.setdefault(run.weighting, []).append(run.score)
    base = next(float(np.mean(values)) for weighting, values in scores.items() if weighting.name == UNIFORM)
    rows = []
    for weighting in sort_weightings(scores):
        estimate = interval(mean, [np.array(scores[weighting])], rng=np.random.default_rng(0))
        times = f"{estimate.point / base:.1f}" if base > 0 else "-"
        rows.append([weighting.name, f"{estimate.point:.3f}", f"{estimate.low:.3f} to {estimate.high:.3f}", times])
    return table(rows, header=["sampler", "score", "95% interval", "x Uniform"], align=str.ljust)
