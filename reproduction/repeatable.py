"""Do two processes train the same policies on a GPU?

    python -m reproduction.repeatable

XLA's autotuner times several ways to compute a product or a sum, and takes the fastest; another process may take another one, and
sums come out in another order. IQL, 48 agents, made-up data: what the policies do after 500 updates, as a hash, in processes of
their own, which compile anew unless they have the ``cache`` of an earlier one.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import upweight as uw
from benchmarks.measure import record

UNTUNED = "--xla_gpu_autotune_level=0"
CASES = [  # kernels, precision, flags of XLA, cache
    *(("fused", "bfloat16", "", cache) for cache in (1, 2, 1)),
    *(("fused", "bfloat16", UNTUNED, cache) for cache in (3, 4)),
    *(("xla", "bfloat16", "", cache) for cache in (5, 6)),
    *(("xla", "bfloat16", UNTUNED, cache) for cache in (7, 8)),
    *(("xla", "float32", "", cache) for cache in (9, 10)),
    *(("xla", "float32", UNTUNED, cache) for cache in (11, 12)),
]
EPISODES, LENGTH = 2000, 50


def make_dataset() -> uw.Dataset:
    rng, steps = np.random.default_rng(0), EPISODES * LENGTH
    ends, odd = np.arange(steps) % LENGTH == LENGTH - 1, np.repeat(np.arange(EPISODES) % 2 == 1, LENGTH)
    return uw.Dataset.from_arrays(
        observations=rng.normal(size=(steps, 11)).astype(np.float32),
        actions=np.tanh(rng.normal(size=(steps, 3))).astype(np.float32),
        rewards=(rng.normal(size=steps) + np.repeat(np.arange(EPISODES) / EPISODES, LENGTH)).astype(np.float32),
        next_observations=rng.normal(size=(steps, 11)).astype(np.float32),
        terminated=ends & odd,
        truncated=ends & ~odd,
    )


def actions_after(updates: int, kernels: str, precision: str) -> str:
    """Hash of what 48 policies do in 64 states."""
    dataset = make_dataset()
    runs = [uw.Run("iql", weighting, seed) for weighting in ("uniform", "rw") for seed in range(24)]
    results = uw.train(dataset, runs, num_updates=updates, precision=precision, kernels=kernels, progress=False)
    hashes = [hashlib.sha256(np.ascontiguousarray(r.policy.act(dataset.observations[:64])).tobytes()) for r in results]
    return hashlib.sha256("".join(each.hexdigest()[:8] for each in hashes).encode()).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=500)
    parser.add_argument("--name", default="repeatable", help="of the file of results")
    parser.add_argument(
        "--one", nargs=2, metavar=("KERNELS", "PRECISION"), help="train in this process, print the hash"
    )
    arguments = parser.parse_args()
    if arguments.one:
        print(actions_after(arguments.updates, *arguments.one))
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for kernels, precision, flags, cache in CASES:
            command = [sys.executable, __file__, "--updates", str(arguments.updates), "--one", kernels, precision]
            surroundings = {**os.environ, "XLA_FLAGS": flags, "UPWEIGHT_CACHE": str(Path(folder, str(cache)))}
            done = subprocess.run(command, env=surroundings, check=True, stdout=subprocess.PIPE, text=True)
            rows.append({"kernels": kernels, "precision": precision, "flags": flags, "cache": cache})
            rows[-1]["actions"] = done.stdout.split()[-1]
            print(rows[-1], flush=True)
    print(f"wrote {record(arguments.name, ['upweight', 'jax', 'numpy'], rows, about={'updates': arguments.updates})}")


if __name__ == "__main__":
    main()
