import warnings
from pathlib import Path

import numpy as np
import pytest

import upweight as uw
from support.datasets import far_log, with_arrays
from support.training import dataset_for, small_config
from upweight.data.action_range import narrow_note
from upweight.lab.train.scale import far_columns, warn_of_scale


def column(mean: float, std: float) -> np.ndarray:
    """[1000, 2]: the column, and one as it should be."""
    unit = np.random.default_rng(0).normal(size=(1000, 2))
    unit = (unit - unit.mean(axis=0)) / unit.std(axis=0)
    return unit * [std, 1.0] + [mean, 0.0]


@pytest.mark.parametrize(("mean", "std"), [(0, 31), (31, 1), (-1000, 0), (1, 0.009), (-20, 0.1), (0, 0.002)])
def test_columns_that_are_large_far_off_or_faint(mean: float, std: float) -> None:
    assert list(far_columns(column(mean, std))) == [0]


@pytest.mark.parametrize(
    ("mean", "std"), [(0, 1), (0, 25), (25, 1), (1.3, 0.03), (0.0, 0.004), (0, 0), (1, 0), (0.1, 0)]
)
def test_columns_that_networks_can_do_with(mean: float, std: float) -> None:
    assert far_columns(column(mean, std)) == {}


def test_the_warning_names_columns_and_what_helps_in_both_ways_in() -> None:
    with pytest.warns(uw.UpweightWarning) as caught:
        warn_of_scale(far_log(), [uw.Run("bc"), uw.Run("iql"), uw.Run("td3_bc"), uw.Run("bc", "rw")])
    observations, actions = (str(warning.message) for warning in caught)
    assert observations.startswith("far.csv: observations are far from the unit scale")
    assert "not normalised for bc, iql." in observations  # td3_bc normalises
    assert "Column 1: mean 1000, std 0.09" in observations
    assert "normalize_observations=True" in observations
    assert "--set normalize_observations=true" in observations
    assert "and 3 more" in observations
    assert "Column 0: 90% within [-0.02" in actions


def test_normalised_observations_are_nobodys_trouble() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        actions = 30 * far_log().actions
        normalised = uw.algorithm_config("bc", normalize_observations=True)
        warn_of_scale(with_arrays(far_log(), actions=actions), [uw.Run("td3_bc"), uw.Run(normalised)])
        warn_of_scale(dataset_for("bc"), [uw.Run("bc")])


def test_only_the_episodes_that_runs_learn_from_count() -> None:
    ds = dataset_for("bc")
    observations = ds.observations.copy()
    observations[ds.starts[-1] :] += 1000
    ds = with_arrays(ds, observations=observations)
    inside, all_of_them = uw.Run("bc", episodes=np.arange(ds.num_episodes - 1)), uw.Run("bc")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_scale(ds, [inside])
    with pytest.warns(uw.UpweightWarning, match="far from the unit scale"):
        warn_of_scale(ds, [inside, all_of_them])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["random", "medium", "expert"])
@pytest.mark.parametrize("task", ["hopper", "halfcheetah", "walker2d", "ant"])
def test_no_alarm_on_the_tasks_of_the_paper(task: str, kind: str) -> None:
    ds = uw.make_dataset(f"{task}-{kind}", steps=2000)
    assert far_columns(ds.observations) == {}
    assert narrow_note(ds) is None


@pytest.mark.filterwarnings("ignore:.* far from the unit scale")
def test_what_training_cannot_hold_is_refused() -> None:
    ds = dataset_for("bc")
    observations = ds.observations.astype(np.float64)
    observations[13, 1] = 1e39
    with pytest.raises(uw.DatasetError, match=r"training computes in float32, .* up to 3\.4e\+38, and found larger"):
        uw.train(with_arrays(ds, observations=observations), [uw.Run("bc")], num_updates=2)


def test_it_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """Also where only the second of two algorithms would have seen it."""
    ds = dataset_for("td3_bc")
    rewards = ds.rewards.astype(np.float64)
    rewards[7] = -1e60
    runs = [uw.Run(small_config(name)) for name in ("bc", "td3_bc")]
    with pytest.raises(uw.DatasetError, match="found larger rewards; drop the episodes"):
        uw.train(with_arrays(ds, rewards=rewards), runs, num_updates=2, output=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
