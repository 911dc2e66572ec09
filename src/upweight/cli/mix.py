"""``upweight mix``: a share of good episodes in a dataset of poor ones."""

import argparse

from upweight.cli import options
from upweight.cli.terminal import print_json
from upweight.data.mix import mix

HELP = "mix good episodes into poor ones, as the paper's datasets are made"
EXAMPLES = """\
examples:
  upweight mix expert.hdf5 random.hdf5 --fraction 0.05 --steps 1000000 -o mixed.hdf5
  upweight mix medium.npz random.npz --fraction 0.1 --steps 100000 --labels medium random --seed 1 -o mixed.npz"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_data(parser, "good", "where the good part comes from")
    options.add_data(parser, "poor", "where the rest comes from")
    parser.add_argument("--fraction", type=float, required=True, help="share of the steps from GOOD, e.g. 0.05")
    parser.add_argument(
        "--steps",
        type=options.count,
        required=True,
        help="size of the mix in steps (each part overshoots by less than one episode)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draw of episodes (default 0)")
    parser.add_argument(
        "--replace", action="store_true", help="draw episodes with replacement, as the paper's code did"
    )
    parser.add_argument(
        "--labels",
        nargs=2,
        metavar=("GOOD", "POOR"),
        help="provenance labels (default: the sources' own, else good and poor)",
    )
    options.add_writing(parser)
    options.add_json(parser, "a line per part")
    options.add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    options.check_free(arguments.output, arguments)
    mixed = mix(
        options.read_dataset(arguments.good, arguments),
        options.read_dataset(arguments.poor, arguments),
        fraction=arguments.fraction,
        num_steps=arguments.steps,
        seed=arguments.seed,
        replace=arguments.replace,
        labels=tuple(arguments.labels) if arguments.labels else None,
    )
    lost, line = options.write_dataset(mixed, arguments)
    summary = mixed.metadata["mix"]
    if arguments.json:
        print_json({"output": str(arguments.output), "lost": lost, **summary})
        return
    for role in ("good", "poor"):
        if role in summary:
            part = summary[role]
            print(
                f"{role}: {part['episodes']:,} episodes ({part['distinct_episodes']:,} distinct), "
                f"{part['steps']:,} steps of {part['target_steps']:,} asked for, from {part['source']}"
            )
    print(line)
