"""``upweight weights``: episode weights as a file, for a training loop of your own."""

import argparse
from pathlib import Path

from upweight.base.errors import DatasetError
from upweight.cli import options
from upweight.cli.terminal import print_json
from upweight.data.statistics import effective_episodes
from upweight.inspection.effect import describe_weighting
from upweight.io.lerobot import IN_PLACE, is_lerobot, write_weights
from upweight.io.weights_file import save_weights
from upweight.weightings.weighting import resolve_weights

HELP = "write episode weights to a file, for your own training loop"
EXAMPLES = """\
examples:
  upweight weights mixed.hdf5 -o weights.npz
  upweight weights mixed.hdf5 --weighting aw --temperature 0.2 -o weights.npz
  upweight weights my_lerobot_folder --success next.success --in-place

the file holds, per episode in the order of the dataset (of a table: in which they begin):
  weights  float64, summing to 1; lengths  trainable steps; returns  raw returns, NaN if there are no rewards
  a step of episode i must be drawn with probability weights[i] / sum(weights * lengths):
  upweight.EpisodeSampler.from_lengths(lengths, weights) does that
  upweight.load_weights("weights.npz", dataset) reads the weights back, and refuses those of other data

of a LeRobot folder also as Parquet: episode_index, length, return, success, weight, and the hash of the data that they are of;
upweight.adapters.lerobot.WeightedEpisodeSampler takes that file (docs/adapters/lerobot.md)"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_data(parser)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("-o", "--output", type=Path, help="npz file to write; of a LeRobot folder npz or parquet")
    where.add_argument("--in-place", action="store_true", help=f"write {IN_PLACE} into the LeRobot folder that DATA is")
    options.add_overwrite(parser)
    options.add_json(parser, "a line")
    options.add_weighting(parser, several=False, default="rw")
    options.add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.data)
    output = folder / IN_PLACE if arguments.in_place else arguments.output
    options.check_free(output, arguments)
    if output.suffix != ".npz" and not (is_lerobot(folder) and output.suffix == ".parquet"):
        raise DatasetError(
            f"{output}: weights are written as npz; give a name that ends in .npz (parquet and --in-place are for LeRobot "
            "folders, which have a meta/info.json)"
        )
    (weighting,) = options.weightings_from(arguments) or []
    dataset = options.read_dataset(arguments.data, arguments)
    weights = resolve_weights(weighting, dataset)
    if output.suffix == ".npz":
        save_weights(output, weights, dataset)
    else:
        write_weights(output, folder, dataset, weights, weighting.to_dict(), arguments.success or "success")
    left = effective_episodes(weights)
    if arguments.json:
        print_json(
            {
                "output": str(output),
                "weighting": weighting.to_dict(),
                "episodes": dataset.num_episodes,
                "effective_episodes": left,
            }
        )
    else:
        name = describe_weighting(weighting.to_dict())
        print(f"wrote {output}: {dataset.num_episodes:,} weights ({name}), worth {left:.1f} episodes")
