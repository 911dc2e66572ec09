"""Whose steps Top-10% keeps of a mix: of all steps, and of the first ones, where every episode passes.

    python benchmarks/top_fraction.py

A policy that regresses on the mean imitates the majority wherever it is; good steps that come late do not help it to get there.
"""

import argparse

import numpy as np

import upweight as uw
from measure import record

FIRST = (10, 30, 100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=["hopper-expert-random-50", "hopper-medium-random-50"])
    parser.add_argument("--fraction", type=float, default=0.1)
    arguments = parser.parse_args()
    results = []
    for name in arguments.datasets:
        dataset = uw.make_dataset(name)
        assert dataset.labels is not None
        kept = np.flatnonzero(uw.TopFraction(arguments.fraction)(dataset) > 0)
        good = dataset.labels[kept] != "random"
        lengths = dataset.lengths[kept]
        row = {"dataset": name, "kept": len(kept), "good": int(good.sum())}
        row["all_good"] = int((dataset.labels != "random").sum())
        row["share_of_steps"] = round(float(lengths[good].sum() / lengths.sum()), 4)
        for first in FIRST:
            early = np.minimum(lengths, first)
            row[f"share_of_first_{first}_steps"] = round(float(early[good].sum() / early.sum()), 4)
        print("  ".join(f"{key} {value}" for key, value in row.items()))
        results.append(row)
    about = {"fraction": arguments.fraction}
    print(f"wrote {record('top_fraction', ['upweight', 'numpy', 'gymnasium', 'mujoco'], results, about=about)}")


if __name__ == "__main__":
    main()
