"""``upweight convert``: from one file format to another."""

import argparse

from upweight.cli import options
from upweight.cli.terminal import print_json

HELP = "write a dataset in another format"
EXAMPLES = """\
examples:
  upweight convert hopper-medium-v2.hdf5 -o hopper-medium.parquet
  upweight convert logs.parquet -o logs-minari --format minari"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_data(parser)
    options.add_writing(parser)
    options.add_json(parser, "a line")
    options.add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    options.check_free(arguments.output, arguments)
    dataset = options.read_dataset(arguments.data, arguments)
    lost, line = options.write_dataset(dataset, arguments)
    if not arguments.json:
        print(line)
        return
    sizes = {"episodes": dataset.num_episodes, "steps": dataset.num_steps}
    print_json({"output": str(arguments.output), **sizes, "lost": lost})
