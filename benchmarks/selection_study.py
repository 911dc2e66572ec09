"""Can policies be ranked without a simulator? Candidates of many qualities, fitted Q evaluation, and the truth.

    python benchmarks/selection_study.py --tasks hopper halfcheetah --name selection_study_1      # H200, 16 cores
    python benchmarks/selection_study.py --tasks cartpole --steps 4000 --snapshots 20 100 --fqe-updates 200 --fqe-seeds 2 \\
        --training-seeds 1 --episodes 2 --hidden 16 --name tiny                                      # a minute on a CPU

For each task, the mixes lie in one pool; a fifth of every mix's episodes is held out. Per algorithm, all weightings, seeds and
mixes train in one program, and policies are taken at several numbers of updates: from hardly trained to finished. Critics
learn from the held-out episodes (``--fit all``: from all). Policies act deterministically, in the estimate as in the truth.
One row per policy goes to a .jsonl file as soon as its dataset is done; benchmarks/selection_analysis.py reads them.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

import upweight as uw
from measure import RESULTS, record
from upweight.base.background import Background
from upweight.engine.advance import advances
from upweight.engine.device import compilation_cache
from upweight.engine.extraction import extract_policies
from upweight.engine.fqe import FQEConfig, evaluate_policies
from upweight.engine.nn import Compute, apply_critics, apply_mlp
from upweight.engine.population import Program
from upweight.engine.prepare import make_agents, make_data, make_parts, make_setup
from upweight.engine.schedule import make_schedule
from upweight.recipes.make import SharedData, make_shared_data
from upweight.recipes.tasks import MUJOCO_TASKS, find_task
from upweight.selection.looks import action_errors, supports

MIXES = {
    "mujoco": ("expert-random-5", "medium-random-10", "medium-replay"),
    "classic": ("expert-random-5", "medium-random-50"),
}
ALGORITHMS = {"mujoco": ("bc", "td3_bc", "iql"), "classic": ("discrete_bc", "discrete_cql", "discrete_iql")}
CHANGES = {
    "discrete_cql": {"target_every_updates": 500.0, "learning_rate": 3e-4, "batch_size": 256}
}  # for 50,000 updates
WEIGHTINGS = {
    "uniform": uw.Uniform(),
    "rw 0.1": uw.ReturnWeighting(0.1),
    "rw 0.03": uw.ReturnWeighting(0.03),
    "aw 0.1": uw.AdvantageWeighting(0.1),
    "top 10%": uw.TopFraction(0.1),
}
HELD_OUT, STARTS = 0.2, 500


@dataclass
class Candidate:
    """A policy and what is known of it."""

    dataset: str
    algorithm: str
    weighting: str
    seed: int  # of the training
    updates: int
    policy: uw.Policy
    own_q: float | None
    held_out_loss: float = np.nan
    outside: float = np.nan

    def row(self, **more: Any) -> dict[str, Any]:
        kept = ("dataset", "algorithm", "weighting", "seed", "updates", "own_q", "held_out_loss", "outside")
        return {**{name: getattr(self, name) for name in kept}, **more}


@dataclass(frozen=True)
class Split:
    """The episodes of one mix in the pool."""

    seen: NDArray[np.int64]
    held: NDArray[np.int64]


def split(shared: SharedData) -> dict[str, Split]:
    found = {}
    for name, episodes in shared.episodes.items():
        order = np.random.default_rng(0).permutation(episodes)
        count = max(2, round(HELD_OUT * len(order)))
        found[name] = Split(np.sort(order[count:]), np.sort(order[:count]))
    return found


# ---- candidates -----------------------------------------------------------------------------------------------------
def train_candidates(
    arguments: argparse.Namespace, pool: uw.Dataset, parts: dict[str, Split], kind: str
) -> list[Candidate]:
    """All algorithms in turn; each has one program for all mixes, weightings and seeds."""
    found = []
    for algorithm in ALGORITHMS[kind]:
        changes = {"hidden_units": (arguments.hidden,) * 2} | CHANGES.get(algorithm, {})
        config = uw.algorithm_config(algorithm, **changes)
        about = [
            (mix, weighting, seed)
            for mix in parts
            for weighting in WEIGHTINGS
            for seed in range(arguments.training_seeds)
        ]
        runs = [uw.Run(config, WEIGHTINGS[name], seed, episodes=parts[mix].seen) for mix, name, seed in about]
        began = time.perf_counter()
        for updates, policies, values in snapshots(pool, runs, parts, [mix for mix, _, _ in about], arguments):
            for (mix, weighting, seed), policy, value in zip(about, policies, values, strict=True):
                found.append(Candidate(mix, algorithm, weighting, seed, updates, policy.deterministic(), value))
        print(f"  {algorithm}: {len(runs)} agents, {time.perf_counter() - began:.0f} s", flush=True)
    return found


def snapshots(
    pool: uw.Dataset, runs: list[uw.Run], parts: dict[str, Split], mixes: list[str], arguments: argparse.Namespace
) -> Iterator[tuple[int, list[uw.Policy], list[float | None]]]:
    """Number of updates, policies and their own Q, wherever a snapshot is due."""
    due, method, config = sorted(arguments.snapshots), runs[0].method, runs[0].config
    with compilation_cache():
        setup = make_setup(pool, arguments.precision)
        program, data = Program(method, config, setup), make_data(pool, method, setup)
        agents = make_agents(runs, make_parts(pool, runs), setup, due[-1])
        schedule = make_schedule(due[-1], None, method, config, len(runs))
        schedule = replace(schedule, evaluate_every=reduce(math.gcd, due))
        for step in advances(program, agents, data, program.start(agents), 0, schedule, range(len(runs))):
            if step.num_updates in due:
                policies = extract_policies(program, step.progress, agents, runs, {})
                states, scales = jax.device_get((step.progress.states, agents.reward_scale))
                starts = {mix: pool.initial_observations[part.held[:STARTS]] for mix, part in parts.items()}
                values = [
                    own_q(jax.tree.map(lambda leaf, place=place: leaf[place], states), policy, starts[mix])
                    for place, (policy, mix) in enumerate(zip(policies, mixes, strict=True))
                ]
                scaled = [None if v is None else v / float(s) for v, s in zip(values, scales, strict=True)]
                yield step.num_updates, policies, scaled


def own_q(state: Any, policy: uw.Policy, starts: NDArray[Any]) -> float | None:
    """What the algorithm's own critics say of its policy, on average over starting states; BC has none."""
    plain = Compute(jnp.dtype("float32"))
    networks = getattr(state, "critics", getattr(state, "critic", None))
    if networks is None:
        return None
    observations = np.asarray((starts - policy.observation_mean) / policy.observation_scale, np.float32)
    actions = policy.act(starts)
    if not policy.is_discrete:
        return float(apply_critics(networks, observations, actions, plain).min(axis=0).mean())
    if networks[0].weight.ndim == 2:
        values = np.asarray(apply_mlp(networks, observations, plain))
    else:
        values = np.asarray(jax.vmap(lambda n: apply_mlp(n, observations, plain))(networks)).min(axis=0)
    return float(values[np.arange(len(actions)), actions].mean())


def look(pool: uw.Dataset, part: Split, candidates: list[Candidate]) -> None:
    """What held-out episodes tell without critics: errors of actions, and how many actions the others do not show."""
    mix = pool.subset(np.concatenate([part.seen, part.held]))
    held = np.arange(len(part.seen), mix.num_episodes)
    policies = [candidate.policy for candidate in candidates]
    pairs = zip(action_errors(mix, held, policies), supports(mix, held, policies), strict=True)
    for candidate, (error, support) in zip(candidates, pairs, strict=True):
        candidate.held_out_loss, candidate.outside = error.error, support.outside


# ---- the study ------------------------------------------------------------------------------------------------------
def study(task: str, arguments: argparse.Namespace, path: Path, began: float) -> None:
    """Rows of all mixes of one task, written as they come."""
    kind = "mujoco" if task in MUJOCO_TASKS else "classic"
    names = [f"{task}-{mix}" for mix in arguments.mixes or MIXES[kind]]
    shared = make_shared_data(names, steps=arguments.steps)
    parts, pool = split(shared), shared.dataset
    print(f"{task}: {pool.num_steps:,} steps in the pool, {time.monotonic() - began:.0f} s", flush=True)
    candidates = train_candidates(arguments, pool, parts, kind)
    policies = [candidate.policy for candidate in candidates]
    truths: list[uw.Evaluation] = []

    def play() -> None:
        truths.extend(uw.evaluate(policies, find_task(task).env_id, episodes=arguments.episodes, seed=1))
        for name, part in parts.items():
            look(pool, part, [candidate for candidate in candidates if candidate.dataset == name])
        print(f"  {len(policies)} policies played and looked at, {time.monotonic() - began:.0f} s", flush=True)

    with Background() as playing:
        playing.start(play)
        for name, part in parts.items():
            mine = [place for place, candidate in enumerate(candidates) if candidate.dataset == name]
            for fit in arguments.fit:
                if time.monotonic() - began > arguments.deadline:
                    print(f"  {name}: left out, the time is up", flush=True)
                    continue
                episodes = part.held if fit == "held_out" else np.sort(np.concatenate([part.seen, part.held]))
                estimates = estimate(pool, [policies[place] for place in mine], episodes, part.held, arguments)
                playing.wait()
                chosen = [(candidates[place], truths[place]) for place in mine]
                write(path, rows(chosen, estimates, fit))
                print(f"  {name} ({fit}): {len(mine)} rows, {time.monotonic() - began:.0f} s", flush=True)


def estimate(
    pool: uw.Dataset, policies: Sequence[uw.Policy], episodes: Any, starts: Any, arguments: argparse.Namespace
) -> Any:
    return evaluate_policies(
        pool,
        policies,
        seeds=range(arguments.fqe_seeds),
        updates=arguments.fqe_updates,
        config=FQEConfig(hidden_units=(arguments.hidden,) * 2, tau=arguments.tau),
        precision=arguments.precision,
        episodes=episodes,
        starts=starts,
    )


def rows(chosen: list[tuple[Candidate, uw.Evaluation]], estimates: Any, fit: str) -> Iterator[dict[str, Any]]:
    for (candidate, truth), values, drift in zip(chosen, estimates.values, estimates.drift, strict=True):
        yield candidate.row(
            fit=fit,
            fqe=[round(float(value), 4) for value in values],
            drift=[round(float(value), 4) for value in drift],
            fqe_updates=estimates.updates,
            score=truth.score,
            mean_return=truth.mean_return,
            return_error=truth.std_return / len(truth.returns) ** 0.5,
        )


def write(path: Path, new: Iterator[dict[str, Any]]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--mixes", nargs="+", help="such as expert-random-5; by default some of each kind")
    parser.add_argument("--steps", type=int, help="of each mix, by default the task's")
    parser.add_argument("--training-seeds", type=int, default=2)
    parser.add_argument(
        "--snapshots", nargs="+", type=int, default=[1000, 10_000, 50_000], help="updates of candidates"
    )
    parser.add_argument("--fqe-seeds", type=int, default=3)
    parser.add_argument("--fqe-updates", type=int, default=60_000)
    parser.add_argument("--tau", type=float, default=FQEConfig().tau)
    parser.add_argument("--fit", nargs="+", default=["held_out"], choices=["held_out", "all"])
    parser.add_argument("--episodes", type=int, default=10, help="that each policy really plays")
    parser.add_argument("--hidden", type=int, default=256, help="width of all networks")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--deadline", type=float, default=480.0, help="seconds after which no critics are begun")
    parser.add_argument("--name", default="selection_study")
    arguments = parser.parse_args()
    began = time.monotonic()
    folder = Path(os.environ.get("UPWEIGHT_RESULTS", RESULTS))
    folder.mkdir(exist_ok=True)
    path = folder / f"{arguments.name}.jsonl"
    path.unlink(missing_ok=True)
    for task in arguments.tasks:
        study(task, arguments, path, began)
    about = {"device": jax.devices()[0].device_kind, "seconds": round(time.monotonic() - began), "rows": path.name}
    print(
        f"wrote {path}, {record(arguments.name, ['upweight', 'jax', 'numpy', 'gymnasium', 'mujoco'], [], about=about)}"
    )


if __name__ == "__main__":
    main()
