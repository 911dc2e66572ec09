"""``upweight pack``: data larger than memory, into a folder of memory-mapped columns."""

import argparse
from pathlib import Path

from upweight.base.errors import DatasetError
from upweight.base.text import size
from upweight.cli import options
from upweight.cli.terminal import print_json
from upweight.io.loading import load
from upweight.io.packing import DTYPES, plan_packing

HELP = "write datasets of any size into one folder that is opened at once and read a few rows at a time"
EXAMPLES = """\
examples:
  upweight pack logs/*.parquet -o logs.packed
  upweight pack night.csv day.csv --episode stay_id --rewards outcome -o icu.packed --dtype float16
  upweight pack logs.packed --verify

many shards become one dataset, in the order given; they must have the same columns, and each whole episodes
every other command, and upweight.load, take the folder in place of a file: inspecting and weighting read the episodes' index,
batches a few rows of the memory map, so data may be larger than memory
an interrupted command goes on where it was; the room needed on the disk is said, and looked at, first"""
AFTER_INTERRUPTION = "the same command goes on with what was packed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data", metavar="DATA", nargs="+", help="files, folders, minari:<id>, or names such as hopper-expert"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER", help="the folder to write")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a packed folder, once the new one is complete"
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, help="of floating observations (default: as they are; float16: half of float32)"
    )
    parser.add_argument("--workers", type=int, help="parts written at a time (default: one per core, at most 4)")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="read everything again and compare it with the hashes; without -o, of a folder that was packed before",
    )
    options.add_json(parser, "lines")
    options.add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    if arguments.output is None:
        _verify(arguments)
        return
    packing = plan_packing(
        arguments.data,
        arguments.output,
        dtype=arguments.dtype,
        workers=arguments.workers,
        overwrite=arguments.overwrite,
        **options.reading_options(arguments),
    )
    if not arguments.json:
        print(f"packing {packing}", flush=True)
    dataset = packing.write(verify=arguments.verify)
    sizes = {"episodes": dataset.num_episodes, "steps": dataset.num_steps, "bytes": packing.nbytes}
    if arguments.json:
        print_json({"output": str(arguments.output), **sizes, "verified": arguments.verify})
        return
    checked = ", read again and found right" if arguments.verify else ""
    print(
        f"wrote {arguments.output}: {sizes['episodes']:,} episodes, {sizes['steps']:,} steps, {size(sizes['bytes'])}{checked}"
    )


def _verify(arguments: argparse.Namespace) -> None:
    if not arguments.verify:
        raise DatasetError("expected -o FOLDER to pack into, or --verify to look at folders that were packed before")
    idle = ["overwrite", "dtype", "workers", *options.READING]
    options.check_partner(
        arguments, idle, False, "-o FOLDER to pack into; without one, folders that were packed are read"
    )
    found = [load(name, format="packed", verify=True) for name in arguments.data]
    if arguments.json:
        print_json(
            [
                {"folder": dataset.source, "episodes": dataset.num_episodes, "steps": dataset.num_steps}
                for dataset in found
            ]
        )
        return
    for dataset in found:
        print(f"{dataset.source}: {dataset.num_episodes:,} episodes, {dataset.num_steps:,} steps, as they were packed")
