"""``upweight make``: a dataset by its name, played by the behaviour policies that come with the package."""

import argparse

from upweight.base.errors import DatasetError
from upweight.base.text import paragraph, table
from upweight.cli import options
from upweight.cli.terminal import print_json
from upweight.data.reference_scores import normalize_returns, reference_scores
from upweight.data.statistics import positive_sided_variance
from upweight.lab.recipes.make import make_dataset
from upweight.lab.recipes.recipe import recipe_names
from upweight.lab.recipes.tasks import TASKS

HELP = "make a dataset by name in a simulator: hopper-expert, antmaze-large-play, walker2d-expert-random-5, ..."
EXAMPLES = """\
examples:
  upweight make --list
  upweight make hopper-expert-random-5 -o mixed.hdf5
  upweight make hopper-medium-replay --steps 1000000 --seed 0 -o replay.hdf5
  upweight make antmaze-medium-diverse -o maze.npz

names are TASK-KIND; KIND is random, medium, expert, medium-expert, medium-replay, full-replay, or a mix such as
expert-random-5: 5% of the steps by the expert, the rest by uniformly random actions
antmaze-MAZE-KIND has a reward of 1 at the goal and else 0; KIND is play, diverse (in umaze nothing, diverse), random, wander,
expert, or a mix such as expert-wander-5; play-d4rl, diverse-d4rl have D4RL's flags: each step at the goal ends an episode
what was played is kept in the cache folder (UPWEIGHT_CACHE), so the next dataset that needs it is quick, and an interrupted
command goes on where it was; every other command takes such a name in place of a file"""
AFTER_INTERRUPTION = "the same command goes on with what was collected"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="the dataset, e.g. hopper-expert-random-5")
    parser.add_argument("--list", action="store_true", help="print all names, by task")
    parser.add_argument(
        "--steps", type=options.count, help="at least this many (default: 1,000,000; classic control 100,000)"
    )
    parser.add_argument("--seed", type=int, help="of the episodes (default: 0)")
    parser.add_argument("--workers", type=int, help="processes (default: one per core); the data do not depend on it")
    options.add_writing(parser, required=False)
    options.add_json(parser, "a table")


def run(arguments: argparse.Namespace) -> None:
    making = ["steps", "seed", "workers", "output", "overwrite", "format"]
    options.check_partner(arguments, making, not arguments.list, "a command without --list, which makes nothing")
    if arguments.list:
        tasks = {task: recipe_names((task,)) for task in TASKS}
        if arguments.json:
            print_json([name for names in tasks.values() for name in names])
        else:
            print("\n".join(paragraph(" ".join(names), mark=f"{task}: ") for task, names in tasks.items()))
        return
    if arguments.name is None or arguments.output is None:
        raise DatasetError("expected the name of a dataset and -o FILE; upweight make --list prints all names")
    options.check_free(arguments.output, arguments)
    seed = 0 if arguments.seed is None else arguments.seed
    dataset = make_dataset(arguments.name, steps=arguments.steps, seed=seed, workers=arguments.workers)
    lost, line = options.write_dataset(dataset, arguments)
    scores = normalize_returns(dataset.returns, reference_scores(arguments.name))
    summary = {
        "output": str(arguments.output),
        "episodes": dataset.num_episodes,
        "steps": dataset.num_steps,
        "mean_normalized_return": float(scores.mean()),
        "rpsv": positive_sided_variance(scores),
        "content_sha256": dataset.metadata["content_sha256"],
        "parts": dataset.metadata["parts"],
        "lost": lost,
    }
    if arguments.json:
        print_json(summary)
        return
    assert dataset.labels is not None
    rows = []
    for part in dataset.metadata["parts"]:
        mine = scores[dataset.labels == part["label"]]
        rows.append([part["label"], f"{part['episodes']:,}", f"{part['steps']:,}", f"{mine.mean():.3f}"])
    print(table(rows, header=["played by", "episodes", "steps", "mean score"], align=str.ljust))
    print(f"\nmean normalised return {scores.mean():.4f}, RPSV {summary['rpsv']:.6f}")
    print(line)
