"""Updates per second of populations of agents, beside d3rlpy on the same device.

    python benchmarks/train_throughput.py --agents 1 16 64 256 512 --dtypes float32 bfloat16 --name train_throughput_h200
    python benchmarks/train_throughput.py --peer --rounds 5 --name train_throughput_cpu      # one agent against d3rlpy

Hopper-sized data (11 observations, 3 actions, 1M steps), batch 256, two hidden layers of 256 (CQL three), weighted sampling.
The roofline counts the operations of all matrix products and the bytes of parameters and optimiser state alone, as if
activations never left the chip; "share" is that time over the measured one.
"""

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import upweight as uw
from measure import record
from upweight.lab.train.population import Agents, Program
from upweight.lab.train.prepare import make_agents, make_data, make_parts, make_setup
from upweight.lab.train.run import algorithm_config
from upweight.lab.train.sampling import EpisodeLayout
from upweight.lab.train.schedule import make_schedule

OBSERVATION, ACTION = 11, 3
PEAKS = {  # device kind: (float32 as TF32, taken as half of bfloat16), bfloat16 and copy bandwidth as measured
    "NVIDIA H200": (395e12, 790e12, 4.3e12),
}


def make_dataset(steps: int, episode: int = 500) -> uw.Dataset:
    rng = np.random.default_rng(0)
    truncated = np.zeros(steps, bool)
    truncated[episode - 1 :: episode] = True
    observations = rng.normal(size=(steps + 1, OBSERVATION)).astype(np.float32)
    return uw.Dataset.from_arrays(
        observations=observations[:-1],
        next_observations=observations[:0:-1],
        actions=np.tanh(rng.normal(size=(steps, ACTION))).astype(np.float32),
        rewards=rng.normal(1, 1, steps).astype(np.float32),
        terminated=np.zeros(steps, bool),
        truncated=truncated,
    )


class UniformProgram(Program):
    """The same program with plain uniform draws, to price the weighted ones."""

    def _draw(self, agent: Agents, layout: EpisodeLayout, update: Any) -> Any:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(agent.seed), 1), update)
        total = layout.starts[-1] + layout.sizes[-1]
        return jax.random.randint(key, (self.config.batch_size,), 0, total.astype(np.int32)), None, None


def operations_and_bytes(name: str, config: Any) -> tuple[float, float]:
    """Floating-point operations and least bytes of one update of one agent."""
    widths = config.hidden_units
    inner = sum(a * b for a, b in itertools.pairwise(widths))
    actor_out = 2 * ACTION if name == "cql" else ACTION
    actor = OBSERVATION * widths[0] + inner + widths[-1] * actor_out
    critic = (OBSERVATION + ACTION) * widths[0] + inner + widths[-1]
    value = OBSERVATION * widths[0] + inner + widths[-1]
    batch = 2.0 * config.batch_size
    if name == "bc":
        return batch * 3 * actor, 24 * actor
    if name == "td3_bc":  # the actor's part every second update
        forward = actor + 2 * critic + 3 * 2 * critic + 0.5 * (3 * actor + 2 * critic)
        return batch * forward, 24 * 2 * critic + 0.5 * (24 * actor + 8 * (actor + 2 * critic))
    if name == "iql":
        return batch * (5 * value + 8 * critic + 3 * actor), 24 * (2 * critic + value + actor) + 8 * 2 * critic
    rows = 3 * config.action_samples + 1
    return batch * (2 * rows * 3 * critic + 6 * critic + 5 * actor), 24 * (2 * critic + actor) + 8 * 2 * critic


def roofline_share(name: str, dtype: str, rate: float) -> dict[str, float]:
    """Of the agent-updates per second that operations and bytes alone would allow; empty on devices not measured."""
    kind = jax.devices()[0].device_kind
    if kind not in PEAKS:
        return {}
    f32, bf16, bandwidth = PEAKS[kind]
    operations, least = operations_and_bytes(name, algorithm_config(name))
    floor = max(operations / (bf16 if dtype == "bfloat16" else f32), least / bandwidth)
    return {"share_of_roofline": round(floor * rate, 3)}


def prepare(
    name: str, agents: int, dtype: str, dataset: uw.Dataset, kind: type[Program], kernels: str = "auto", **changes: Any
) -> Any:
    """A function that advances a population by ``n`` updates and waits, and the seconds its compilation took."""
    config = algorithm_config(name, **changes)
    runs = [uw.Run(config, uw.ReturnWeighting(0.1 + 0.01 * (seed % 10)), seed) for seed in range(agents)]
    setup = make_setup(dataset, dtype, kernels)
    method = runs[0].method
    data = make_data(dataset, method, setup)
    stacked = make_agents(runs, make_parts(dataset, runs), setup, 1_000_000)
    program = kind(method, config, setup)
    schedule = make_schedule(1_000_000, None, method, config, agents)  # pieces as a training makes them
    box = {"progress": program.start(stacked), "done": 0}

    def advance(count: int) -> None:
        for piece in itertools.islice(schedule.pieces(box["done"]), max(1, count // schedule.piece)):
            box["progress"], box["done"] = program.advance(box["progress"], stacked, data, piece), piece.end
        jax.block_until_ready(box["progress"])

    return advance


def measure(advance: Any, name: str, agents: int, seconds: float) -> tuple[float, float]:
    """Agent-updates per second and seconds to compile."""
    count = 1000 if agents <= 16 or name == "bc" else 100  # updates per call; a training makes calls of thousands
    began = time.perf_counter()
    advance(count)
    first = time.perf_counter() - began
    rates, spent = [], 0.0
    while spent < seconds or len(rates) < 3:
        began = time.perf_counter()
        advance(count)
        spent += (elapsed := time.perf_counter() - began)
        rates.append(agents * count / elapsed)
    rate = float(np.median(rates))
    return rate, max(0.0, first - agents * count / rate)


def d3rlpy_step(name: str, dataset: uw.Dataset, device: str, hidden: list[int], compile_graph: bool) -> Any:
    """One of d3rlpy's own inner steps: draw a batch, update."""
    import d3rlpy

    steps = min(dataset.num_steps, 100_000)
    buffer = d3rlpy.dataset.MDPDataset(
        dataset.observations[:steps],
        dataset.actions[:steps],
        dataset.rewards[:steps],
        dataset.terminated[:steps],
        dataset.truncated[:steps],
    )
    factory = d3rlpy.models.encoders.VectorEncoderFactory(hidden)
    options: dict[str, Any] = {"batch_size": 256, "compile_graph": compile_graph}
    if name == "bc":
        config = d3rlpy.algos.BCConfig(encoder_factory=factory, **options)
    else:
        kinds = {"td3_bc": d3rlpy.algos.TD3PlusBCConfig, "iql": d3rlpy.algos.IQLConfig, "cql": d3rlpy.algos.CQLConfig}
        options |= {"actor_encoder_factory": factory, "critic_encoder_factory": factory}
        if name == "iql":
            options["value_encoder_factory"] = factory
        config = kinds[name](**options)
    algo = config.create(device=device)
    algo.build_with_dataset(buffer)

    def advance(count: int) -> None:
        for _ in range(count):
            algo.update(buffer.sample_transition_batch(256))

    return advance


def time_rounds(tasks: dict[str, tuple[Any, int]], rounds: int) -> dict[str, float]:
    """Median updates per second of each (advance, count), all in turn in every round."""
    rates: dict[str, list[float]] = {name: [] for name in tasks}
    for advance, count in tasks.values():
        advance(count)
    for _ in range(rounds):
        for name, (advance, count) in tasks.items():
            began = time.perf_counter()
            advance(count)
            rates[name].append(count / (time.perf_counter() - began))
    return {name: float(np.median(values)) for name, values in rates.items()}


def compare_with_d3rlpy(
    arguments: argparse.Namespace, dataset: uw.Dataset, results: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """One agent of ours against d3rlpy with equal networks, interleaved; added to ``results``."""
    device = "cpu" if jax.default_backend() == "cpu" else "cuda:0"
    counts = {"bc": (400, 200), "td3_bc": (200, 100), "iql": (200, 100), "cql": (20, 20)}
    if device != "cpu":
        counts = dict.fromkeys(counts, (2000, 200))
    for name in arguments.algorithms:
        hidden = [256, 256, 256] if name == "cql" else [256, 256]
        ours, theirs = counts[name]
        tasks = {
            "upweight": (prepare(name, 1, "float32", dataset, Program), ours),
            "d3rlpy": (d3rlpy_step(name, dataset, device, hidden, False), theirs),
        }
        if device != "cpu":
            tasks["d3rlpy, compile_graph"] = (d3rlpy_step(name, dataset, device, hidden, True), theirs)
        rates = time_rounds(tasks, arguments.rounds)
        ratio = rates["upweight"] / max(rate for peer, rate in rates.items() if peer != "upweight")
        print(
            f"{name:8} one agent:",
            ", ".join(f"{k} {v:,.1f}/s" for k, v in rates.items()),
            f"-> {ratio:.2f} x",
            flush=True,
        )
        for peer, rate in rates.items():
            results.append(
                {"algorithm": name, "agents": 1, "dtype": "float32", "who": peer, "agent_updates_per_s": round(rate, 1)}
            )
        write(arguments, results)
    return results


def sweep(arguments: argparse.Namespace, dataset: uw.Dataset) -> list[dict[str, Any]]:
    results = []
    for name in arguments.algorithms:
        for dtype in arguments.dtypes:
            for agents in arguments.agents:
                rate, compiled = measure(
                    prepare(name, agents, dtype, dataset, Program), name, agents, arguments.seconds
                )
                result: dict[str, Any] = {
                    "algorithm": name,
                    "agents": agents,
                    "dtype": dtype,
                    "who": "upweight",
                    "agent_updates_per_s": round(rate, 1),
                    "compile_seconds": round(compiled, 1),
                }
                operations, least = operations_and_bytes(name, algorithm_config(name))
                result |= {"operations_per_update": operations, "least_bytes_per_update": least}
                result |= roofline_share(name, dtype, rate)
                if agents in arguments.price_sampling and dtype == "float32":
                    plain, _ = measure(
                        prepare(name, agents, dtype, dataset, UniformProgram), name, agents, arguments.seconds
                    )
                    result["uniform_agent_updates_per_s"] = round(plain, 1)
                    result["weighted_over_uniform"] = round(rate / plain, 3)
                results.append(result)
                extras = {k: result[k] for k in ("share_of_roofline", "weighted_over_uniform") if k in result}
                line = f"{name:8} {dtype:9} {agents:4} agents: {rate:12,.0f} agent-updates/s, compile {compiled:.1f} s"
                print(line, extras or "", flush=True)
                write(arguments, results)  # after each, so that nothing measured is lost
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithms", nargs="+", default=["bc", "td3_bc", "iql", "cql"])
    parser.add_argument("--agents", nargs="*", type=int, default=[])
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument(
        "--price-sampling", nargs="*", type=int, default=[], help="agent counts at which to time uniform draws too"
    )
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=3.0, help="to measure for")
    parser.add_argument("--peer", action="store_true", help="compare one agent with d3rlpy")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--name", default="train_throughput")
    arguments = parser.parse_args()
    dataset = make_dataset(arguments.steps)
    results = sweep(arguments, dataset) if arguments.agents else []
    if arguments.peer:
        compare_with_d3rlpy(arguments, dataset, results)
    print(f"wrote {write(arguments, results)}")


def write(arguments: argparse.Namespace, results: list[dict[str, Any]]) -> Path:
    device = jax.devices()[0]
    about = {"device": device.device_kind, "backend": jax.default_backend(), "matmul_precision": "default"}
    return record(arguments.name, ["upweight", "jax", "optax", "numpy", "torch", "d3rlpy"], results, about=about)


if __name__ == "__main__":
    main()
