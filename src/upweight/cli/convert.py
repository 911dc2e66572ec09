"""``upweight convert``: from one file format to another."""

import argparse
from pathlib import Path

from upweight.cli.options import add_data, add_reading, read_dataset
from upweight.cli.terminal import print_json
from upweight.io.registry import formats, save

NAME = "convert"
HELP = "write a dataset in another format"
EXAMPLES = """\
examples:
  upweight convert hopper-medium-v2.hdf5 -o hopper-medium.parquet
  upweight convert logs.parquet -o logs-minari --format minari"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="file or folder to write; the suffix names the format"
    )
    parser.add_argument("--format", choices=sorted(formats()), help="write this format whatever the suffix")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a line")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    dataset = read_dataset(arguments.data, arguments)
    lost = save(dataset, arguments.output, format=arguments.format)
    if arguments.json:
        print_json(
            {
                "output": str(arguments.output),
                "episodes": dataset.num_episodes,
                "steps": dataset.num_steps,
                "lost": lost,
            }
        )
    else:
        print(f"wrote {arguments.output}: {dataset.num_episodes:,} episodes, {dataset.num_steps:,} steps")
