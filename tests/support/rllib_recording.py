"""Lets RLlib's own runner record episodes, in both of its layouts, and tells what it played: ``rllib_recording.py FOLDER`` writes
FOLDER/episodes, FOLDER/episodes.json, and the same for rows.

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


def record(folder: Path) -> None:
    os.environ["RAY_AUTH_MODE"] = "disabled"
    stand_in = ModuleType("msgpack_numpy")
    stand_in.encode = encode  # type: ignore[attr-defined]
    sys.modules.setdefault("msgpack_numpy", stand_in)
    import ray

    ray.init(num_cpus=1, include_dashboard=False, object_store_memory=200 << 20, log_to_driver=False)
    for layout in ("episodes", "rows"):
        played = json.dumps(play(layout, folder / layout))
        (folder / f"{layout}.json").write_text(played)
    ray.shutdown()


def play(layout: str, folder: Path) -> list[dict[str, Any]]:
    """Pieces of episodes, as they were played."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.offline.offline_env_runner import OfflineSingleAgentEnvRunner

    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2, batch_mode="truncate_episodes")
        .offline_data(output=str(folder), output_write_episodes=layout == "episodes", output_compress_columns=[])
    )
    runner = OfflineSingleAgentEnvRunner(config=config, worker_index=1)
    played = [piece for _ in range(3) for piece in runner.sample(num_timesteps=20, random_actions=True)]
    return [
        {
            "id": piece.id_,
            "t_started": piece.t_started,
            "is_done": bool(piece.is_done),
            "rewards": [float(reward) for reward in piece.rewards],
            "observations": np.asarray(piece.get_observations()[:-1]).tolist(),
        }
        for piece in played
    ]


if __name__ == "__main__":
    record(Path(sys.argv[1]))
