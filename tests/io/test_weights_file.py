"""Weights written and read back."""

from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.datasets import random_dataset, with_returns
from upweight.io.weights_file import save_weights


def test_round_trip(tmp_path: Path) -> None:
    ds = random_dataset()
    weights = uw.ReturnWeighting()(ds)
    save_weights(tmp_path / "w.npz", weights, ds)
    np.testing.assert_array_equal(uw.load_weights(tmp_path / "w.npz", ds), weights)


def test_weights_of_other_data_are_refused(tmp_path: Path) -> None:
    ds = with_returns([1.0, 2.0, 3.0])
    save_weights(tmp_path / "w.npz", uw.ReturnWeighting()(ds), ds)
    for other in (
        with_returns([1.0, 2.0]),
        with_returns([1.0, 2.0, 4.0]),
        with_returns([1.0, 2.0, 3.0], lengths=[2, 3, 2]),
    ):
        with pytest.raises(uw.DatasetError, match="weights of other data"):
            uw.load_weights(tmp_path / "w.npz", other)


def test_other_files_are_refused(tmp_path: Path) -> None:
    uw.save(random_dataset(), tmp_path / "data.npz")
    (tmp_path / "text.npz").write_text("no zip")
    (tmp_path / "empty.npz").touch()
    np.save(tmp_path / "array.npy", np.ones(3))
    for name in ("data.npz", "text.npz", "empty.npz", "array.npy"):
        with pytest.raises(uw.DatasetError, match="expected an npz file with 'weights'"):
            uw.load_weights(tmp_path / name, random_dataset())
    with pytest.raises(uw.DatasetError, match="no such file"):
        uw.load_weights(tmp_path / "none.npz", random_dataset())
