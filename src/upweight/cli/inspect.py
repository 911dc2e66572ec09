"""``upweight inspect``: what is in a dataset and what weighting would gain."""

import argparse
from pathlib import Path

from upweight.cli import options
from upweight.cli.terminal import print_json, print_report
from upweight.inspection.effect import describe_weighting
from upweight.inspection.plot import plot_weights
from upweight.inspection.report import inspect
from upweight.inspection.suggestion import Suggestion
from upweight.weightings.return_weighting import ReturnWeighting
from upweight.weightings.weighting import resolve_weights

HELP = "what is in a dataset, and what weighting would gain"
EXAMPLES = """\
examples:
  upweight inspect mixed.hdf5
  upweight inspect hopper-medium-replay-v2.hdf5 --env hopper --weighting rw --temperature 0.1 --plot weights.png
  upweight inspect mixed.hdf5 --algorithm td3_bc               # for whom: critics and actor, or the actor alone
  upweight inspect demonstrations/ --success next.success      # a robot's log: no rewards, but flags of success
  upweight inspect icu.csv --episode stay_id --timestep hour --observations age,hr --actions dose --rewards r
  upweight inspect minari:mujoco/hopper/medium-v0 --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_data(parser)
    parser.add_argument(
        "--env", help="task whose reference scores normalise the returns: hopper, halfcheetah, walker2d, ant, ..."
    )
    parser.add_argument(
        "--algorithm",
        help="what will learn: bc, td3_bc, iql, cql, discrete_...; cloning, actor_critic or critic for others of a kind",
    )
    parser.add_argument("--confidence", type=float, default=0.95, help="of the Hoeffding bound (default 0.95)")
    parser.add_argument("--check", action="store_true", help="read everything and look for NaN and infinity")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="picture of the returns with the weights over them (.png, .svg, .pdf)"
    )
    options.add_overwrite(parser)
    parser.add_argument(
        "--explain", action="store_true", help="print everything: quantiles, bounds, shares, all reasons"
    )
    options.add_json(parser, "tables")
    options.add_weighting(parser, several=True, default=None)
    options.add_reading(parser)


def run(arguments: argparse.Namespace) -> None:
    options.check_partner(arguments, ["overwrite"], arguments.plot is not None, "--plot FILE, the file to replace")
    options.check_free(arguments.plot, arguments)
    weightings = options.weightings_from(arguments)
    dataset = options.read_dataset(arguments.data, arguments)
    if arguments.check:
        dataset.check()
    report = inspect(
        dataset,
        weightings=weightings,
        algorithm=arguments.algorithm,
        env=arguments.env,
        confidence=arguments.confidence,
    )
    if arguments.plot is not None:
        shown = weightings or [ReturnWeighting()]
        weights = {describe_weighting(w.to_dict()): resolve_weights(w, dataset) for w in shown}
        plot_weights(dataset, weights, arguments.plot)
    if arguments.json:
        print_json(report.to_dict())
    else:
        print_report(report.explain() if arguments.explain else str(report))
        if arguments.plot is not None:
            print(f"\nwrote {arguments.plot}")
        elif not arguments.explain:
            print("\n" + "\n".join(_next_commands(arguments, report.suggestion)))


def _next_commands(arguments: argparse.Namespace, suggestion: Suggestion | None) -> list[str]:
    """What to run now."""
    data = options.reading_words(arguments.data, arguments)
    if suggestion is None:
        return [f"Next: upweight inspect {data} --success NAME   # NAME: flags of success; or --score NAME, a number"]
    lines = [f"Next: upweight explore {data}   # every episode on a page (every reason here: --explain)"]
    if suggestion.strength in {"strong", "fair"}:
        weighting = "".join(
            f" --{key.replace('name', 'weighting')} {value}" for key, value in suggestion.candidate.to_dict().items()
        )
        lines.append(f"      upweight weights {data}{weighting} -o weights.npz   # for your own training loop")
    return lines
