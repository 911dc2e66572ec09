"""A dataset in LeRobot's layout, version 3: several episodes per file, and where each one lies in ``meta/episodes``."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LENGTHS = (5, 3, 8, 4, 6)
SUCCEEDED = (True, False, False, True, False)


def write_lerobot(
    folder: Path, lengths: tuple[int, ...] = LENGTHS, *, per_file: int = 2, **per_frame: list[Any]
) -> Path:
    """Frame m has the state [m, 0] and the action [m / 10]; more columns [M] as given, such as ``{"next.reward": ...}``."""
    total, ends = sum(lengths), np.cumsum(lengths)
    starts = ends - lengths
    episode = np.repeat(np.arange(len(lengths)), lengths)
    columns = {
        "observation.state": pa.array([[float(m), 0.0] for m in range(total)], pa.list_(pa.float32(), 2)),
        "action": pa.array([[m / 10] for m in range(total)], pa.list_(pa.float32(), 1)),
        "timestamp": pa.array((np.arange(total) - starts[episode]) / 10, pa.float32()),
        "frame_index": pa.array(np.arange(total) - starts[episode]),
        "episode_index": pa.array(episode),
        "index": pa.array(np.arange(total)),
        "task_index": pa.array(np.zeros(total, np.int64)),
        **{name: pa.array(values) for name, values in per_frame.items()},
    }
    table = pa.table(columns)
    for part in ("data", "meta/episodes"):
        (folder / part / "chunk-000").mkdir(parents=True)
    for number, first in enumerate(range(0, len(lengths), per_file)):
        low, high = starts[first], ends[min(first + per_file, len(lengths)) - 1]
        pq.write_table(table.slice(low, high - low), folder / "data" / "chunk-000" / f"file-{number:03d}.parquet")
    about = {
        "episode_index": np.arange(len(lengths)),
        "length": np.array(lengths),
        "dataset_from_index": starts,
        "dataset_to_index": ends,
    }
    pq.write_table(pa.table(about), folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
    info = {"codebase_version": "v3.0", "fps": 10, "total_episodes": len(lengths), "total_frames": total}
    (folder / "meta" / "info.json").write_text(json.dumps(info))
    return folder


def flags_of(succeeded: tuple[bool, ...] = SUCCEEDED, lengths: tuple[int, ...] = LENGTHS) -> list[bool]:
    """[M] ``next.success``: True at the last frame of an episode that succeeded."""
    return [won and t == T - 1 for won, T in zip(succeeded, lengths, strict=True) for t in range(T)]


def opened(folder: Path, episodes: list[int] | None = None) -> Any:
    """What our sampler looks at of a ``LeRobotDataset``; one of some ``episodes`` numbers its own frames from 0 on."""
    about = pq.read_table(folder / "meta" / "episodes").to_pydict()
    spans = zip(about["dataset_from_index"], about["dataset_to_index"], strict=True)
    frames = [m for number, (low, high) in enumerate(spans) if number in (episodes or []) for m in range(low, high)]
    relative = None if episodes is None else {frame: place for place, frame in enumerate(frames)}
    return SimpleNamespace(
        meta=SimpleNamespace(episodes=about), root=folder, episodes=episodes, absolute_to_relative_idx=relative
    )
