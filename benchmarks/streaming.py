"""Rows that stream against rows that are resident: speed, and the memory that the plan promises against what is taken.

    python benchmarks/streaming.py --name streaming_h200
    python benchmarks/streaming.py --agents 16 --steps 1000000 --interval 20 --name streaming_cpu    # without a GPU

The same runs on the same packed data (11 + 3 numbers, made here), each way in a process of its own. All are started, compile and
make some updates; then the two ways of a training take turns, and wait in their callback for the next one. Speed is the best
turn's. Memory: anonymous (RssAnon, looked at every 10 ms) beyond what the process had before the training, and the peak that JAX
tells of its device. Where the device is the host, both are one, and what XLA takes while it compiles is in it; "steady" is what
was taken during the turns.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import upweight as uw
from measure import record
from scale import anonymous_bytes

WAYS = ("streamed", "resident")
EPISODE, PART = 1000, 1_000_000
WARM_INTERVALS = 2


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", default=["bc", "td3_bc"])
    parser.add_argument("--agents", nargs="+", type=int, default=[16, 256])
    parser.add_argument("--steps", type=int, default=5_000_000)
    parser.add_argument("--interval", type=int, default=200, help="updates between two looks at the clock")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a turn, at least")
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()), help="where the data go for a while"
    )
    parser.add_argument("--name", default="streaming", help="of the JSON file")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        way, algorithm, agents = arguments.child
        train(arguments.scratch, way, algorithm, int(agents), arguments.interval)
        return 0
    scratch = Path(tempfile.mkdtemp(prefix="upweight-streaming-", dir=arguments.scratch))
    began = time.perf_counter()
    try:
        pack(scratch / "packed", arguments.steps)
        print(f"{arguments.steps:,} steps packed in {time.perf_counter() - began:.1f} s", flush=True)
        results = measure(arguments, scratch)
    finally:
        shutil.rmtree(scratch)
    about = {"steps": arguments.steps, "seconds_in_all": round(time.perf_counter() - began, 1)}
    print(f"wrote {record(arguments.name, ['upweight', 'numpy', 'jax', 'jaxlib'], results, about=about)}")
    return 0


def pack(folder: Path, steps: int) -> None:
    """Random numbers in episodes of 1,000 steps."""
    parts = []
    for first in range(0, steps, PART):
        count, rng = min(PART, steps - first), np.random.default_rng(first)
        ends = np.zeros(count, bool)
        ends[EPISODE - 1 :: EPISODE] = ends[-1] = True
        log = uw.Dataset.from_arrays(
            observations=rng.standard_normal((count, 11), np.float32),
            actions=2 * rng.random((count, 3), np.float32) - 1,
            rewards=rng.standard_normal(count, np.float32),
            terminated=ends,
        )
        parts.append(log)
    uw.pack(parts, folder)


def measure(arguments: argparse.Namespace, scratch: Path) -> list[dict[str, Any]]:
    cases = [(algorithm, agents) for algorithm in arguments.algorithms for agents in arguments.agents]
    children: dict[Any, Child] = {}
    try:
        for case in cases:
            children |= {(case, way): Child(scratch, arguments.interval, way, *case) for way in WAYS}
        for child in children.values():
            child.hear()  # it is ready
        return [compare(case, {way: children[case, way] for way in WAYS}, arguments) for case in cases]
    finally:
        for child in children.values():
            child.process.kill()


def compare(case: tuple[str, int], children: "dict[str, Child]", arguments: argparse.Namespace) -> dict[str, Any]:
    """Let both ways take turns; how fast they were, and what memory they took."""
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(arguments.turns):
        for way, child in children.items():
            turn = child.ask(arguments.seconds)
            speeds[way].append(turn["updates"] / turn["seconds"])
    ends = {way: child.ask(0) for way, child in children.items()}
    best = {way: max(found) for way, found in speeds.items()}
    algorithm, agents = case
    print(
        f"{algorithm} x {agents} on {ends['resident']['device']}, updates/s of each agent: {best['resident']:,.1f} resident,"
    )
    print(f"  {best['streamed']:,.1f} streamed, which takes {best['resident'] / best['streamed']:.2f} times as long")
    for way, end in ends.items():
        megabytes = {key: f"{value / 1e6:,.0f}" for key, value in end["memory"].items() if value is not None}
        print(
            f"  {way:8} MB: " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in megabytes.items()),
            flush=True,
        )
    return {
        "algorithm": algorithm,
        "agents": agents,
        "device": ends["resident"]["device"],
        "ratio": round(best["resident"] / best["streamed"], 3),
        **{
            way: {"updates_per_second": [round(each, 1) for each in speeds[way]], **ends[way]["memory"]} for way in WAYS
        },
    }


class Child:
    """A training in a process of its own, that works when it is asked to."""

    def __init__(self, scratch: Path, interval: int, *case: Any) -> None:
        options = ["--scratch", scratch, "--interval", interval, "--child", *case]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *map(str, options)],
            env={
                **os.environ,
                "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
                "JAX_COMPILATION_CACHE_DIR": str(scratch / "programs"),  # empty: all compile
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        print(seconds, file=self.process.stdin, flush=True)
        return self.hear()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


class Enough(Exception):
    """The training may end."""


def train(scratch: Path, way: str, algorithm: str, agents: int, interval: int) -> None:
    """Train without end, in turns."""
    import jax

    device = jax.devices()[0]
    jax.block_until_ready(jax.numpy.ones(8) @ jax.numpy.ones(8))
    ds = uw.load(scratch / "packed")
    runs = [uw.Run(algorithm, "aw", seed) for seed in range(agents)]
    plan = uw.plan_training(ds, runs, stream=way == "streamed", max_agents=agents)
    [program] = plan.programs
    before, peak = anonymous_bytes(), [0, 0]  # in all, since the first turn

    def watch() -> None:
        while True:
            now = anonymous_bytes()
            peak[:] = [max(each, now) for each in peak]
            time.sleep(0.01)

    threading.Thread(target=watch, daemon=True).start()
    turns = Turns(interval, peak)
    with contextlib.suppress(Enough):
        uw.train(
            ds,
            runs,
            num_updates=10**6 * interval,
            log_every_updates=interval,
            stream=way == "streamed",
            max_agents=agents,
            progress=False,
            callbacks=[turns],
        )
    stats = device.memory_stats() or {}
    memory = {
        "planned_device": program.total_bytes,
        "device": stats.get("peak_bytes_in_use"),
        "planned_host": program.bytes_on_host,
        "host": peak[0] - before,
        "host_steady": peak[1] - before,
        "host_before": before,
    }
    tell(device=device.device_kind, memory=memory)


class Turns:
    """A callback that lets the training go on for as long as somebody asks for."""

    def __init__(self, interval: int, peak: list[int]) -> None:
        self._interval, self._peak = interval, peak
        self._calls, self._began, self._seconds = -WARM_INTERVALS, 0.0, 0.0

    def __call__(self, _: object) -> None:
        self._calls += 1
        spent = time.perf_counter() - self._began
        if self._calls < 0 or (self._calls and spent < self._seconds):
            return
        if self._calls:
            tell(updates=self._calls * self._interval, seconds=spent)
        else:
            tell(ready=True)
            self._peak[1] = 0
        self._seconds = float(sys.stdin.readline())
        if self._seconds == 0:
            raise Enough
        self._calls, self._began = 0, time.perf_counter()


def tell(**found: Any) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    sys.exit(main())
