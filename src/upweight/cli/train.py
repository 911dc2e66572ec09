"""``upweight train``: many agents at once, from the command line."""

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from upweight.base.errors import WeightingError
from upweight.base.optional import importing
from upweight.base.text import number, table
from upweight.cli.options import (
    add_data,
    add_json,
    add_reading,
    add_settings,
    add_weighting,
    count,
    parse_settings,
    read_dataset,
    weightings_from,
)
from upweight.cli.terminal import print_json
from upweight.inspection.effect import describe_weighting

NAME = "train"
HELP = "train agents: every algorithm with every weighting and seed, together"
EXAMPLES = """\
examples:
  upweight train mixed.hdf5 --algorithm iql --weighting rw --seeds 5 --updates 250000 -o runs/iql
  upweight train mixed.hdf5 --algorithm bc --algorithm td3_bc --weighting uniform --weighting rw --seeds 5 -o runs/all
  upweight train mixed.hdf5 --algorithm iql --preset official --set expectile=0.9 --set beta=10 -o runs/official
  upweight train mixed.hdf5 --algorithm iql --weighting rw --seeds 5 --updates 250000 -o runs/iql --resume

the folder then holds policies/run-000.safetensors, ... (upweight.load_policy), results.json and metrics.jsonl"""
AFTER_INTERRUPTION = "the same command with --resume goes on from the last checkpoint"

_EXAMPLE = "expectile=0.9"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument(
        "--algorithm",
        action="append",
        metavar="NAME",
        help="bc, td3_bc, iql, cql, discrete_bc, discrete_cql or discrete_iql; may be given several times (default: bc)",
    )
    parser.add_argument(
        "--preset", default="paper", help="paper (d3rlpy's settings) or, for some, official (default: paper)"
    )
    add_settings(parser, what="another value for a setting of the algorithms", example=_EXAMPLE)
    parser.add_argument("--seeds", type=int, default=1, help="number of seeds, from 0 (default: 1)")
    parser.add_argument(
        "--updates", type=count, default=100_000, help="updates per agent (default: 100,000; the paper: 1,000,000)"
    )
    parser.add_argument(
        "--precision",
        default="float32",
        choices=["float32", "bfloat16", "float64"],
        help="bfloat16 is faster on a GPU: products and activations in 16 bits, parameters in 32 (default: float32)",
    )
    parser.add_argument(
        "--actor-weighting", metavar="NAME", help="let the actor draw with another weighting than the critics"
    )
    parser.add_argument("--reweight", action="store_true", help="draw uniformly and weight the losses instead")
    parser.add_argument("--max-agents", type=int, help="train at most this many together (default: as many as fit)")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--resume", action="store_true", help="go on with the interrupted training in that folder")
    add_json(parser, "a table")
    add_weighting(parser, several=True, default="rw")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    with importing(extra="train", purpose="training"):
        from upweight.engine.run import Run, algorithm_config, named_weighting
        from upweight.engine.train import plan_training, train
    if arguments.seeds < 1:
        raise WeightingError(f"--seeds: expected at least 1, found {arguments.seeds}")
    names = arguments.algorithm or ["bc"]
    settings = {"preset": arguments.preset, **parse_settings(arguments.set, example=_EXAMPLE)}
    configs = [algorithm_config(name, **settings) for name in names]
    runs = [
        Run(config, weighting, seed, actor_weighting=arguments.actor_weighting, reweight=arguments.reweight)
        for name, config in zip(names, configs, strict=True)
        for weighting in weightings_from(arguments, partial(named_weighting, algorithm=name))
        or [named_weighting("rw", name)]
        for seed in range(arguments.seeds)
    ]
    dataset = read_dataset(arguments.data, arguments)
    options: dict[str, Any] = {"precision": arguments.precision, "max_agents": arguments.max_agents}
    print(plan_training(dataset, runs, **options), file=sys.stderr)
    results = train(
        dataset, runs, num_updates=arguments.updates, output=arguments.output, resume=arguments.resume, **options
    )
    if arguments.json:
        print_json([result.to_dict() for result in results])
        return
    rows = []
    for place, result in enumerate(results):
        state = result.status if result.diverged_at is None else f"diverged at update {result.diverged_at:,}"
        last = {name: value for name, value in (result.metrics or [{}])[-1].items() if name.endswith("loss")}
        losses = ", ".join(f"{name} {number(value)}" for name, value in last.items())
        description = result.run.to_dict()
        weighting = describe_weighting(description["weighting"])
        rows.append([f"{place:03d}", description["algorithm"], weighting, str(result.run.seed), state, losses])
    print(table(rows, header=["run", "algorithm", "weighting", "seed", "status", "last losses"], align=str.ljust))
    policies = "1 policy" if len(results) == 1 else f"{len(results)} policies"
    print(f"\nwrote {policies} to {arguments.output / 'policies'}")
