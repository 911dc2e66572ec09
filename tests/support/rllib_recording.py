"""Lets RLlib's own runner record episodes, and tells what it played: ``rllib_recording.py (episodes|rows) FOLDER PLAYED.json``.

It encodes as msgpack-numpy does, which is not a dependency of ours.
"""

import json
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


def encode(value: Any) -> Any:
    """As msgpack-numpy does."""
    if isinstance(value, np.ndarray):
        plain = value.dtype.kind not in "VO"
        kind = b"" if plain else value.dtype.kind.encode()
        data = value.tobytes() if plain else value.dumps()
        return {
            b"nd": True,
            b"type": value.dtype.str if plain else value.dtype.descr,
            b"kind": kind,
            b"shape": value.shape,
            b"data": data,
        }
    return {b"nd": False, b"type": value.dtype.str, b"data": value.tobytes()}


def record(layout: str, folder: Path, told: Path) -> None:
    os.environ["RAY_AUTH_MODE"] = "disabled"
    stand_in = ModuleType("msgpack_numpy")
    stand_in.encode = encode  # type: ignore[attr-defined]
    sys.modules.setdefault("msgpack_numpy", stand_in)
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.offline.offline_env_runner import OfflineSingleAgentEnvRunner

    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=200 << 20, log_to_driver=False)
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2, batch_mode="truncate_episodes")
        .offline_data(output=str(folder), output_write_episodes=layout == "episodes", output_compress_columns=[])
    )
    runner = OfflineSingleAgentEnvRunner(config=config, worker_index=1)
    played = [piece for _ in range(3) for piece in runner.sample(num_timesteps=20, random_actions=True)]
    pieces = [
        {
            "id": piece.id_,
            "t_started": piece.t_started,
            "is_done": bool(piece.is_done),
            "rewards": [float(reward) for reward in piece.rewards],
            "observations": np.asarray(piece.get_observations()[:-1]).tolist(),
        }
        for piece in played
    ]
    told.write_text(json.dumps(pieces))
    ray.shutdown()


if __name__ == "__main__":
    record(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
