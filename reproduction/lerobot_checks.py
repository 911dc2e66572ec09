"""LeRobot: has our sampler the contract of its own, do batches follow the weights, and does its training do better by them?"""

import importlib.util
import inspect
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import upweight as uw
from reproduction.robots import run_script, script_of
from upweight.adapters.lerobot import WeightedEpisodeSampler
from upweight.cli.main import main as upweight

GOOD, EPISODES = 12, 60  # the others go the other way


def their_sampler() -> ModuleType:
    """The module of ``EpisodeAwareSampler``: the one file of LeRobot's datasets that needs no other package than torch."""
    package = importlib.util.find_spec("lerobot")
    if package is None or not package.submodule_search_locations:
        raise ImportError("lerobot is not installed")
    file = Path(package.submodule_search_locations[0]) / "datasets" / "sampler.py"
    spec = importlib.util.spec_from_file_location("lerobot_sampler", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spans(count: int, seed: int = 0) -> tuple[list[int], list[int]]:
    lengths = np.random.default_rng(seed).integers(20, 200, count)
    return (np.cumsum(lengths) - lengths).tolist(), np.cumsum(lengths).tolist()


def same_contract(folder: Path) -> dict[str, Any]:
    """Arguments, lengths, frames, states and resuming, side by side, for some hundred choices of options."""
    host, rng = their_sampler(), np.random.default_rng(0)
    theirs = inspect.signature(host.EpisodeAwareSampler.__init__).parameters
    ours = inspect.signature(WeightedEpisodeSampler.__init__).parameters
    assert list(ours)[: len(theirs)] == list(theirs) and set(ours) - set(theirs) == {"weights"}
    for seed in range(200):
        first, last = spans(10, seed)
        some = sorted(rng.permutation(10)[: rng.integers(2, 11)].tolist())
        options: dict[str, Any] = {"episode_indices_to_use": some if seed % 2 else None, "shuffle": True, "seed": seed}
        options |= {"drop_n_first_frames": int(rng.integers(0, 9)), "drop_n_last_frames": int(rng.integers(0, 9))}
        if options["episode_indices_to_use"] is not None:
            frames = [frame for number in some for frame in range(first[number], last[number])]
            options["absolute_to_relative_idx"] = {frame: place for place, frame in enumerate(frames)}
        one = host.EpisodeAwareSampler(first, last, **options)
        two = WeightedEpisodeSampler(first, last, **options, weights=np.ones(10))
        assert len(one) == len(two) and set(two) <= set(one.indices) == set(one)
        assert one.state_dict() == two.state_dict()
        batch_size, ranks = int(rng.integers(1, 40)), int(rng.integers(1, 5))
        state = host.compute_sampler_state(int(rng.integers(0, 400)), len(two), batch_size, ranks)
        for sampler in (one, two):
            sampler.set_epoch(state["epoch"])
            whole, following = list(sampler), list(sampler)
            sampler.load_state_dict(state)
            assert sampler.state_dict() == state
            assert list(sampler) == whole[state["start_index"] :] and list(sampler) == following
        assert one.state_dict() == two.state_dict()
    return {"choices_of_options": 200}


def time_of_an_epoch(folder: Path) -> dict[str, Any]:
    """300,000 frames of a million in 9,000 episodes, one index after the other, in turn; the best of three."""
    first, last = spans(9_000)
    theirs = their_sampler().EpisodeAwareSampler(first, last, shuffle=True)
    ours = WeightedEpisodeSampler(first, last, weights=np.random.default_rng(0).random(9_000))
    both = {"EpisodeAwareSampler": theirs, "WeightedEpisodeSampler": ours}
    seconds: dict[str, list[float]] = {name: [] for name in both}
    for _ in range(3):
        for name, sampler in both.items():
            began = time.perf_counter()
            assert sum(1 for _ in islice(sampler, 300_000)) == 300_000
            seconds[name].append(time.perf_counter() - began)
    best = {name: round(min(values) / 0.3, 3) for name, values in seconds.items()}
    return {
        "microseconds_per_frame": best,
        "of_uniform": round(best["WeightedEpisodeSampler"] / best["EpisodeAwareSampler"], 3),
    }


def create_mix(root: Path) -> Any:
    """A dataset that LeRobot wrote: the right action is the state of the environment, and poor episodes act against it."""
    from lerobot.datasets import LeRobotDataset

    vector = {"dtype": "float32", "shape": (3,), "names": ["x", "y", "z"]}
    flag = {"dtype": "bool", "shape": (1,), "names": None}
    features = {"observation.state": vector, "observation.environment_state": vector, "action": vector}
    dataset = LeRobotDataset.create("me/pick_place", 10, features | {"next.success": flag}, root=root, use_videos=False)
    rng = np.random.default_rng(0)
    for number in range(EPISODES):
        length = int(rng.integers(30, 60))
        place = rng.uniform(-1, 1, (length, 3)).astype(np.float32)
        for step in range(length):
            frame = {
                "observation.state": rng.normal(size=3).astype(np.float32),
                "observation.environment_state": place[step],
                "action": place[step] if number < GOOD else -place[step],
                "next.success": np.array([number < GOOD and step == length - 1]),
            }
            dataset.add_frame({**frame, "task": "pick and place"})
        dataset.save_episode()
    dataset.finalize()
    assert upweight(["weights", str(root), "--success", "success", "--in-place"]) == 0
    return dataset


def batches_follow_the_weights(folder: Path) -> dict[str, Any]:
    """A dataset that LeRobot wrote and reads, whole and in part, through a DataLoader."""
    from lerobot.datasets import LeRobotDataset
    from scipy.stats import chisquare
    from torch.utils.data import DataLoader

    root = folder / "pick_place"
    create_mix(root)
    weights, found = uw.ReturnWeighting(0.5)(uw.load(root, success="success")), {}
    for name, episodes in (("whole", None), ("part", [1, 5, 20, 21, 22, 40])):
        dataset = LeRobotDataset("me/pick_place", root=root, episodes=episodes)
        sampler = WeightedEpisodeSampler.for_dataset(dataset, weights, drop_n_last_frames=7, seed=1)
        drawn: list[int] = []
        for _ in range(2 if episodes is None else 20):
            drawn += [index for batch in DataLoader(dataset, 64, sampler=sampler) for index in batch["index"].tolist()]
        first, last = (np.array(dataset.meta.episodes[f"dataset_{end}_index"]) for end in ("from", "to"))
        mass = np.zeros(last[-1])
        for number in range(EPISODES) if episodes is None else episodes:
            mass[first[number] : last[number] - 7] = weights[number]
        counts = np.bincount(drawn, minlength=len(mass))
        assert not counts[mass == 0].any()
        p = float(chisquare(counts[mass > 0], len(drawn) * (mass / mass.sum())[mass > 0]).pvalue)
        assert p > 1e-3
        found[name] = {"frames": len(sampler), "drawn": len(drawn), "p_value": round(p, 4)}
    in_place = WeightedEpisodeSampler.for_dataset(LeRobotDataset("me/pick_place", root=root), seed=1)
    share = np.mean([frame < last[GOOD - 1] for frame in in_place])
    assert share > 0.99
    return {**found, "share_of_successes_with_meta_upweight_parquet": round(float(share), 4)}


def accelerate_deals_out_batches(folder: Path) -> dict[str, Any]:
    """Batches of several ranks, put together again, are those of one process."""
    from accelerate.data_loader import BatchSamplerShard
    from torch.utils.data import BatchSampler

    first, last = spans(10)

    def batches(rank: int, ranks: int) -> Iterable[list[int]]:
        sampler = WeightedEpisodeSampler(first, last, weights=np.arange(10.0), seed=3)
        return BatchSamplerShard(BatchSampler(sampler, 8, drop_last=False), num_processes=ranks, process_index=rank)

    alone = list(batches(0, 1))
    for ranks in (2, 4):
        dealt = [list(batches(rank, ranks)) for rank in range(ranks)]
        together = [batch for step in zip(*dealt, strict=True) for batch in step]
        assert together[: len(alone) - 1] == alone[:-1] and len({len(part) for part in dealt}) == 1
    theirs = their_sampler().EpisodeAwareSampler(first, last, shuffle=True, seed=3)
    ours = WeightedEpisodeSampler(first, last, weights=np.arange(10.0), seed=3)
    exact = {type(sampler).__name__: resumes_under_accelerate(sampler) for sampler in (theirs, ours)}
    assert exact["WeightedEpisodeSampler"]
    return {"ranks": [1, 2, 4], "batches": len(alone), "resumes_in_a_later_epoch": exact}


def resumes_under_accelerate(sampler: Any) -> bool:
    """Whether what a prepared loader gives after a restart in epoch 2 is the rest of that epoch, and epoch 3."""
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    orders = [list(sampler) for _ in range(4)]
    sampler.load_state_dict({"epoch": 2, "start_index": 16})
    loader = Accelerator(cpu=True).prepare(DataLoader(range(10**6), 8, sampler=sampler))
    given = [[index for batch in loader for index in batch.tolist()] for _ in range(2)]
    return given == [orders[2][16:], orders[3]]


def its_training_learns_what_is_good(folder: Path) -> dict[str, Any]:
    """The program of the page trains ACT, with weights and without; the error of what it learned on successful episodes."""
    import torch  # noqa: F401
    from lerobot.policies.act.modeling_act import ACTPolicy  # noqa: F401

    small = {
        "chunk_size": 4,
        "n_action_steps": 4,
        "dim_model": 32,
        "n_heads": 2,
        "dim_feedforward": 64,
        "use_vae": "false",
    }
    small |= {"n_encoder_layers": 1, "device": "cpu", "push_to_hub": "false", "optimizer_lr": 1e-3, "dropout": 0.0}
    options = ["--dataset.repo_id=me/pick_place", "--dataset.root=pick_place", "--policy.type=act", "--num_workers=0"]
    options += [f"--policy.{key}={value}" for key, value in small.items()]
    options += ["--steps=400", "--batch_size=32", "--save_freq=200", "--log_freq=100", "--seed=1"]
    text, errors = script_of("adapters/lerobot.md"), {}
    uniform = text.replace('weights="pick_place/meta/upweight.parquet"', f"weights=[1.0] * {EPISODES}")
    for name, program in (("uniform", uniform), ("rw", text)):
        run_script(program, folder, *options, f"--output_dir=trained_{name}")
        errors[name] = error_of_policy(folder / f"trained_{name}" / "checkpoints" / "000400", folder)
    assert errors["rw"] < 0.2 * errors["uniform"]
    again = ["--config_path=trained_rw/checkpoints/000200/pretrained_model/train_config.json", "--resume=true"]
    output = run_script(text, folder, *again)
    assert "Resuming data order at epoch" in output
    resumed = error_of_policy(folder / "trained_rw" / "checkpoints" / "000400", folder)
    assert np.isclose(resumed, errors["rw"], rtol=1e-4)  # to the frame: nothing else is random in this training
    return {
        "mean_squared_error_on_successful_episodes": {key: round(value, 5) for key, value in errors.items()},
        "resumed_at_step_200": round(resumed, 5),
    }


def error_of_policy(checkpoint: Path, folder: Path) -> float:
    """Of the first action that a checkpoint answers, on the frames of the successful episodes."""
    import torch
    from lerobot.policies import make_pre_post_processors
    from lerobot.policies.act.modeling_act import ACTPolicy

    path = str(checkpoint / "pretrained_model")
    policy = ACTPolicy.from_pretrained(path)
    before, after = make_pre_post_processors(policy.config, pretrained_path=path)
    data = uw.load(folder / "pick_place", observation_key="observation.environment_state")
    good = data.subset(np.arange(GOOD))
    state = torch.zeros(good.num_steps, 3)
    batch = {"observation.state": state, "observation.environment_state": torch.tensor(good.observations)}
    with torch.no_grad():
        actions = after(policy.predict_action_chunk(before(batch))[:, 0])
    return float(((actions.cpu().numpy() - good.actions) ** 2).mean())


CHECKS = (
    same_contract,
    time_of_an_epoch,
    batches_follow_the_weights,
    accelerate_deals_out_batches,
    its_training_learns_what_is_good,
)
