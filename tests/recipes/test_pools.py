"""A pool holds its datasets."""

from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from upweight.base.errors import DatasetError
from upweight.data.fingerprint import content_hash
from upweight.recipes.pools import make_pool


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPWEIGHT_CACHE", str(tmp_path / "cache"))


def test_every_dataset_is_a_part_of_the_pool() -> None:
    names = ["cartpole-expert-random-5", "cartpole-expert-random-50", "cartpole-random", "cartpole-medium-random-10"]
    pool = make_pool(names, steps=2000, seed=1)
    apart = [uw.load(name, steps=2000, seed=1) for name in names]
    for name, dataset in zip(names, apart, strict=True):
        part = pool.dataset.subset(pool.episodes[name])
        assert content_hash(part) == content_hash(dataset)
        assert part.labels is not None and dataset.labels is not None
        np.testing.assert_array_equal(part.labels, dataset.labels)
    assert pool.dataset.num_steps < sum(dataset.num_steps for dataset in apart) - 2000


def test_one_task_at_a_time() -> None:
    with pytest.raises(DatasetError, match="expected datasets of one task, found acrobot, cartpole"):
        make_pool(["cartpole-random", "acrobot-random"])
    with pytest.raises(DatasetError, match="found none"):
        make_pool([])
