"""Do IQL and TD3+BC reach the paper's scores on Hopper's medium mixes if D4RL's own policy plays them? Minutes on a GPU.

    python -m reproduction.d4rl_medium hopper_medium-v2.hdf5 -o d4rl_medium

The mixes are ours in all but the policy: its networks are stored in D4RL's file (see d4rl_policy.py). The agents of all of them
train together, and the results are a store, as a sweep's are.
"""

import argparse
import hashlib
import math
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import upweight as uw
from reproduction.d4rl_policy import read_policy
from upweight.lab.recipes.ladder import Rung
from upweight.lab.recipes.make import make_shared_data
from upweight.lab.recipes.recipe import SIGMAS, PolicyShare, Recipe
from upweight.lab.recipes.tasks import find_task
from upweight.lab.study.run_spec import DataSpec, RunSpec, draws_of
from upweight.lab.study.store import Store
from upweight.lab.sweep.evaluation import evaluate_and_store
from upweight.lab.sweep.executor import train_population
from upweight.lab.sweep.packing import Population
from upweight.lab.sweep.run_data import RunData
from upweight.lab.sweep.work import Work

ALGORITHMS = ("iql", "td3_bc")
WEIGHTINGS: tuple[uw.Weighting, ...] = (uw.Uniform(), uw.TopFraction(0.1), uw.ReturnWeighting(0.1))


def make_recipes(policy: Path) -> list[Recipe]:
    """Hopper's medium mixes, with a policy of one's own as the medium one."""
    sha256 = hashlib.sha256(policy.read_bytes()).hexdigest()
    rung = Rung(
        policy, mean_return=math.nan, std_return=math.nan, score=math.nan, sha256=sha256
    )  # returns are not asked for
    return [
        Recipe(
            f"hopper-d4rl-medium-random-{sigma}",
            find_task("hopper"),
            (PolicyShare("medium", rung, sigma / 100), PolicyShare("random", None, 1 - sigma / 100)),
        )
        for sigma in SIGMAS
    ]


def make_population(
    recipes: Sequence[Recipe], algorithm: str, *, steps: int, updates: int, seeds: int, precision: str
) -> Population:
    """Every mix with every weighting and seed."""
    return Population(
        tuple(
            RunSpec(
                data=DataSpec(recipe.name, steps, 0, recipe.task.env_id),
                algorithm=algorithm,
                config=run.config.to_dict(),
                weighting=draws_of(run.to_dict()),
                seed=seed,
                updates=updates,
                precision=precision,
                episodes=20,
                evaluate_every=(50_000, 100_000),
            )
            for recipe in recipes
            for run in (uw.Run(algorithm, weighting) for weighting in WEIGHTINGS)
            for seed in range(seeds)
        )
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="hopper_medium-v2.hdf5, of D4RL")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of results")
    parser.add_argument("--algorithms", nargs="+", choices=ALGORITHMS, default=ALGORITHMS)
    parser.add_argument("--steps", type=int, default=1_000_000, help="of each mix (default: a million)")
    parser.add_argument("--updates", type=int, default=250_000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--max-minutes", type=float, default=math.inf, help="stop after this; start again to go on")
    given = parser.parse_args(arguments)
    deadline = time.monotonic() + 60 * given.max_minutes
    store = Store(given.output, create=True)
    with TemporaryDirectory() as folder:
        policy = Path(folder) / "d4rl-medium.safetensors"
        read_policy(given.file).save(policy)
        recipes = make_recipes(policy)
        shared = make_shared_data(recipes, steps=given.steps)
    data, work = RunData(shared.dataset, shared.episodes), Work(store)
    for algorithm in given.algorithms:
        population = make_population(
            recipes, algorithm, steps=given.steps, updates=given.updates, seeds=given.seeds, precision=given.precision
        )
        workplace = work.take(population)
        if workplace is None:
            continue  # done, or somebody is at it
        for spec in workplace.population.data:
            if not store.has_dataset(spec):
                store.write_dataset(spec, data.describe(spec))
        trained = train_population(workplace, data, deadline, None)
        evaluate_and_store(trained, store, workers=None, keep_policies=False)
        work.end(workplace)
        print(f"{algorithm}: {len(trained)} runs are in {store.path}")


if __name__ == "__main__":
    main()
