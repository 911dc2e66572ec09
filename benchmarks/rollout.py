"""Speed of evaluation, beside loops that do nothing but step the environment.

    python benchmarks/rollout.py

Both run in the same number of processes, each on one thread, in environments from the same function, resets included. What a
step costs depends on what the robot does: with few contacts less, with many more. So the bare loops replay the policy's own
actions, recorded beforehand; loops with random actions are timed too. Target: 80% of the steps per second of the replays.
"""

import argparse
import itertools
import time
from typing import Any

import numpy as np

import upweight as uw
from measure import record
from upweight.lab.play.block import episode_streams, make_block, play
from upweight.lab.play.evaluate import evaluate
from upweight.lab.play.processes import run_tasks

TASKS = ["Hopper-v5", "HalfCheetah-v5", "Walker2d-v5", "Ant-v5"]
HIDDEN = (256, 256)
TARGET = 0.8
RANDOM, REPLAY, OURS = "bare loop, random actions", "bare loop, the policy's actions", "upweight evaluate"


def fresh_policy(env_id: str, seed: int) -> uw.Policy:
    """A network as training starts with it: uniform in +-1/sqrt(inputs)."""
    environment = uw.make_environment(env_id)
    inputs, space = environment.observation_space.shape[0], environment.action_space
    rng = np.random.default_rng(seed)
    layers = []
    for a, b in itertools.pairwise([inputs, *HIDDEN, space.shape[0]]):
        weights, bias = (rng.uniform(-1, 1, size) / np.sqrt(a) for size in ((a, b), b))
        layers.append((weights.astype(np.float32), bias.astype(np.float32)))
    mean, scale = np.zeros(inputs, np.float32), np.ones(inputs, np.float32)
    return uw.Policy("deterministic", tuple(layers), mean, scale, action_low=space.low, action_high=space.high)


def random_loop(task: tuple[str, int, int]) -> tuple[int, float]:
    """(steps, seconds) of stepping one environment with random actions."""
    env_id, steps, seed = task
    environment = uw.make_environment(env_id)
    space = environment.action_space
    actions = np.random.default_rng(seed).uniform(space.low, space.high, (steps, *space.shape)).astype(np.float32)
    began = time.perf_counter()
    environment.reset(seed=seed)
    for action in actions:
        _, _, terminated, truncated, _ = environment.step(action)
        if terminated or truncated:
            environment.reset()
    return steps, time.perf_counter() - began


def replay_loop(task: tuple[str, uw.Policy, int]) -> tuple[int, float]:
    """(steps, seconds) of stepping one environment with the actions that the policy chose."""
    env_id, policy, episodes = task
    seeds = [(0, number) for number in range(episodes)]
    played = [episode.trajectory for episode in play(make_block(env_id, policy, seeds, record=True))]
    environment = uw.make_environment(env_id)
    began = time.perf_counter()
    for seed, trajectory in zip(seeds, played, strict=True):
        assert trajectory is not None
        environment.reset(seed=episode_streams(seed)[0])
        for action in trajectory.actions:
            environment.step(action)
    return sum(len(trajectory.actions) for trajectory in played if trajectory), time.perf_counter() - began


def rate(outcomes: list[tuple[int, float]]) -> float:
    """Steps per second of processes that run side by side."""
    return float(sum(steps / seconds for steps, seconds in outcomes))


def measure(env_id: str, *, steps: int, rounds: int, workers: int) -> dict[str, list[float]]:
    """Steps per second of each way, one number per round; every round runs all ways in turn."""
    policy = fresh_policy(env_id, seed=0)
    (trial,) = evaluate([policy], env_id, 10 * workers, workers=workers)  # also starts the processes
    episodes = 10 * max(1, round(steps / trial.lengths.mean() / 10))
    copies = [policy] * workers
    speeds: dict[str, list[float]] = {RANDOM: [], REPLAY: [], OURS: []}
    for number in range(rounds):
        loops = [(env_id, steps, number * workers + worker) for worker in range(workers)]
        speeds[RANDOM].append(rate(list(run_tasks(random_loop, loops, workers=workers))))
        began = time.perf_counter()
        results = evaluate(copies, env_id, episodes, workers=workers)
        seconds = time.perf_counter() - began
        speeds[OURS].append(sum(int(result.lengths.sum()) for result in results) / seconds)
        replays = [(env_id, policy, episodes) for _ in range(workers)]
        speeds[REPLAY].append(rate(list(run_tasks(replay_loop, replays, workers=workers))))
    return speeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20_000, help="per worker, round and way")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    print(f"{'':16} {'steps/s, ' + RANDOM:>36} {'replayed':>10} {'evaluate':>10}   ratio to random   to replayed")
    for env_id in TASKS:
        speeds = measure(env_id, steps=arguments.steps, rounds=arguments.rounds, workers=arguments.workers)
        middle = {name: float(np.median(values)) for name, values in speeds.items()}
        ratios = {name: float(np.median(np.array(speeds[OURS]) / np.array(speeds[name]))) for name in (RANDOM, REPLAY)}
        verdict = "reached" if ratios[REPLAY] >= TARGET else "MISSED"
        print(
            f"{env_id:16} {middle[RANDOM]:36,.0f} {middle[REPLAY]:10,.0f} {middle[OURS]:10,.0f} "
            f"{ratios[RANDOM]:17.2f} {ratios[REPLAY]:13.2f}   target {TARGET:g}: {verdict}"
        )
        results.append(
            {
                "environment": env_id,
                "steps_per_second": {name: round(value) for name, value in middle.items()},
                "ratio_to_random_actions": round(ratios[RANDOM], 3),
                "ratio_to_replayed_actions": round(ratios[REPLAY], 3),
                "rounds": {name: [round(value) for value in values] for name, values in speeds.items()},
            }
        )
    about = {"workers": arguments.workers, "hidden_units": list(HIDDEN), "steps_per_round": arguments.steps}
    print(f"wrote {record('rollout', ['upweight', 'numpy', 'gymnasium', 'mujoco', 'loky'], results, about=about)}")


if __name__ == "__main__":
    main()
