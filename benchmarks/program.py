"""What XLA makes of an update on an H200, without one: the passes over memory of the loop over updates, the largest first.

    pip install "jax[cuda13]==0.11.2"
    JAX_PLATFORMS=cpu JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 python benchmarks/program.py td3_bc iql

The program that training runs is compiled ahead of time for the GPU described below, in half a minute. For each pass: what it
reads and writes, and how long that takes of an update at the bandwidth that Adam's passes reach there. Kernels of our own compute
besides, so that theirs is a bound. XLA's mostly reach it, but not where a sum over rows is merged with something larger: look for
a "reduce" in the name of a large one. What an H200 itself had compiled for TD3+BC was the same, pass by pass.
"""

import argparse
import math
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

import train_throughput as throughput
import upweight as uw
from measure import record
from upweight.lab.train.algorithm import find_algorithm
from upweight.lab.train.population import Program
from upweight.lab.train.prepare import make_agents, make_data, make_parts, make_setup
from upweight.lab.train.run import algorithm_config
from upweight.lab.train.schedule import make_schedule

CORES, BANDWIDTH = 132, 4.1e12  # multiprocessors; bytes a second, as Adam's passes reach them
H200 = f"""
platform_name: "CUDA"
device_description_str: "NVIDIA H200"
dnn_version_info {{ major: 9 minor: 12 }}
gpu_device_info {{
  core_count: {CORES} fpus_per_core: 128 clock_rate_ghz: 1.98 threads_per_warp: 32
  threads_per_block_limit: 1024 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448 shared_memory_per_core: 233472
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  memory_bandwidth: 4916640000000 l2_cache_size: 62914560 device_memory_size: 149650000000
  cuda_compute_capability {{ major: 9 minor: 0 }}
}}
"""
_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f32": 4, "s32": 4, "u32": 4, "s64": 8, "u64": 8}
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "while", "conditional"}


class Instruction(NamedTuple):
    name: str
    shapes: str
    kind: str
    arguments: str
    rest: str

    @property
    def operands(self) -> list[str]:
        return re.findall(r"%([\w.#-]+)", self.arguments)

    @property
    def label(self) -> str:
        """With the name of the kernel, where it is one of ours."""
        kernel = re.search(r"mlp_(?:forward|backward_to_inputs|backward|weight_gradient)", self.rest)
        return f"{self.name} ({kernel[0]})" if kernel else self.name


def compile_for_h200(name: str, agents: int, kernels: str) -> tuple[str, int]:
    """The optimised program, and the updates in one step of its loop."""
    target = topologies.get_topology_desc("", "cuda", target_config=H200, topology="1x1x1")
    place = SingleDeviceSharding(target.devices[0])
    method, config, dataset = find_algorithm(name), algorithm_config(name), throughput.make_dataset(200_000)
    runs = [uw.Run(config, uw.ReturnWeighting(), seed) for seed in range(agents)]
    with (
        patch("upweight.lab.train.kernels.choice.obstacle", return_value=None),
        patch("jax.default_backend", return_value="gpu"),
        patch("jax.devices", return_value=[SimpleNamespace(core_count=CORES)]),
    ):
        setup = make_setup(dataset, "bfloat16", kernels)
        program = Program(method, config, setup)
        data, stacked = (
            make_data(dataset, method, setup),
            make_agents(runs, make_parts(dataset, runs), setup, 1_000_000),
        )
        progress = jax.eval_shape(lambda: program.start(stacked))
        interval = jax.eval_shape(lambda begun: program.begin_interval(begun, stacked, data), progress)
        given = (progress._replace(interval=None), interval, stacked, data, jnp.int32(0), jnp.bool(False))
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place), given)
        count = make_schedule(1_000_000, None, method, config, agents).piece
        lowered = program._advance.trace(*shapes, count=count).lower()
    return lowered.compile().as_text(), max(2 if setup.compute.fused else 1, program.period)


def computations(text: str) -> dict[str, list[Instruction]]:
    found: dict[str, list[Instruction]] = {}
    here: list[Instruction] = []
    for line in text.splitlines():
        if head := re.match(r"(?:ENTRY )?%([\w.-]+) \(.*\) -> .* \{", line):
            here = found.setdefault(head[1], [])
        elif body := re.match(r"\s+(?:ROOT )?%([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*?)\)(.*)", line):
            here.append(Instruction(*body.groups()))
    return found


def size(shapes: str) -> int:
    parts = re.findall(r"\b(\w+)\[([\d,]*)\]", shapes)
    return sum(_BYTES.get(kind, 0) * math.prod(int(number) for number in of.split(",") if number) for kind, of in parts)


def passes(text: str) -> Iterator[tuple[str, int, int, str]]:
    """(name, bytes read, bytes written, what is written) of the loop with the most instructions."""
    found = computations(text)
    loops = [
        re.search(r"body=%([\w.-]+)", each.rest) for body in found.values() for each in body if each.kind == "while"
    ]
    body = max((found[loop[1]] for loop in loops if loop), key=len)
    shapes = {each.name: each.shapes for each in body}
    for each in body:
        for place, (kind, of) in enumerate(re.findall(r"\b(\w+)\[([\d,]*)\]", each.shapes)):
            shapes[f"{each.name}#{place}"] = f"{kind}[{of}]"
    for each in body:
        if each.kind not in _FREE:
            called = re.search(r"calls=%([\w.-]+)", each.rest)
            inside = found[called[1]] if called else []
            read = sum(_read(place, size(shapes[name]), inside) for place, name in enumerate(each.operands))
            yield each.label, read, size(each.shapes), re.sub(r"\{[^}]*\}", "", each.shapes)


def _read(place: int, whole: int, inside: list[Instruction]) -> int:
    """Bytes of an operand; of one that is only sliced or gathered from, those that are taken."""
    names = {each.name for each in inside if each.kind == "parameter" and each.arguments == str(place)}
    uses = [each for each in inside if names & set(each.operands)]
    if not uses or any(each.kind not in ("slice", "dynamic-slice", "gather") for each in uses):
        return whole
    return min(whole, sum(size(each.shapes) for each in uses))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", default=["bc", "td3_bc", "iql", "cql"])
    parser.add_argument("--kernels", choices=["fused", "xla"], default="fused")
    parser.add_argument("--most", type=int, default=20, help="passes to show")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in arguments.algorithms:
        text, updates = compile_for_h200(name, 64 if name == "cql" else 256, arguments.kernels)
        found = sorted(passes(text), key=lambda row: -row[1] - row[2])
        total = sum(read + written for _, read, written, _ in found) / updates
        print(f"{name}: {total / 1e6:,.0f} MB an update, {total / BANDWIDTH * 1e6:,.0f} us", flush=True)
        for label, read, written, what in found[: arguments.most]:
            us = (read + written) / updates / BANDWIDTH * 1e6
            print(f"  {us:7.1f} us  {read / 1e6:8.1f} MB read {written / 1e6:8.1f} written  {label} -> {what[:90]}")
            rows.append({"algorithm": name, "pass": label, "read": read, "written": written, "updates": updates})
    print(f"wrote {record(f'program_{arguments.kernels}', ['upweight', 'jax'], rows)}")


if __name__ == "__main__":
    main()
