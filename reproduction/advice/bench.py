"""What following advice earns: every log trained with every way to draw, and played in its simulator.

    python -m reproduction.advice.bench -o advice                       # stage 1: hours on two cores; stop it and start it again
    python -m reproduction.advice.bench -o advice --only "hopper-*" --max-minutes 30
    python -m reproduction.advice.bench -o advice --pack reproduction/results/advice.jsonl

Stage 1 has three seeds of Uniform, RW and AW at temperature 0.1, and Top-10%; cloning also has RW at other temperatures. An
actor-critic draws by weights for both or for its actor alone. Stage 2 has fresh seeds, and the temperatures for all. Results are
a store, as a sweep's are; several processes may fill one. reproduction/advice/judge.py reads it.
"""

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

import upweight as uw
from reproduction.advice.logs import Log, all_logs
from upweight.base.progress import showing
from upweight.lab.study.grid import Grid
from upweight.lab.study.run_spec import RunSpec

SMALL = {"hidden_units": [64, 64], "batch_size": 64}
UPDATES = {
    "bc": 20_000,
    "td3_bc": 30_000,
    "iql": 30_000,
    "discrete_bc": 20_000,
    "discrete_cql": 30_000,
    "discrete_iql": 30_000,
}
SETTINGS = {"discrete_cql": {"target_every_updates": 500.0, "learning_rate": 3e-4}}  # the usual ones need millions
BOTH = ("rw", "aw", "top")
EPISODES = {"pendulum": 20, "cartpole": 20, "acrobot": 10, "mountaincar": 20}
_MUJOCO_EPISODES = 5
_SEEDS = {1: [0, 1, 2], 2: [10, 11, 12]}
_TEMPERATURES = (0.025, 0.05, 0.2)
_CLONING = {"bc", "discrete_bc"}


def algorithms(log: Log) -> tuple[str, ...]:
    """Those whose actions are of the log's kind."""
    return ("discrete_bc", "discrete_cql", "discrete_iql") if log.is_discrete else ("bc", "td3_bc", "iql")


def arms(algorithm: str, stage: int) -> list[object]:
    """The ways to draw, as an experiment file has them."""
    weighted: list[object] = [{"name": name, "temperature": 0.1} if name != "top" else name for name in BOTH]
    if stage == 2 or algorithm in _CLONING:
        weighted += [{"name": "rw", "temperature": temperature} for temperature in _TEMPERATURES]
    apart = algorithm in {"td3_bc", "iql", "discrete_iql"}  # the others have an actor or a critic alone
    return ["uniform", *weighted, *({"name": "uniform", "actor_weighting": each} for each in weighted if apart)]


def runs(log: Log, path: Path, stage: int, kept: Sequence[str]) -> Iterator[RunSpec]:
    """Every arm and seed of one log, with the algorithms that are ``kept``."""
    for algorithm in (each for each in algorithms(log) if each in kept):
        grid = Grid(
            datasets=[str(path)],
            algorithms=[{"name": algorithm, **SMALL, **SETTINGS.get(algorithm, {})}],
            updates=UPDATES[algorithm],
            weightings=arms(algorithm, stage),
            seeds=_SEEDS[stage],
            episodes=EPISODES.get(log.task, _MUJOCO_EPISODES),
            env=log.env_id,
        )
        yield from grid.runs(path.parent)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of logs and results")
    parser.add_argument("--stage", type=int, choices=(1, 2), default=1)
    parser.add_argument("--only", default="*", help="logs whose names are like this")
    parser.add_argument("--algorithms", nargs="+", choices=UPDATES, default=list(UPDATES))
    parser.add_argument("--max-minutes", type=float, default=math.inf, help="stop after this; start again to go on")
    parser.add_argument("--pack", type=Path, metavar="FILE", help="write the results as one file instead")
    given = parser.parse_args(arguments)
    store = given.output / "results"
    if given.pack is not None:
        uw.Store(store).pack(given.pack)
        return
    deadline = time.monotonic() + 60 * given.max_minutes
    for log in all_logs():
        left = (deadline - time.monotonic()) / 60
        if left <= 0 or not fnmatch(log.name, given.only) or not {*algorithms(log)} & {*given.algorithms}:
            continue
        with showing(None):
            path = log.save(given.output / "logs")
            study = uw.Experiment(log.name, log.kind, tuple(runs(log, path, given.stage, given.algorithms)))
            began = time.monotonic()
            done = uw.sweep(study, store, max_minutes=left)
        print(
            f"{log.name}: {done.finished} of {len(study.runs)} runs, {time.monotonic() - began:.0f} s"
            + "".join(f"\n  {failure}" for failure in done.failures),
            flush=True,
        )


if __name__ == "__main__":
    main()
