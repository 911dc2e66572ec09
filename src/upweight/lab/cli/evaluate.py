"""``upweight evaluate``: how well trained policies do in an environment."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from upweight.base.errors import RolloutError
from upweight.base.files import write_json
from upweight.base.text import number, table
from upweight.cli import options
from upweight.cli.terminal import print_json
from upweight.inspection.effect import describe_draws
from upweight.lab.play.evaluate import Evaluation, evaluate
from upweight.policies.policy import Policy, find_policies, load_policy

HELP = "play episodes with trained policies and report their returns"
EXAMPLES = """\
examples:
  upweight evaluate runs/iql
  upweight evaluate runs/all --env Ant-v5 --episodes 100 --seed 1 --workers 8
  upweight evaluate runs/iql/policies/run-000.safetensors --env Hopper-v5 --stochastic --json

a folder written by `upweight train` gets a file evaluation.json with the return of every episode
policies know the environment of a dataset that was made by name (upweight make); for others, --env says it
without any environment, `upweight select` chooses among policies by logged data
the score is (return - random) / (expert - random) with D4RL's reference returns: 0 is a random policy, 1 D4RL's expert"""
FILE = "evaluation.json"
FORMAT_VERSION = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "trained", metavar="RUN", type=Path, help="folder written by `upweight train`, or one policy file"
    )
    options.add_environment(parser)
    parser.add_argument("--episodes", type=options.count, default=20, help="episodes per policy (default: 20)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the episodes, which are the same for every policy (default: 0)"
    )
    parser.add_argument(
        "--stochastic", action="store_true", help="sample actions instead of taking the policy's best one"
    )
    parser.add_argument("--workers", type=int, help="processes (default: one per core); results do not depend on it")
    options.add_overwrite(parser)
    options.add_json(parser, "a table")


def run(arguments: argparse.Namespace) -> None:
    options.check_free(arguments.trained / FILE, arguments)
    paths = find_policies(arguments.trained)
    kept = "a folder as RUN; of one policy file nothing is written"
    options.check_partner(arguments, ["overwrite"], arguments.trained.is_dir(), kept)
    policies = [load_policy(path) for path in paths]
    env_id = arguments.env or named_environment(policies, arguments.trained)
    results = evaluate(
        policies,
        env_id,
        arguments.episodes,
        arguments.seed,
        stochastic=arguments.stochastic,
        workers=arguments.workers,
    )
    report = {
        "format": FORMAT_VERSION,
        "env_id": env_id,
        "episodes": arguments.episodes,
        "seed": arguments.seed,
        "stochastic": arguments.stochastic,
        "policies": [
            {"policy": path.name, **describe_run(policy), **result.to_dict()}
            for path, policy, result in zip(paths, policies, results, strict=True)
        ],
    }
    if arguments.trained.is_dir():
        write_json(arguments.trained / FILE, report)
    if arguments.json:
        print_json(report)
        return
    print(f"{env_id}, {arguments.episodes} episodes per policy")
    print(show(report["policies"], results))
    if arguments.trained.is_dir():
        print(f"\nwrote {arguments.trained / FILE}")


def named_environment(policies: Sequence[Policy], path: Path) -> str:
    """The one environment that all policies name in their metadata."""
    names = {policy.metadata.get("env_id") for policy in policies}
    name = names.pop() if len(names) == 1 else None
    if not isinstance(name, str) or ":" in name:  # "module:id" would import a module because a file says so
        raise RolloutError(
            f"{path}: the policies do not say which environment they are for; give it, e.g. --env Hopper-v5. "
            f"Where there is none, choose by logged data: upweight select {path} --data DATA"
        )
    return name


def describe_run(policy: Policy) -> dict[str, Any]:
    """What a policy's file says about its training; anything odd counts as unsaid."""
    about = policy.metadata.get("run")
    about = about if isinstance(about, dict) else {}
    kinds = {"algorithm": str, "weighting": dict, "actor_weighting": dict, "reweight": bool, "seed": int}
    return {name: value if isinstance(value := about.get(name), kind) else None for name, kind in kinds.items()}


def show(rows: Sequence[dict[str, Any]], results: Sequence[Evaluation]) -> str:
    """A table; where episodes fail or succeed, the score is the rate of success, with its 95% interval."""
    lines = []
    for row, result in zip(rows, results, strict=True):
        score = "-" if result.score is None else f"{result.score:.3f}"
        if result.success_interval is not None:
            score += " [{:.3f}, {:.3f}]".format(*result.success_interval)
        lines.append(
            [
                Path(row["policy"]).stem,
                row["algorithm"] or "-",
                describe_draws(row),
                "-" if row["seed"] is None else str(row["seed"]),
                f"{number(result.mean_return)} ± {number(result.std_return)}",
                score,
            ]
        )
    return table(lines, header=["run", "algorithm", "weighting", "seed", "return", "score"], align=str.ljust)
