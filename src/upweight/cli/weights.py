"""``upweight weights``: episode weights as a file, for a training loop of your own."""

import argparse
from pathlib import Path

import numpy as np

from upweight.base.errors import DatasetError
from upweight.base.files import atomic_target
from upweight.cli.options import (
    add_data,
    add_json,
    add_overwrite,
    add_reading,
    add_weighting,
    check_free,
    read_dataset,
    weightings_from,
)
from upweight.cli.terminal import print_json
from upweight.data.statistics import effective_episodes
from upweight.inspection.effect import describe_weighting
from upweight.weightings.weighting import resolve_weights

NAME = "weights"
HELP = "write episode weights to a file, for your own training loop"
EXAMPLES = """\
examples:
  upweight weights mixed.hdf5 -o weights.npz
  upweight weights mixed.hdf5 --weighting aw --temperature 0.2 -o weights.npz

the file holds, per episode in the order of the dataset (of a table: in which they begin):
  weights  float64, summing to 1; lengths  trainable steps; returns  raw returns, NaN if there are no rewards
  a step of episode i must be drawn with probability weights[i] / sum(weights * lengths):
  upweight.EpisodeSampler.from_lengths(lengths, weights) does that"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_data(parser)
    parser.add_argument("-o", "--output", type=Path, required=True, help="npz file to write")
    add_overwrite(parser)
    add_json(parser, "a line")
    add_weighting(parser, several=False, default="rw")
    add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    check_free(arguments.output, arguments)
    if arguments.output.suffix != ".npz":
        raise DatasetError(f"{arguments.output}: weights are written as npz; give a name that ends in .npz")
    (weighting,) = weightings_from(arguments) or []
    dataset = read_dataset(arguments.data, arguments)
    weights = resolve_weights(weighting, dataset)
    returns = dataset.returns if dataset.has_rewards else np.full(dataset.num_episodes, np.nan)
    with atomic_target(arguments.output) as target:
        np.savez(target, weights=weights, lengths=dataset.num_transitions, returns=returns)
    left = effective_episodes(weights)
    if arguments.json:
        print_json(
            {
                "output": str(arguments.output),
                "weighting": weighting.to_dict(),
                "episodes": dataset.num_episodes,
                "effective_episodes": left,
            }
        )
    else:
        name = describe_weighting(weighting.to_dict())
        print(f"wrote {arguments.output}: {dataset.num_episodes:,} weights ({name}), worth {left:.1f} episodes")
