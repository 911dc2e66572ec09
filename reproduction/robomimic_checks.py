"""robomimic: is its file read as it reads it, do its batches follow the weights, and does its training do better by them?"""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy.stats import chisquare

import upweight as uw
from reproduction.robots import run_script, script_of
from upweight.adapters.robomimic import draw_by_weight

GOOD = 12  # of 60 demonstrations; the others go the other way
OBS = ["object", "robot0_eef_pos"]


def write_mix(path: Path) -> Path:
    """Demonstrations of a task where the right action is the object's place; poor ones act against it, and earn nothing."""
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {}})
        for number in range(60):
            length = int(rng.integers(30, 60))
            demo, place = data.create_group(f"demo_{number}"), rng.uniform(-0.8, 0.8, (length + 1, 3))
            demo.attrs["num_samples"] = length
            demo["actions"] = place[:-1] if number < GOOD else -place[:-1]
            demo["rewards"] = np.arange(length) >= (length - 3 if number < GOOD else length)
            demo["dones"] = (np.arange(length) == length - 1).astype(np.int64)
            demo["states"] = np.zeros((length, 4))
            for name, key in (("object", place), ("robot0_eef_pos", rng.normal(size=(length + 1, 3)))):
                demo[f"obs/{name}"], demo[f"next_obs/{name}"] = key[:-1], key[1:]
        names = [f"demo_{number}" for number in rng.permutation(60)]
        file["mask/train"], file["mask/valid"] = np.array(names[:50], "S"), np.array(names[50:], "S")
        data.attrs["total"] = sum(int(data[name].attrs["num_samples"]) for name in data)
    return path


def sequences(path: Path, **options: Any) -> Any:
    import robomimic.utils.obs_utils as ObsUtils
    from robomimic.utils.dataset import SequenceDataset

    ObsUtils.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": OBS}})
    keys = ["actions", "rewards", "dones"]
    return SequenceDataset(str(path), OBS, keys, hdf5_cache_mode="low_dim", hdf5_use_swmr=False, **options)


def same_steps(folder: Path) -> dict[str, Any]:
    """Every step of its dataset, beside ours."""
    path = write_mix(folder / "low_dim.hdf5")
    theirs, ours = sequences(path), uw.load(path)
    batch = ours.transitions(np.arange(ours.num_steps))
    for step in range(len(theirs)):
        item = theirs[step]
        for found, arrays in ((batch.observations, item["obs"]), (batch.next_observations, item["next_obs"])):
            np.testing.assert_array_equal(found[step], np.concatenate([arrays[name][0] for name in OBS]))
        np.testing.assert_allclose(batch.actions[step], item["actions"][0], rtol=1e-6)
        assert batch.rewards[step] == item["rewards"][0] and batch.terminated[step] == item["dones"][0]
    assert len(theirs) == ours.num_steps
    return {"steps": ours.num_steps, "demonstrations": ours.num_episodes}


def batches_follow_the_weights(folder: Path) -> dict[str, Any]:
    """Sequences of a mask, without padding, through a DataLoader with worker processes."""
    from torch.utils.data import DataLoader

    path = folder / "low_dim.hdf5"
    options = {"filter_by_attribute": "train", "seq_length": 5, "pad_seq_length": False}
    trainset = draw_by_weight(sequences(path, **options), uw.ReturnWeighting(0.5), seed=1)
    train = uw.load(path, masks="train")
    weights, sizes = uw.ReturnWeighting(0.5)(train), train.lengths - 4
    first = {tuple(row): number for number, row in enumerate(train.observations[:, :3].astype(np.float32).tolist())}
    starts = np.concatenate([np.arange(low, low + size) for low, size in zip(train.starts, sizes, strict=True)])
    expected = np.repeat(weights / (weights * sizes).sum(), sizes)
    drawn = []
    loader = DataLoader(trainset, 100, sampler=trainset.get_dataset_sampler(), num_workers=2, drop_last=True)
    for _ in range(30):
        for batch in loader:
            drawn += [first[tuple(row)] for row in batch["obs"]["object"][:, 0].float().tolist()]
    counts = np.bincount(drawn, minlength=train.num_steps)
    assert counts[starts].sum() == len(drawn)
    p = float(chisquare(counts[starts], len(drawn) * expected).pvalue)
    assert p > 1e-3
    return {"sequences": len(trainset), "drawn": len(drawn), "p_value": round(p, 4)}


def its_training_learns_what_is_good(folder: Path) -> dict[str, Any]:
    """The program of the page, with weights and without; the error of what it learned against the good demonstrations."""
    text = script_of("adapters/robomimic.md")
    small = "every_n_epochs = 6\n    config.algo.actor_layer_dims = (64, 64)"  # instead of 20 epochs of 1024 by 1024
    assert "every_n_epochs = 20" in text
    text = text.replace("every_n_epochs = 20", small)
    errors = {}
    for weighting in ("uniform", "rw"):
        program = text.replace('"rw", seed', f'"{weighting}", seed').replace('"trained"', f'"trained_{weighting}"')
        run_script(program, folder)
        errors[weighting] = error_of_policy(folder / f"trained_{weighting}", folder / "low_dim.hdf5")
    assert errors["rw"] < 0.1 * errors["uniform"]
    return {"mean_squared_error_against_good_demonstrations": {key: round(value, 5) for key, value in errors.items()}}


def error_of_policy(output: Path, path: Path) -> float:
    """Of the last checkpoint, on the steps of the good demonstrations."""
    import robomimic.utils.file_utils as FileUtils

    checkpoint = max(output.rglob("model_epoch_*.pth"), key=lambda file: int(file.stem.split("_")[2]))
    policy, _ = FileUtils.policy_from_checkpoint(ckpt_path=str(checkpoint), verbose=False)
    policy.start_episode()
    good = uw.load(path).subset(np.arange(GOOD))
    rows = good.observations[:: max(1, good.num_steps // 200)].astype(np.float32)
    actions = good.actions[:: max(1, good.num_steps // 200)]
    answers = [policy({"object": row[:3], "robot0_eef_pos": row[3:]}) for row in rows]
    return float(np.mean((np.array(answers) - actions) ** 2))


CHECKS = (same_steps, batches_follow_the_weights, its_training_learns_what_is_good)
