"""The fused kernels on a GPU: are they right, and how fast beside XLA's, in turn and in one process?

    python benchmarks/kernels.py check
    python benchmarks/kernels.py time --agents 1 16 64 256
    python benchmarks/kernels.py time --agents 64 --sizes 27 8 --name kernels_time_ant
    python benchmarks/kernels.py profile

``check`` compares outputs and all gradients with float32 products at full precision, beside plain bfloat16, for the shapes of our
tasks and odd ones; and two runs bit by bit. ``time`` measures agent-updates per second of whole updates, weighted sampling
included, as train_throughput.py does. CQL needs memory: it has 64 agents at most. ``profile`` says what the device's time goes
into: microseconds of one update in each kernel, ours and XLA's. Each case is a process: they compile at the same time, so that a
first call says how long one program takes only if there is one case, and then have the device in turn.
"""

import argparse
import itertools
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import train_throughput as throughput
from measure import record
from upweight.lab.train.kernels.networks import networks
from upweight.lab.train.nn import Linear
from upweight.lab.train.population import Program

# agents, networks of each, rows, inputs, hidden layers, outputs
SHAPES = [
    (512, 2, 256, 14, 2, 1),  # Hopper's critics
    (70, 1, 256, 11, 2, 3),
    (33, 2, 256, 23, 2, 1),  # HalfCheetah's and Walker2d's
    (33, 2, 256, 35, 2, 1),  # Ant's
    (9, 1, 256, 27, 3, 16),  # Ant's actor in CQL
    (9, 2, 31 * 256, 14, 3, 1),  # CQL
    (5, 2, 31 * 100, 23, 3, 1),
    (3, 2, 100, 35, 3, 1),  # odd batches
    (1, 1, 1, 63, 2, 16),
    (64, 2, 256, 73, 2, 1),  # wide inputs
    (16, 2, 256, 393, 2, 1),
    (3, 1, 100, 400, 3, 16),
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
    kernels = gradients(networks)
    fused = jax.block_until_ready(kernels(*arrays))
    compiling = time.perf_counter() - began
    again = kernels(*arrays)
    equal = all(bool((a == b).all()) for a, b in zip(jax.tree.leaves(fused), jax.tree.leaves(again), strict=True))
    ours, theirs = errors(fused, exact), errors(gradients(plain)(*arrays), exact)
    worst = max(a / max(b, 1e-4) for a, b in zip(ours, theirs, strict=True))
    row = {"shape": shape, "fused": max(ours), "plain": max(theirs), "worst_ratio": worst, "bit_equal": equal}
    print(row, flush=True)
    return row | {"first_call_seconds": round(compiling, 1)}


class Turns(NamedTuple):
    """What the processes of several cases share: programs compile side by side, and run one at a time."""

    compiled: Any
    lock: Any
    sizes: tuple[int, int]


TURNS: Turns  # in the process of a case


def share(turns: Turns) -> None:
    global TURNS
    TURNS = turns
    throughput.OBSERVATION, throughput.ACTION = turns.sizes


@contextmanager
def ready(name: str, agents: int, *kernels: str) -> Iterator[dict[str, tuple[Any, float]]]:
    """How to advance a case with each of the kernels, and its first call's seconds: compiling, and one piece of a training."""
    dataset, found = throughput.make_dataset(200_000), {}
    for each in kernels:
        advance = throughput.prepare(name, agents, "bfloat16", dataset, Program, kernels=each)
        began = time.perf_counter()
        advance(1)
        found[each] = advance, time.perf_counter() - began
    TURNS.compiled.wait(600)
    with TURNS.lock:
        yield found


def compare(case: tuple[str, int], seconds: float, rounds: int) -> list[dict[str, Any]]:
    (name, agents), rows = case, []
    with ready(name, agents, "xla", "fused") as programs:
        rates: dict[str, list[float]] = {kernels: [] for kernels in programs}
        for _, (kernels, (advance, _)) in itertools.product(range(rounds), programs.items()):
            rates[kernels].append(throughput.measure(advance, name, agents, seconds)[0])
    for kernels, found in rates.items():
        rate = float(np.median(found))
        row = {"algorithm": name, "agents": agents, "kernels": kernels, "agent_updates_per_s": round(rate)}
        row |= {"rounds": [round(value) for value in found]} | throughput.roofline_share(name, "bfloat16", rate)
        rows.append(row | {"first_call_seconds": round(programs[kernels][1], 1)})
        print(rows[-1], flush=True)
    return rows


def profile(case: tuple[str, int], updates: int = 200) -> list[dict[str, Any]]:
    (name, agents), spent, calls = case, Counter[str](), Counter[str]()
    with ready(name, agents, "fused") as programs, tempfile.TemporaryDirectory() as folder:
        advance, options = programs["fused"][0], jax.profiler.ProfileOptions()
        advance(updates)
        options.python_tracer_level = 0
        began = time.perf_counter()
        with jax.profiler.trace(folder, profiler_options=options):
            advance(updates)
        wall = time.perf_counter() - began
        found = jax.profiler.ProfileData.from_file(str(next(Path(folder).rglob("*.xplane.pb"))))
    devices = [plane for plane in found.planes if plane.name.startswith("/device:GPU")]
    lines = [line for plane in devices for line in plane.lines if "Stream" in line.name]
    for event in (event for line in lines for event in line.events):
        spent[event.name] += event.duration_ns / 1e3 / updates
        calls[event.name] += 1
    kernels = [
        {"kernel": kernel, "us": round(us, 2), "calls": calls[kernel] / updates} for kernel, us in spent.most_common(60)
    ]
    print(f"{name} x {agents}: {spent.total():.0f} us an update on the device, {wall / updates * 1e6:.0f} traced")
    for row in kernels[:25]:
        print(f"  {row['us']:8.2f} us in {row['calls']:6.2f} calls  {row['kernel']}", flush=True)
    return [{"algorithm": name, "agents": agents, "us_per_update": round(spent.total(), 1), "kernels": kernels}]


def in_processes(do: Any, cases: list[Any], sizes: tuple[int, int]) -> list[Any]:
    """Of each case in a process of its own."""
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # they share the device
    spawn = get_context("spawn")
    turns = Turns(spawn.Barrier(len(cases)), spawn.Lock(), sizes)
    with ProcessPoolExecutor(len(cases), spawn, share, (turns,)) as pool:
        return list(pool.map(do, cases))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["check", "time", "profile"])
    parser.add_argument("--algorithms", nargs="+", default=["bc", "td3_bc", "iql", "cql"])
    parser.add_argument("--agents", nargs="+", type=int, default=[256])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", nargs=2, type=int, help="of observations and actions (default: Hopper's)")
    parser.add_argument("--name", help="of the file of results (default: kernels_WHAT)")
    arguments = parser.parse_args()
    sizes = tuple(arguments.sizes or (throughput.OBSERVATION, throughput.ACTION))
    if arguments.what == "check":
        rows = in_processes(check, SHAPES, sizes)
    else:
        pairs = itertools.product(arguments.algorithms, arguments.agents)
        cases = dict.fromkeys((name, min(agents, 64) if name == "cql" else agents) for name, agents in pairs)
        timed = partial(compare, seconds=arguments.seconds, rounds=arguments.rounds)
        found = in_processes(timed if arguments.what == "time" else profile, list(cases), sizes)
        rows = [row for rows in found for row in rows]
    about = {"device": jax.devices()[0].device_kind, "sizes": sizes}
    name = arguments.name or f"kernels_{arguments.what}"
    print(f"wrote {record(name, ['upweight', 'jax', 'numpy'], rows, about=about)}")


if __name__ == "__main__":
    main()
