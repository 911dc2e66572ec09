"""What drawing by weight costs inside other libraries, and what it gains there.

    python benchmarks/adapters.py            # time per batch of 256: the library's uniform draws, its own weighted ones, ours
    python benchmarks/adapters.py --returns  # mean return of the episodes that batches come from, uniform and RW
    python benchmarks/adapters.py --train    # BC of d3rlpy and TorchRL on a Hopper mix, uniform and RW, in the simulator

Times are medians of interleaved rounds, on one thread; 1,000 episodes of 1,000 steps, 17 observations, 6 actions.
"""

import argparse
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import upweight as uw
from measure import interleaved, record

DRAWING = ("d3rlpy", "torchrl", "pytorch", "any_loop", "minari")
TRAINING = ("d3rlpy", "torchrl")
PACKAGES = ["upweight", "numpy", "torch", "d3rlpy", "torchrl", "minari", "jax", "gymnasium", "mujoco"]


def host(name: str) -> Any:
    return importlib.import_module(f"hosts.{name}_host")


def large_dataset(episodes: int = 1000, length: int = 1000) -> uw.Dataset:
    rng = np.random.default_rng(0)
    steps = episodes * length
    truncated = np.zeros(steps, bool)
    truncated[length - 1 :: length] = True
    return uw.Dataset.from_arrays(
        observations=rng.normal(size=(steps, 17)).astype(np.float32),
        actions=np.tanh(rng.normal(size=(steps, 6))).astype(np.float32),
        rewards=(rng.normal(size=steps) + np.repeat(rng.normal(size=episodes), length)).astype(np.float32),
        terminated=np.zeros(steps, bool),
        truncated=truncated,
    )


def measure_speed(names: list[str], rounds: int, results: list[dict[str, Any]]) -> None:
    """Each library's tasks interleaved among themselves; what is compared follows the uniform draws it is compared with."""
    print(f"{'batch of 256':58} {'time':>9} {'of uniform':>11}")
    for name in names:
        dataset = large_dataset()
        times = interleaved(host(name).speed_tasks(dataset), rounds=rounds, seconds=0.05)
        uniform = 0.0
        for label, seconds in times.items():
            uniform = seconds if label.endswith(("(uniform)", "(in order)")) else uniform
            print(f"{label:58} {1e6 * seconds:6,.0f} us {seconds / uniform:11.3f}", flush=True)
            results.append(
                {
                    "library": name,
                    "sampler": label,
                    "steps": dataset.num_steps,
                    "microseconds": round(1e6 * seconds, 1),
                    "of_uniform": round(seconds / uniform, 4),
                }
            )


def compare_returns(names: list[str], results: list[dict[str, Any]], batches: int = 40) -> None:
    """Batches show observations; which episode each is of, and so its return, is looked up."""
    dataset = mixed_dataset()
    episode = np.repeat(np.arange(dataset.num_episodes), dataset.lengths)
    found_in = {row.tobytes(): episode[step] for step, row in enumerate(dataset.observations)}
    for name in names:
        for weighting in ("uniform", "rw"):
            draw = host(name).draw_observations(dataset, weighting, 0)
            drawn = [
                found_in[row.tobytes()] for _ in range(batches) for row in np.ascontiguousarray(draw(), np.float32)
            ]
            mean = float(dataset.returns[drawn].mean())
            expected = expected_return(dataset, weighting)
            print(
                f"{name}, {weighting}: mean return of drawn episodes {mean:,.0f}, by the weights {expected:,.0f}",
                flush=True,
            )
            results.append(
                {"library": name, "weighting": weighting, "drawn": len(drawn), "mean": mean, "by_the_weights": expected}
            )


def mixed_dataset() -> uw.Dataset:
    return uw.make_dataset("hopper-expert-random-10", steps=100_000)


def expected_return(dataset: uw.Dataset, weighting: str) -> float:
    weights = uw.make_weighting(weighting)(dataset)
    return uw.step_weighted_return(weights, dataset.returns, dataset.num_transitions)


def play(act: Callable[[NDArray[Any]], NDArray[Any]], env_id: str, episodes: int, seed: int) -> float:
    """Mean score of the episodes, played side by side."""
    environments = [uw.make_environment(env_id) for _ in range(episodes)]
    rows = np.stack([env.reset(seed=1000 * seed + k)[0] for k, env in enumerate(environments)]).astype(np.float32)
    returns, playing = np.zeros(episodes), list(range(episodes))
    while playing:
        actions = act(rows)
        for k in list(playing):
            observation, reward, terminated, truncated, _ = environments[k].step(actions[k])
            rows[k] = observation
            returns[k] += float(reward)
            if terminated or truncated:
                playing.remove(k)
    for environment in environments:
        environment.close()
    return float(uw.normalize_returns(returns, uw.reference_scores(env_id)).mean())


def compare_training(names: list[str], seeds: int, updates: int, episodes: int, results: list[dict[str, Any]]) -> None:
    dataset = mixed_dataset()
    for name in names:
        for weighting in ("uniform", "rw"):
            scores = []
            for seed in range(seeds):
                scores.append(play(host(name).train_bc(dataset, weighting, seed, updates), "Hopper-v5", episodes, seed))
                print(f"{name} BC, {weighting}, seed {seed}: {scores[-1]:.3f}", flush=True)
            found = uw.interval(lambda s: s.values.mean(-1), [scores], rng=np.random.default_rng(0))
            print(f"{name} BC, {weighting}: {found.point:.3f} [{found.low:.3f}, {found.high:.3f}]")
            results.append(
                {
                    "library": name,
                    "weighting": weighting,
                    "updates": updates,
                    "episodes": episodes,
                    "scores": [round(score, 4) for score in scores],
                    "mean": round(found.point, 4),
                    "interval": [round(found.low, 4), round(found.high, 4)],
                }
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", nargs="+", help="default: all")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--returns", action="store_true", help="look at what is drawn instead of timing")
    parser.add_argument("--train", action="store_true", help="train instead of timing")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--episodes", type=int, default=10)
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    name = "adapters"
    if arguments.returns:
        name = "adapters_returns"
        compare_returns(arguments.libraries or list(DRAWING), results)
    elif arguments.train:
        name = "adapters_training"
        names = arguments.libraries or list(TRAINING)
        compare_training(names, arguments.seeds, arguments.updates, arguments.episodes, results)
    else:
        measure_speed(arguments.libraries or [*DRAWING[:-1]], arguments.rounds, results)
    print(f"wrote {record(name, PACKAGES, results)}")


if __name__ == "__main__":
    main()
