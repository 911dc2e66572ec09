"""Critics of given policies (fitted Q evaluation) trained per second, beside d3rlpy's FQE and a plain loop in PyTorch.

    python benchmarks/fqe_throughput.py --critics 1 5 20 --rounds 2 --critic-updates 6000 --name fqe_throughput_cpu
    python benchmarks/fqe_throughput.py --critics 5 50 500 --dtypes float32 bfloat16 --critic-updates 3000000 \\
        --peer-updates 2000 --rounds 2 --name fqe_throughput_h200

Hopper-sized data (11 observations, 3 actions), batch 256, two hidden layers of 256, deterministic policies of two layers of 256,
five critics per policy. Ours is the whole of ``evaluate_policies`` but for compiling: draws, updates, and the estimates at 1,000
starting states. Where d3rlpy is not installed, the plain loop stands for it: it does the same with less around it.
"""

import argparse
import importlib.util
import itertools
import os
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import upweight as uw
from measure import record
from train_throughput import ACTION, OBSERVATION, make_dataset
from upweight.base.progress import listening
from upweight.lab.select.fqe import evaluate_policies

SEEDS, BATCH, HIDDEN, UPDATES_OF_A_CRITIC = 5, 256, 256, 60_000


def make_policies(count: int) -> list[uw.Policy]:
    rng, widths = np.random.default_rng(0), (OBSERVATION, HIDDEN, HIDDEN, ACTION)

    def layer(inputs: int, outputs: int) -> tuple[Any, Any]:
        weight = rng.normal(size=(inputs, outputs)) / inputs**0.5
        return weight.astype(np.float32), np.zeros(outputs, np.float32)

    shared = {
        "observation_mean": np.zeros(OBSERVATION, np.float32),
        "observation_scale": np.ones(OBSERVATION, np.float32),
    }
    bounds = {"action_low": -np.ones(ACTION, np.float32), "action_high": np.ones(ACTION, np.float32)}
    pairs = list(itertools.pairwise(widths))
    return [uw.Policy("deterministic", tuple(layer(*pair) for pair in pairs), **shared, **bounds) for _ in range(count)]


def ours(dataset: uw.Dataset, critics: int, updates: int, dtype: str) -> float:
    """Critic-updates per second, from the first chunk (which compiles) to the end."""
    seen: list[tuple[float, int]] = []

    def listener(_: str, done: int, total: int, detail: str) -> None:
        seen.append((time.perf_counter(), done))

    seeds = min(SEEDS, critics)
    with listening(listener):
        evaluate_policies(
            dataset, make_policies(critics // seeds), seeds=range(seeds), updates=updates, precision=dtype
        )
        seen.append((time.perf_counter(), updates))
    (began, first), (ended, last) = seen[1], seen[-1]
    return critics * (last - first) / (ended - began)


def d3rlpy_step(dataset: uw.Dataset, device: str) -> Callable[[], object]:
    """One of d3rlpy's own inner steps: draw a batch, update."""
    import d3rlpy

    factory = d3rlpy.models.encoders.VectorEncoderFactory([HIDDEN, HIDDEN])
    buffer = d3rlpy.dataset.MDPDataset(
        dataset.observations, dataset.actions, dataset.rewards, dataset.terminated, dataset.truncated
    )
    policy = d3rlpy.algos.BCConfig(encoder_factory=factory).create(device=device)
    policy.build_with_dataset(buffer)
    critic = d3rlpy.ope.FQE(policy, d3rlpy.ope.FQEConfig(encoder_factory=factory, batch_size=BATCH), device=device)
    critic.build_with_dataset(buffer)
    return lambda: critic.update(buffer.sample_transition_batch(BATCH))


def torch_step(dataset: uw.Dataset, device: str) -> Callable[[], object]:
    """The same update as ours in plain PyTorch, with the data on the device."""
    import torch

    def network(inputs: int, outputs: int) -> Any:
        relu, linear = torch.nn.ReLU, torch.nn.Linear
        return torch.nn.Sequential(
            linear(inputs, HIDDEN), relu(), linear(HIDDEN, HIDDEN), relu(), linear(HIDDEN, outputs)
        ).to(device)

    columns = (dataset.observations, dataset.actions, dataset.rewards, dataset.next_observations, dataset.terminated)
    here, acted, rewards, following, ended = (torch.tensor(np.array(c, np.float32), device=device) for c in columns)
    policy, critic, target = network(OBSERVATION, ACTION), *(network(OBSERVATION + ACTION, 1) for _ in range(2))
    optimiser = torch.optim.AdamW(critic.parameters(), lr=3e-4, weight_decay=1e-5)

    def step() -> None:
        rows = torch.randint(len(here), (BATCH,), device=device)
        with torch.no_grad():
            after = target(torch.cat([following[rows], torch.tanh(policy(following[rows]))], 1))[:, 0]
            wanted = (rewards[rows] + 0.99 * (1 - ended[rows]) * after).clamp(-500, 500)
        loss = ((critic(torch.cat([here[rows], acted[rows]], 1))[:, 0] - wanted) ** 2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            for old, new in zip(target.parameters(), critic.parameters(), strict=True):
                old.lerp_(new, 0.005)

    return step


def peers(dataset: uw.Dataset) -> dict[str, Callable[[], object]]:
    device = "cpu" if jax.default_backend() == "cpu" else "cuda:0"
    found = {"torch": torch_step(dataset, device)} if importlib.util.find_spec("torch") else {}
    if importlib.util.find_spec("d3rlpy"):
        found["d3rlpy"] = d3rlpy_step(dataset, device)
    return found


def rate_of(step: Callable[[], object], count: int, threads: int) -> float:
    """Updates per second with so many threads; on a GPU the last one is waited for."""
    import torch

    torch.set_num_threads(threads)
    step()
    began = time.perf_counter()
    for _ in range(count):
        step()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return count / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--critics", nargs="+", type=int, default=[1, 10])
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument("--steps", type=int, default=200_000, help="of the dataset")
    parser.add_argument("--critic-updates", type=int, default=4000, help="to measure, in all critics of a population")
    parser.add_argument("--peer-updates", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3, help="of which each tries all in turn; the best counts")
    parser.add_argument("--name", default="fqe_throughput")
    arguments = parser.parse_args()
    dataset = make_dataset(arguments.steps, episode=arguments.steps // 1000)
    others = peers(dataset)
    best: dict[tuple[str, int, str], float] = {}
    for _ in range(arguments.rounds):
        threads = {1, os.cpu_count() or 1}  # whichever is faster: several fight where cores are busy
        rates = {
            (name, 1, "float32"): max(rate_of(step, arguments.peer_updates, each) for each in threads)
            for name, step in others.items()
        }
        for critics in arguments.critics:
            updates = min(20_000, max(100, arguments.critic_updates // critics // 100 * 100))
            rates |= {("upweight", critics, d): ours(dataset, critics, updates, d) for d in arguments.dtypes}
        best |= {key: max(rate, best.get(key, 0.0)) for key, rate in rates.items()}
    results = []
    slowest = {name: rate for (name, _, _), rate in best.items() if name != "upweight"}
    for (name, critics, dtype), rate in best.items():
        row: dict[str, Any] = {"who": name, "critics": critics, "dtype": dtype, "critic_updates_per_s": round(rate, 1)}
        row["critics_per_hour"] = round(3600 * rate / UPDATES_OF_A_CRITIC, 2)
        row |= {f"over_{other}": round(rate / theirs, 2) for other, theirs in slowest.items() if name == "upweight"}
        results.append(row)
        print(row, flush=True)
    device = jax.devices()[0]
    about = {"device": device.device_kind, "backend": jax.default_backend(), "updates_of_a_critic": UPDATES_OF_A_CRITIC}
    print(
        f"wrote {record(arguments.name, ['upweight', 'jax', 'optax', 'numpy', 'torch', 'd3rlpy'], results, about=about)}"
    )


if __name__ == "__main__":
    main()
