"""Which policies a weighting draws from in the replays, and how good these are: on average, at best, and without noise.

    python -m reproduction.who_is_drawn

A replay is played by policies of all levels. Weights follow the return of single episodes, not of policies: one that mostly
fails, and now and then does very well, may be drawn most. ``left`` is the share of the gain that would remain if each episode had
the mean return of its policy. ``falls`` is how many of the steps drawn end an episode by failure. A policy trained on what is
drawn is evaluated without noise, so the policies themselves are played that way too, 40 episodes each.
"""

from typing import Any

import numpy as np

import upweight as uw
from benchmarks.measure import record
from upweight.data.statistics import episode_mass
from upweight.lab.recipes.recipe import Recipe, find_recipe

REPLAYS = [f"{t}-{kind}-replay" for t in ("hopper", "halfcheetah", "walker2d", "ant") for kind in ("medium", "full")]
WEIGHTINGS: dict[str, uw.Weighting] = {
    "uniform": uw.Uniform(),
    "top": uw.TopFraction(0.1),
    "rw": uw.ReturnWeighting(0.1),
    "aw": uw.AdvantageWeighting(0.1),
}
EPISODES = 40


def drawn(dataset: uw.Dataset, weighting: uw.Weighting) -> dict[str, Any]:
    """What a weighting makes of the dataset."""
    assert dataset.labels is not None
    weights, sizes = weighting(dataset), dataset.num_transitions
    found = uw.weighted_return(weights, dataset.returns)
    by_policy = uw.weighted_label_return(weights, dataset.returns, dataset.labels)
    mean = float(dataset.returns.mean())
    falls = episode_mass(weights, sizes)[dataset.episodes.terminated] / sizes[dataset.episodes.terminated]
    return {
        "return": round(found, 1),
        "return_by_policy": round(by_policy, 1),
        "left": None if np.isclose(found, mean) else round((by_policy - mean) / (found - mean), 4),
        "effective_steps": round(uw.effective_steps(weights, sizes)),
        "falls": float(f"{falls.sum():.3g}"),
        "share": {label: round(share, 4) for label, share in uw.mass_per_label(weights, sizes, dataset.labels).items()},
    }


def policies(dataset: uw.Dataset, recipe: Recipe) -> list[dict[str, Any]]:
    """Each policy of a replay as it is in the data, and without noise."""
    assert dataset.labels is not None
    found = []
    for part in recipe.parts:
        assert part.rung is not None
        returns = dataset.returns[dataset.labels == part.label]
        quiet = uw.evaluate(part.rung.load().deterministic(), recipe.task.env_id, EPISODES)
        row: dict[str, Any] = {"policy": part.label, "episodes": len(returns), "mean": round(float(returns.mean()), 1)}
        row |= {"median": round(float(np.median(returns)), 1), "best": round(float(returns.max()), 1)}
        row |= {"without_noise": round(float(quiet.returns.mean()), 1)}
        found.append(row | {"median_length_without_noise": float(np.median(quiet.lengths))})
    return found


def main() -> None:
    results = []
    for name in REPLAYS:
        dataset = uw.make_dataset(name)
        effects = {title: drawn(dataset, weighting) for title, weighting in WEIGHTINGS.items()}
        results.append({"dataset": name, "weightings": effects, "policies": policies(dataset, find_recipe(name))})
        left = ", ".join(f"{title} {effect['left']}" for title, effect in effects.items())
        print(f"{name}: {left}", flush=True)
    print(f"wrote {record('who_is_drawn', ['upweight', 'numpy', 'gymnasium', 'mujoco'], results)}")


if __name__ == "__main__":
    main()
