"""Cost of drawing weighted step indices, beside the ways people do it today.

    python benchmarks/sampling.py

Targets: 256 indices at most 3 times, 65,536 at most 5 times the cost of `rng.integers`, whatever the dataset's size.
Peers that are not installed or refuse the size are listed as such.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import upweight as uw
from measure import interleaved, record

# (steps, episodes): Hopper-random-like, replay-like, and a large log
SIZES = [(1_700_000, 45_000), (17_000_000, 17_000), (100_000_000, 100_000)]
BATCHES = [256, 65_536]
LIMITS = {256: 3.0, 65_536: 5.0}
MAX_PER_STEP = 20_000_000  # methods that keep a number per step are left out above this
Task = Callable[[], object]


def build(steps: int, episodes: int, batch: int) -> tuple[dict[str, Task], dict[str, str]]:
    """All methods that run at this size, and why the others do not."""
    rng = np.random.default_rng(0)
    cuts = np.sort(rng.choice(steps - 1, episodes - 1, replace=False)) + 1
    lengths = np.diff(np.concatenate([[0], cuts, [steps]]))
    weights = uw.resolve_weights(rng.random(episodes) ** 10, _Fake(episodes))
    sampler = uw.EpisodeSampler.from_lengths(lengths, weights)
    tasks: dict[str, Task] = {
        "rng.integers (uniform)": lambda: rng.integers(0, steps, batch),
        "upweight EpisodeSampler": lambda: sampler.sample(rng, batch),
    }
    refused: dict[str, str] = {}
    if steps > MAX_PER_STEP:
        for name in ("upweight StepSampler", "np.searchsorted on a step CDF", "rng.choice(p=)", *PEERS):
            refused[name] = "keeps a number per step: left out at this size"
        return tasks, refused
    p = sampler.probabilities()
    by_step = uw.StepSampler.from_weights(p)
    cdf = np.cumsum(p)
    tasks["upweight StepSampler"] = lambda: by_step.sample(rng, batch)
    tasks["np.searchsorted on a step CDF"] = lambda: np.searchsorted(cdf, rng.random(batch) * cdf[-1])
    tasks["rng.choice(p=)"] = lambda: rng.choice(steps, batch, p=p)
    for name, make in PEERS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                task = make(p, batch)
                task()
        except Exception as error:
            refused[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        else:
            tasks[name] = task
    return tasks, refused


class _Fake:
    """Only what resolve_weights looks at."""

    def __init__(self, episodes: int) -> None:
        self.num_episodes, self.source = episodes, "benchmark"


def torch_multinomial(p: np.ndarray, batch: int) -> Task:
    import torch

    weights = torch.as_tensor(p)
    return lambda: torch.multinomial(weights, batch, replacement=True)


def torch_weighted_random_sampler(p: np.ndarray, batch: int) -> Task:
    from torch.utils.data import WeightedRandomSampler

    sampler = WeightedRandomSampler(p, batch)  # type: ignore[arg-type]
    return lambda: list(sampler)


def torchrl_prioritized_sampler(p: np.ndarray, batch: int) -> Task:
    import torch
    from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer  # type: ignore[import-not-found]

    buffer = TensorDictPrioritizedReplayBuffer(alpha=1.0, beta=0.0, storage=LazyTensorStorage(len(p)), batch_size=batch)
    from tensordict import TensorDict  # type: ignore[import-not-found]

    buffer.extend(TensorDict({"x": torch.arange(len(p))}, [len(p)]))
    buffer.update_priority(torch.arange(len(p)), torch.as_tensor(p * len(p)) + 1e-6)
    return lambda: buffer.sampler.sample(buffer.storage, batch)


def cpprb_prioritized(p: np.ndarray, batch: int) -> Task:
    from cpprb import PrioritizedReplayBuffer  # type: ignore[import-not-found]

    buffer = PrioritizedReplayBuffer(len(p), {"index": {"dtype": np.int64}}, alpha=1.0)
    for first in range(0, len(p), 100_000):
        part = p[first : first + 100_000]
        buffer.add(index=np.arange(first, first + len(part)), priorities=part * len(p) + 1e-12)
    return lambda: buffer.sample(batch, beta=0.0)["index"]


PEERS: dict[str, Callable[[np.ndarray, int], Task]] = {
    "torch.multinomial": torch_multinomial,
    "torch WeightedRandomSampler": torch_weighted_random_sampler,
    "TorchRL PrioritizedSampler": torchrl_prioritized_sampler,
    "cpprb PrioritizedReplayBuffer": cpprb_prioritized,
}


def main() -> None:
    results: list[dict[str, Any]] = []
    for steps, episodes in SIZES:
        for batch in BATCHES:
            tasks, refused = build(steps, episodes, batch)
            seconds = interleaved(tasks, rounds=31)
            base = seconds["rng.integers (uniform)"]
            print(f"\n{batch:,} indices of {steps:,} steps in {episodes:,} episodes")
            for name, value in sorted(seconds.items(), key=lambda item: item[1]):
                print(f"  {name:32} {1e6 * value:12,.1f} us {value / base:10,.2f} x")
                results.append(
                    {
                        "steps": steps,
                        "episodes": episodes,
                        "batch": batch,
                        "method": name,
                        "microseconds": round(1e6 * value, 3),
                        "ratio_to_uniform": round(value / base, 3),
                    }
                )
            for name, why in refused.items():
                print(f"  {name:32} {'-':>12}    {why}")
                results.append({"steps": steps, "episodes": episodes, "batch": batch, "method": name, "refused": why})
            ratio = seconds["upweight EpisodeSampler"] / base
            verdict = "reached" if ratio <= LIMITS[batch] else "MISSED"
            print(f"  target {LIMITS[batch]:g} x: {verdict} ({ratio:.2f})")
    print(f"wrote {record('sampling', ['upweight', 'numpy', 'torch', 'torchrl', 'cpprb'], results)}")


if __name__ == "__main__":
    main()
