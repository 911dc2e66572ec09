"""Trains the same runs on one device and over four: ``spread_training.py FOLDER``; to be started with four host devices."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import upweight as uw
from support.training import dataset_for, parameters, small_config
from upweight.lab.train.train import TrainingPaused


def main(folder: Path) -> None:
    devices = jax.local_devices()
    assert len(devices) == 4
    dataset = dataset_for("bc")
    runs = [uw.Run(small_config("bc"), weighting, seed) for seed in range(3) for weighting in ("rw", "uniform")]
    plan = str(uw.plan_training(dataset, runs))
    assert "bc x 6: about" in plan and "over 4 devices, the data on each; 2 more agents would take no longer" in plan
    assert plan.endswith(" each of 4") and "devices" not in str(uw.plan_training(dataset, runs, devices=1))
    alone = uw.train(dataset, runs, num_updates=200, devices=1)
    # Begun over four devices, ended over three: a checkpoint holds the agents alone.
    with pytest.raises(TrainingPaused, match="paused at 100 of 200 updates"):
        uw.train(dataset, runs, num_updates=200, output=folder, deadline=0.0)
    spread = uw.train(dataset, runs, num_updates=200, output=folder, resume=True, devices=devices[1:])
    for one, other in zip(alone, spread, strict=True):
        np.testing.assert_allclose(parameters(one), parameters(other), atol=1e-6)
        assert one.metrics[0].keys() == other.metrics[0].keys() and len(one.metrics) == len(other.metrics) == 2
        np.testing.assert_allclose(one.metrics[1]["loss"], other.metrics[1]["loss"], rtol=1e-4)
    # One run may be told which one.
    elsewhere = uw.train(dataset, runs[:1], num_updates=200, devices=devices[3:])
    np.testing.assert_allclose(parameters(elsewhere[0]), parameters(alone[0]), atol=1e-6)
    for wrong, message in ((5, "a whole number from 1 to 4, found 5"), ([], r"jax.local_devices\(\), found \[\]")):
        with pytest.raises(uw.ConfigError, match=f"devices: expected .*{message}"):
            uw.plan_training(dataset, runs, devices=wrong)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
