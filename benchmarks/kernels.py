"""The fused kernels on a GPU: are they right, and how fast beside XLA's, in turn and in one process?

    python benchmarks/kernels.py check
    python benchmarks/kernels.py time --agents 1 16 64 256
    python benchmarks/kernels.py profile

``check`` compares outputs and all gradients with float32 products at full precision, beside plain bfloat16, for the shapes of our
tasks and odd ones, in a process each; and two runs bit by bit. ``time`` measures agent-updates per second of whole updates,
weighted sampling included, as train_throughput.py does. All programs but the last (the largest) compile at the same time, so only
its first call says how long one program takes. CQL needs memory: it has 64 agents at most. ``profile`` says what the device's
time goes into: microseconds of one update in each kernel, ours and XLA's.
"""

import argparse
import itertools
import os
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import train_throughput as throughput
from measure import record
from upweight.engine.kernels.networks import networks
from upweight.engine.nn import Linear
from upweight.engine.population import Program

# agents, networks of each, rows, inputs, hidden layers, outputs
SHAPES = [
    (70, 2, 256, 14, 2, 1),  # Hopper's critics
    (70, 1, 256, 11, 2, 3),
    (33, 2, 256, 23, 2, 1),  # HalfCheetah's and Walker2d's
    (33, 2, 256, 35, 2, 1),  # Ant's
    (9, 1, 256, 27, 3, 16),  # Ant's actor in CQL
    (9, 2, 31 * 256, 14, 3, 1),  # CQL
    (5, 2, 31 * 100, 23, 3, 1),
    (3, 2, 100, 35, 3, 1),  # odd batches
    (1, 1, 1, 63, 2, 16),
]


def make(agents: int, count: int, rows: int, inputs: int, depth: int, outputs: int) -> tuple[Any, Any, Any]:
    sizes, layers = (inputs, *[256] * depth, outputs), []
    for number, (a, b) in enumerate(itertools.pairwise(sizes)):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(0), number))
        shapes = ((agents, count, a, b), (agents, count, b))
        values = zip(keys, shapes, strict=True)
        layers.append(Linear(*(jax.random.uniform(k, s, minval=-(a**-0.5), maxval=a**-0.5) for k, s in values)))
    x = jax.random.normal(jax.random.key(1), (agents, rows, inputs))
    return tuple(layers), x, jax.random.normal(jax.random.key(2), (agents, count, rows, outputs))


def plain(layers: Any, x: Any, dtype: Any = jnp.bfloat16) -> Any:
    h = jnp.broadcast_to(x, (layers[0].weight.shape[0], *x.shape)).astype(dtype)
    for number, (weight, bias, _) in enumerate(layers):
        precision = "highest" if dtype == jnp.float32 else None
        h = jnp.matmul(h, weight.astype(dtype), precision=precision) + bias[:, None].astype(dtype)
        h = jax.nn.relu(h) if number < len(layers) - 1 else h.astype(jnp.float32)
    return h


def gradients(function: Any) -> Any:
    """Loss, and its gradients by weights and, on its own, by inputs: the two passes that training makes."""

    def loss(layers: Any, x: Any, y: Any) -> Any:
        return jnp.mean((function(layers, x) - y) ** 2)

    both = [jax.value_and_grad(loss), jax.grad(loss, argnums=1)]
    return jax.jit(lambda *arrays: [jax.vmap(each)(*arrays) for each in both])


def errors(found: Any, exact: Any) -> list[float]:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True)
    return [float(jnp.linalg.norm((a - b).ravel()) / jnp.linalg.norm(b.ravel())) for a, b in pairs]


def check(shape: tuple[int, ...]) -> dict[str, Any]:
    arrays = make(*shape)
    exact = gradients(lambda layers, x: plain(layers, x, jnp.float32))(*arrays)
    began = time.perf_counter()
    fused = jax.block_until_ready(gradients(networks)(*arrays))
    compiling = time.perf_counter() - began
    again = gradients(networks)(*arrays)
    equal = all(bool((a == b).all()) for a, b in zip(jax.tree.leaves(fused), jax.tree.leaves(again), strict=True))
    ours, theirs = errors(fused, exact), errors(gradients(plain)(*arrays), exact)
    worst = max(a / max(b, 1e-4) for a, b in zip(ours, theirs, strict=True))
    row = {"shape": shape, "fused": max(ours), "plain": max(theirs), "worst_ratio": worst, "bit_equal": equal}
    print(row, flush=True)
    return row | {"first_call_seconds": round(compiling, 1)}


def compile_together(cases: list[tuple[str, int, str]], dataset: Any) -> dict[tuple[str, int, str], tuple[Any, float]]:
    """How to advance each (algorithm, agents, kernels), and its first call's seconds: the last alone, then all others at once.

    Data and agents are there by then: a first call is compiling, and one piece of a training.
    """

    def first_call(case: tuple[str, int, str]) -> tuple[Any, float]:
        advance = throughput.prepare(*case[:2], "bfloat16", dataset, Program, kernels=case[2])
        began = time.perf_counter()
        advance(1)
        return advance, time.perf_counter() - began

    largest = cases[-1]
    alone = first_call(largest)
    print(f"{largest} compiled alone in {alone[1]:.1f} s", flush=True)
    with ThreadPoolExecutor(16) as pool:
        others = pool.map(first_call, cases[:-1])
        return dict(zip(cases, [*others, alone], strict=True))


def compare(cases: list[tuple[str, int]], seconds: float, rounds: int) -> list[dict[str, Any]]:
    programs = [(*case, kernels) for case in cases for kernels in ("xla", "fused")]
    ready = compile_together(programs, throughput.make_dataset(200_000))
    rows = []
    for name, agents in cases:
        rates: dict[str, list[float]] = {"xla": [], "fused": []}
        for _, (kernels, found) in itertools.product(range(rounds), rates.items()):
            found.append(throughput.measure(ready[name, agents, kernels][0], name, agents, seconds)[0])
        for kernels, found in rates.items():
            rate = float(np.median(found))
            row = {"algorithm": name, "agents": agents, "kernels": kernels, "agent_updates_per_s": round(rate)}
            row |= {"rounds": [round(value) for value in found]} | throughput.roofline_share(name, "bfloat16", rate)
            rows.append(row | {"first_call_seconds": round(ready[name, agents, kernels][1], 1)})
            print(rows[-1], flush=True)
    return rows


def profile(cases: list[tuple[str, int]], updates: int = 200) -> list[dict[str, Any]]:
    ready = compile_together([(*case, "fused") for case in cases], throughput.make_dataset(200_000))
    rows = []
    for name, agents in cases:
        advance, spent, calls = ready[name, agents, "fused"][0], Counter[str](), Counter[str]()
        advance(updates)
        with tempfile.TemporaryDirectory() as folder:
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0
            began = time.perf_counter()
            with jax.profiler.trace(folder, profiler_options=options):
                advance(updates)
            wall = time.perf_counter() - began
            found = jax.profiler.ProfileData.from_file(str(next(Path(folder).rglob("*.xplane.pb"))))
        devices = [plane for plane in found.planes if plane.name.startswith("/device:GPU")]
        for event in (
            event for plane in devices for line in plane.lines if "Stream" in line.name for event in line.events
        ):
            spent[event.name] += event.duration_ns / 1e3 / updates
            calls[event.name] += 1
        kernels = [
            {"kernel": kernel, "us": round(us, 2), "calls": calls[kernel] / updates}
            for kernel, us in spent.most_common(60)
        ]
        rows.append({"algorithm": name, "agents": agents, "us_per_update": round(spent.total(), 1), "kernels": kernels})
        print(f"{name} x {agents}: {spent.total():.0f} us an update on the device, {wall / updates * 1e6:.0f} traced")
        for row in kernels[:25]:
            print(f"  {row['us']:8.2f} us in {row['calls']:6.2f} calls  {row['kernel']}", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "time", "profile"])
    parser.add_argument("--algorithms", nargs="+", default=["bc", "td3_bc", "iql", "cql"])
    parser.add_argument("--agents", nargs="+", type=int, default=[256])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.what == "check":
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # processes share the device
        with ProcessPoolExecutor(len(SHAPES), get_context("spawn")) as pool:
            rows = list(pool.map(check, SHAPES))
    else:
        pairs = itertools.product(arguments.algorithms, arguments.agents)
        cases = dict.fromkeys((name, min(agents, 64) if name == "cql" else agents) for name, agents in pairs)
        timed = arguments.what == "time"
        rows = compare(list(cases), arguments.seconds, arguments.rounds) if timed else profile(list(cases))
    about = {"device": jax.devices()[0].device_kind}
    print(f"wrote {record(f'kernels_{arguments.what}', ['upweight', 'jax', 'numpy'], rows, about=about)}")


if __name__ == "__main__":
    main()
