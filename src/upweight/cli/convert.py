"""``upweight convert``: from one file format to another."""

import argparse

from upweight.cli.options import add_data, add_json, add_reading, add_writing, check_free, read_dataset, write_dataset
from upweight.cli.terminal import print_json

NAME = "convert"
HELP = "write a dataset in another format"
EXAMPLES = """\
examples:
  upweight convert hopper-medium-v2.hdf5 -o hopper-medium.parquet
  upweight convert logs.parquet -o logs-minari --format minari"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    add_writing(parser)
    add_json(parser, "a line")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    check_free(arguments.output, arguments)
    dataset = read_dataset(arguments.data, arguments)
    lost, line = write_dataset(dataset, arguments)
    if not arguments.json:
        print(line)
        return
    sizes = {"episodes": dataset.num_episodes, "steps": dataset.num_steps}
    print_json({"output": str(arguments.output), **sizes, "lost": lost})
