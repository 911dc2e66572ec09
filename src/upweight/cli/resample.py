"""``upweight resample``: a file in which good episodes repeat, for libraries that only read files."""

import argparse

from upweight.adapters.resample import resample
from upweight.cli import options
from upweight.cli.terminal import print_json
from upweight.inspection.effect import describe_weighting

HELP = "repeat episodes in proportion to their weight, for a library that only reads files"
EXAMPLES = """\
examples:
  upweight resample mixed.hdf5 -o weighted.hdf5
  upweight resample mixed.hdf5 --weighting aw --temperature 0.2 --steps 2000000 -o weighted.hdf5
  upweight resample icu.csv --weighting top --fraction 0.1 --may-lose 0.3 -o weighted.parquet

uniform draws from the steps of the new file are weighted draws from those of DATA; do not weight the file again.
a library that can draw by weights needs no such file: upweight weights, or an adapter (docs/adapters/index.md)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_data(parser)
    parser.add_argument(
        "--steps", type=options.count, help="trainable steps of the new file, about (default: as many as DATA has)"
    )
    parser.add_argument("--seed", type=int, default=0, help="decides which episodes are rounded up (default 0)")
    parser.add_argument(
        "--may-lose",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="largest share of effective episodes that a small file may lose (default 0.1)",
    )
    options.add_writing(parser)
    options.add_json(parser, "two lines")
    options.add_weighting(parser, several=False, default="rw")
    options.add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    options.check_free(arguments.output, arguments)
    (weighting,) = options.weightings_from(arguments) or []
    dataset = options.read_dataset(arguments.data, arguments)
    resampled = resample(dataset, weighting, steps=arguments.steps, seed=arguments.seed, may_lose=arguments.may_lose)
    lost, line = options.write_dataset(resampled, arguments)
    kept = resampled.metadata["resample"]
    if arguments.json:
        print_json({"output": str(arguments.output), "lost": lost, **kept})
        return
    print(
        f"{describe_weighting(weighting.to_dict())}: keeps {kept['effective_episodes']:,.1f} of "
        f"{kept['effective_episodes_of_weights']:,.1f} effective episodes; {kept['distinct_episodes']:,} of "
        f"{dataset.num_episodes:,} episodes are in it, the most frequent {kept['most_copies']:,} times"
    )
    print(line)
