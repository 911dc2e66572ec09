"""The main job on a small real dataset: collect, mix, inspect, weight, sample.

An inverted pendulum in MuJoCo, steered by a shaky but good controller and by uniformly random actions. The mix holds
10% good steps, which is less than 0.1% of its episodes: what uniform sampling wastes and weighting finds.

    python examples/mixed_pendulum.py --output demo
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import upweight as uw
from upweight.cli.terminal import ProgressBar, print_report
from upweight.data.progress import listening
from upweight.inspection.plot import plot_weights

ENVIRONMENT = "InvertedPendulum-v5"
STEPS = 200_000
GOOD_SHARE = 0.1
GAINS = np.array([1.0, 10.0, 1.5, 2.0])  # cart position, pole angle, and their speeds
NOISE = 1.0

Policy = Callable[[np.ndarray], np.ndarray]


def collect(policy: Policy, num_steps: int, *, seed: int, label: str, tell: ProgressBar) -> uw.Dataset:
    """Whole episodes until ``num_steps`` steps are reached; the observation after the last step is kept."""
    env = gym.make(ENVIRONMENT)
    episodes: list[dict[str, Any]] = []
    done_steps = 0
    while done_steps < num_steps:
        observation, _ = env.reset(seed=seed + len(episodes))
        observations, actions, rewards = [observation], [], []
        terminated = truncated = False
        while not (terminated or truncated):
            action = np.clip(policy(observation), -3, 3).astype(np.float32)
            observation, reward, terminated, truncated, _ = env.step(action)
            observations.append(observation)
            actions.append(action)
            rewards.append(float(reward))
        done_steps += len(rewards)
        tell(f"collecting {label}", min(done_steps, num_steps), num_steps)
        episodes.append(
            {
                "observations": np.array(observations, np.float32),
                "actions": np.array(actions),
                "rewards": np.array(rewards, np.float32),
                "terminated": terminated,
                "truncated": truncated,
                "label": label,
            }
        )
    env.close()
    return uw.Dataset.from_episodes(episodes, metadata={"environment": ENVIRONMENT, "seed": seed}, source=label)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder to write to (default: demo)")
    parser.add_argument("--seed", type=int, default=0, help="of the collection and the mix (default: 0)")
    parser.add_argument("--steps", type=int, default=STEPS, help=f"size of the mix (default: {STEPS:,})")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)

    rng = np.random.default_rng(arguments.seed)
    bar = ProgressBar(sys.stderr)
    good_steps = round(GOOD_SHARE * arguments.steps)
    good = collect(
        lambda observation: np.atleast_1d(GAINS @ observation + rng.normal(0, NOISE)),
        good_steps,
        seed=1_000_000 * arguments.seed,
        label="controller",
        tell=bar,
    )
    poor = collect(
        lambda observation: rng.uniform(-3, 3, 1),
        arguments.steps - good_steps,
        seed=1_000_000 * arguments.seed + 500_000,
        label="random",
        tell=bar,
    )

    mixed = uw.mix(good, poor, fraction=GOOD_SHARE, num_steps=arguments.steps, seed=arguments.seed)
    data, picture = arguments.output / "mixed.hdf5", arguments.output / "weights.png"
    with listening(bar):
        uw.save(mixed, data)
    loaded = uw.load(data)
    print_report(str(uw.inspect(loaded)))

    weighting = uw.ReturnWeighting(temperature=0.1)
    plot_weights(loaded, {"rw temperature=0.1": weighting(loaded)}, picture)
    print("\nA batch of 256 steps, drawn uniformly and by return:")
    for name, chosen in (("uniform", uw.Uniform()), ("rw", weighting)):
        batch = uw.EpisodeSampler(loaded, chosen).sample(np.random.default_rng(arguments.seed), 256)
        episodes = np.searchsorted(loaded.starts, batch, side="right") - 1
        from_good = np.mean(loaded.labels[episodes] == "controller") if loaded.labels is not None else 0.0
        print(f"  {name:8} {from_good:4.0%} of the steps come from the controller")
    print(f"\nwrote {data} and {picture}\nnext: upweight inspect {data} --weighting aw --temperature 0.2")


if __name__ == "__main__":
    main()
