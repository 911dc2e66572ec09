"""Train behaviour policies for classic control with the cross-entropy method, in the stochastic environments themselves.

    python -m reproduction.policies.cross_entropy --task cartpole --output snapshots --seed 0

A generation draws a population of small networks from N(mean, diag(std^2)) over their flattened parameters, lets each play the
same episodes with sampled actions, and fits mean and std to the elites, the networks that did best::

    mean <- (1 - rate) mean + rate mean(elites)
    std  <- sqrt((1 - rate) std^2 + rate var(elites)) + noise (1 - g / G)      the noise keeps the search from ending too early

A generation's snapshot is the network with the mean parameters. The first is all zeros: every action is equally likely. From
there snapshots rise to the best, which is what a ladder is chosen from.

The elites are those of the highest mean return, with one exception. MountainCar pays -1 per step until the goal, so most early
policies have the same return. There, and for training only, the highest energy that the car reached in an episode counts too, up
to the energy that carries it over the goal. Policies that reach the goal all get that much, so among them the return decides.
Returns that are reported or stored are always the environment's own.
"""

import argparse
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from upweight.base.errors import DatasetError
from upweight.base.progress import listening, report
from upweight.lab.play.block import Episode, make_block, play
from upweight.lab.play.environments import environment_spaces
from upweight.lab.play.processes import run_tasks
from upweight.lab.recipes.tasks import CLASSIC_TASKS, find_task
from upweight.policies.policy import Layer, Policy

Vector = NDArray[np.float64]
_STREAM = 0x63656D  # last number of the episodes' seeds: no evaluation plays the episodes of a training
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Settings:
    """What determines a training, besides task and seed."""

    generations: int = 40
    population: int = 48
    elites: int = 8
    episodes: int = 10  # per network, in the first generation
    last_episodes: int = 10  # in the last; in between the number changes evenly
    hidden_units: int = 16
    std: float = 1.0  # at the start, of every parameter
    rate: float = 0.5  # how much of the elites goes into the next generation
    noise: float = 0.1  # at the start


class Generation(NamedTuple):
    """One round of the search."""

    number: int
    policy: Policy  # with the mean parameters
    mean_return: float  # of that policy, over the generation's episodes
    elite_return: float  # mean of the elites, chosen on these episodes and so too good


def mountain_car_energy(episode: Episode) -> float:
    """A bonus for training: the highest energy in the episode, 0 at rest in the valley, 100 from what reaches the goal.

    The car's acceleration is -0.0025 cos(3x), so its potential is 0.0025 sin(3x) / 3.
    """
    assert episode.trajectory is not None
    position, velocity = episode.trajectory.visited.astype(np.float64).T
    valley, goal = (0.0025 * np.sin(3 * x) / 3 for x in (-np.pi / 6, 0.5))
    energy = velocity**2 / 2 + 0.0025 * np.sin(3 * position) / 3
    return 100 * min(1.0, float(energy.max() - valley) / float(goal - valley))


# (centre, scale): what is subtracted from observations, and what they are then divided by.
NORMALISERS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "cartpole": ((0, 0, 0, 0), (1, 1, 0.1, 1)),
    "acrobot": ((0, 0, 0, 0, 0, 0), (1, 1, 1, 1, 3, 6)),
    "mountaincar": ((-0.5, 0), (0.5, 0.03)),
}
BONUSES: dict[str, Callable[[Episode], float]] = {"mountaincar": mountain_car_energy}


def train(
    task: str, *, seed: int = 0, settings: Settings | None = None, workers: int | None = None
) -> Iterator[Generation]:
    """The generations of a training, as they come; they depend on task, seed and settings, not on ``workers``."""
    settings = settings or Settings()
    env_id = find_task(task).env_id
    if task not in CLASSIC_TASKS:
        raise DatasetError(
            f"{task}: expected a task of few numbers and discrete actions ({', '.join(CLASSIC_TASKS)}); for the others there "
            "is reproduction.policies.training"
        )
    if not 2 <= settings.elites <= settings.population:
        raise DatasetError(
            f"elites: expected from 2 up to the population of {settings.population}, found {settings.elites}"
        )
    return _generations(task, env_id, seed, settings, workers)


def _generations(task: str, env_id: str, seed: int, settings: Settings, workers: int | None) -> Iterator[Generation]:
    shapes = network_shapes(env_id, settings.hidden_units)
    rng = np.random.default_rng(np.random.SeedSequence((seed, _STREAM)))
    size = sum((inputs + 1) * outputs for inputs, outputs in shapes)
    mean, std = np.zeros(size), np.full(size, settings.std)
    for number in range(settings.generations):
        drawn = mean + std * rng.standard_normal((settings.population, size))
        networks = [
            make_policy(task, parameters, shapes, {"generation": number, "seed": seed}) for parameters in (mean, *drawn)
        ]
        done = number / max(1, settings.generations - 1)
        episodes = round((1 - done) * settings.episodes + done * settings.last_episodes)
        seeds = [(seed, number, episode, _STREAM) for episode in range(episodes)]
        returns, fitness = _play(task, env_id, networks, seeds, workers)
        best = np.argsort(-fitness[1:], kind="stable")[: settings.elites]
        generation = Generation(number, networks[0], float(returns[0]), float(returns[1:][best].mean()))
        detail = f"mean return {generation.mean_return:.1f}, elites {generation.elite_return:.1f}"
        report(f"training {task}", number + 1, settings.generations, detail)
        yield generation
        left = 1 - (number + 1) / settings.generations
        mean = (1 - settings.rate) * mean + settings.rate * drawn[best].mean(axis=0)
        std = np.sqrt((1 - settings.rate) * std**2 + settings.rate * drawn[best].var(axis=0)) + settings.noise * left


def _play(
    task: str, env_id: str, networks: Sequence[Policy], seeds: Sequence[tuple[int, ...]], workers: int | None
) -> tuple[Vector, Vector]:
    """Mean return, and what elites are chosen by, of every network."""
    bonus = BONUSES.get(task)
    blocks = (make_block(env_id, network, seeds, stochastic=True, record=bonus is not None) for network in networks)
    returns, fitness = [], []
    for episodes in run_tasks(play, blocks, workers=workers):
        returns.append(np.mean([episode.total_reward for episode in episodes]))
        fitness.append(returns[-1] + (0 if bonus is None else np.mean([bonus(episode) for episode in episodes])))
    return np.array(returns), np.array(fitness)


def network_shapes(env_id: str, hidden_units: int) -> list[tuple[int, int]]:
    """Inputs and outputs of both layers."""
    spaces = environment_spaces(env_id)
    return [(spaces.observation_sizes[0], hidden_units), (hidden_units, spaces.action_size)]


def make_policy(
    task: str, parameters: Vector, shapes: Sequence[tuple[int, int]], about: dict[str, int] | None = None
) -> Policy:
    """The policy with these parameters [size]: weights [inputs, outputs] and bias [outputs] of one layer after the other."""
    layers: list[Layer] = []
    start = 0
    for inputs, outputs in shapes:
        own = parameters[start : start + (inputs + 1) * outputs].astype(np.float32).reshape(inputs + 1, outputs)
        layers.append((own[:-1], own[-1]))
        start += own.size
    centre, scale = NORMALISERS[task]
    return Policy(
        kind="categorical",
        layers=tuple(layers),
        observation_mean=np.array(centre, np.float32),
        observation_scale=np.array(scale, np.float32),
        metadata={"env_id": find_task(task).env_id, "algorithm": "cross-entropy method", **(about or {})},
    )


def write_snapshots(generations: Iterator[Generation], output: Path) -> list[Path]:
    """One policy file per generation, ``output/GGG.safetensors``."""
    output.mkdir(parents=True, exist_ok=True)
    paths = []
    for generation in generations:
        paths.append(output / f"{generation.number:03d}.safetensors")
        generation.policy.save(paths[-1])
    return paths


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", required=True, help=", ".join(CLASSIC_TASKS))
    parser.add_argument("--output", type=Path, required=True, help="folder for one policy file per generation")
    parser.add_argument("--seed", type=int, default=0, help="of everything (default: 0)")
    parser.add_argument("--generations", type=int, default=Settings.generations, help="(default: %(default)s)")
    parser.add_argument(
        "--last-episodes",
        type=int,
        default=Settings.last_episodes,
        help=f"per network in the last generation; the first has {Settings.episodes} (default: %(default)s)",
    )
    parser.add_argument("--workers", type=int, default=None, help="processes (default: one per core)")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s")
    _log.setLevel(logging.INFO)  # ours alone
    with listening(lambda what, done, total, detail: _log.info("%s: %d of %d, %s", what, done, total, detail)):
        settings = Settings(generations=given.generations, last_episodes=given.last_episodes)
        generations = train(given.task, seed=given.seed, settings=settings, workers=given.workers)
        paths = write_snapshots(generations, given.output)
    _log.info("wrote %d policies to %s", len(paths), given.output)


if __name__ == "__main__":
    main()
