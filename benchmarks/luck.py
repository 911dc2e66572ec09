"""False alarms and power of the look at luck, and how long it takes.

    python benchmarks/luck.py
    python benchmarks/luck.py --fresh --logs 40

Logs of luck alone have one policy and returns that its actions do not make: noise, the length of the recording, or where chance
moved the state. With --fresh, they are logs by name whose actions were drawn again from the same policy, so that nothing in the
outcomes comes from them. Mixes have a better policy in a tenth of the steps (by name) or of the episodes (made up).

Targets: at most 5% of false alarms, power above .8, ten seconds for a million steps.
"""

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np

import upweight as uw
from measure import record
from upweight.data.columns import ArrayColumn
from upweight.inspection.luck import look_at_luck
from upweight.lab.recipes.ladder import load_ladder

LUCK = ("noise", "heavy noise", "one step", "chance moves the state", "drift", "discrete", "length")
MIXES = (
    *(
        f"{task}-expert-random-10"
        for task in ("hopper", "halfcheetah", "walker2d", "ant", "cartpole", "acrobot", "mountaincar")
    ),
    *(f"{task}-medium-random-10" for task in ("hopper", "halfcheetah", "walker2d")),
)
ONE_POLICY = ("hopper-expert", "hopper-medium", "cartpole-medium", "acrobot-expert", "mountaincar-expert")
FRESH = ("cartpole", "acrobot", "mountaincar", "hopper", "halfcheetah")  # tasks, played by their medium policy
SURE = 0.05


def made_up(kind: str, seed: int) -> uw.Dataset:
    """20 to 300 episodes of a policy that is neither linear nor free of noise; "mix": a tenth of them are of a shifted one."""
    rng = np.random.default_rng([seed, *kind.encode()])
    features, numbers = int(rng.integers(1, 6)), int(rng.integers(1, 3))
    linear, waves = rng.normal(size=(2, features, numbers))
    noise, mean_length = rng.choice([0.02, 0.3, 1.0]), int(rng.integers(2, 60))
    count = int(rng.integers(100, 300) if kind == "mix" else rng.integers(20, 300))
    lengths = np.ones(count, int) if kind == "one step" else np.maximum(1, rng.poisson(mean_length, count))
    better = rng.random(count) < 0.1
    observations, actions, returns = [], [], []
    for length, good in zip(lengths, better, strict=True):
        state, pull, total = rng.normal(size=features), 0.3 * (kind == "drift") * rng.normal(size=features), 0.0
        for _ in range(length):
            action = np.tanh(state @ linear) + 0.5 * np.sin(2 * state @ waves) + noise * rng.normal(size=numbers)
            observations.append(state)
            actions.append(action + 0.5 * (kind == "mix" and good))
            state = 0.8 * state + 0.4 * rng.normal(size=features) + pull
            total += state[0]
        outcomes = {
            "noise": rng.normal(),
            "one step": rng.normal(),
            "heavy noise": rng.standard_cauchy(),
            "length": length,
        }
        returns.append(outcomes.get(kind, 10.0 * good + rng.normal() if kind == "mix" else total))
    last = np.cumsum(lengths) - 1
    rewards, terminated = np.zeros(lengths.sum()), np.zeros(lengths.sum(), bool)
    rewards[last], terminated[last] = returns, True
    taken = np.array(actions)
    return uw.Dataset.from_arrays(
        observations=np.array(observations),
        actions=(taken > 0) @ np.arange(1, numbers + 1) if kind == "discrete" else taken,
        rewards=rewards,
        terminated=terminated,
        source=kind,
    )


def with_noise(dataset: uw.Dataset, seed: int) -> uw.Dataset:
    """The same log with returns that are noise."""
    return dataset.with_score(np.random.default_rng([seed, 1]).normal(size=dataset.num_episodes))


def fresh(task: str, steps: int, count: int) -> list[uw.Dataset]:
    """A log of the medium policy, with actions that it would also have taken."""
    played, policy = uw.make_dataset(f"{task}-medium", steps=steps), load_ladder(task).medium.load()
    drawn = [policy.act(played.observations, np.random.default_rng(seed)) for seed in range(count)]
    like = played.actions
    return [
        replace(played, columns={**played.columns, "actions": ArrayColumn(each.astype(like.dtype).reshape(like.shape))})
        for each in drawn
    ]


def look(name: str, datasets: list[uw.Dataset], about: str) -> dict[str, Any]:
    """How many of the logs show a difference."""
    began = time.perf_counter()
    found = [look_at_luck(dataset, seed=seed).p_value for seed, dataset in enumerate(datasets)]
    seconds = (time.perf_counter() - began) / len(datasets)
    known = [p for p in found if p is not None]
    share = float(np.mean(np.array(known) <= SURE)) if known else None
    shown = "none could be checked" if share is None else f"{share:.1%} of {len(known)} logs"
    print(f"{about:12} {name:32} {shown}, {seconds:.1f} s each", flush=True)
    return {"kind": about, "log": name, "logs": len(datasets), "checked": len(known), "alarms": share, "p": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=200, help="of each made-up kind")
    parser.add_argument("--seeds", type=int, default=5, help="of data by name")
    parser.add_argument("--steps", type=int, default=100_000, help="of data by name")
    parser.add_argument("--fresh", action="store_true", help="only logs by name with fresh actions")
    arguments = parser.parse_args()
    if arguments.fresh:
        results = [look(task, fresh(task, arguments.steps, arguments.logs), "fresh") for task in FRESH]
        about = {"steps_of_data_by_name": arguments.steps, "alarm_at_p": SURE}
        print(f"wrote {record('luck_fresh', ['upweight', 'numpy'], results, about=about)}")
        return

    def named(name: str) -> list[uw.Dataset]:
        return [uw.make_dataset(name, steps=arguments.steps, seed=seed) for seed in range(arguments.seeds)]

    results = [look(kind, [made_up(kind, seed) for seed in range(arguments.logs)], "luck") for kind in LUCK]
    results.append(look("mix", [made_up("mix", seed) for seed in range(arguments.logs)], "mix"))
    for name in ONE_POLICY:
        played = named(name)
        noisy = [with_noise(each, seed) for seed, each in enumerate(played)]
        results += [look(name, noisy, "luck"), look(name, played, "one policy")]
    results += [look(name, named(name), "mix") for name in MIXES]
    large = uw.make_dataset("cartpole-expert-random-10", steps=1_000_000)
    large.returns  # noqa: B018  (the report has summed them before)
    began = time.perf_counter()
    look_at_luck(large)
    seconds = time.perf_counter() - began
    print(f"{large.num_steps:,} steps in {seconds:.1f} s")
    about = {
        "seconds_for_a_million_steps": round(seconds, 2),
        "steps_of_data_by_name": arguments.steps,
        "alarm_at_p": SURE,
    }
    print(f"wrote {record('luck', ['upweight', 'numpy'], results, about=about)}")


if __name__ == "__main__":
    main()
