"""From a training's many snapshots to candidates for the ladder: few, and spread evenly over the returns.

    python -m reproduction.policies.snapshots FOLDER --output candidates

The mean return of a snapshot is taken from the training's last 100 episodes at that time, so it lags a little; candidates
are measured properly afterwards (:mod:`reproduction.policies.make_ladder`).
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.lab.play.environments import environment_spaces
from upweight.lab.recipes.tasks import find_task
from upweight.policies.policy import Policy
from upweight.policies.safetensors_file import read_safetensors, write_safetensors


class Candidate(NamedTuple):
    """A snapshot of one agent, and the mean return its training saw at that time."""

    steps: int
    agent: int
    seed: int
    mean_return: float


def read_progress(folder: Path) -> tuple[list[tuple[str, int]], NDArray[np.int64], NDArray[np.float64]]:
    """(task, seed) of each agent, steps [S] of each snapshot, mean returns [S, A] (nan where no episode had ended)."""
    plan = json.loads((folder / "plan.json").read_text())
    agents = [(task, plan["seed"] + number) for task in plan["tasks"] for number in range(plan["seeds"])]
    latest: dict[int, list[float | None]] = {}  # a training that was killed repeats some
    for line in (folder / "progress.jsonl").read_text().splitlines():
        record = json.loads(line)
        latest[record["steps"]] = record["mean_returns"]
    steps = np.array(sorted(latest))
    means = np.array([latest[int(step)] for step in steps], float).reshape(len(steps), len(agents))
    return agents, steps, np.apply_along_axis(_between_changes, 0, means) if len(steps) else means


def _between_changes(means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means [S] as a line through the places where they changed.

    Where all episodes have one length they end together, and in between the mean stands still though the policy learns.
    """
    known = np.flatnonzero(~np.isnan(means))
    if not len(known):
        return means
    moved = known[np.flatnonzero(np.diff(means[known], prepend=np.inf))]
    line = np.interp(np.arange(len(means)), moved, means[moved])
    line[: known[0]] = np.nan
    return line


def choose_candidates(folder: Path, task: str, *, levels: int, best: int) -> list[Candidate]:
    """``levels`` snapshots of the best agent evenly spaced in return, and the ``best`` snapshots of all its siblings."""
    agents, steps, means = read_progress(folder)
    mine = [place for place, (name, _) in enumerate(agents) if name == task]
    if not mine or not len(steps):
        raise DatasetError(
            f"{folder}: no snapshots of {task!r}; trained: {', '.join(sorted({name for name, _ in agents}))}"
        )
    winner = max(mine, key=lambda place: np.nanmax(means[:, place]))
    known = np.flatnonzero(~np.isnan(means[:, winner]))
    history = means[known, winner]
    wanted = np.linspace(history.min(), history.max(), levels)
    chosen = {(int(known[np.argmax(history >= level)]), winner) for level in wanted}  # the first to reach it
    order = np.argsort(-np.where(np.isnan(means[:, mine]), -np.inf, means[:, mine]), axis=None)[:best]
    chosen |= {
        (int(row), mine[column]) for row, column in zip(*np.unravel_index(order, (len(steps), len(mine))), strict=True)
    }
    return [
        Candidate(int(steps[row]), place, agents[place][1], float(means[row, place])) for row, place in sorted(chosen)
    ]


def export_candidates(folder: Path, task: str, output: Path, *, levels: int = 48, best: int = 12) -> Path:
    """One file with the candidates' networks [C, ...] in float16, without the padding that training put around them."""
    (observation_size, *_), action_size, _ = environment_spaces(find_task(task).env_id)
    candidates = choose_candidates(folder, task, levels=levels, best=best)
    stacks: dict[str, list[NDArray[Any]]] = {}
    for candidate in candidates:
        arrays, _ = read_safetensors(folder / "snapshots" / f"{candidate.steps:09d}.safetensors")
        last = max(name for name in arrays).split(".")[0]
        padded = arrays[f"{last}.bias"].shape[1] // 2
        outputs = np.r_[:action_size, padded : padded + action_size]  # means, then log sigmas
        for name, array in arrays.items():
            own = array[candidate.agent]
            if name == "layer0.weight":
                own = own[:observation_size]
            if name.startswith(last):
                own = own[..., outputs]
            stacks.setdefault(name, []).append(own)
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"{task}.safetensors"
    about = {"task": task, "candidates": json.dumps([candidate._asdict() for candidate in candidates])}
    write_safetensors(path, {name: np.stack(stack) for name, stack in stacks.items()}, about)
    return path


def read_candidates(path: Path) -> tuple[str, list[Candidate], list[Policy]]:
    """The task, what is known of the candidates, and their policies."""
    arrays, about = read_safetensors(path)
    candidates = [Candidate(**entry) for entry in json.loads(about["candidates"])]
    depth = sum(name.endswith(".weight") for name in arrays)
    size, outputs = arrays["layer0.weight"].shape[1], arrays[f"layer{depth - 1}.bias"].shape[1]
    env_id = find_task(about["task"]).env_id
    policies = []
    for place, candidate in enumerate(candidates):
        names = [(f"layer{number}.weight", f"layer{number}.bias") for number in range(depth)]
        layers = tuple((arrays[w][place].astype(np.float32), arrays[b][place].astype(np.float32)) for w, b in names)
        policies.append(
            Policy(
                kind="tanh_gaussian",
                layers=layers,
                observation_mean=np.zeros(size, np.float32),
                observation_scale=np.ones(size, np.float32),
                action_low=-np.ones(outputs // 2, np.float32),
                action_high=np.ones(outputs // 2, np.float32),
                metadata={"env_id": env_id, "algorithm": "sac", "steps": candidate.steps, "seed": candidate.seed},
            )
        )
    return about["task"], candidates, policies


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="written by reproduction.policies.training")
    parser.add_argument("--output", type=Path, required=True, help="folder for one file per task")
    given = parser.parse_args(arguments)
    agents, _, _ = read_progress(given.folder)
    for task in sorted({task for task, _ in agents}):
        export_candidates(given.folder, task, given.output)


if __name__ == "__main__":
    main()
