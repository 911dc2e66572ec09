"""How D4RL's own behaviour policies do in today's simulator: their networks are stored in D4RL's medium and expert files.

python -m reproduction.d4rl_policy hopper_medium-v2.hdf5 --env Hopper-v5
"""

import argparse
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import upweight as uw
from benchmarks.measure import record

LAYERS = ("fc0", "fc1", "last_fc", "last_fc_log_std")


def read_policy(path: Path) -> uw.Policy:
    """The tanh-Gaussian policy under ``metadata/policy``: weights are [outputs, inputs], mean and log sigma apart."""
    with h5py.File(path) as file:
        stored = file["metadata/policy"]
        weights: list[Any] = [np.asarray(stored[name]["weight"], np.float32).T for name in LAYERS]
        biases: list[Any] = [np.asarray(stored[name]["bias"], np.float32) for name in LAYERS]
    last = (np.concatenate(weights[2:], axis=1), np.concatenate(biases[2:]))
    inputs, outputs = len(weights[0]), len(biases[2])
    return uw.Policy(
        kind="tanh_gaussian",
        layers=(*zip(weights[:2], biases[:2], strict=True), last),
        observation_mean=np.zeros(inputs, np.float32),
        observation_scale=np.ones(inputs, np.float32),
        action_low=-np.ones(outputs, np.float32),
        action_high=np.ones(outputs, np.float32),
        metadata={},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--env", required=True)
    parser.add_argument("--episodes", type=int, default=100)
    given = parser.parse_args()
    played = uw.evaluate(read_policy(given.file), given.env, given.episodes, 0, stochastic=True)
    row = {
        "file": given.file.name,
        "env_id": given.env,
        "episodes": given.episodes,
        "mean_return": round(played.mean_return, 1),
        "std_return": round(played.std_return, 1),
        "mean_length": round(float(played.lengths.mean()), 2),
    }
    print(row)
    print(f"wrote {record('d4rl_policy', ['upweight', 'gymnasium', 'mujoco', 'numpy'], [row])}")


if __name__ == "__main__":
    main()
