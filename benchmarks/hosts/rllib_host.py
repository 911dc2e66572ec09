"""RLlib: time per batch of 256 rows, after everything has started, of its own offline data and of ours."""

import atexit
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import ray
from numpy.typing import NDArray
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.algorithms.marwil import MARWILConfig

import upweight as uw
from upweight.adapters.rllib import WeightedOfflineData, write_parquet

BATCH = 256


def speed_tasks(dataset: uw.Dataset) -> dict[str, Callable[[], object]]:
    """Draw a batch of 256, as the local learner of BC and of MARWIL gets it.

    RLlib hands out rows in their order. For BC it prepares all of them once, before the first batch, and then only slices. For
    MARWIL it prepares them anew after each epoch, in a pause; what is measured here is the slicing between pauses. Ours prepares
    the rows of a MARWIL batch when they are drawn or, where the config says so ("in advance"), all of them once.
    """
    path = _rows_for_ray(dataset)
    kinds: dict[str, tuple[Any, dict[str, Any]]] = {
        "RLlib BC OfflineData (in order)": (BCConfig, {}),
        "RLlib BC WeightedOfflineData (ours)": (BCConfig, {"offline_data_class": WeightedOfflineData}),
        "RLlib MARWIL OfflineData (in order)": (MARWILConfig, {}),
        "RLlib MARWIL WeightedOfflineData (ours)": (MARWILConfig, {"offline_data_class": WeightedOfflineData}),
        "RLlib MARWIL WeightedOfflineData, in advance (ours)": (
            MARWILConfig,
            {"offline_data_class": WeightedOfflineData, "materialize_mapped_data": True},
        ),
    }
    return {name: _task(make(), dataset, path, options) for name, (make, options) in kinds.items()}


def packed_batches(folder: Path) -> Callable[[], object]:
    """Weighted batches of a packed folder, as the local learner of BC gets them."""
    weighted = WeightedOfflineData.with_weighting("aw", seed=0)
    _start_ray()
    return _task(BCConfig(), uw.load(folder), str(folder), {"offline_data_class": weighted})


def draw_observations(dataset: uw.Dataset, weighting: str, seed: int) -> Callable[[], NDArray[Any]]:
    """Observations [256, d] of a batch of BC."""
    weighted = WeightedOfflineData.with_weighting(weighting, seed=seed)
    sample = _task(BCConfig(), dataset, _rows_for_ray(dataset), {"offline_data_class": weighted})
    return lambda: sample()["default_policy"]["obs"]


def _rows_for_ray(dataset: uw.Dataset) -> str:
    """The dataset as a file for RLlib, with Ray started."""
    folder = _start_ray()
    write_parquet(dataset, folder / "rows.parquet")
    return str(folder / "rows.parquet")


def _start_ray() -> Path:
    """Gives a folder that is removed in the end."""
    folder = Path(tempfile.mkdtemp(prefix="upweight-rllib-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if not ray.is_initialized():
        # Four processors in name: with two, the processes that map the rows leave none for the one that reads them.
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR", _temp_dir=str(folder))
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    return folder


def _task(config: Any, dataset: uw.Dataset, path: str, options: dict[str, Any]) -> Callable[[], Any]:
    """A batch from the offline data of a real algorithm."""
    config.environment(
        observation_space=gym.spaces.Box(-np.inf, np.inf, dataset.observation_shape, np.float32),
        action_space=gym.spaces.Box(-1, 1, dataset.action_shape, np.float32),
    )
    config.learners(num_learners=0).training(train_batch_size_per_learner=BATCH)
    config.offline_data(input_=[path], dataset_num_iters_per_learner=1, **options)
    data = config.build_algo().offline_data
    return lambda: data.sample(BATCH, num_shards=0)
