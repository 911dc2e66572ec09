"""Trainings that see their few steps too often."""

import warnings

import numpy as np
import pytest

import upweight as uw
from support.datasets import with_returns
from upweight.lab.train.prepare import make_parts
from upweight.lab.train.repetition import warn_of_repetition

# Ten good episodes of 200 steps among poor ones: 2,000 steps in effect, seen once in 8 updates of 250.
RETURNS = np.concatenate([np.full(10, 100.0), np.zeros(500)])
LOG = with_returns(RETURNS, lengths=np.concatenate([np.full(10, 200), np.full(500, 5)]))


def make_runs(algorithm: str = "bc", units: int = 256) -> list[uw.Run]:
    config = uw.algorithm_config(algorithm, batch_size=250, hidden_units=(units, units))
    return [uw.Run(config, weighting) for weighting in (uw.Uniform(), uw.ReturnWeighting(0.01))]


def test_bc_by_return_is_warned_of() -> None:
    runs = make_runs()
    with pytest.warns(uw.UpweightWarning) as found:
        warn_of_repetition(runs, make_parts(LOG, runs), 64_001)
    (text,) = (str(each.message) for each in found)
    assert text.startswith(
        "bc will know the steps that it draws by heart in 1 of 2 runs: with ReturnWeighting(temperature=0.01) 2000 "
    )
    assert "64,001 updates of 250 see them 8,000 times" in text and "up to 1,000 times, here 8,000 updates" in text


@pytest.mark.parametrize(
    ("algorithm", "units", "updates"), [("bc", 256, 64_000), ("bc", 128, 10**6), ("td3_bc", 256, 10**6)]
)
def test_nothing_is_said_of_shorter_trainings_small_networks_and_other_algorithms(
    algorithm: str, units: int, updates: int
) -> None:
    runs = make_runs(algorithm, units)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_repetition(runs, make_parts(LOG, runs), updates)


def test_a_training_says_it_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upweight.lab.train.repetition.LOST", 0.01)
    monkeypatch.setattr("upweight.lab.train.repetition.WEIGHTS", 0)
    config = uw.algorithm_config("bc", batch_size=25, hidden_units=(2,))
    with pytest.warns(uw.UpweightWarning, match="bc will know the steps"):
        uw.train(LOG, [uw.Run(config, "rw")], num_updates=2)
