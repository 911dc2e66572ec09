"""Can policies be ranked without a simulator? Candidates of many qualities, fitted Q evaluation, and the truth.

    python -m reproduction.selection_study --tasks hopper walker2d --name selection_study_1                  # H200, 16 cores
    python -m reproduction.selection_study --tasks cartpole --steps 4000 --snapshots 20 100 --fqe-updates 200 --fqe-seeds 2 \\
        --training-seeds 1 --episodes 2 --hidden 16 --name tiny                                      # a minute on a CPU

For each task, the mixes lie in one pool; a fifth of every mix's episodes is held out. Per algorithm, all weightings, seeds and
mixes train in one program, and policies are taken at several numbers of updates: from hardly trained to finished. Critics
learn as ``upweight select`` lets them: from a resample of the held-out episodes for each seed, with DOPE's networks
(``held_out``) or its default settings (``quick``); ``all``: DOPE's, from all episodes. The target follows so fast that after four
fifths of the updates e^-4 of the beginning is left. Policies act deterministically, in the estimate as in the truth.
Simulators play, and collect the next task's data, while the device trains. Rows of a dataset go to a .jsonl file as soon as it
is done; reproduction/selection_analysis.py reads them.
"""

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

import upweight as uw
from benchmarks.measure import record, results_folder
from upweight.lab.recipes.make import SharedData, make_shared_data
from upweight.lab.recipes.tasks import MUJOCO_TASKS, find_task
from upweight.lab.select.fqe import FQEConfig, QEstimates, evaluate_policies
from upweight.lab.select.looks import action_errors, supports
from upweight.lab.select.select import UPDATES, discounted_values, quick_config
from upweight.lab.train.advance import advances
from upweight.lab.train.device import compilation_cache
from upweight.lab.train.extraction import extract_policies
from upweight.lab.train.population import Program
from upweight.lab.train.prepare import make_agents, make_data, make_parts, make_setup
from upweight.lab.train.schedule import make_schedule

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
LEFT = 4.0  # e^-4 of where critics began is left when estimates are taken
WAYS = ["held_out", "quick", "all"]


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
    good_loss: float = np.nan  # the same where steps are drawn by return-weighting
    outside: float = np.nan

    def row(self, **more: Any) -> dict[str, Any]:
        kept = (
            "dataset",
            "algorithm",
            "weighting",
            "seed",
            "updates",
            "own_q",
            "held_out_loss",
            "good_loss",
            "outside",
        )
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
    arguments: argparse.Namespace, pool: uw.Dataset, parts: dict[str, Split], algorithm: str
) -> list[Candidate]:
    """One program for all mixes, weightings and seeds."""
    changes = {"hidden_units": (arguments.hidden,) * 2} | CHANGES.get(algorithm, {})
    config, seeds = uw.algorithm_config(algorithm, **changes), range(arguments.training_seeds)
    about = [(mix, weighting, seed) for mix in parts for weighting in WEIGHTINGS for seed in seeds]
    runs = [uw.Run(config, WEIGHTINGS[name], seed, episodes=parts[mix].seen) for mix, name, seed in about]
    began, found = time.perf_counter(), []
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
        schedule = replace(schedule, points=due)
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
    networks = getattr(state, "critics", getattr(state, "critic", None))
    if networks is None:
        return None
    rows = np.asarray((starts - policy.observation_mean) / policy.observation_scale, np.float32)
    actions = policy.act(starts)
    if not policy.is_discrete:
        rows = np.concatenate([rows, actions], axis=1)
    for layer in networks:  # in NumPy: the device is busy with other trainings
        rows = rows @ layer.weight + layer.bias[..., None, :]  # [n, out], or [2, n, out] of twins
        rows = np.maximum(rows, 0) if layer is not networks[-1] else rows
    values = rows.reshape(-1, *rows.shape[-2:]).min(axis=0)
    return float(values[np.arange(len(values)), actions if policy.is_discrete else 0].mean())


def look(pool: uw.Dataset, part: Split, candidates: list[Candidate]) -> None:
    """What held-out episodes tell without critics: errors of actions, and how many actions the others do not show."""
    mix = pool.subset(np.concatenate([part.seen, part.held]))
    held = np.arange(len(part.seen), mix.num_episodes)
    policies = [candidate.policy for candidate in candidates]
    weights = uw.ReturnWeighting()(mix.subset(held))
    errors, good = action_errors(mix, held, policies), action_errors(mix, held, policies, weights=weights)
    for candidate, error, better, support in zip(candidates, errors, good, supports(mix, held, policies), strict=True):
        candidate.held_out_loss, candidate.good_loss, candidate.outside = error.error, better.error, support.outside


# ---- the study ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Mix:
    """A dataset with its candidates, and what comes of playing them."""

    name: str
    pool: uw.Dataset
    part: Split
    candidates: list[Candidate]
    truths: list[Future[list[uw.Evaluation]]]  # of all of the task's candidates, part by part
    places: list[int]  # of these candidates there
    looked: Future[None]


def prepare(task: str, shared: SharedData, arguments: argparse.Namespace, host: ThreadPoolExecutor) -> list[Mix]:
    """Train candidates on the device; the host plays what is trained meanwhile."""
    parts, pool = split(shared), shared.dataset
    candidates: list[Candidate] = []
    truths = []
    algorithms = ALGORITHMS["mujoco" if task in MUJOCO_TASKS else "classic"]
    with ThreadPoolExecutor(len(algorithms)) as together:  # one compiles while another trains
        for new in together.map(partial(train_candidates, arguments, pool, parts), algorithms):
            policies = [candidate.policy for candidate in new]
            play = partial(uw.evaluate, policies, find_task(task).env_id, episodes=arguments.episodes, seed=1)
            truths.append(host.submit(play))
            candidates += new
    mixes = []
    for name, part in parts.items():
        places = [place for place, candidate in enumerate(candidates) if candidate.dataset == name]
        mine = [candidates[place] for place in places]
        mixes.append(Mix(name, pool, part, mine, truths, places, host.submit(look, pool, part, mine)))
    return mixes


def fit_critics(mix: Mix, way: str, arguments: argparse.Namespace) -> tuple[QEstimates, FQEConfig]:
    """Of one dataset, critics having learned one way."""
    updates = UPDATES if way == "quick" else arguments.fqe_updates
    config = quick_config(mix.pool) if way == "quick" else FQEConfig()
    if way != "quick":
        tau = max(config.tau, LEFT / (0.8 * updates * (1 - config.discount)))
        config = replace(config, hidden_units=(arguments.hidden,) * 2, tau=min(0.5, tau))
    part, began = mix.part, time.monotonic()
    found = evaluate_policies(
        mix.pool,
        [candidate.policy for candidate in mix.candidates],
        seeds=range(arguments.fqe_seeds),
        updates=updates,
        config=config,
        precision=arguments.precision,
        episodes=np.sort(np.concatenate([part.seen, part.held])) if way == "all" else part.held,
        starts=part.held,
        resample=True,
    )
    count, seconds = len(mix.candidates) * arguments.fqe_seeds, time.monotonic() - began
    print(f"  {mix.name} ({way}): {count} critics x {updates:,} updates, {seconds:.0f} s", flush=True)
    return found, config


def write(path: Path, mix: Mix, way: str, found: QEstimates, config: FQEConfig) -> None:
    """The rows of a dataset, when its policies were played and looked at."""
    mix.looked.result()
    every = [truth for part in mix.truths for truth in part.result()]
    truths = [every[place] for place in mix.places]
    logged = discounted_values(mix.pool.subset(mix.part.held), config.discount)
    with path.open("a") as file:
        for candidate, truth, fqe, drift in zip(mix.candidates, truths, found.values, found.drift, strict=True):
            row = candidate.row(
                fit=way,
                fqe=[round(float(value), 4) for value in fqe],
                drift=[round(float(value), 4) for value in drift],
                fqe_updates=found.updates,
                tau=round(config.tau, 5),
                reached=int((logged >= fqe.mean()).sum()),  # held-out episodes that were worth as much
                log_value=round(float(logged.mean()), 4),
                score=truth.score,
                mean_return=truth.mean_return,
                return_error=truth.std_return / len(truth.returns) ** 0.5,
            )
            file.write(json.dumps(row) + "\n")


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
    parser.add_argument(
        "--fqe-updates", type=int, default=30_000, help="of each critic (quick: as the command has them)"
    )
    parser.add_argument("--fit", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--episodes", type=int, default=20, help="that each policy really plays")
    parser.add_argument("--hidden", type=int, default=256, help="width of all networks")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--deadline", type=float, default=530.0, help="seconds after which nothing is begun")
    parser.add_argument("--name", default="selection_study")
    arguments = parser.parse_args()
    path = results_folder() / f"{arguments.name}.jsonl"
    path.unlink(missing_ok=True)
    with compilation_cache():
        seconds = study(arguments, path)
    about = {"device": jax.devices()[0].device_kind, "seconds": round(seconds), "rows": path.name}
    print(
        f"wrote {path}, {record(arguments.name, ['upweight', 'jax', 'numpy', 'gymnasium', 'mujoco'], [], about=about)}"
    )


def study(arguments: argparse.Namespace, path: Path) -> float:
    """Task by task, all datasets of one at once; ways to fit that are not for all come last. Gives the seconds that it took."""
    names = {
        task: [f"{task}-{mix}" for mix in arguments.mixes or MIXES["mujoco" if task in MUJOCO_TASKS else "classic"]]
        for task in arguments.tasks
    }
    began, done = time.monotonic(), list[Mix]()
    first = [way for way in WAYS if way in arguments.fit and way != "all"]
    written: list[Future[None]] = []
    with ThreadPoolExecutor(1) as host, ThreadPoolExecutor(3) as together:  # the host does one thing after another

        def fit(case: tuple[Mix, str]) -> None:
            mix, way = case
            if time.monotonic() - began > arguments.deadline:
                print(f"  {mix.name} ({way}): left out, the time is up", flush=True)
            else:
                written.append(host.submit(write, path, mix, way, *fit_critics(mix, way, arguments)))

        collect = partial(make_shared_data, steps=arguments.steps)
        coming = [host.submit(collect, names[arguments.tasks[0]])]
        for task, following in zip(arguments.tasks, [*arguments.tasks[1:], None], strict=True):
            shared = coming.pop().result()
            now = time.monotonic() - began
            if now > arguments.deadline:
                print(f"{task}: left out, the time is up", flush=True)
                break
            print(f"{task}: {shared.dataset.num_steps:,} steps in the pool, at {now:.0f} s", flush=True)
            if following is not None:
                coming.append(host.submit(collect, names[following]))
            mixes = prepare(task, shared, arguments, host)
            list(together.map(fit, itertools.product(mixes, first)))
            done += mixes
        list(together.map(fit, itertools.product(done, ["all"] if "all" in arguments.fit else [])))
        for each in written:
            each.result()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
