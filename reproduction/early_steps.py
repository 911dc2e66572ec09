"""Whose steps a weighting draws: of all steps, and of the first ones, where every episode passes; and how many in effect.

    python -m reproduction.early_steps
    python -m reproduction.early_steps --tasks hopper halfcheetah walker2d ant --name early_steps_mixed
    python -m reproduction.early_steps --tasks hopper halfcheetah --name early_steps_settings

A step of episode i is drawn with a probability that grows with w_i alone, so of the first 30 steps the share

    sum_good w_i min(T_i, 30) / sum_all w_i min(T_i, 30)

is drawn from the good policy's episodes. Random episodes are short and many: their steps are few, their beginnings are not. A
policy that regresses on the mean imitates the majority wherever it is, and never gets to where the good steps are.
"""

import argparse
from typing import Any

import upweight as uw
from benchmarks.measure import record

TEMPERATURES = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
MIXES = [f"{good}-random-{share}" for good in ("expert", "medium") for share in (1, 5, 10, 50)]
WEIGHTINGS: list[tuple[str, uw.Weighting]] = [
    ("uniform", uw.Uniform()),
    ("half", uw.Half()),
    *((f"rw {temperature:g}", uw.ReturnWeighting(temperature)) for temperature in TEMPERATURES),
    *((f"aw {temperature:g}", uw.AdvantageWeighting(temperature)) for temperature in TEMPERATURES),
    ("aw 0.01 ridge", uw.AdvantageWeighting(0.01, baseline="ridge")),
    *((f"top {fraction:g}", uw.TopFraction(fraction)) for fraction in (0.01, 0.05, 0.1, 0.2, 0.5)),
]


def shares(dataset: uw.Dataset, weighting: uw.Weighting, first: int) -> dict[str, Any]:
    """Of what is drawn, how much comes from episodes that are not random ones."""
    assert dataset.labels is not None
    weights, good = weighting(dataset), dataset.labels != "random"
    found: dict[str, Any] = {"kept": int((weights > 0).sum()), "good_kept": int((weights[good] > 0).sum())}
    found["effective_episodes"] = round(uw.effective_episodes(weights), 1)
    found["effective_steps"] = round(uw.effective_steps(weights, dataset.num_transitions))
    for name, steps in (("steps", int(dataset.lengths.max())), (f"first_{first}_steps", first)):
        found[f"share_of_{name}"] = round(uw.early_share(weights, dataset.lengths, good, first=steps), 4)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["hopper"], help="whose mixes (default: Hopper's)")
    parser.add_argument("--steps", type=int, help="of each dataset; shares hardly depend on it (default: all)")
    parser.add_argument("--name", default="early_steps", help="of the file of results")
    parser.add_argument("--first", type=int, default=30, help="steps at the beginning of an episode")
    arguments = parser.parse_args()
    results = []
    for name in (f"{task}-{mix}" for task in arguments.tasks for mix in MIXES):
        dataset = uw.make_dataset(name, steps=arguments.steps)
        assert dataset.labels is not None
        good = dataset.labels != "random"
        values = uw.LinearBaseline()(dataset.initial_observations, dataset.returns)  # what AW subtracts
        spreads = {
            "std_of_good_returns": round(dataset.returns[good].std(), 1),
            "std_of_their_values": round(values[good].std(), 1),
        }
        for title, weighting in WEIGHTINGS:
            about = {"dataset": name, "good_episodes": int(good.sum()), **spreads, "weighting": title}
            results.append(about | shares(dataset, weighting, arguments.first))
            print("  ".join(f"{key} {value}" for key, value in results[-1].items()))
    about = {"first": arguments.first, "steps": arguments.steps}
    print(f"wrote {record(arguments.name, ['upweight', 'numpy', 'gymnasium', 'mujoco'], results, about=about)}")


if __name__ == "__main__":
    main()
