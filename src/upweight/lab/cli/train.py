"""``upweight train``: many agents at once, from the command line."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upweight.base.checks import whole_number
from upweight.base.errors import ConfigError
from upweight.base.optional import importing
from upweight.base.text import number, table
from upweight.cli import options
from upweight.cli.terminal import print_json
from upweight.inspection.effect import describe_draws

if TYPE_CHECKING:
    from upweight.lab.train.result import RunResult
    from upweight.lab.train.run import Run

HELP = "train agents: every algorithm with every weighting and seed, together"
EXAMPLES = """\
examples:
  upweight train mixed.hdf5 --algorithm iql --weighting rw --seeds 5 --updates 250000 -o runs/iql
  upweight train mixed.hdf5 --algorithm bc --algorithm td3_bc --weighting uniform --weighting rw --seeds 5 -o runs/all
  upweight train mixed.hdf5 --algorithm iql --preset official --set expectile=0.9 --set beta=10 -o runs/official
  upweight train mixed.hdf5 --algorithm iql --weighting rw --seeds 5 --updates 250000 -o runs/iql --resume
  upweight train icu.csv --set normalize_observations=true --holdout 0.2 -o runs/icu    # columns in hundreds or thousandths
  upweight train mixed.hdf5 --algorithm td3_bc --weighting uniform --weighting auto -o runs/advised   # auto: as inspect suggests
  upweight train mixed.hdf5 --algorithm bc --weighting rw --updates auto -o runs/auto
  upweight train mixed.hdf5 --weighting rw --evaluate-every 10000 --env Hopper-v5 -o runs/bc

the folder then holds policies/run-000.safetensors, ... (upweight.load_policy), results.json and metrics.jsonl
with --evaluate-every, results.json has the returns at every point, and best/ each run's best policy: chosen with the simulator,
so its return is too good to be compared with a last one; the last point is what `upweight evaluate` gives with seed 0"""
AFTER_INTERRUPTION = "the same command with --resume goes on from the last checkpoint"

_EXAMPLE = "expectile=0.9"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_data(parser)
    parser.add_argument(
        "--algorithm",
        action="append",
        metavar="NAME",
        help="bc, td3_bc, iql, cql, discrete_bc, discrete_cql or discrete_iql; may be given several times (default: bc)",
    )
    parser.add_argument(
        "--preset", default="paper", help="paper (d3rlpy's settings) or, for some, official or jaxcql (default: paper)"
    )
    options.add_settings(parser, what="another value for a setting of the algorithms", example=_EXAMPLE)
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, from 0 (default: 1)")
    parser.add_argument(
        "--updates",
        type=options.count_or_auto,
        default=100_000,
        help="updates per agent (default: 100,000; the paper: 1,000,000); auto trains BC at most that long, and keeps the policy "
        "that did best on held-out actions or, where few episodes count, stops after a thousand passes through those",
    )
    parser.add_argument(
        "--precision",
        default="float32",
        choices=["float32", "bfloat16", "float64"],
        help="bfloat16 is faster on a GPU: products and activations in 16 bits, parameters in 32 (default: float32)",
    )
    parser.add_argument(
        "--kernels",
        default="auto",
        help="what computes networks in bfloat16: xla, fused (on a Hopper GPU) or auto, the faster of the two (default: auto)",
    )
    parser.add_argument(
        "--actor-weighting",
        metavar="NAME",
        help="let the actor draw with a weighting of its own, and critics with --weighting; IQL on replay data: --weighting "
        "uniform --actor-weighting rw (docs/actor_and_critic.md)",
    )
    parser.add_argument("--reweight", action="store_true", help="draw uniformly and weight the losses instead")
    parser.add_argument("--max-agents", type=int, help="train at most this many together (default: as many as fit)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write to")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the interrupted training in that folder, or begin one if there is none",
    )
    parser.add_argument(
        "--holdout",
        type=float,
        metavar="SHARE",
        help="keep this share of the episodes, e.g. 0.2, back from the training, of each label its share, to compare the "
        "policies' actions with theirs, and to choose by (upweight select); plan.json says which (default: learn from all)",
    )
    group = parser.add_argument_group("evaluation on the way")
    options.add_evaluate_every(group, "each agent")
    options.add_environment(group)
    group.add_argument("--episodes", type=options.count, help="per agent and point (default: 20)")
    group.add_argument("--workers", type=int, help="processes that simulate (default: one per core)")
    options.add_json(parser, "a table")
    options.add_weighting(parser, several=True, default="rw")
    options.add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    with importing(extra="train", purpose="training"):
        from upweight.lab.play.evaluate import Evaluator
        from upweight.lab.train.points import named_environment
        from upweight.lab.train.train import plan_training, train
    partner = "--evaluate-every N; or train without it, and play afterwards: upweight evaluate"
    options.check_partner(arguments, ["env", "episodes", "workers"], arguments.evaluate_every is not None, partner)
    runs = _runs(arguments)
    dataset = options.read_dataset(arguments.data, arguments)
    how: dict[str, Any] = {name: getattr(arguments, name) for name in ("precision", "max_agents", "kernels")}
    watch: dict[str, Any] = {}
    if arguments.evaluate_every is not None:
        env_id = arguments.env or named_environment(dataset)
        episodes = 20 if arguments.episodes is None else arguments.episodes
        evaluator = Evaluator(env_id, episodes, workers=arguments.workers)
        watch = {"evaluate_every": arguments.evaluate_every, "evaluate_with": evaluator}
    print(plan_training(dataset, runs, **how), file=sys.stderr)
    results = train(
        dataset,
        runs,
        num_updates=arguments.updates,
        output=arguments.output,
        resume=arguments.resume,
        holdout=arguments.holdout,
        **how,
        **watch,
    )
    if arguments.json:
        print_json([result.to_dict() for result in results])
    else:
        _show(results, arguments.output)


def _runs(arguments: argparse.Namespace) -> list["Run"]:
    """Every algorithm with every weighting and seed."""
    from upweight.lab.train.run import AUTO, Run, algorithm_config, named_weighting

    whole_number("--seeds", arguments.seeds, least=1, error=ConfigError)
    names = arguments.algorithm or ["bc"]
    settings = {"preset": arguments.preset, **options.parse_settings(arguments.set, example=_EXAMPLE)}
    configs = [algorithm_config(name, **settings) for name in names]
    asked = arguments.weighting or ["rw"]
    advised: list[Any] = [AUTO] if any(name.lower() == AUTO for name in asked) else []
    arguments.weighting = [name for name in asked if name.lower() != AUTO] or None
    return [
        Run(config, weighting, seed, actor_weighting=arguments.actor_weighting, reweight=arguments.reweight)
        for name, config in zip(names, configs, strict=True)
        for weighting in [
            *(options.weightings_from(arguments, partial(named_weighting, algorithm=name)) or []),
            *advised,
        ]
        for seed in range(arguments.seeds)
    ]


def _show(results: Sequence["RunResult"], output: Path) -> None:
    rows, chosen = [], any(result.kept is not None for result in results)
    for place, result in enumerate(results):
        state = result.status if result.diverged_at is None else f"diverged at update {result.diverged_at:,}"
        last = {name: value for name, value in (result.metrics or [{}])[-1].items() if name.endswith("loss")}
        losses = ", ".join(f"{name} {number(value)}" for name, value in last.items())
        description = result.run.to_dict()
        draws = describe_draws(description)
        rows.append([f"{place:03d}", description["algorithm"], draws, str(result.run.seed), state, losses])
        if (found := result.agreement) is not None:
            rows[-1].append(f"{number(found.error)} (constant {number(found.constant)})")
        if (best := result.best_point) is not None:
            rows[-1] += [_return(result.points[-1]), f"{_return(best)} at {best['updates']:,}"]
        if chosen:
            rows[-1].append(str(result.kept or "the last"))
    header = ["run", "algorithm", "weighting", "seed", "status", "last losses", "action error"]
    points = max(len(result.points) for result in results)
    header += ["last return", f"best of {points} point{'' if points == 1 else 's'}*"] if points else []
    header += ["kept"] if chosen else []
    print(table(rows, header=header, align=str.ljust))
    print(f"\n{_legend(results)}")
    if points:
        print(f"* chosen with the simulator; these policies are in {output / 'best'}")
    policies = "1 policy" if len(results) == 1 else f"{len(results)} policies"
    print(f"\nwrote {policies} to {output / 'policies'}")


def _legend(results: Sequence["RunResult"]) -> str:
    """What the errors are."""
    kinds = {result.agreement.held_out for result in results if result.agreement is not None}
    names = {True: "held-out episodes", False: "the data learned from"}
    where = " or ".join(names[kind] for kind in sorted(kinds, reverse=True))
    discrete = results[0].policy.is_discrete
    what = "share of actions unlike" if discrete else "mean squared distance (bounds at -1 and 1) from"
    return f"action error: {what} those of {where}, drawn by weight;\nconstant: that of the best constant action"


def _return(point: dict[str, Any]) -> str:
    """3,120 (score 0.95)."""
    score = "" if point["score"] is None else f" (score {point['score']:.3f})"
    return f"{number(point['mean_return'])}{score}"
