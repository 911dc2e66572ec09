"""Data larger than memory: what packing, inspecting, weighting and batches take, and how fast batches are.

    python benchmarks/scale.py --steps 1000000                  # a small one first
    python benchmarks/scale.py --scratch /big/disk              # 100M steps: 6 GB of shards, 6 GB packed
    python benchmarks/scale.py --stages shards pack torchrl_storage --name scale_adapters

Each stage runs in a process of its own, whose anonymous memory (RssAnon: what is not a page of a file) is looked at every 5 ms.
Targets: below 1 GiB in every stage; a batch of 256 weighted transitions at most 1.5 times the cost of gathering
uniform ones from NumPy's memory maps, and less than TorchRL's storage of the same maps takes (uniform, and without next
observations). Seconds of training are those of a call, data, compilation and all.
"""

import argparse
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import upweight as uw
from measure import record

SHARD_STEPS = 1_000_000
BATCH, ROUND = 256, 50  # batches of one method before the next has its turn
STAGES = ("shards", "pack", "inspect", "weights", "batches", "timing", "train")
ADAPTER_STAGES = ("torchrl_storage",)
AGENTS, UPDATES = 16, 1000
LIMIT_BYTES, LIMIT_RATIO = 1 << 30, 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000_000)
    parser.add_argument("--batches", type=int, default=10_000)
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()), help="where the data go, and are removed from"
    )
    parser.add_argument("--stages", nargs="+", choices=(*STAGES, *ADAPTER_STAGES), default=STAGES)
    parser.add_argument("--name", default="scale", help="of the JSON file")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage is not None:
        print(json.dumps(watched(globals()[arguments.stage], arguments)))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="upweight-scale-", dir=arguments.scratch))
    try:
        results = [run_stage(stage, folder, arguments) for stage in arguments.stages]
    finally:
        shutil.rmtree(folder)
    path = record(
        arguments.name,
        ["upweight", "numpy", "jax", "torch", "torchrl", "tensordict", "pyarrow"],
        results,
        about={"steps": arguments.steps},
    )
    print(f"wrote {path}")
    return 0 if all(within(result) for result in results) else 1


def run_stage(stage: str, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    if stage == "batches":
        shutil.rmtree(folder / "shards")  # nobody reads them any more
    options = ["--steps", arguments.steps, "--batches", arguments.batches, "--scratch", folder, "--stage", stage]
    done = subprocess.run([sys.executable, __file__, *map(str, options)], stdout=subprocess.PIPE, text=True, check=True)
    result = {"stage": stage, **json.loads(done.stdout.splitlines()[-1])}
    print(json.dumps(result), flush=True)
    return result


def within(result: dict[str, Any]) -> bool:
    times = result.get("microseconds_per_batch")
    slow = times is not None and (
        times["upweight"] > LIMIT_RATIO * times["numpy"] or times["upweight"] > times["torchrl"]
    )
    return result["peak_anonymous_bytes"] < LIMIT_BYTES and not slow


def watched(work: Callable[[argparse.Namespace], dict[str, Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds and the most anonymous memory of a piece of work, with what it says itself."""
    peak, ended = [anonymous_bytes()], threading.Event()

    def watch() -> None:
        while not ended.wait(0.005):
            peak[0] = max(peak[0], anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    found = work(arguments)
    seconds = time.perf_counter() - began
    ended.set()
    watcher.join()
    return {"seconds": round(seconds, 2), "peak_anonymous_bytes": peak[0], **found}


def anonymous_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon in /proc/self/status")


def shards(arguments: argparse.Namespace) -> dict[str, Any]:
    """Logs with 11 + 3 numbers and episodes of 500 to 1,500 steps, a file per million steps."""
    folder = arguments.scratch / "shards"
    folder.mkdir()
    for number, first in enumerate(range(0, arguments.steps, SHARD_STEPS)):
        steps = min(SHARD_STEPS, arguments.steps - first)
        rng = np.random.default_rng(number)
        ends = np.cumsum(rng.integers(500, 1500, steps // 500)) - 1
        terminated = np.zeros(steps, bool)
        terminated[[*ends[ends < steps], steps - 1]] = True
        log = uw.Dataset.from_arrays(
            observations=rng.standard_normal((steps, 11), np.float32),
            actions=2 * rng.random((steps, 3), np.float32) - 1,
            rewards=rng.standard_normal(steps, np.float32) + rng.random(dtype=np.float32),
            terminated=terminated,
        )
        uw.save(log, folder / f"{number:05d}.npz")
    return {"files": len(list(folder.iterdir()))}


def pack(arguments: argparse.Namespace) -> dict[str, Any]:
    folder = arguments.scratch / "packed"
    made = uw.pack(sorted((arguments.scratch / "shards").iterdir()), folder)
    nbytes = sum(file.stat().st_size for file in folder.iterdir())
    return {"bytes": nbytes, "episodes": made.num_episodes, "steps": made.num_steps}


def inspect(arguments: argparse.Namespace) -> dict[str, Any]:
    return {"effects": len(uw.inspect(arguments.scratch / "packed").effects)}


def weights(arguments: argparse.Namespace) -> dict[str, Any]:
    ds = uw.load(arguments.scratch / "packed")
    return {"effective_episodes": uw.effective_episodes(uw.AdvantageWeighting(0.1)(ds))}


def batches(arguments: argparse.Namespace) -> dict[str, Any]:
    stream = uw.batches(arguments.scratch / "packed", "aw", BATCH, seed=0)
    total = sum(float(next(stream).rewards.sum()) for _ in range(arguments.batches))
    return {"batches": arguments.batches, "mean_reward": total / (BATCH * arguments.batches)}


def timing(arguments: argparse.Namespace) -> dict[str, Any]:
    """Median over rounds, in which the methods take turns; nothing is made ahead."""
    folder = arguments.scratch / "packed"
    stream = uw.batches(folder, "aw", BATCH, seed=0, prefetch=0)
    methods: dict[str, Callable[[], object]] = {
        "upweight": lambda: next(stream),
        **plain_numpy(folder),
        "torchrl": torchrl(folder),
    }
    times: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(arguments.batches // ROUND):
        for name, draw in methods.items():
            began = time.perf_counter()
            for _ in range(ROUND):
                draw()
            times[name].append((time.perf_counter() - began) / ROUND)
    spent = {name: round(1e6 * float(np.median(values)), 1) for name, values in times.items()}
    return {"microseconds_per_batch": spent, "ratio_to_numpy": round(spent["upweight"] / spent["numpy"], 2)}


def train(arguments: argparse.Namespace) -> dict[str, Any]:
    """BC, with rows that stay in the memory map."""
    folder = arguments.scratch / "packed"
    runs = [uw.Run("bc", "aw", seed) for seed in range(AGENTS)]
    results = uw.train(folder, runs, num_updates=UPDATES, stream=True, progress=False)
    return {"agents": AGENTS, "updates": UPDATES, "finished": sum(result.status == "finished" for result in results)}


def torchrl_storage(arguments: argparse.Namespace) -> dict[str, Any]:
    """Anonymous memory when TorchRL is imported, after its first batch of the packed folder, and after so many."""
    host = importlib.import_module("hosts.torchrl_host")
    imported = anonymous_bytes()
    draw = host.packed_batches(arguments.scratch / "packed")
    draw()
    first = anonymous_bytes()
    for _ in range(arguments.batches - 1):
        draw()
    last = anonymous_bytes()
    return {"batches": arguments.batches, "bytes_imported": imported, "bytes_first": first, "bytes_last": last}


def plain_numpy(folder: Path) -> dict[str, Callable[[], object]]:
    """The same columns without weights: indexed, as everybody writes it, and with ``take``."""
    maps = {name: np.memmap(folder / f"{name}.bin", "<f4", "r") for name in ("observations", "actions", "rewards")}
    observations, actions = maps["observations"].reshape(-1, 11), maps["actions"].reshape(-1, 3)
    rewards, flags = maps["rewards"], np.memmap(folder / "flags.bin", "u1", "r")
    rng = np.random.default_rng(0)

    def indexed() -> object:
        index = rng.integers(0, len(rewards) - 1, BATCH)
        return observations[index], actions[index], rewards[index], observations[index + 1], flags[index]

    def taken() -> object:
        index = rng.integers(0, len(rewards) - 1, BATCH)
        rows = (observations.take(index, 0), actions.take(index, 0), rewards.take(index))
        return *rows, observations.take(index + 1, 0), flags.take(index)

    return {"numpy": indexed, "numpy take": taken}


def torchrl(folder: Path) -> Callable[[], object]:
    """TorchRL's uniform draws from a storage of the very files; it has no next observations to gather."""
    import torch
    from tensordict import MemoryMappedTensor, TensorDict
    from torchrl.data import TensorDictReplayBuffer, TensorStorage

    torch.set_num_threads(1)  # as all methods here; others would be kept waiting by its threads
    steps = (folder / "flags.bin").stat().st_size
    layout = {
        "observation": ("observations", torch.float32, (steps, 11)),
        "action": ("actions", torch.float32, (steps, 3)),
        "reward": ("rewards", torch.float32, (steps, 1)),
        "flags": ("flags", torch.uint8, (steps, 1)),
    }
    columns = {
        key: MemoryMappedTensor.from_filename(folder / f"{name}.bin", dtype=dtype, shape=torch.Size(shape))
        for key, (name, dtype, shape) in layout.items()
    }
    buffer = TensorDictReplayBuffer(storage=TensorStorage(TensorDict(columns, [steps])), batch_size=BATCH)
    return buffer.sample


if __name__ == "__main__":
    sys.exit(main())
