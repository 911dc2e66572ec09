"""``upweight select``: which of some trained policies to use, without a simulator."""

import argparse
from pathlib import Path

from upweight.base.errors import ConfigError, DatasetError
from upweight.base.optional import importing
from upweight.cli import options
from upweight.cli.terminal import print_json

HELP = "choose among trained policies by logged data alone, or abstain"
EXAMPLES = """\
examples:
  upweight train log.hdf5 --algorithm bc --algorithm iql --weighting uniform --weighting rw --seeds 3 --holdout 0.2 -o runs
  upweight select runs --data log.hdf5 -o choice.json --plot estimates.png
  upweight select runs others/ policy.safetensors --data icu.csv --episode stay_id --observations age,hr --actions dose
  upweight select runs --data log.hdf5 --env Hopper-v5                           # the same choice, and the truth next to it
  upweight select runs --data log.hdf5 --env robot:build --episodes-allowed 20   # a few real episodes decide
  upweight select runs --data log.hdf5 --dope --critics 5                        # DOPE's settings, on a GPU

what happens: critics learn from logged steps what each policy would earn (fitted Q evaluation), on the episodes that --holdout
kept back from the training; the rule takes the candidate with the highest mean - std over seeds, unless its actions are unlike
the log's (% outside) or hardly any logged episode was worth as much, and only if it beats behaviour cloning on all data by more
than the noise. Else it abstains, which is an answer too (exit code 0): then keep to what you do now. Estimates can be wrong in
ways that no seed shows: where outcomes were rare, or the policy leaves the data. Include `--algorithm bc --weighting uniform`
among the candidates: it is what to beat."""
_EXAMPLE = "discount=0.95"
DOPE_UPDATES = 60_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        metavar="RUNS",
        nargs="+",
        type=Path,
        help="folders of `upweight train`, stores of `upweight sweep`, policy files",
    )
    parser.add_argument(
        "--data",
        help="the log: a file, a folder, minari:<id>, or a name; what the policies were trained on",
    )
    parser.add_argument("-o", "--output", type=Path, help="write the choice as JSON, and the policy next to it")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="picture of the estimates (.png, .svg, .pdf)")
    options.add_overwrite(parser)
    options.add_json(parser, "tables")
    group = parser.add_argument_group("estimates")
    group.add_argument(
        "--critics", type=options.count, default=3, metavar="N", help="per policy, with a seed each (default: 3)"
    )
    group.add_argument(
        "--updates",
        type=options.count,
        help="of each critic (default: 5,000, or 60,000 with --dope): 8 policies take a minute or two on two cores",
    )
    group.add_argument(
        "--dope", action="store_true", help="settings of the DOPE benchmark: larger networks, slower targets; for a GPU"
    )
    options.add_settings(group, what="another value for a setting of the critics", example=_EXAMPLE)
    group.add_argument(
        "--propensities",
        metavar="COLUMN",
        help="where the log says how likely its own discrete actions were: a column of the table with that of the action taken, "
        "the beginning of several (p for p_0, p_1, ...) with those of all actions, or a file (.npy); adds weighted importance "
        "sampling (IS)",
    )
    group.add_argument(
        "--stochastic", action="store_true", help="policies draw their actions instead of taking the likeliest"
    )
    group.add_argument(
        "--seed", type=int, default=0, help="of the first critic, and of episodes that are played (default: 0)"
    )
    _add_rule(parser)
    options.add_reading(parser)


def _add_rule(parser: argparse.ArgumentParser) -> None:
    """How the choice is made, by estimates or by real episodes."""
    group = parser.add_argument_group("rule")
    group.add_argument("--pessimism", type=float, default=1.0, metavar="K", help="rank by mean - K std (default: 1)")
    group.add_argument(
        "--margin", type=float, default=2.0, metavar="Z", help="beat BC by Z std of the difference (default: 2)"
    )
    group.add_argument(
        "--max-outside",
        type=float,
        default=0.3,
        metavar="SHARE",
        help="veto above this share of actions (default: 0.3)",
    )
    group.add_argument(
        "--min-reached",
        type=int,
        default=5,
        metavar="N",
        help="veto where fewer logged episodes were worth what is estimated (default: 5)",
    )
    group = parser.add_argument_group("with an environment")
    options.add_environment(group, default="none")
    group.add_argument(
        "--episodes", type=options.count, help="per policy, for the truth next to estimates (default: 20)"
    )
    group.add_argument(
        "--episodes-allowed",
        type=options.count,
        metavar="N",
        help="play at most so many real episodes, where they tell most (a bandit), one at a time, and let them decide",
    )
    group.add_argument("--workers", type=int, help="processes that simulate (default: one per core)")


def _check_partners(arguments: argparse.Namespace) -> None:
    playing, writes = ["episodes", "workers"], (arguments.output, arguments.plot) != (None, None)
    real = "an environment for real episodes: --env ID"
    options.check_partner(arguments, [*playing, "episodes_allowed"], arguments.env is not None, real)
    all_alike = "--env without --episodes-allowed, which plays its own episodes, one at a time"
    options.check_partner(arguments, playing, arguments.episodes_allowed is None, all_alike)
    options.check_partner(arguments, ["overwrite"], writes, "-o FILE or --plot FILE, the file to replace")


def run(arguments: argparse.Namespace) -> None:
    with importing(extra="train", purpose="estimating what policies are worth"):
        from upweight.lab.select.fqe import FQEConfig
        from upweight.lab.select.importance import read_propensities
        from upweight.lab.select.outcome import check_output
        from upweight.lab.select.plot import plot_selection
        from upweight.lab.select.rule import SelectionRule
        from upweight.lab.select.select import UPDATES, quick_config, select
    _check_partners(arguments)
    for path in arguments.runs:
        if not path.exists():
            raise DatasetError(
                f"{path}: no such file or folder; expected a folder of upweight train or sweep, or a policy file"
            )
    if arguments.data is None:
        raise ConfigError("select: expected --data LOG, the log that the policies were trained on")
    options.check_free(arguments.plot, arguments)
    if arguments.output is not None:
        check_output(arguments.output, overwrite=arguments.overwrite)
    rule = SelectionRule(arguments.pessimism, arguments.margin, arguments.max_outside, arguments.min_reached)
    settings = options.parse_settings(arguments.set, example=_EXAMPLE)
    FQEConfig.preset(**settings)  # a wrong name is told before anything is read
    dataset, propensities = options.read_dataset(arguments.data, arguments), None
    if arguments.propensities is not None:
        propensities = read_propensities(arguments.propensities, arguments.data, **options.reading_options(arguments))
    found = select(
        arguments.runs,
        dataset,
        seeds=arguments.critics,
        updates=arguments.updates or (DOPE_UPDATES if arguments.dope else UPDATES),
        config=FQEConfig.preset(**settings) if arguments.dope else quick_config(dataset, **settings),
        rule=rule,
        propensities=propensities,
        env=arguments.env,
        env_episodes=20 if arguments.episodes is None else arguments.episodes,
        episodes_allowed=arguments.episodes_allowed,
        seed=arguments.seed,
        stochastic=arguments.stochastic,
        workers=arguments.workers,
    )
    written = [] if arguments.output is None else found.save(arguments.output, overwrite=arguments.overwrite)
    if arguments.plot is not None:
        plot_selection(found, arguments.plot)
        written.append(arguments.plot)
    if arguments.json:
        print_json(found.to_dict())
        return
    print(found)
    if written:
        print(f"\nwrote {', '.join(map(str, written))}")
