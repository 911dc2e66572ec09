"""``upweight sweep``: a whole study from an experiment file."""

import argparse
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upweight.base.errors import ConfigError
from upweight.base.optional import importing
from upweight.cli import options
from upweight.cli.terminal import print_error, print_json

if TYPE_CHECKING:
    from upweight.lab.sweep.executor import Executor
    from upweight.lab.sweep.sweep import SweepPlan, SweepResult

HELP = "train and evaluate every run of an experiment file, and store the results"
EXAMPLES = """\
examples:
  upweight sweep demo -o results/                           # two minutes on two cores
  upweight sweep paper/mixed --scale quick --only "hopper-*" --algorithm bc -o results/        # hours on two cores
  upweight sweep paper/mixed --set updates=250_000 --set precision=bfloat16 -o results/        # for a GPU
  upweight sweep my_study.toml -o results/ --evaluate-every 50000     # curves in the report; finished runs stay as they are
  upweight sweep my_study.toml --plan                       # how much work it is; with -o results/, how much is left
  upweight sweep my_study.toml -o results/ --max-minutes 30 # a slice; the same command goes on
  upweight sweep my_study.toml -o results/ --executor ray --address auto      # on a Ray cluster (docs/clusters.md)

suites that come with the package: demo; paper/mixed, paper/regular, paper/stochastic, paper/temperature, paper/percentage,
paper/official_iql and paper/official_antmaze, each at --scale smoke (does it run?), quick (three seeds: too few for the marks of
a report) or paper (the default: five seeds, a million updates); --plan says what would be trained
finished runs are never repeated: stop it (Ctrl-C) and start it again as you like; upweight.lab.study.experiment_file
explains the files, and the folder is plain JSON"""
AFTER_INTERRUPTION = "finished runs are stored, and the same command goes on from the last checkpoint"

_EXAMPLE = "updates=250_000"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", metavar="FILE", help="a TOML file, or the name of a suite")
    parser.add_argument("-o", "--output", type=Path, help="folder of results; may hold other sweeps' too")
    parser.add_argument("--scale", help="take the values of [scale.NAME] in the file")
    parser.add_argument("--only", metavar="PATTERN", help='datasets to keep, e.g. "hopper-*"')
    parser.add_argument(
        "--algorithm", action="append", metavar="NAME", help="algorithms to keep; may be given several times"
    )
    options.add_settings(parser, what="another value for a key of the file", example=_EXAMPLE)
    options.add_evaluate_every(parser, "each run")
    parser.add_argument("--max-minutes", type=float, default=math.inf, help="stop after this; start again to go on")
    parser.add_argument("--max-agents", type=int, help="train at most this many together (default: as many as fit)")
    parser.add_argument("--workers", type=int, help="processes that simulate (default: one per core)")
    _add_cluster(parser)
    parser.add_argument("--plan", action="store_true", help="say what would be done, and stop; needs no -o")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("clusters", "populations train on the nodes of a Ray cluster; results come here")
    group.add_argument(
        "--executor", choices=["local", "ray"], default="local", help="who does the work (default: this computer)"
    )
    group.add_argument(
        "--address",
        help="of the cluster: auto on one of its computers, or HOST:6379 (default: a Ray of this computer alone)",
    )
    group.add_argument(
        "--gpus-per-population",
        type=float,
        metavar="N",
        help="0.5 trains two populations on a GPU, 2 spreads one over two (default: 1, or 0 if there are no GPUs)",
    )
    group.add_argument(
        "--cpus-per-population", type=int, metavar="N", help="cores that Ray sets aside for each (default: 1)"
    )


def _make_executor(arguments: argparse.Namespace) -> "Executor":
    names = ("address", "gpus_per_population", "cpus_per_population")
    on_cluster = arguments.executor == "ray"
    options.check_partner(arguments, names, on_cluster, "--executor ray")
    options.check_partner(
        arguments, ["workers"], not on_cluster, "--executor local; with ray say --cpus-per-population"
    )
    if on_cluster:
        from upweight.lab.sweep.ray_executor import RayExecutor

        return RayExecutor(**{name: value for name in names if (value := getattr(arguments, name)) is not None})
    from upweight.lab.sweep.executor import LocalExecutor

    return LocalExecutor(workers=arguments.workers)


def run(arguments: argparse.Namespace) -> bool:
    """Whether nothing failed."""
    with importing(extra="train", purpose="a sweep"):
        from upweight.lab.study.experiment_file import read_experiment
        from upweight.lab.sweep.sweep import plan_sweep, sweep
    if arguments.output is None and not arguments.plan:
        raise ConfigError("-o: expected a folder to keep results in; only --plan needs none")
    changes = options.parse_settings(arguments.set, example=_EXAMPLE)
    if arguments.evaluate_every is not None:
        changes["evaluate_every"] = arguments.evaluate_every
    experiment = read_experiment(
        arguments.experiment,
        scale=arguments.scale,
        only=arguments.only,
        algorithms=arguments.algorithm,
        changes=changes,
    )
    executor = _make_executor(arguments)
    plan = plan_sweep(experiment, arguments.output, max_agents=arguments.max_agents)
    if not arguments.json:
        print(plan)
    if arguments.plan:
        if arguments.json:
            print_json(_describe_plan(plan))
        return True
    result = sweep(
        experiment,
        arguments.output,
        max_minutes=arguments.max_minutes,
        max_agents=arguments.max_agents,
        executor=executor,
    )
    if arguments.json:
        print_json(asdict(result))
    else:
        print(_describe_result(result, arguments.output))
    for failure in result.failures:
        print_error(failure)
    return not result.failures


def _describe_plan(plan: "SweepPlan") -> dict[str, Any]:
    """Its keys are explained in docs/experiments.md."""
    return {
        "runs": len(plan.experiment.runs),
        "finished": plan.finished,
        "to_do": plan.to_do,
        "trainings": len(plan.populations),
    }


def _describe_result(result: "SweepResult", output: Path) -> str:
    total = result.finished + result.remaining
    some = f"{result.finished:,} of {total:,} runs finished"
    lines = [some if result.remaining else f"all {total:,} runs are in {output}"]
    if result.diverged:
        lines.append(f"{result.diverged:,} of the finished runs diverged")
    if result.paused_at:
        lines.append(result.paused_at)
    if result.failures:
        lines.append(f"trainings that failed: {len(result.failures)}; start the same command again to retry")
    elif result.paused:
        lines.append("start the same command again to go on")
    elif result.remaining:
        lines.append("another sweep on this folder is at the rest; start the same command again to see")
    return "\n".join(lines)
